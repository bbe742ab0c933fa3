"""Views: tensors that are parts of another one, their base, as in NumPy and PyTorch.

A view has no values of its own. It holds its base and the movements that lead from there to it, and gets its node again
when that of the base has changed. What is written to a view is written to its base (`rules/tensor/view_updates.rules`
says what that makes of the graph), from where all other views have it when they are asked.

Where nobody else holds the base, a view is a tensor like any other from the next update or computation on.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from rulegrad._core import are_above
from rulegrad.compile import put_back
from rulegrad.errors import AliasError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.tensor.gradient_mode import gradients_enabled
from rulegrad.tensor.history import GradientPoint, join, leaves_behind, own_node

if TYPE_CHECKING:
    from rulegrad.tensor.core import TensorCore

    #: An op of movement, the dtype that it has to name or None, and its attributes.
    Step = tuple[str, Any, dict[str, Any]]

_REPEATED: Final = "several of its elements are one place in memory, as expand, broadcast_to and unfold leave them"
_LENT: Final = "its memory belongs to an array of another library, which would keep its values"


class View:
    """How a tensor is a part of another."""

    __slots__ = ("base", "changes", "detached", "moved", "obstacle", "of_leaf", "root", "shape", "steps", "written")

    def __init__(
        self,
        base: TensorCore | None,
        steps: tuple[Step, ...],
        detached: bool = False,
        obstacle: str = "",
        shape: tuple[int, ...] | None = None,
    ) -> None:
        self.base = base  # None: of nobody any more, but the obstacle stays
        self.steps = steps
        #: Whether no gradients flow between it and the base. It is the base of its own views then.
        self.detached = detached
        #: Why it cannot be written to.
        self.obstacle = obstacle
        #: The base's node that the tensor's was made from, how often the base's values had changed then, and
        #: whether it was a leaf when the view was made.
        self.root: Any = None
        self.changes = 0
        self.of_leaf = False
        #: The base's when the first movement was made: `unsqueeze_` may have given it another one since.
        self.shape = shape
        #: Of a copy that stands for a view, see `mark_copied`.
        self.written: Callable[[TensorCore], None] | None = None
        #: Where views that have this tensor as their base go on, see `move`.
        self.moved: TensorCore | None = None
        if base is not None:
            self.root, self.changes, self.of_leaf = base._uop, base._changes, base._leaf
            self.shape = shape or base.shape

    def path(self) -> tuple[Step, ...]:
        """The movements, of the base in the shape that it has now."""
        if self.base is None or self.base.shape == self.shape:
            return self.steps
        return (("RESHAPE", None, {"shape": self.shape}), *self.steps)

    def graph(self, root: UOp) -> UOp:
        """The movements, of the base's node `root`."""
        for op, dtype, attributes in self.path():
            root = UOp(op, (root,), **attributes) if dtype is None else UOp(op, (root,), dtype)
        return root

    def is_alone(self) -> bool:
        """Whether nobody but this view holds the base, which is not a view itself."""
        # The second reference is the argument's.
        alone = self.base is not None and self.base._view is None and sys.getrefcount(self.base) == 2
        return alone and self.moved is None

    def follow(self) -> None:
        """Go on to where the base has left its elements, where it has other ones, or the same in another order."""
        while self.base is not None and self.base._view is not None:
            moved = self.base._view.moved
            if moved is None:
                return
            self.base = moved


def obstacle_of(op: str, attributes: Mapping[str, Any]) -> str:
    """Why what a movement shows cannot be written to; "" where it can: the movement shows each element once."""
    if op == "UNFOLD":  # as `are_separate` in rules/tensor/windows.rules says of a node
        size = attributes["size"]
        return "" if size <= attributes["step"] and (size == 1 or attributes["dilation"] == 1) else _REPEATED
    return _REPEATED if op == "EXPAND" else ""


def attach(result: TensorCore, tensor: TensorCore, steps: tuple[Step, ...], detached: bool = False) -> View:
    """Make `result`, which was made of `tensor` by these movements, a view."""
    repeats = any(obstacle_of(op, attributes) for op, _, attributes in steps)
    base, obstacle, link, shape = tensor, "", tensor._view, None
    if link is not None:
        if link.is_alone():
            release(tensor)
        elif link.base is not None and not (link.detached or link.obstacle):
            base, steps, shape = link.base, link.steps + steps, link.shape
    if repeats:
        obstacle = _REPEATED
    detached = detached or (tensor._requires_grad and not result._requires_grad)
    if base is tensor or tensor._history is None:
        result._history = None  # the base's
    result._view = View(base, steps, detached, obstacle, shape)
    return result._view


def reshape(tensor: TensorCore, shape: tuple[int, ...]) -> None:
    """Give a tensor another shape of as many elements; its views, and what it is a view of, keep theirs."""
    renew(tensor)
    link = tensor._view
    if link is not None and link.base is not None:
        link.steps = (*link.steps, ("RESHAPE", None, {"shape": shape}))
    tensor._uop = UOp("RESHAPE", (tensor.uop,), shape=shape)


def move(tensor: TensorCore, step: Step) -> None:
    """Give a tensor its elements in another order, by a movement.

    A tensor that nobody else holds takes the elements over as they are. It is the base of this one from now on, and of
    its views: those that were made before go on there when they are asked.
    """
    renew(tensor)
    link: Any = tensor._view
    if _is_part(link):
        link.steps = (*link.steps, step)
    else:
        _follow(tensor, base := _taken_over(tensor), base, (step,))
    tensor._uop = UOp(step[0], (tensor._uop,), **step[2])


def renounce(tensor: TensorCore, value: TensorCore) -> None:
    """Give a tensor other elements, of another shape; its views keep those of before for themselves."""
    renew(tensor)
    if _is_part(tensor._view):
        leave(tensor)
        tensor._history = value._past()
    else:
        base = tensor._new(value.uop, value._past(), value._device or tensor._device)
        _follow(tensor, _taken_over(tensor), base, ())
    tensor._uop = value.uop
    tensor._changes += 1


def _is_part(link: Any) -> bool:
    """Whether a tensor is a part of another, which its own views have as their base, too."""
    return link is not None and link.base is not None and not (link.detached or link.obstacle)


def _taken_over(tensor: TensorCore) -> TensorCore:
    taken = tensor._new(tensor.uop, tensor._history, tensor._device)
    taken._view, taken._changes, taken._requires_grad = tensor._view, tensor._changes, tensor._requires_grad
    return taken


def _follow(tensor: TensorCore, before: TensorCore, base: TensorCore, steps: tuple[Step, ...]) -> None:
    tensor._view = View(base, steps)
    tensor._view.moved = before
    tensor._history = None


def mark_borrowed(tensor: TensorCore) -> None:
    """Mark a tensor in the memory of another library's array."""
    tensor._view = View(None, (), False, _LENT)


def mark_copied(tensor: TensorCore, written: Callable[[TensorCore], None]) -> None:
    """Mark a copy that would be a view, if it could be read where it is: what is written to it is `written`, too."""
    leave(tensor)
    tensor._view = View(None, ())
    tensor._view.written = written


def leave(tensor: TensorCore) -> None:
    """Make a view a tensor of its own, which its base no longer follows."""
    renew(tensor)
    tensor._history, tensor._view = tensor._past(), None


def release(tensor: TensorCore) -> None:
    """Make a view, whose base nobody else holds, a tensor of its own."""
    link = tensor._view
    if link is None or link.base is None:
        return
    leave(tensor)
    tensor._view = View(None, (), False, link.obstacle) if link.obstacle else None


def renew(tensor: TensorCore) -> None:
    """Give a view its node again where the base's is another than the one it was made from."""
    link = tensor._view
    if link is None or link.base is None:
        return
    link.follow()
    base = link.base
    root = base.uop  # a leaf gets its buffer by it
    if root is link.root:
        return
    link.root = root
    if base._leaf and not link.of_leaf:
        link.detached = True
    if tensor._history is not None and link.changes == base._changes:
        return  # the values are in a buffer of its own, and the base's are the same as then
    uop = link.graph(root)
    if link.detached and base._requires_grad:
        uop = UOp("DETACH", (uop,))
    tensor._changes += link.changes != base._changes
    link.changes = base._changes
    tensor._uop, tensor._history, tensor._device = uop, None, base._device or tensor._device
    if tensor._leaf:
        tensor._claim()
    else:
        tensor._requires_grad = base._requires_grad and not link.detached


def prepare(tensor: TensorCore) -> None:
    """Make a view ready for its computation, perhaps together with that of its base."""
    link = tensor._view
    if link is not None and link.is_alone():
        release(tensor)
    elif tensor._requires_grad:
        tensor._history = tensor._past()  # what the gradient goes on to, before the base is a buffer


def settled(tensor: TensorCore) -> None:
    """Remember that a view has a buffer with its values, and for which values of the base."""
    link = tensor._view
    if link is not None and link.base is not None:
        link.root, link.changes = link.base._uop, link.base._changes


def is_same_view(first: TensorCore, second: TensorCore) -> bool:
    """Whether two tensors are one part of one base."""
    one, other = first._view, second._view
    if one is None or other is None or one.detached or other.detached:
        return False
    one.follow()
    other.follow()
    return one.base is not None and one.base is other.base and one.path() == other.path()


def leaf_behind(tensor: TensorCore) -> TensorCore | None:
    """The leaf that requires a gradient which an update of `tensor` would change behind the gradient's back."""
    link = tensor._view
    found = link.base if link is not None and not link.detached and not tensor._leaf else tensor
    return found if found is not None and found._leaf and found._requires_grad else None


def check_writable(tensor: TensorCore, name: str) -> None:
    """Raises AliasError for a view, or a view of one, that cannot be written to."""
    at: TensorCore | None = tensor
    while at is not None and at._view is not None:
        if at._view.obstacle and tensor.size:
            raise AliasError(f"{name}: this tensor cannot be changed in place, for {at._view.obstacle}; use .clone()")
        at = at._view.base


def write(tensor: TensorCore, value: TensorCore) -> None:
    """Let a tensor, and what it is a view of, have the values (of its shape and dtype) from now on.

    What required a gradient still does, as in PyTorch, also where nothing of it is left: that of leaves is zero then.
    """
    if not tensor.size:
        leave(tensor)  # there is nothing of the base to change
    if value._view is not None:
        value = value._same()  # it may be a part of what changes
    renew(tensor)
    link = tensor._view
    if link is not None and link.is_alone():
        release(tensor)
        link = tensor._view
    if link is not None and link.written is not None:
        link.written(value)
    if link is None or link.base is None:
        tensor._load(_in_place_of(tensor, value))
        return
    base = link.base
    write(base, _whole(base, link, value))
    if tensor._leaf or link.detached:
        tensor._load(value)
        if not tensor._requires_grad:
            tensor._history = None  # the base's
    else:
        tensor._uop, tensor._history, tensor._changes = value.uop, None, tensor._changes + 1
        tensor._requires_grad, tensor._gradient_of = base._requires_grad, value._gradient_of
    link.root, link.changes = base._uop, base._changes


def _whole(base: TensorCore, link: View, value: TensorCore) -> TensorCore:
    """The base with a value at the places of a view."""
    node = put_back(link.graph(link.root), link.root, value.uop)
    if not link.detached:
        # A view of all of the base leaves nothing of it, but for views whose places the graph still chooses.
        is_read = value.nbytes != base.nbytes or are_above([node], [link.root])[0]
        return base._result(node, value) if is_read else value._result(node)
    if base._requires_grad or value._requires_grad:
        node = UOp("DETACH", (node,))
    whole = base._new(node, join(base._past(), value._past()), base._device or value._device)
    return _kept_gradient(base, whole) if base._requires_grad and not base._leaf else whole


def _in_place_of(tensor: TensorCore, value: TensorCore) -> TensorCore:
    """The value as it takes the place of the tensor's: what `no_grad` hides changes no gradient, as in PyTorch."""
    if not tensor._requires_grad or tensor._leaf or value._requires_grad:
        return value
    return _without_gradient(tensor, value) if gradients_enabled() else _kept_gradient(tensor, value)


def _without_gradient(tensor: TensorCore, value: TensorCore) -> TensorCore:
    """`value` in the place of all of `tensor`: the gradients of leaves behind it are zero, and not missing."""
    if any(
        node.toposort("BATCHED") for node in (tensor._uop, value._uop)
    ):  # a mapped function is differentiated by rules
        return value
    leaves = [weakref.ref(leaf) for leaf in leaves_behind(tensor._uop)]

    def zeros(_: Any, gradient: Any) -> list[tuple[Any, Any]]:
        found = (leaf for leaf in (reference() for reference in leaves) if leaf is not None)
        return [(leaf, gradient.zeros(leaf.shape, dtype=leaf.dtype, device=leaf._device or None)) for leaf in found]

    node = own_node(value.uop)
    result = value._new(node, None, value._device or tensor._device)
    result._history = join(value._past(), GradientPoint(node, value._past(), pullback=zeros, leaves=leaves))
    result._requires_grad = True
    return result


def _kept_gradient(tensor: TensorCore, value: TensorCore) -> TensorCore:
    """`value` with the gradient of `tensor`: it goes on to what the tensor was computed from."""
    node = own_node(value.uop)
    point = GradientPoint(node, None, source=tensor._uop, source_history=tensor._past())
    result = value._new(node, join(value._past(), point), value._device or tensor._device)
    result._requires_grad = as_dtype(node.dtype).is_inexact
    return result
