"""The rule files that an editor works on: ours, with the texts of open documents in place of what is on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rulegrad import engine
from rulegrad.errors import RuleError
from rulegrad.lang.checker import check
from rulegrad.lang.conflicts import conflicts, each_once
from rulegrad.lang.diagnostics import Diagnostic
from rulegrad.lang.merging import merge
from rulegrad.lang.modules import resolved
from rulegrad.lang.parser import parse_what_can_be
from rulegrad.lang.syntax import File
from rulegrad.support.garbage import uncollected
from rulegrad.support.paths import data_folder


@dataclass(slots=True)
class _Read:
    """A text and what the parser found in it; `sound` is the tree of the last text without problems."""

    text: str
    file: File
    problems: list[Diagnostic]
    sound: File


@dataclass(slots=True)
class Project:
    """All rule files, by the name that messages call them.

    A file of ours is called by its path in the distribution, a user's by its full path.
    """

    _on_disk: dict[str, str] = field(default_factory=dict)
    _open: dict[str, str] = field(default_factory=dict)
    _read: dict[str, _Read] = field(default_factory=dict)
    _user: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        sources = engine.loaded().sources
        self._on_disk = dict(sources.texts)
        self._user = sources.user

    # ---- names ----

    def name_of(self, path: str | Path) -> str:
        """How messages call the file at a path."""
        found = Path(path).resolve()
        for base in _bases():
            if found.is_relative_to(base) and found.relative_to(base).as_posix() in self._on_disk:
                return found.relative_to(base).as_posix()
        return str(found)

    def path_of(self, name: str) -> Path:
        """Where the file that messages call by a name is."""
        for base in _bases():
            if (base / name).exists():
                return base / name
        return Path(name)

    # ---- documents ----

    def open(self, name: str, text: str) -> None:
        """Puts a document's text in place of the file on disk."""
        self._open[name] = text

    def close(self, name: str) -> None:
        """Goes back to the file on disk."""
        self._open.pop(name, None)

    @property
    def opened(self) -> Sequence[str]:
        """The names of the documents that are open."""
        return list(self._open)

    # ---- what is in them ----

    def file(self, name: str) -> File:
        """The tree of a file, as far as it can be read."""
        return self._reading(name).file

    def files(self) -> list[File]:
        """The trees of all files, each as it was when it had no problems last."""
        return [self._reading(name).sound for name in {**self._on_disk, **self._open}]

    def problems_of_text(self, name: str) -> list[Diagnostic]:
        """The parser's problems of a file."""
        return self._reading(name).problems

    def problems(self) -> dict[str, list[Diagnostic]]:
        """The problems of each open document, by the parser or else the checker."""
        checked = self._checked()
        found: dict[str, list[Diagnostic]] = {}
        for name in self._open:
            of_text = self.problems_of_text(name)
            found[name] = of_text or [d for d in checked if d.span.file == name]
        return found

    def _reading(self, name: str) -> _Read:
        text = self._open.get(name, self._on_disk.get(name, ""))
        read = self._read.get(name)
        if read is None or read.text != text:
            file, problems = parse_what_can_be(text, name)
            sound = read.sound if problems and read is not None else file
            read = self._read[name] = _Read(text, file, problems, sound)
        return read

    @uncollected()
    def _checked(self) -> list[Diagnostic]:
        user = self._user | (self._open.keys() - self._on_disk.keys())
        try:
            files = resolved(self.files())
            return each_once(conflicts(files, user), check(merge(files, user)))
        except RuleError as error:
            return list(error.diagnostics)


def _bases() -> tuple[Path, ...]:
    """The folders that hold `rules` and `backends`."""
    return (data_folder("rules").resolve().parent, data_folder("backends").resolve().parent)
