"""Hooks of tensors: functions that `backward` calls with a gradient, and that may replace it."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from rulegrad._core import is_source
from rulegrad.errors import GradientError, ShapeError
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.history import GradientPoint, join, own_node, point_of

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor

    Hooks: TypeAlias = dict[int, Callable[[Any], Any]]

_numbers = itertools.count()
_of_leaves: dict[int, Hooks] = {}  # by the id of the leaf, as long as it lives: those that see its gradient
_after: dict[int, Hooks] = {}  # those that are called when `.grad` has it


class Handle:
    """The handle of a registered hook, by which it is removed."""

    def __init__(self, hooks: Hooks, number: int) -> None:
        self._hooks, self._number = hooks, number

    def remove(self) -> None:
        """The hook is no longer called."""
        self._hooks.pop(self._number, None)


def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Handle:
    """Let `backward` and `grad` call `hook` with the gradient of this tensor.

    What the hook returns takes the gradient's place, unless it is None. Of a result, call it before the result is used
    further: what was computed from it before does not call the hook, and it is warned of that. Hooks are called in the
    order in which they were registered; `remove()` of the handle takes one away. Raises GradientError for a tensor
    without a gradient.

    >>> from rulegrad import Tensor
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> y = x * 3
    >>> handle = y.register_hook(lambda gradient: gradient * 10)
    >>> _ = y.sum().backward()
    >>> x.grad.tolist()
    [30.0, 30.0]
    """
    if not self.requires_grad:
        raise GradientError("register_hook: this tensor has no gradient (it depends on no tensor that requires one)")
    if self._leaf:
        return _added(_hooks_of(self, _of_leaves), hook)
    way = _way_of(self)
    if way is None:
        warn_of_uses(self, "register_hook")
        way = _hooked_way(self)
    return _added(way.hooks, hook)


def warn_of_uses(result: TensorCore, name: str) -> None:
    """A warning where a result has been used: gradients of what was computed from it do not come to it any more."""
    if is_source(result._uop):
        warnings.warn(
            f"{name}: this result, or an equal one, has been used before; what was computed from it then does not know "
            f"of {name}. Call it before the result is used",
            stacklevel=3,
        )


def before_hooks(result: TensorCore) -> TensorCore | None:
    """What a result with hooks was before it had them, None for one without hooks."""
    way = _way_of(result)
    return None if way is None else way.before


def _way_of(result: TensorCore) -> _Hooked | None:
    """The way of a result's own hooks: another tensor may be the same node, as a view that changes nothing."""
    point = point_of(result.uop)
    if point is not None and point.source is not None:  # the result has been computed since
        point = point_of(point.source)
    way = None if point is None else point.pullback
    return way if isinstance(way, _Hooked) and way.owner() is result else None


def watched(value: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Tensor:
    """The same value, whose gradient the hook sees before hooks of the tensor itself do."""
    new = value._same()
    _added(_hooked_way(new).hooks, hook)
    return new


class _Hooked:
    """The way of a gradient from a result with hooks to what it was before."""

    def __init__(self, before: TensorCore, owner: TensorCore) -> None:
        self.before, self.hooks = before, dict[int, Callable[[Any], Any]]()
        self.owner = weakref.ref(owner)

    def __call__(self, value: Any, gradient: Any) -> list[tuple[Any, Any]]:
        return [(self.before, hooked(gradient, self.hooks))]


def _hooked_way(result: TensorCore) -> _Hooked:
    """From now on the result is a node of its own, at which hooks are called and rules do not go on."""
    history = result._past()
    before = result._new(result.uop, history, result._device)
    before._requires_grad = True
    result._uop = own_node(before.uop)
    way = _Hooked(before, result)
    result._history = join(history, GradientPoint(result._uop, history, pullback=way))
    return way


def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> Handle:
    """Let `backward` call `hook` with this leaf when its `.grad` has the gradient.

    Raises GradientError for a tensor that is not a leaf with a gradient.

    >>> from rulegrad import Tensor
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> _ = x.register_post_accumulate_grad_hook(lambda leaf: print(leaf.grad.tolist()))
    >>> _ = (x * 3).sum().backward()
    [3.0, 3.0]
    """
    if not self._leaf:
        raise GradientError("register_post_accumulate_grad_hook: this tensor is not a leaf that requires a gradient")
    return _added(_hooks_of(self, _after), hook)


def hooked(gradient: Any, hooks: Hooks) -> Any:
    """The gradient when hooks have seen it. Raises GradientError, ShapeError for a value that cannot be one."""
    for hook in tuple(hooks.values()):
        found = hook(gradient)
        if found is None:
            continue
        if not isinstance(found, TensorCore):
            raise GradientError(f"a hook returned {type(found).__name__}; return the gradient, a tensor, or None")
        if found.shape != gradient.shape:
            raise ShapeError(f"a hook returned a gradient of shape {found.shape} for one of shape {gradient.shape}")
        gradient = found
    return gradient


def of_leaf(leaf: TensorCore) -> Hooks | None:
    """The hooks of a leaf that see its gradient."""
    return _of_leaves.get(id(leaf))


def accumulated(leaf: TensorCore) -> None:
    """Calls the hooks of a leaf whose `.grad` has a new gradient."""
    for hook in tuple(_after.get(id(leaf), {}).values()):
        hook(leaf)


def _hooks_of(leaf: TensorCore, known: dict[int, Hooks]) -> Hooks:
    if id(leaf) not in known:
        known[id(leaf)] = {}
        weakref.finalize(leaf, known.pop, id(leaf), None).atexit = False
    return known[id(leaf)]


def _added(hooks: Hooks, hook: Callable[[Any], Any]) -> Handle:
    number = next(_numbers)
    hooks[number] = hook
    return Handle(hooks, number)
