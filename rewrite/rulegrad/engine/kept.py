"""The cached data of compiled rules besides bytecode: dicts, tuples, sets and plain values, as JSON."""

from __future__ import annotations

import json
from typing import Any, Final

from rulegrad.support.diskcache import DiskCache
from rulegrad.support.garbage import uncollected

#: What is kept on disk of rule files, by kind and the key of their text.
cache = DiskCache("rules.sqlite")

_TUPLE, _SET = "tuple", "set"
_PLAIN: Final = (str, int, float, bool, type(None))


def name(kind: str, *arguments: object) -> str:
    """The name of an entry: its kind, and the arguments that it was made with.

    >>> name("program", "numpy", False, None)
    'program numpy False None'
    """
    return " ".join(map(str, (kind, *arguments)))


def to_bytes(value: Any) -> bytes:
    """A value as bytes: dicts whose keys are strings, tuples, sets, and plain values. Raises TypeError for others."""
    return json.dumps(_packed(value), separators=(",", ":")).encode()


def from_bytes(data: bytes) -> Any:
    """The value that `to_bytes` was given.

    >>> from_bytes(to_bytes({"steps": ("a", "b"), "dtypes": {"int8"}, "rows": None}))
    {'steps': ('a', 'b'), 'dtypes': {'int8'}, 'rows': None}
    """
    with uncollected():
        return _unpacked(json.loads(data))


def _packed(value: Any) -> Any:
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"keys that are not strings cannot be kept: {list(value)}")
        return {key: _packed(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return [_TUPLE, *map(_packed, value)]
    if isinstance(value, (set, frozenset)):
        return [_SET, *map(_packed, sorted(value))]
    if isinstance(value, _PLAIN):
        return value
    raise TypeError(f"a {type(value).__name__} cannot be kept")


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unpacked(part) for key, part in value.items()}
    if isinstance(value, list):
        kind, *parts = value
        return (tuple if kind == _TUPLE else set)(map(_unpacked, parts))
    return value
