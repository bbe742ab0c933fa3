"""The history of a tensor's graph: the buffers it reads, and the tensors that gradients flow to.

A graph names buffers by number only. The history of a tensor keeps those buffers alive, and remembers the
tensors with gradients that went into it. Histories are trees that share their branches, so an operation
costs one pair however many buffers it depends on.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from rulegrad._core import are_above
from rulegrad.errors import GradientError
from rulegrad.ir import UOp

if TYPE_CHECKING:
    from rulegrad.tensor.core import TensorCore

#: None, a Buffer, a GradientPoint, or a tuple of histories.
History: TypeAlias = Any

#: From (value, gradient) of a result to (operand, gradient) for each operand that has one.
Pullback: TypeAlias = "Callable[[Any, Any], Sequence[tuple[Any, Any]]]"

_numbers = itertools.count()
#: The numbers of ARGUMENT nodes, which are names for results that gradients are wanted of.
argument_numbers = itertools.count()


def own_node(value: UOp) -> UOp:
    """A node of its own for a value, which gradients leave by a point and not by the rules."""
    return UOp("ARGUMENT", (UOp("DETACH", (value,)),), id=next(argument_numbers))


def constant_node(value: UOp) -> UOp:
    """The value as a node behind which there is nothing to differentiate."""
    if value.op == "BUFFER" and not points_below(value):
        return value
    return UOp("DETACH", (value,))


def renamed(value: UOp) -> tuple[UOp, GradientPoint]:
    """The value under a name of its own, as equal values are one node: a gradient by the name is not one by the value.

    The point knows the name; gradients go through it by the rules.
    """
    node = UOp("ARGUMENT", (value,), id=next(argument_numbers))
    return node, GradientPoint(node, None)


class GradientPoint:
    """A buffer that stands for a tensor with a gradient in the graphs that are built on it.

    For a *leaf* (`requires_grad=True` set by the user) the gradient ends here and goes to `leaf().grad`.
    For an intermediate result that was realized, `source` is the graph it was computed from and
    `source_history` the history of that graph: the gradient goes on from there. A result that was computed on
    the host has no graph: `pullback` makes gradients of its operands, as tensors, out of its value and its gradient.
    """

    __slots__ = ("__weakref__", "buffer", "leaf", "leaves", "number", "pullback", "source", "source_history", "uop")

    def __init__(
        self,
        uop: UOp,
        buffer: Any,
        leaf: TensorCore | None = None,
        source: UOp | None = None,
        source_history: History = None,
        pullback: Pullback | None = None,
        leaves: Sequence[weakref.ref[TensorCore]] | None = None,
    ) -> None:
        self.uop = uop
        self.buffer = buffer
        # Weak: the tensor holds its history, and a cycle would keep its memory until the next collection.
        self.leaf = None if leaf is None else weakref.ref(leaf)
        self.source = source
        self.source_history = source_history
        self.pullback = pullback
        #: Of a value that was overwritten: the leaves behind what was there before.
        self.leaves = leaves
        # Later points depend on earlier ones only, so this is an order in which to walk back.
        self.number = next(_numbers)
        _points[uop] = self

    @property
    def goes_on(self) -> bool:
        """Whether the gradient goes on from here to what this was computed from."""
        return self.source is not None or self.pullback is not None


#: The points by their buffers.
_points: weakref.WeakValueDictionary[UOp, GradientPoint] = weakref.WeakValueDictionary()


def point_of(node: UOp) -> GradientPoint | None:
    """The point that a node is, if it is one."""
    return _points.get(node)


def is_transformed(graph: UOp) -> bool:
    """Whether a graph is an argument inside `grad` or `vmap`, or computed from one: it has no value.

    Other ARGUMENT nodes are names, and results of a user's function; those of numbers below 0 stand in what functions
    with gradients of their own say of these (custom_gradient).
    """
    return any(
        node.op == "BATCHED"
        or (node.attrs["id"] >= 0 and ((point := point_of(node)) is None or point.leaf is not None))
        for node in graph.toposort("ARGUMENT", "BATCHED")
    )


def points_below(graph: UOp) -> list[GradientPoint]:
    """The points that a graph was built on, of tensors that have gradients; none behind a DETACH."""
    found: dict[GradientPoint, None] = {}
    seen: set[UOp] = set()
    waiting = [graph]
    while waiting:
        node = waiting.pop()
        if node in seen or node.op == "DETACH":
            continue
        seen.add(node)
        waiting.extend(node.src)
        point = _points.get(node) if node.op in ("BUFFER", "ARGUMENT") else None
        leaf = None if point is None or point.leaf is None else point.leaf()
        if point is not None and (point.goes_on or (leaf is not None and leaf._requires_grad)):
            found[point] = None
    return list(found)


def leaves_behind(graph: UOp) -> list[TensorCore]:
    """The leaves with gradients that a graph was built on, also by way of results that were realized."""
    found: dict[int, TensorCore] = {}
    seen: set[GradientPoint] = set()
    waiting = points_below(graph)
    while waiting:
        point = waiting.pop()
        if point in seen:
            continue
        seen.add(point)
        known = point.leaves or ([] if point.leaf is None else [point.leaf])
        found.update((id(leaf), leaf) for leaf in (reference() for reference in known) if leaf is not None)
        if point.source is not None:
            waiting.extend(points_below(point.source))
        elif point.pullback is not None and point.leaves is None:
            waiting.extend(gradient_points(point.buffer))
    return list(found.values())


class BackwardCall:
    """One call of `backward`: the tensor that it was called on, and the leaves whose gradients it added to.

    graph: of that tensor, until an optimizer has made its step. retains: it is to be called again, also when the
    leaves have been moved.
    """

    __slots__ = ("_leaves", "_root", "graph", "retains")

    def __init__(self, root: TensorCore, leaves: Sequence[TensorCore], retains: bool = False) -> None:
        self._root = weakref.ref(root)
        self.graph: UOp | None = root._uop
        self.retains = retains
        self._leaves = [weakref.ref(leaf) for leaf in leaves]

    @property
    def root(self) -> TensorCore | None:
        """The tensor that `backward` was called on, if somebody holds it."""
        return self._root()

    def tensors(self) -> list[TensorCore]:
        """The root, and the gradients, as far as somebody holds them."""
        leaves = [leaf for reference in self._leaves if (leaf := reference()) is not None]
        gradients = [leaf.grad for leaf in leaves if leaf.grad is not None and self in leaf.grad._gradient_of]
        root = self.root
        return gradients if root is None else [root, *gradients]


def roots_of(calls: Sequence[BackwardCall]) -> list[TensorCore]:
    """The tensors that `backward` was called on, each once, as far as somebody holds them."""
    return list({id(root): root for call in calls if (root := call.root) is not None}.values())


def join(first: History, second: History) -> History:
    """The history of a result of two operands."""
    if second is None or second is first:
        return first
    return second if first is None else (first, second)


def _items(history: History) -> Iterator[Any]:
    """The buffers and the points of `history` (not those behind points' sources), each once."""
    seen: set[int] = set()
    stack = [history]
    while stack:
        item = stack.pop()
        if item is None or id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, tuple):
            stack.extend(item)
        else:
            yield item


def gradient_points(history: History) -> list[GradientPoint]:
    """All points of `history` (not those behind their sources), each once."""
    return [item for item in _items(history) if isinstance(item, GradientPoint)]


def forget_ways(roots: Sequence[TensorCore], moved: Collection[int]) -> None:
    """Let go of what gradients of computed results are computed from, where leaves have been moved since.

    It is the leaves' values of that time, and what was computed from them: a result that somebody keeps would keep it.
    moved: the numbers of the leaves' points.
    """
    ends = [root._history for root in roots if isinstance(root._history, GradientPoint)]
    waiting = [*ends, *_on_the_way([end.source for end in ends if end.source is not None])]
    before: dict[GradientPoint, list[GradientPoint]] = {}
    while waiting:
        point = waiting.pop()
        if point not in before:
            before[point] = gradient_points(point.source_history)
            waiting.extend(before[point])
    behind: set[GradientPoint] = set()
    for point in sorted(before, key=lambda one: one.number):  # each after those that it depends on
        if any(one.number in moved or one in behind for one in before[point]):
            behind.add(point)
    for point in behind:
        point.source, point.source_history, point.pullback = None, None, _no_way


def _on_the_way(graphs: Sequence[UOp]) -> list[GradientPoint]:
    """The points of results that were computed as parts of graphs."""
    if not graphs:
        return []
    whole = UOp("SINK", tuple(graphs))
    computed = [(point, point.source) for point in list(_points.values())]
    return [point for point, source in computed if source is not None and are_above([whole], [source])[0]]


def _no_way(*_: Any) -> Any:
    raise GradientError(
        "backward: an optimizer has moved the parameters since the result was computed and backward was called on it; "
        "compute the result again, or call backward with retain_graph=True the first time"
    )


def of_constant(history: History) -> History:
    """The history of a value through which no gradient goes back: what it was computed from is not kept any more."""
    return history.buffer if type(history) is GradientPoint and history.buffer is not None else history


def without_points(history: History) -> History:
    """The buffers of `history` alone: of a tensor from which no gradient goes back."""
    found: dict[int, Any] = {}
    waiting = [history]
    while waiting:
        for item in _items(waiting.pop()):
            if isinstance(item, GradientPoint):
                waiting.append(item.buffer)
            else:
                found[id(item)] = item
    return tuple(found.values())


def reads(history: History, buffer: Any, points_only: bool) -> bool:
    """Whether a graph with this history may read the buffer (that of a point)."""
    return any(
        item.buffer is buffer if isinstance(item, GradientPoint) else item is buffer and not points_only
        for item in _items(history)
    )
