"""Functions of tensors whose graph depends on shapes, dtypes and options alone: made once for each kind of arguments.

A convolution is thirty operations, each of which checks its arguments. From the second call of a kind on, the engine
puts the graph of such a function together from that of placeholders.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from typing import Any, Final, NamedTuple, TypeVar, cast

from rulegrad._core import Template
from rulegrad.config import config
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType, as_dtype
from rulegrad.runtime import source_lines
from rulegrad.tensor import autocasting
from rulegrad.tensor.constants import filled
from rulegrad.tensor.core import TensorCore, common_device
from rulegrad.tensor.gradient_mode import gradients_enabled
from rulegrad.tensor.history import join

F = TypeVar("F", bound=Callable[..., Any])

_MOST: Final = 1000  # kinds of arguments of a function
_LONGEST: Final = 64  # parts of an argument; a longer list is data
_FIRST: Final = 1000  # placeholders of other functions have numbers below it
_ATOMS: Final = (type(None), type(...), bool, int, str, DType)


class _Built(NamedTuple):
    """The graph of a function for a kind of arguments."""

    template: Template
    tracked: bool  # whether gradients flow through it
    checks: tuple[Template, ...]  # of indices, whose errors name the user's line

    def of(self, tensors: Sequence[TensorCore]) -> TensorCore:
        first, *others = tensors
        history, device = first._past(), first._device
        uops = [tensor.uop for tensor in tensors]
        uop = self.template.of(uops)
        for check in self.checks:
            source_lines.note(check.of(uops))
        for other in others:
            history, device = join(history, other._past()), common_device(uop, device, other._device)
        new = type(first)._new(uop, history, device)
        new._requires_grad = self.tracked
        return new


def built_once(function: F) -> F:
    """The function, whose result is one tensor, a new one, and depends on nothing but its arguments."""
    known: dict[Hashable, _Built | None] = {}  # None: seen once, or built in Python each time

    @wraps(function)
    def method(*arguments: Any, **more: Any) -> Any:
        tensors: list[TensorCore] = []
        try:
            kind = (
                *[_kind(value, tensors) for value in arguments],
                *[(name, _kind(value, tensors)) for name, value in more.items()],
                gradients_enabled(), autocasting.autocast_dtype(), config.check_indices,
            )  # fmt: skip
        except TypeError:  # an array, or a list of tensors
            return function(*arguments, **more)
        built = known.get(kind)
        if built is None and kind in known:
            built = known[kind] = _build(function, arguments, more)
        if built is not None:
            return built.of(tensors)
        if len(known) >= _MOST:
            known.clear()
        known[kind] = None
        return function(*arguments, **more)

    return cast("F", method)


def _kind(value: Any, tensors: list[TensorCore]) -> Hashable:
    """What of an argument its graph depends on. Raises TypeError where it is more than that."""
    if isinstance(value, TensorCore):
        tensors.append(value)
        uop = value._uop
        return type(value), uop.shape, uop.dtype, value._requires_grad
    cls = type(value)
    if cls in _ATOMS:
        return cls, value
    if cls is float:
        return cls, repr(value)  # 0.0 is equal to -0.0
    if cls in (tuple, list) and len(value) <= _LONGEST:
        return cls, *[_kind(part, tensors) for part in value]
    if cls is slice:
        return cls, _kind(value.start, tensors), _kind(value.stop, tensors), _kind(value.step, tensors)
    raise TypeError


def _build(function: Callable[..., Any], arguments: tuple[Any, ...], more: dict[str, Any]) -> _Built | None:
    """The graph of a call; None where its result is no new tensor of the arguments' values."""
    names: list[TensorCore] = []
    found = function(
        *[_placed(value, names) for value in arguments], **{key: _placed(value, names) for key, value in more.items()}
    )
    if not isinstance(found, TensorCore):
        return None
    bases = [name for name in names if found._view is not None and found._view.base is name]
    if bases or found._history is not None or any(found is name for name in names):
        return None
    uops = [name.uop for name in names]
    nodes = found.uop.toposort()
    if any(node.op == "BUFFER" for node in nodes):  # of values of a list
        return None
    checks = [node for node in nodes if node.op == "INSIDE"]
    return _Built(Template(found.uop, uops), found._requires_grad, tuple(Template(check, uops) for check in checks))


def _placed(value: Any, names: list[TensorCore]) -> Any:
    """The argument with placeholders for its tensors, in the order of their kinds."""
    if type(value) in (tuple, list):
        return type(value)(_placed(part, names) for part in value)
    if not isinstance(value, TensorCore):
        return value
    nothing = filled(value.shape, 0, as_dtype(value.dtype))
    name = type(value)._new(UOp("ARGUMENT", (nothing,), id=-_FIRST - len(names)), None, value._device)
    name._requires_grad = value._requires_grad
    names.append(name)
    return name
