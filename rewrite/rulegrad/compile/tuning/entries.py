"""The file of schedules that were found by search: lines of JSON, which people can read, share and check in.

Each is for one kernel on one device by one set of rules (`Key`), and is used for no other. Of several lines with one
key the last counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from rulegrad.config import config
from rulegrad.errors import FileError, FileMissingError, RuleError
from rulegrad.support import forks
from rulegrad.support.paths import cache_folder

#: In the cache folder.
NAME: Final = "tuned.jsonl"


class Key(NamedTuple):
    """For which kernel a schedule was found, and where: all must be equal."""

    kernel: str  # hash of its graph, whose loops have the names of axes
    target: str
    device: str  # the name of the backend, and the processor's or driver's own
    rules: str  # hash of the rules' text


@dataclass(frozen=True)
class Entry:
    """A schedule that was found for a kernel, and what was learned on the way. Times are seconds."""

    kernel: str
    target: str
    device: str
    rules: str
    name: str  # for people: the kernel's, and its loops
    loops: str
    schedule: str  # the tactic and its steps
    seconds: float
    first_seconds: float | None  # of the model's first choice; None where it was bad or not measured
    measured: int  # candidates that were measured
    candidates: int  # that there were
    searched: float
    bad: Mapping[str, str] = field(default_factory=dict)  # schedules that are never tried again, and why

    @property
    def key(self) -> Key:
        """For which kernel it is, and where."""
        return Key(self.kernel, self.target, self.device, self.rules)

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing left to measure."""
        return self.measured + len(self.bad) >= self.candidates

    @property
    def tactic(self) -> str:
        """The name of the tactic."""
        return self.schedule.partition(": ")[0]

    @property
    def steps(self) -> str:
        """The text of the steps; "" for none."""
        return self.schedule.partition(": ")[2]

    def line(self) -> str:
        """The entry as a line of the file."""
        return json.dumps(asdict(self), ensure_ascii=False)


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    **dict.fromkeys(("kernel", "target", "device", "rules", "name", "loops", "schedule"), (str,)),
    **dict.fromkeys(("seconds", "searched"), (int, float)),
    "first_seconds": (int, float, type(None)),
    "measured": (int,),
    "candidates": (int,),
    "bad": (dict,),
}
_REMEDY: Final = "remove the line, or the file"


def read_entries(path: Path, checked: bool = False) -> list[Entry]:
    """The entries of a file, of one key the last. checked: steps must be steps of the rules in force too.

    Raises FileError for a file that cannot be read, and for a line that is none of these, with its number.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileMissingError(f"{path} cannot be read: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"the schedules that were found cannot be read from {path}: {error}") from None
    found: dict[Key, Entry] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            entry = _parsed(line, f"{path}:{number}")
            if checked:
                _require_steps(entry, f"{path}:{number}")
            found[entry.key] = entry
    return list(found.values())


def _parsed(line: str, where: str) -> Entry:
    try:
        values = json.loads(line)
    except ValueError as error:
        raise FileError(f"{where}: this is not a line of JSON ({error}); {_REMEDY}") from None
    if not isinstance(values, dict):
        raise FileError(f"{where}: a schedule that was found is a JSON object, not {type(values).__name__}; {_REMEDY}")
    names = {one.name for one in fields(Entry)}
    if values.keys() != names:
        different = ", ".join(sorted(values.keys() ^ names))
        raise FileError(f"{where}: its names are not those of a schedule that was found: {different}; {_REMEDY}")
    for name, types in _TYPES.items():
        if not isinstance(values[name], types) or isinstance(values[name], bool):
            raise FileError(f"{where}: `{name}` cannot be {values[name]!r}; {_REMEDY}")
    return Entry(**values)


def _require_steps(entry: Entry, where: str) -> None:
    from rulegrad.engine.schedules import parse_schedule  # late: it needs the language, and only imports are checked

    try:
        parse_schedule(entry.steps)
    except RuleError as error:
        raise FileError(f"{where}: the schedule of {entry.name} cannot be read: {error}") from None


class TunedFile:
    """The file at a path, read again when it changes; without a path entries last as long as the process."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._lock = forks.lock()
        self._stamp: tuple[int, int] | None = None
        self._entries: dict[Key, Entry] = {}

    @property
    def has_entries(self) -> bool:
        """Whether anything was found yet. Raises FileError for a broken file."""
        return bool(self._current())

    def entries(self) -> list[Entry]:
        """All entries. Raises FileError for a broken file."""
        return list(self._current().values())

    def get(self, key: Key) -> Entry | None:
        """The entry with this key. Raises FileError for a broken file."""
        return self._current().get(key)

    def add(self, entries: Iterable[Entry]) -> None:
        """Keeps entries in the place of earlier ones with their keys. Raises FileError where it cannot be written."""
        with self._lock:
            new = {entry.key: entry for entry in entries}
            known = self._current()
            if not known.keys() & new.keys():  # lines at the end: several processes may do so at a time
                self._write({**known, **new}, "".join(f"{entry.line()}\n" for entry in new.values()))
            else:
                self._write({**known, **new})

    def remove(self, entries: Iterable[Entry]) -> None:
        """Removes entries. Raises FileError where the file cannot be written."""
        with self._lock:
            gone = {entry.key for entry in entries}
            self._write({key: entry for key, entry in self._current().items() if key not in gone})

    def replace(self, entries: Iterable[Entry]) -> None:
        """Keeps these entries and no others. Raises FileError where the file cannot be written."""
        with self._lock:
            self._write({entry.key: entry for entry in entries})

    def _write(self, entries: dict[Key, Entry], added: str | None = None) -> None:
        """Writes the file; `added` is the text of what comes to its end, where no line goes."""
        self._entries = entries
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if added is None:
                new = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
                new.write_text("".join(f"{entry.line()}\n" for entry in entries.values()), encoding="utf-8")
                new.replace(self.path)
            else:
                with self.path.open("ab") as file:
                    file.write(added.encode())
            self._stamp = _stamp(self.path)
        except OSError as error:
            raise FileError(
                f"what was found cannot be kept in {self.path}: {error}; set RULEGRAD_TUNED to another file"
            ) from None

    def _current(self) -> dict[Key, Entry]:
        with self._lock:
            stamp = _stamp(self.path) if self.path is not None else self._stamp
            if stamp != self._stamp:
                found = read_entries(self.path) if self.path is not None and stamp is not None else []
                self._entries, self._stamp = {entry.key: entry for entry in found}, stamp
            return self._entries


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def tuned_file() -> TunedFile:
    """The file that the setting `tuned` names, else the one in the cache folder."""
    if config.tuned is not None:
        return _opened(config.tuned)
    return _opened(_default(config.cache))


@cache
def _opened(path: Path | None) -> TunedFile:
    return TunedFile(path)


@cache
def _default(folder: Path) -> Path | None:
    """In the cache folder; None where that cannot be used."""
    usable = cache_folder()
    return usable / NAME if usable is not None else None
