"""Tables of numbers that functions of tensors multiply by, such as roots of one: kept in memory by their names.

A function that is `built_with_constants` is a graph from its second call of a kind on, whose parameters are its tensors
and its tables: so the graph serves all devices, and a trace sees where the tables come from.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import numpy as np

from rulegrad.ir.dtype import DType, as_dtype
from rulegrad.runtime.buffer import Buffer
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.storage import upload, uploaded

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

_MOST_BYTES: Final = 1 << 26
_MOST_KINDS: Final = 1000
_kept: Final[dict[tuple[Hashable, ...], Buffer]] = {}


class _Table(NamedTuple):
    """A table that a function asked for: its name, the dtype, and the function that makes the numbers."""

    name: tuple[Hashable, ...]
    dtype: DType
    make: Callable[[], Array]


class _Asked(threading.local):
    """Inside a function that is built with constants: the tables that it asks for, or those that it is given."""

    tables: list[_Table] | None = None
    given: Iterator[Tensor] | None = None


_asked: Final = _Asked()


def constant(name: tuple[Hashable, ...], like: Tensor, make: Callable[[], Array], dtype: DType | None = None) -> Tensor:
    """The numbers that `make` gives, on the device of a tensor, in its dtype or another one; kept by their name."""
    if _asked.given is not None:
        return next(_asked.given)
    table = _Table(name, as_dtype(dtype or like.dtype), make)
    if _asked.tables is not None:
        _asked.tables.append(table)
    return _on_device(table, like)


def _on_device(table: _Table, like: Tensor) -> Tensor:
    key = (*table.name, table.dtype, like.device)
    if key not in _kept:
        numbers = np.ascontiguousarray(table.make()).astype(table.dtype.numpy)
        while _kept and sum(buffer.nbytes for buffer in _kept.values()) + numbers.nbytes > _MOST_BYTES:
            _kept.pop(next(iter(_kept)))  # the oldest one
        _kept[key] = upload(numbers, like.device)
    # one that is kept may have been made outside of a trace, or in another one
    return like._new(_kept[key].uop, uploaded(_kept[key]), _kept[key].device)


def built_with_constants(function: F) -> F:
    """`built_once` for a function of a tensor that asks for constants, in an order that depends on its kind alone."""
    known: dict[Hashable, list[_Table]] = {}

    @built_once
    def graph(tables: tuple[Tensor, ...], x: Tensor, *arguments: Any, **more: Any) -> Any:
        before, _asked.given = _asked.given, iter(tables)
        try:
            return function(x, *arguments, **more)
        finally:
            _asked.given = before

    def recorded(kind: Hashable, x: Tensor, arguments: tuple[Any, ...], more: dict[str, Any]) -> Any:
        _asked.tables = []
        try:
            result = function(x, *arguments, **more)
            if len(known) >= _MOST_KINDS:
                known.clear()
            known[kind] = _asked.tables
            return result
        finally:
            _asked.tables = None

    @wraps(function)
    def method(x: Tensor, *arguments: Any, **more: Any) -> Any:
        if _asked.tables is not None or _asked.given is not None or not isinstance(x, TensorCore):
            return function(x, *arguments, **more)
        try:
            kind = x.shape, x.dtype, arguments, tuple(more.items())
            tables = known.get(kind)
        except TypeError:  # a list of axes
            return function(x, *arguments, **more)
        if tables is None:
            return recorded(kind, x, arguments, more)
        return graph(tuple(_on_device(table, x) for table in tables), x, *arguments, **more)

    return cast("F", method)
