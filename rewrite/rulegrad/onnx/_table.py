"""The table of ops: by domain, name and first version, the function that computes an op with tensors.

A function takes the `Call`, the inputs in the order of the standard (a missing one is None), and the attributes by
their names. A second table, `KNOWN`, computes the ops of shape arithmetic with NumPy where all inputs are known on the
host.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rulegrad.tensor.tensor import Tensor

Value = Any
"""A tensor on the device, a NumPy array on the host, a list of values (a sequence), or None (an empty optional)."""

_F = TypeVar("_F", bound=Callable[..., Any])


class Entry(NamedTuple):
    """A row of the table."""

    function: Callable[..., Any]
    since: int
    """The first version of the op that the function computes."""
    host: frozenset[int]
    """The places of the inputs that the function takes as NumPy arrays."""
    raw: bool
    """Whether the function takes its inputs as they are."""
    attributes: frozenset[str]
    required: frozenset[str]
    """The attributes that have no default in the function."""
    inputs: tuple[int, int]
    """How many inputs the function takes, at least and at most."""


OPS: dict[tuple[str, str], list[Entry]] = {}
KNOWN: dict[str, Entry] = {}


def _entry(function: Callable[..., Any], since: int, host: tuple[int, ...], raw: bool) -> Entry:
    parameters = inspect.signature(function).parameters.values()
    attributes = {one.name: one.default is one.empty for one in parameters if one.kind == one.KEYWORD_ONLY}
    required = frozenset(name for name, is_required in attributes.items() if is_required)
    inputs = [one.default is one.empty for one in parameters if one.kind == one.POSITIONAL_OR_KEYWORD][1:]
    counts = sum(inputs), len(inputs)
    return Entry(function, since, frozenset(host), raw, frozenset(attributes), required, counts)


def op(
    *names: str, since: int = 1, host: tuple[int, ...] = (), raw: bool = False, domain: str = ""
) -> Callable[[_F], _F]:
    """The function below computes these ops, from version `since` on."""

    def add(function: _F) -> _F:
        for name in names:
            rows = OPS.setdefault((domain, name), [])
            rows.append(_entry(function, since, host, raw))
            rows.sort(key=lambda row: row.since)
        return function

    return add


def known(*names: str, since: int = 1) -> Callable[[_F], _F]:
    """The function below computes these ops with NumPy, where all inputs are on the host."""

    def add(function: _F) -> _F:
        for name in names:
            KNOWN[name] = _entry(function, since, (), True)
        return function

    return add


def find(domain: str, name: str, version: int) -> Entry | None:
    """The row of an op for the version of it that is in force."""
    rows = [row for row in OPS.get((domain, name), ()) if row.since <= version]
    return rows[-1] if rows else None


def has_tensors(dtype: np.dtype[Any]) -> bool:
    """Whether tensors have this dtype; others (text, 4-bit numbers, …) stay on the host."""
    return dtype.name in _TENSOR_DTYPES


_TENSOR_DTYPES = frozenset(
    ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16")
    + ("float32", "float64", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128")
)


def is_known(value: Value) -> bool:
    """Whether the value is on the host."""
    return isinstance(value, np.ndarray)


def to_host(value: Value) -> Any:
    """A value as a NumPy array; a tensor's is computed and read."""
    return value.numpy() if isinstance(value, Tensor) else value
