"""Rules that were compiled when the package was built: one file beside the engine.

The file says of which texts it was made, by the engine and compiler of which version. Where the rules in force are
these, its entries take the place of parsing and compiling; where there are others besides, or some have changed, what
the rest was parsed and compiled to is taken from it. Where there is no file, it is as if it were empty.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from rulegrad import _core
from rulegrad.engine import kept
from rulegrad.engine.sources import Sources, compiler_key, our_sources

#: The file, in the folder of the engine's module.
NAME: Final = "compiled_rules.bin"
_FIRST_LINE: Final = b"rulegrad's compiled rules, form 2\n"


class _Index(NamedTuple):
    """The second line of the file: the content that it was made of, and where each entry is."""

    content: str
    compiler: str  # by which
    places: dict[str, tuple[int, int]]  # where the compressed bytes begin, after the index, and how many there are
    begin: int


def get(name: str, sources: Sources) -> bytes | None:
    """An entry, where the rules in force are those that the file was made of; None where there is none.

    name: as `kept.name` gives it.
    """
    index = _index(file())
    return _read(index, name) if index is not None and _is_made_of(index, sources) else None


def trees() -> bytes | None:
    """The trees of our files and what was made of them, whatever rules are in force; None where there are none."""
    index = _index(file())
    return _read(index, "trees") if index is not None and index.compiler == compiler_key() else None


def _read(index: _Index, name: str) -> bytes | None:
    if name not in index.places:
        return None
    begin, length = index.places[name]
    try:
        with file().open("rb") as opened:
            opened.seek(index.begin + begin)
            return zlib.decompress(opened.read(length))
    except (OSError, zlib.error):  # damaged, or replaced by an installation just now
        return None


def file() -> Path:
    """Where the file is, if there is one."""
    return Path(_core.__file__).with_name(NAME)


@cache
def _index(path: Path) -> _Index | None:
    try:
        with path.open("rb") as opened:
            if opened.readline() != _FIRST_LINE:
                return None
            line = opened.readline()
            content, compiler, places = json.loads(line)
            return _Index(content, compiler, places, len(_FIRST_LINE) + len(line))
    except (OSError, ValueError):
        return None


def _is_made_of(index: _Index, sources: Sources) -> bool:
    """Whether these are the texts; which content files have is kept on disk by when they were written."""
    if sources.user or sources.measured:
        return False
    known = kept.cache.get("content", sources.key)
    if known is None:
        known = sources.content_key.encode()
        kept.cache.put("content", sources.key, known)
    return known.decode() == index.content


def write(path: Path, targets: Iterable[str] | None = None) -> None:
    """Compiles our rules for these targets, by default all, and writes the file.

    Raises RuleError where a rule file has a mistake.
    """
    from rulegrad.engine import compiling, trees  # late: only who builds the package writes the file

    sources = our_sources()
    entries = {
        kept.name(kind): getattr(compiling, kind)(sources) for kind in ("op_table", "summary", "rules", "evaluated")
    }
    every = kept.from_bytes(entries["summary"])["targets"] if targets is None else targets
    for target in (None, *every):
        arguments = (target, False, None)
        entries[kept.name("program", *arguments)] = compiling.program(sources, *arguments)
    entries["sound"] = b""  # they would not have been compiled
    entries["trees"] = trees.to_bytes(compiling.known_trees(sources))
    compressed = {name: zlib.compress(entry, 6) for name, entry in entries.items()}
    places, end = {}, 0
    for name, entry in compressed.items():
        places[name] = (end, len(entry))
        end += len(entry)
    index = json.dumps((sources.content_key, compiler_key(), places)).encode() + b"\n"
    path.write_bytes(b"".join((_FIRST_LINE, index, *compressed.values())))
