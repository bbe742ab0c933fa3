"""Reading tables of files: each key once, with its type; errors name the file and the key."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

from rulegrad.errors import FileError

_MISSING: Final = object()


class Fields:
    """A table of a file. Every method that reads a key raises FileError, where it is missing or wrong.

    >>> fields = Fields({"devices": 8}, "my.toml", "links[0]")
    >>> fields.count("devices")
    8
    >>> fields.number("latency")
    Traceback (most recent call last):
        ...
    rulegrad.errors.FileError: my.toml: links[0].latency is missing
    """

    def __init__(self, table: Mapping[str, Any], file: str, place: str = "") -> None:
        self._file, self._place = file, place
        if not isinstance(table, Mapping):
            raise FileError(f"{file}: {place or 'the file'} is not a table of keys, but {table!r}")
        self._left = dict(table)

    def fail(self, key: str, problem: str) -> NoReturn:
        """Raises FileError about a key."""
        raise FileError(f"{self._file}: {self._name(key)}{' ' if problem[:2] == 'is' else ': '}{problem}")

    def end(self) -> None:
        """Raises FileError for a key that nobody has read."""
        for key in self._left:
            self.fail(key, "is not a key that is known here")

    def take(self, key: str, default: Any = _MISSING) -> Any:
        """The value of a key, whatever it is."""
        if key in self._left:
            return self._left.pop(key)
        if default is _MISSING:
            self.fail(key, "is missing")
        return default

    def peek(self, key: str) -> Any:
        """The value of a key that is read later, None where there is none."""
        return self._left.get(key)

    def text(self, key: str, default: Any = _MISSING) -> str:
        """A text."""
        found = self.take(key, default)
        if not isinstance(found, str):
            self.fail(key, f"{found!r} is not a text")
        return found

    def flag(self, key: str, default: Any = _MISSING) -> bool:
        """A truth value."""
        found = self.take(key, default)
        if not isinstance(found, bool):
            self.fail(key, f"{found!r} is neither true nor false")
        return found

    def number(self, key: str, default: Any = _MISSING) -> float:
        """A finite number that is not negative."""
        found = self.take(key, default)
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            self.fail(key, f"{found!r} is not a number")
        if not math.isfinite(found) or found < 0:
            self.fail(key, f"{found!r} is not a finite number of at least 0")
        return float(found)

    def positive(self, key: str, default: Any = _MISSING) -> float:
        """A number greater than 0."""
        found = self.number(key, default)
        if found == 0:
            self.fail(key, "0 is not more than 0")
        return found

    def share(self, key: str, default: Any = _MISSING) -> float:
        """A number greater than 0, at most 1."""
        found = self.positive(key, default)
        if found > 1:
            self.fail(key, f"{found!r} is more than 1")
        return found

    def whole(self, key: str, default: Any = _MISSING) -> int:
        """A whole number of at least 0."""
        found = self.number(key, default)
        if found != int(found):
            self.fail(key, f"{found!r} is not a whole number")
        return int(found)

    def count(self, key: str, default: Any = _MISSING) -> int:
        """A whole number of at least 1."""
        found = self.whole(key, default)
        if found < 1:
            self.fail(key, f"{found} is less than 1")
        return found

    def numbers(self, key: str) -> dict[str, float]:
        """A table of at least one name, with a number greater than 0 for each."""
        fields = self.table(key)
        found = {name: fields.positive(name) for name in fields.keys}
        if not found:
            self.fail(key, "is empty")
        return found

    def counts(self, key: str, default: Any = _MISSING) -> dict[str, int]:
        """A table of names, with a whole number of at least 1 for each, in their order."""
        fields = self.table(key, default)
        return {name: fields.count(name) for name in fields.keys}

    def list(self, key: str, default: Any = _MISSING) -> list[Any]:
        """A list of anything."""
        found = self.take(key, default)
        if not isinstance(found, list):
            self.fail(key, f"{found!r} is not a list")
        return found

    def texts(self, key: str, default: Any = _MISSING) -> tuple[str, ...]:
        """A list of texts."""
        found = self.list(key, default)
        if not all(isinstance(one, str) for one in found):
            self.fail(key, f"{found!r} is not a list of texts")
        return tuple(found)

    def table(self, key: str, default: Any = _MISSING) -> Fields:
        """A table in this one."""
        return Fields(self.take(key, default), self._file, self._name(key))

    def tables(self, key: str) -> Iterator[Fields]:
        """The tables of a list, of which there is at least one."""
        found = self.list(key)
        if not found:
            self.fail(key, "is empty")
        for number, one in enumerate(found):
            yield Fields(one, self._file, f"{self._name(key)}[{number}]")

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that nobody has read."""
        return tuple(self._left)

    def _name(self, key: str) -> str:
        return f"{self._place}.{key}" if self._place else key
