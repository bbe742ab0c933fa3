"""In-place operations: the tensor stands for the result from now on, in every place that holds it.

So do its base and other views of it, see `aliasing`; graphs that were built on the old values keep them. A leaf that
requires a gradient, or a view of one, can only be changed inside `no_grad()`, as in PyTorch: the gradient would be that
of another value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rulegrad.errors import CaptureError, DtypeError, GradientError, ShapeError
from rulegrad.tensor.aliasing import check_writable, leaf_behind, move, renounce, reshape, write
from rulegrad.tensor.axes import integers, one_axis
from rulegrad.tensor.capturing import is_of_outside
from rulegrad.tensor.gradient_mode import gradients_enabled
from rulegrad.tensor.operands import as_operand, as_tensor, broadcast_shapes
from rulegrad.tensor.storage import is_weak_scalar

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor

Function = TypeVar("Function", bound=Callable[..., Any])

_KINDS = ("bool", "uint", "int", "float", "complex")


def in_place(function: Function, name: str = "") -> Function:
    """The in-place form of a function of a tensor: the tensor becomes the result, and is returned.

    name: how errors name it, by default the function's with an underscore.
    """
    shown = name or f"{function.__name__}_"

    @wraps(function)
    def changed(self: Tensor, *arguments: Any, **options: Any) -> Tensor:
        return become(self, function(self, *arguments, **options), shown)

    changed.__name__ = shown
    changed.__doc__ = f"`{function.__name__}` in place: the tensor has the values of the result, and is returned."
    return cast("Function", changed)


def with_in_place(function: Function, name: str = "") -> tuple[Function, Function]:
    """A function of a tensor, and its in-place form. name: that of the row, where the function has another one."""
    return function, in_place(function, f"{name}_" if name else "")


def become(self: Tensor, value: Any, name: str) -> Tensor:
    """Stand for `value`, of this tensor's shape and a dtype of no higher kind, from now on."""
    _check_gradient(self, name)
    check_writable(self, name)
    if value.shape != self.shape:
        raise ShapeError(
            f"{name}: the result has the shape {value.shape}, and the tensor {self.shape}; they must agree"
        )
    if _KINDS.index(value.dtype.kind) > _KINDS.index(self.dtype.kind) and value.dtype != self.dtype:
        raise DtypeError(
            f"{name}: the result is {value.dtype} and does not fit a tensor of {self.dtype}; cast it first"
        )
    write(self, value if value.dtype == self.dtype else value.cast(self.dtype))
    return self


def _check_gradient(self: Tensor, name: str) -> None:
    leaf = leaf_behind(self) if gradients_enabled() else None
    if leaf is not None:
        what = "a leaf" if leaf is self else "a view of a leaf"
        raise GradientError(
            f"{name}: this tensor is {what} that requires a gradient, and cannot be changed in place; "
            "do it inside no_grad(), or use the result of an operation"
        )


def unsqueeze_(self: Tensor, dim: int) -> Tensor:
    """`unsqueeze` in place: the tensor has another axis of size 1. Views of it, and what it is a view of, keep theirs.

    Raises CaptureError inside a captured function for a tensor of outside.

    >>> x = Tensor([1, 2])
    >>> x.unsqueeze_(0).tolist(), x.shape
    ([[1, 2]], (1, 2))
    """
    return _with_shape(self, self.unsqueeze(dim).shape, "unsqueeze_")


def squeeze_(self: Tensor, axis: Any = None, *, dim: Any = None) -> Tensor:
    """`squeeze` in place, as `unsqueeze_`.

    >>> Tensor([[1, 2]]).squeeze_().tolist()
    [1, 2]
    """
    return _with_shape(self, self.squeeze(axis, dim=dim).shape, "squeeze_")


def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """`transpose` in place: two axes are exchanged. Views of it, and what it is a view of, keep theirs.

    Raises CaptureError inside a captured function for a tensor of outside, GradientError for a leaf with a gradient.

    >>> x = Tensor([[1, 2, 3]])
    >>> x.transpose_(0, 1).shape, x.shape
    ((3, 1), (3, 1))
    """
    return _exchanged(self, dim0, dim1, "transpose_")


def t_(self: Tensor) -> Tensor:
    """`t` in place: the transpose of a matrix, as `transpose_`. Raises ShapeError for more axes.

    >>> Tensor([[1, 2, 3]]).t_().tolist()
    [[1], [2], [3]]
    """
    if self.ndim > 2:
        raise ShapeError(f"t_: the shape {self.shape} has more than two axes; use transpose_(dim0, dim1)")
    return self if self.ndim < 2 else _exchanged(self, 0, 1, "t_")


def _exchanged(self: Tensor, dim0: int, dim1: int, name: str) -> Tensor:
    order = list(range(self.ndim))
    first, second = (one_axis(dim, self.ndim, name) for dim in (dim0, dim1))
    order[first], order[second] = second, first
    _check_shape_change(self, name, f"{name[:-1]}()")
    if first != second:
        move(self, ("PERMUTE", None, {"order": tuple(order)}))
    return self


def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Another shape in place: the elements in C order, as many as there is place for, and zeros behind them.

    With as many elements as before, views of it show them still; otherwise they keep those of before for themselves.
    Raises GradientError for a tensor with a gradient, CaptureError inside a captured function for one of outside.

    >>> Tensor([[1, 2], [3, 4]]).resize_(3).tolist(), Tensor([1.0]).resize_(1, 2).tolist()
    ([1, 2, 3], [[1.0, 0.0]])
    """
    shape = tuple(integers(sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes, "resize_"))
    if self.requires_grad:
        raise GradientError("resize_: this tensor requires a gradient; use reshape, or detach it first")
    count = math.prod(shape)
    if count == self.size:
        return _with_shape(self, shape, "resize_", "reshape()")
    _check_shape_change(self, "resize_", "reshape() and cat()")
    kept = self.flatten()[:count]
    more = self.__class__.zeros(count - kept.size, dtype=self.dtype, device=self.device)
    values = self.__class__.cat([kept, more]).reshape(shape)
    renounce(self, values)
    return self


def resize_as_(self: Tensor, other: Tensor, memory_format: Any = None) -> Tensor:
    """`resize_` to the shape of another tensor.

    >>> Tensor([[1, 2], [3, 4]]).resize_as_(Tensor([0, 0])).tolist()
    [1, 2]
    """
    return resize_(self, other.shape)


def _with_shape(self: Tensor, shape: tuple[int, ...], name: str, instead: str = "") -> Tensor:
    _check_shape_change(self, name, instead or f"{name[:-1]}()")
    reshape(self, tuple(shape))
    return self


def _check_shape_change(self: Tensor, name: str, instead: str) -> None:
    _check_gradient(self, name)
    if self._leaf and self._requires_grad and name not in ("unsqueeze_", "squeeze_"):
        raise GradientError(f"{name}: this tensor is a leaf that requires a gradient; write x.data = x.data.{instead}")
    if is_of_outside(self):
        raise CaptureError(f"jit: {name} changes the shape of a tensor that the function was given; use {instead}")


def fill_(self: Tensor, value: Operand) -> Tensor:
    """`value` everywhere, in place: a number, or a tensor of one element.

    >>> Tensor([1.0, 2.0]).fill_(5).tolist()
    [5.0, 5.0]
    """
    return _copied(self, value, "fill_")


def zero_(self: Tensor) -> Tensor:
    """Zeros everywhere, in place.

    >>> Tensor([1.0, 2.0]).zero_().tolist()
    [0.0, 0.0]
    """
    return _copied(self, 0, "zero_")


def copy_(self: Tensor, src: Operand, non_blocking: bool = False) -> Tensor:
    """The values of `src` (broadcast, converted, from any device), in place. non_blocking: PyTorch's; nothing waits.

    >>> Tensor([1.0, 2.0]).copy_(Tensor([3, 4])).tolist()
    [3.0, 4.0]
    """
    return _copied(self, src, "copy_")


def _copied(self: Tensor, source: Operand, name: str) -> Tensor:
    found: Any = as_operand(self, source, name)
    if is_weak_scalar(found):
        found = self.full_like(found)
    if broadcast_shapes(name, self.shape, found.shape) != self.shape:
        raise ShapeError(f"{name}: values of shape {found.shape} do not fit a tensor of shape {self.shape}")
    if found._device and found.device != self.device:
        found = found.to(self.device)
    return become(self, found.expand(self.shape).cast(self.dtype), name)


def fill_diagonal_(self: Tensor, fill_value: float) -> Tensor:
    """The diagonal of the last two axes filled with a number, in place.

    >>> Tensor([[1, 2], [3, 4]]).fill_diagonal_(0).tolist()
    [[0, 2], [3, 0]]
    """
    rows, columns = self.shape[-2:] if self.ndim > 1 else self.shape * 2
    places = [self.arange(n, device=self._device or None) for n in (rows, columns)]
    return become(self, self.masked_fill(places[0].unsqueeze(1) == places[1], fill_value), "fill_diagonal_")


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """`callable` of each element, as a number of Python, in place: a loop on the host, as in PyTorch.

    >>> Tensor([1.0, 2.0]).apply_(lambda number: number * 10).tolist()
    [10.0, 20.0]
    """
    return _of_numbers(self, [callable(one) for one in self.flatten().tolist()], "apply_")


def map_(self: Tensor, tensor: Operand, callable: Callable[[Any, Any], Any]) -> Tensor:
    """`callable` of each element and the one of `tensor` at its place (broadcast), in place: a loop on the host.

    >>> Tensor([1.0, 2.0]).map_(Tensor([3.0, 4.0]), max).tolist()
    [3.0, 4.0]
    """
    others = as_tensor(self, tensor, "map_").expand(self.shape)
    pairs = zip(self.flatten().tolist(), others.flatten().tolist())
    return _of_numbers(self, [callable(one, other) for one, other in pairs], "map_")


def _of_numbers(self: Tensor, numbers: list[Any], name: str) -> Tensor:
    return become(self, self.new_tensor(numbers, dtype=self.dtype).reshape(self.shape), name)
