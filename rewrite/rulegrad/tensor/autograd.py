"""Gradients of a tensor with respect to the leaves that it was computed from.

The graph of a result is differentiated by rules (`rules/tensor/gradient.rules`). A tensor that was realized on the
way is a buffer in the graphs built on it; the walk goes on in the graph that it was computed from.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import rulegrad.compile
from rulegrad.errors import DtypeError, GradientError, ShapeError
from rulegrad.ir import UOp
from rulegrad.tensor import aliasing, hooks
from rulegrad.tensor.capturing import is_tracing
from rulegrad.tensor.constants import filled
from rulegrad.tensor.core import TensorCore, in_same_parts
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.history import (
    BackwardCall,
    GradientPoint,
    History,
    argument_numbers,
    constant_node,
    gradient_points,
    join,
    points_below,
)
from rulegrad.tensor.operands import as_operand

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor


def backward(
    self: Tensor,
    gradient: Tensor | Array | float | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> Tensor:
    """Add to `.grad` of every leaf this tensor depends on its gradient; nothing is computed yet.

    gradient: that of this tensor, of its shape; 1 by default, which needs a tensor of one real element. That of a
    complex x + i y is the one by x plus i times the one by y, as in PyTorch. A second call adds the
    gradient again; after a step of an optimizer that has moved the leaves only with `retain_graph`. create_graph: the
    gradients can be differentiated.
    inputs: the leaves that get one, by default all.
    Returns the tensor, so `loss.backward()` can be chained. Raises ShapeError, DtypeError, and
    GradientError when no leaf is behind this tensor.

    >>> from rulegrad import Tensor
    >>> x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> _ = (x * x).sum().backward()
    >>> x.grad.tolist()
    [2.0, 4.0, 6.0]
    """
    if not self.requires_grad:
        raise GradientError(
            "backward: this tensor depends on no tensor with requires_grad=True (or was made inside no_grad)"
        )
    if gradient is not None and not isinstance(gradient, TensorCore):
        gradient = type(self)(as_operand(self, gradient, "backward"), self.dtype, self._device or None)
    start = _start(self, gradient)
    history = (self._past(), gradient._past()) if gradient is not None else self._past()
    wanted = None if inputs is None else _among(inputs)
    found = leaf_gradients(self, start, history, wanted, create_graph=create_graph)
    call = BackwardCall(self, [leaf for leaf, _, _ in found], bool(retain_graph or create_graph))
    for leaf, uop, behind in found:
        new: Any = gradient_tensor(self, uop, behind, create_graph)
        new._requires_grad = create_graph and bool(points_below(uop))
        before, calls = leaf.grad, [call]
        if before is not None:
            calls = [*(before._gradient_of if before._uop.op != "BUFFER" else ()), call]
            new = _added_to(before, before + new)
        new._gradient_of = tuple(calls)
        leaf.grad = new
        hooks.accumulated(leaf)
    if not self._gradient_of:
        self._gradient_of = (call,)
    return self


def _added_to(gradient: Any, total: Any) -> Any:
    """The gradient with another value: a part of a buffer for many gradients stays one."""
    link = gradient._view
    is_part = link is not None and link.base is not None and not link.obstacle
    if not is_part or is_tracing() or total._requires_grad or gradient.dtype != total.dtype:
        return total
    aliasing.write(gradient, total)
    return gradient


def _among(inputs: TensorCore | Sequence[TensorCore]) -> Callable[[GradientPoint], bool]:
    """Whether a point is one of these leaves."""
    leaves = [inputs] if isinstance(inputs, TensorCore) else list(inputs)
    if not leaves or not all(leaf._leaf for leaf in leaves):
        raise GradientError("backward: inputs are leaves, at least one; use autograd.grad for gradients of results")
    numbers = {id(leaf) for leaf in leaves}
    return lambda point: point.leaf is not None and id(point.leaf()) in numbers


def _start(root: TensorCore, gradient: TensorCore | None) -> UOp:
    """The gradient of the root itself."""
    if gradient is None:
        if root.size != 1:
            raise ShapeError(
                f"backward: the shape {root.shape} has {root.size} elements; reduce it to one, "
                "or give the gradient of this tensor"
            )
        if root.dtype.is_complex:
            raise DtypeError(f"backward: this tensor is {root.dtype}; take .real or .abs(), or give its gradient")
        return filled(root.shape, 1.0, root.dtype)
    if gradient.shape != root.shape:
        raise ShapeError(
            f"backward: a gradient of shape {gradient.shape} for a tensor of shape {root.shape}; they must agree"
        )
    if gradient.dtype != root.dtype:
        raise DtypeError(f"backward: a gradient of {gradient.dtype} for a tensor of {root.dtype}; cast it first")
    return gradient.uop


def leaf_gradients(
    root: TensorCore,
    start: UOp,
    history: History,
    wanted: Callable[[GradientPoint], bool] | None = None,
    since: int = 0,
    create_graph: bool = True,
) -> list[tuple[TensorCore, UOp, History]]:
    """The leaves behind `root` (at `wanted` points), each with the gradient and the history of the gradient.

    since: the number of the first wanted point, if that is known. What is before it depends on none. create_graph:
    what hooks and users' functions are given can be differentiated.
    """
    walk = _Backward(root, wanted, since, create_graph)
    walk.start_at(root.uop, start, root._past(), history)
    return walk.leaves()


def gradient_tensor(like: TensorCore, uop: UOp, history: History, create_graph: bool) -> TensorCore:
    """A gradient, which can be differentiated again where that was asked for, and is a constant where not."""
    new = like._new(uop if create_graph else constant_node(uop), history, like._device)
    new._requires_grad = create_graph
    return new


class _Root(NamedTuple):
    """A graph whose gradient is known, and the points below it that it has not been taken to."""

    graph: UOp
    gradient: UOp
    points: dict[UOp, GradientPoint]


class _Backward:
    """The way from a root back to its leaves, from the latest point to the earliest."""

    def __init__(
        self, root: TensorCore, wanted: Callable[[GradientPoint], bool] | None, since: int, create_graph: bool
    ) -> None:
        self._root = root
        self._wanted = wanted
        self._since = since
        self._create_graph = create_graph
        # With the history of each: what one gradient was made of is let go when the next has been computed from it.
        self._gradients: dict[int, tuple[UOp, History]] = {}
        self._waiting: list[tuple[int, GradientPoint]] = []
        self._numbers: set[int] = set()  # of the points that wait
        # Where users' functions give gradients of operands, one after the other, that share what is behind them, as the
        # steps of a loop do: these are taken to a point together once they are all known, each node once.
        self._roots: list[_Root] = []
        self._behind_roots: History = None

    def start_at(self, graph: UOp, gradient: UOp, behind: History, history: History) -> None:
        if graph.op == "BUFFER":
            # A leaf, or computed already: the tensor is a point itself.
            points = [point for point in gradient_points(behind) if point.uop == graph]
            if points:
                self._add(points[0], gradient, history)
        else:
            self._differentiate(graph, gradient, behind, join(history, behind))

    def leaves(self) -> list[tuple[TensorCore, UOp, History]]:
        found = []
        while self._waiting:
            for point in self._latest():
                if point.number not in self._gradients:
                    continue  # no root depends on it
                gradient, history = self._gradients.pop(point.number)
                if point.pullback is not None:
                    value = self._tensor(point.uop, point)
                    for operand, part in point.pullback(value, self._tensor(gradient, history)):
                        self.start_at(operand.uop, part.uop, operand._past(), part._past())
                elif point.source is not None:
                    behind = point.source_history
                    self._differentiate(point.source, gradient, behind, join(history, behind))
                elif point.leaf is not None:
                    leaf = point.leaf()
                    if leaf is not None and leaf.requires_grad:
                        found.append((leaf, *self._hooked(leaf, in_same_parts(point.uop, gradient), history)))
        return found

    def _latest(self) -> list[GradientPoint]:
        """The latest of the points that wait, or all leaves that are later than the others; with their gradients."""
        points = [heapq.heappop(self._waiting)[1]]
        while self._waiting and not points[-1].goes_on and not self._waiting[0][1].goes_on:
            points.append(heapq.heappop(self._waiting)[1])
        self._numbers.difference_update(point.number for point in points)
        roots = [root for root in self._roots if any(point.uop in root.points for point in points)]
        if roots:
            different = list({point.uop: point for point in points}.values())
            self._take([root.graph for root in roots], [root.gradient for root in roots], different, self._behind_roots)
            for root in roots:
                for point in points:
                    root.points.pop(point.uop, None)
            self._roots = [root for root in self._roots if root.points]
        return points

    def _hooked(self, leaf: TensorCore, gradient: UOp, history: History) -> tuple[UOp, History]:
        of_leaf = hooks.of_leaf(leaf)
        if not of_leaf:
            return gradient, history
        found = hooks.hooked(self._tensor(gradient, history), of_leaf)
        return found.uop, found._past()

    def _tensor(self, uop: UOp, history: History) -> TensorCore:
        """A value or a gradient for a user's function."""
        return gradient_tensor(self._root, uop, history, self._create_graph)

    def _differentiate(self, graph: UOp, gradient: UOp, behind: History, history: History) -> None:
        points = gradient_points(behind)
        if self._wanted is not None:
            points = [
                point for point in points if (point.number >= self._since if point.goes_on else self._wanted(point))
            ]
        # Tensors that stand for one value may share its buffer; the gradient goes on from one of them.
        different = {point.uop: point for point in points}
        if not any(point.pullback is not None for point in points):
            self._take([graph], [gradient], list(different.values()), history)
            return
        self._roots.append(_Root(graph, gradient, different))
        self._behind_roots = join(self._behind_roots, history)
        for point in different.values():
            self._wait_for(point)

    def _take(
        self, graphs: Sequence[UOp], gradients: Sequence[UOp], points: Sequence[GradientPoint], history: History
    ) -> None:
        parts = rulegrad.compile.backward(graphs, gradients, [point.uop for point in points])
        for point, part in zip(points, parts, strict=True):
            if part is not None:
                self._add(point, part, history)

    def _add(self, point: GradientPoint, gradient: UOp, history: History) -> None:
        if point.number in self._gradients:
            other, of_other = self._gradients[point.number]
            gradient, history = UOp("ADD", (other, gradient)), join(of_other, history)
        self._gradients[point.number] = gradient, history
        self._wait_for(point)

    def _wait_for(self, point: GradientPoint) -> None:
        if point.number not in self._numbers:
            self._numbers.add(point.number)
            heapq.heappush(self._waiting, (-point.number, point))


def is_leaf(self: Tensor) -> bool:
    """Whether `backward` gives this tensor a gradient by itself, or it has none at all.

    >>> x = Tensor([1.0], requires_grad=True)
    >>> x.is_leaf, (x * 2).is_leaf, Tensor([1.0]).is_leaf
    (True, False, True)
    """
    return self._leaf or not self.requires_grad


class Node:
    """That a tensor comes from an operation; the compiler makes gradients of graphs, not of PyTorch's steps."""

    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        """A name for people."""
        return self._name

    @property
    def next_functions(self) -> tuple[Any, ...]:
        """Nothing: the steps before are not known."""
        return ()

    def __repr__(self) -> str:
        return f"<{self._name}>"


def grad_fn(self: Tensor) -> Node | None:
    """Something where gradients flow through the tensor to others, None where not, as programs ask.

    >>> x = Tensor([1.0], requires_grad=True)
    >>> x.grad_fn is None, (x * 2).grad_fn is None
    (True, False)
    """
    return None if is_leaf(self) else Node(f"{self.uop.op.title()}Backward0")


def retains_grad(self: Tensor) -> bool:
    """Whether `retain_grad` was called.

    >>> y = Tensor([1.0], requires_grad=True) * 2
    >>> y.retain_grad()
    >>> y.retains_grad, (y * 2).retains_grad
    (True, False)
    """
    return not self._leaf and any(
        point.leaf is not None and point.leaf() is self for point in gradient_points(self._history)
    )


def retain_grad(self: Tensor) -> None:
    """Let `backward` set the `.grad` of this result too, to what its hooks leave. Call it before the result is used
    further: of what was computed from it before no gradient comes here, and it is warned of that.

    Raises GradientError for a tensor without a gradient; of a leaf it changes nothing.

    >>> from rulegrad import Tensor
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> y = x * 3
    >>> y.retain_grad()
    >>> _ = (y * y).sum().backward()
    >>> y.grad.tolist(), x.grad.tolist()
    ([6.0, 12.0], [18.0, 36.0])
    """
    if not self.requires_grad:
        raise GradientError("retain_grad: this tensor has no gradient (it depends on no tensor that requires one)")
    if self._leaf or self.retains_grad:
        return
    before = hooks.before_hooks(self)
    if before is None:
        hooks.warn_of_uses(self, "retain_grad")
    kept = self if before is None else before
    # A node of its own, as an equal result is the same node.
    history = kept._past()
    kept._uop = UOp("ARGUMENT", (kept._uop,), id=next(argument_numbers))
    kept._history = join(history, GradientPoint(kept._uop, None, leaf=self))


def detach_(self: Tensor) -> Tensor:
    """This tensor without its gradient from now on, in place: what it was computed from is forgotten.

    >>> y = Tensor([1.0], requires_grad=True) * 2
    >>> y.detach_().requires_grad, y.tolist()
    (False, [2.0])
    """
    if self._leaf:
        self.requires_grad = False
    elif self.requires_grad:
        self._uop, self._history, self._requires_grad = UOp("DETACH", (self.uop,)), self._past(), False
        if self._view is not None:
            self._view.detached = True
    return self


def data(self: Tensor) -> Tensor:
    """`detach()`: the values without a gradient; a view. Setting it is `assign`, which takes the values.

    A result keeps its gradient, which goes on to what it was computed from. A view is none from then on.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> _ = x.data.mul_(10)
    >>> x.data = x.data + 1
    >>> x.tolist(), x.requires_grad
    ([11.0, 21.0], True)
    """
    return self.detach()


def set_data(self: Tensor, value: Any) -> None:
    if self._view is not None:  # what it is a view of keeps its values
        aliasing.renew(self)
        aliasing.release(self)
    with no_grad() if self._requires_grad and not self._leaf else nullcontext():
        self.assign(value)
