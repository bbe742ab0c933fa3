"""Functions of tensors whose graph depends on shapes, dtypes and options alone: made once for each kind of arguments.

A convolution is thirty operations, each of which checks its arguments. From the second call of a kind on, the engine
puts the graph of such a function together from that of placeholders.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from typing import Any, Final, NamedTuple, TypeVar, cast

from rulegrad._core import GraphFunction, GraphTable, ResultsTable, Size
from rulegrad.config import config
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType, as_dtype
from rulegrad.runtime import source_lines
from rulegrad.tensor import autocasting
from rulegrad.tensor.constants import filled
from rulegrad.tensor.core import TensorCore, common_device
from rulegrad.tensor.gradient_mode import gradients_enabled
from rulegrad.tensor.history import History, join

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=TensorCore)

_MOST: Final = 1000  # kinds of arguments of a function
_LONGEST, _DEEPEST = 64, 3  # parts of an argument, and lists in lists: more are data
_LONGEST_OF_TENSORS: Final = 1024  # parts of a list that begins with a tensor, as what is stacked
_MOST_TENSORS: Final = 64_000  # in all kinds of arguments of a function, of which each counts as 64 at least
_ATOMS: Final = (type(None), type(...), bool, int, str, DType)
_LEVEL: Final = -1000  # of the first placeholder; those of `vmap` are from 0 on


def _origin(uop: UOp, tensors: Sequence[TensorCore]) -> tuple[History, str]:
    """The history and the device of what is computed from these tensors. Raises DeviceError for several devices."""
    history: History = None
    device = ""
    for tensor in tensors:
        history, device = join(history, tensor._past()), common_device(uop, device, tensor._device)
    return history, device


class _Part(NamedTuple):
    """The graph of one of several results, and which of the tensors it reads."""

    graph: GraphFunction
    reads: tuple[int, ...]

    def of(self, cls: type[T], tensors: Sequence[TensorCore], uops: Sequence[UOp]) -> T:
        """The result for tensors with these nodes."""
        (uop,) = self.graph.apply(uops)
        return cls._new(uop, *_origin(uop, [tensors[place] for place in self.reads]))


class BuiltTogether:
    """Results of functions of tensors without gradients, whose graphs depend on a kind, shapes and dtypes alone."""

    def __init__(self) -> None:
        self._tables: dict[Hashable, ResultsTable] = {}  # by kind
        self._known: dict[Hashable, list[_Part | None] | None] = {}  # None: built in Python each time

    def known(self, kind: Hashable, tensors: list[T]) -> list[T] | None:
        """The results as the engine builds them; None where it has not been told of tensors like these."""
        table = self._tables.get((kind, autocasting.autocast_dtype()))
        return None if table is None else table.of(tensors)

    def of(self, kind: Hashable, tensors: list[T], function: Callable[[list[T]], Sequence[T] | None]) -> list[T] | None:
        """The results of a function, which is called for the first tensors of a kind.

        One that is the tensor of its place is that tensor. None where the function gives None, or holds values.
        """
        uops = [tensor.uop for tensor in tensors]  # first of all: a leaf may get its buffer by it
        key = kind, _dtypes_in_force(), *[(uop.shape, uop.dtype) for uop in uops]
        if key not in self._known:
            if len(self._known) >= _MOST:
                self._known.clear()
                self._tables.clear()
            self._known[key] = self._built(key, function, tensors)
        parts = self._known[key]
        if parts is None:
            return None
        return [
            tensors[k] if part is None else part.of(type(tensors[k]), tensors, uops) for k, part in enumerate(parts)
        ]

    def _built(
        self, key: tuple[Any, ...], function: Callable[[list[T]], Sequence[T] | None], tensors: list[T]
    ) -> list[_Part | None] | None:
        """The graphs of the results; None in the place of one that is the tensor of that place."""
        names: list[Any] = []
        placed = [_placed(tensor, names) for tensor in tensors]
        uops, found = [name.uop for name in names], list[_Part | None]()
        results = function(placed)  # which may assign to them
        if results is None:
            return None
        graphs = [result.uop for result in results]
        for graph, uop in zip(graphs, uops):
            below = set(graph.toposort())
            if any(node.op in ("BUFFER", "INSIDE") for node in below):
                return None
            reads = tuple(place for place, name in enumerate(uops) if name in below)
            found.append(None if graph == uop else _Part(GraphFunction([graph], uops), reads))
        table = self._tables.setdefault(key[:2], ResultsTable())
        table.keep(tensors, graphs, uops, [None if part is None else part.reads for part in found])
        return found


class _Built(NamedTuple):
    """The graphs of a function for a kind of arguments."""

    graphs: GraphFunction  # of the results, in a tuple or one alone
    cls: type[TensorCore]  # of the results
    tracked: tuple[bool, ...]  # whether a gradient flows through each of them
    checks: GraphFunction | None  # of indices, whose errors name the user's line
    is_tuple: bool

    def of(self, tensors: Sequence[TensorCore]) -> Any:
        """The result for tensors of this kind."""
        uops = [tensor.uop for tensor in tensors]  # first of all: a leaf may get its buffer by it
        for check in self.checks.apply(uops) if self.checks else ():
            source_lines.note(check)
        graphs = self.graphs.apply(uops)
        history, device = _origin(graphs[0], tensors)
        results = tuple(self.cls._new(graph, history, device) for graph in graphs)
        for new, tracked in zip(results, self.tracked):
            new._requires_grad = tracked
        return results if self.is_tuple else results[0]


def built_once(function: F) -> F:
    """The function, whose result is a new tensor, or a tuple of such, and depends on nothing but its arguments."""
    known: dict[Hashable, _Built | None] = {}  # None: built in Python each time
    seen: set[Hashable] = set()  # once
    counted = 0  # what both hold, see _MOST_TENSORS
    table = GraphTable(DType)

    @wraps(function)
    def method(*arguments: Any, **more: Any) -> Any:
        nonlocal counted
        dtypes, checks = _dtypes_in_force(), config.check_indices
        found = table.of(arguments, more, dtypes, checks)
        if found is not None:
            return found
        tensors: list[TensorCore] = []
        try:
            key = (
                *[_argument_key(value, tensors) for value in arguments],
                *[(name, _argument_key(value, tensors)) for name, value in more.items()],
                gradients_enabled(), dtypes, checks,
            )  # fmt: skip
        except TypeError:  # an array, or a long list
            return function(*arguments, **more)
        built = known.get(key)
        if built is None and key not in known:
            if key in seen:
                seen.discard(key)
                built = known[key] = _build(function, arguments, more)
            else:
                seen.add(key)
            counted += max(_LONGEST, len(tensors))
            if counted > _MOST_TENSORS:
                known.clear()
                seen.clear()
                counted = 0
        if built is None:
            return function(*arguments, **more)
        if not built.checks:
            table.keep(arguments, more, dtypes, checks, built.graphs, built.tracked, built.is_tuple)
        return built.of(tensors)

    return cast("F", method)


def _dtypes_in_force() -> Hashable:
    """The dtypes that a graph depends on beside the function's arguments: of `autocast`, and of Python's floats."""
    autocast = autocasting.autocast_dtype()
    return autocast if config.default_dtype == "float32" else (autocast, config.default_dtype)


def _longest(parts: Sequence[Any]) -> int:
    """How many parts of an argument the graph may depend on one by one."""
    return _LONGEST_OF_TENSORS if parts and isinstance(parts[0], TensorCore) else _LONGEST


def _argument_key(value: Any, tensors: list[TensorCore], depth: int = 0) -> Hashable:
    """The parts of an argument that its graph depends on. Raises TypeError where the table cannot have it."""
    if isinstance(value, TensorCore):
        uop = value.uop  # a view is as its base by now
        tensors.append(value)
        return type(value), uop.shape, uop.dtype, value._requires_grad
    cls = type(value)
    if cls in _ATOMS:
        return cls, value
    if cls is float:
        return cls, repr(value)  # 0.0 is equal to -0.0
    if cls in (tuple, list, Size) and len(value) <= _longest(value) and depth < _DEEPEST:
        return cls, *[_argument_key(part, tensors, depth + 1) for part in value]
    if cls is slice and all(type(part) in _ATOMS for part in (value.start, value.stop, value.step)):
        return cls, value.start, value.stop, value.step
    raise TypeError


def _build(function: Callable[..., Any], arguments: tuple[Any, ...], more: dict[str, Any]) -> _Built | None:
    """The graph of a call; None where the result is not a new tensor, or the function asks for values."""
    names: list[TensorCore] = []
    try:
        found = function(
            *[_placed(value, names) for value in arguments],
            **{key: _placed(value, names) for key, value in more.items()},
        )
    except Exception:  # the call itself says what is wrong, if anything is
        return None
    results = found if type(found) is tuple else (found,)
    if not names or not results or not all(type(one) is type(results[0]) for one in results):
        return None
    if not all(isinstance(one, TensorCore) and _is_new(one, names) for one in results):
        return None
    uops = [name.uop for name in names]
    nodes = UOp("SINK", tuple(one.uop for one in results)).toposort()
    if any(node.op == "BUFFER" for node in nodes):  # of values of a list
        return None
    checks = [node for node in nodes if node.op == "INSIDE"]
    graphs = GraphFunction([one.uop for one in results], uops)
    tracked = tuple(one._requires_grad for one in results)
    checking = GraphFunction(checks, uops) if checks else None
    return _Built(graphs, type(results[0]), tracked, checking, type(found) is tuple)


def _is_new(result: TensorCore, names: Sequence[TensorCore]) -> bool:
    """Whether a result is neither a placeholder nor a view of one."""
    view = result._view
    if view is not None and any(view.base is name for name in names):
        return False
    return result._history is None and not any(result is name for name in names)


def _placed(value: Any, names: list[TensorCore]) -> Any:
    """The argument with placeholders for its tensors, in the order of their kinds."""
    if type(value) in (tuple, list, Size):
        return type(value)(_placed(part, names) for part in value)
    if not isinstance(value, TensorCore):
        return value
    # as of a mapped tensor, there is no value that the function could ask for
    nothing = filled((1, *value.shape), 0, as_dtype(value.dtype))
    name = type(value)._new(UOp("BATCHED", (nothing,), level=_LEVEL - len(names)), None, value._device)
    name._requires_grad = value._requires_grad
    names.append(name)
    return name
