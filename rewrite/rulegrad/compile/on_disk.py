"""What the compiler made, kept on disk for other processes: kernels by the graph that they are made of, and others.

An entry is found again only by the same rules, with the same settings, and the same compiler: what decides is part of
its key. Where passes are looked at, counted, checked or limited, nothing is taken from there: they have to run.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rulegrad import __version__, _core, engine
from rulegrad.config import config
from rulegrad.engine.kept import from_bytes, to_bytes
from rulegrad.ir import UOp
from rulegrad.runtime.kernel import Kernel, TensorMap
from rulegrad.support.diskcache import file_stamp, shared

#: The packages whose code decides what is made of a graph.
_PACKAGES = ("compile", "engine", "ir", "lang", "runtime")


def is_usable() -> bool:
    """Whether what is made now depends on nothing but what its key says."""
    return not (engine.is_looked_at() or engine.is_counted() or engine.summary()["externs"])


def kernels(graphs: Sequence[UOp], target: str, make: Callable[[list[UOp]], list[Kernel]]) -> list[Kernel]:
    """The kernels of numbered graphs for a target; those that no process has made yet are made, and kept.

    The `graph` of a kernel that another process has made is what it was made of.
    """
    texts = {graph: str(graph) for graph in graphs}
    kept = dict(zip(graphs, values("kernel", texts.values(), target), strict=True))
    found = {graph: unpacked(one, graph) for graph, one in kept.items() if one is not None}
    missing = [graph for graph in graphs if graph not in found]
    if missing:
        made = dict(zip(missing, make(missing), strict=True))
        keep("kernel", {texts[graph]: packed(kernel) for graph, kernel in made.items()}, target)
        found |= made
    return [found[graph] for graph in graphs]


def values(kind: str, texts: Iterable[str], target: str) -> list[Any]:
    """What is kept of this kind that was made of these texts for a target; None for each of which nothing is."""
    entries = [shared().get(kind, key) for key in _keys(texts, target)]
    return [None if entry is None else from_bytes(zlib.decompress(entry)) for entry in entries]


def keep(kind: str, made: Mapping[str, Any], target: str) -> None:
    """Keeps what was made of texts: dicts, tuples and plain values."""
    entries = [zlib.compress(to_bytes(value), 1) for value in made.values()]  # sources take a fifth of their size
    shared().put_all(kind, dict(zip(_keys(made, target), entries, strict=True)))


def _keys(texts: Iterable[str], target: str) -> list[str]:
    made_by = _made_by(target)
    return [hashlib.sha256(f"{made_by}\0{text}".encode()).hexdigest() for text in texts]


def _made_by(target: str) -> str:
    """Changes with the rules in force, and with the code that runs them."""
    settings = (config.rules_off, config.rules_order, bool(config.rules_strict))
    return repr((target, engine.loaded().sources.key, settings, _code()))


@cache
def _code() -> str:
    """Changes when the code that compiles is written."""
    folder = Path(__file__).parent.parent
    files = [path for name in _PACKAGES for path in sorted((folder / name).rglob("*.py"))]
    return (
        f"{__version__} {hashlib.sha256(repr([*map(file_stamp, (Path(_core.__file__), *files))]).encode()).hexdigest()}"
    )


def packed(kernel: Kernel) -> dict[str, Any]:
    """A kernel without its graph, of plain values."""
    found = {name: value for name, value in kernel._asdict().items() if name not in ("graph", "steps")}
    found["maps"] = tuple(tuple(one) for one in kernel.maps)
    found["written"] = kernel.schedule
    found["positions"] = None if kernel.positions is None else str(kernel.positions)
    return found


def unpacked(found: dict[str, Any], graph: UOp) -> Kernel:
    """The kernel that was packed, with a graph."""
    found["maps"] = tuple(TensorMap(*one) for one in found["maps"])
    found["positions"] = None if found["positions"] is None else UOp.parse(found["positions"])
    return Kernel(graph=graph, **found)
