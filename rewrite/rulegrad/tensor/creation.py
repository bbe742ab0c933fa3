"""Tensors made from nothing: constants, number ranges, the identity matrix."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rulegrad._core import Size
from rulegrad.errors import ConfigError, DtypeError, ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype, float32, float64, int64
from rulegrad.tensor.axes import either, extents, whole_number
from rulegrad.tensor.constants import constant, spread
from rulegrad.tensor.operands import as_operand, number_of
from rulegrad.tensor.storage import Scalar, check_range, default_float, device_name, is_weak_scalar

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor


def full(
    cls: type[Tensor],
    shape: Any,
    fill_value: Scalar,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of `shape` with `fill_value` everywhere; it takes no memory until it is realized.

    The dtype is the value's own by default. Raises ShapeError and DtypeError.

    >>> from rulegrad import Tensor
    >>> Tensor.full((2, 2), 7).tolist()
    [[7, 7], [7, 7]]
    """
    return _filled(cls, extents((shape,), "full"), fill_value, dtype, device, requires_grad, "full")


def _filled(
    cls: type[Tensor],
    shape: tuple[int, ...],
    value: Any,
    dtype: Any,
    device: str | None,
    requires_grad: bool,
    name: str,
) -> Tensor:
    number, own = number_of(value, name)
    wanted = own if dtype is None else as_dtype(dtype)
    node = constant(number, wanted, name)
    if shape:
        node = spread(node, shape)
    new = cls._new(node, None, device_name(device))
    return new.requires_grad_() if requires_grad else new


def zeros(
    cls: type[Tensor],
    *shape: Any,
    size: Any = None,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Zeros of float32 or `dtype`: `Tensor.zeros(2, 3)`, `Tensor.zeros((2, 3))` or `Tensor.zeros(size=(2, 3))`.

    >>> Tensor.zeros(2, 2).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    return _filled(cls, _extents(shape, size, "zeros"), 0, dtype or default_float(), device, requires_grad, "zeros")


def empty(
    cls: type[Tensor],
    *shape: Any,
    size: Any = None,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of this shape whose values do not matter yet: `zeros`, which take no memory until they are changed.

    >>> Tensor.empty(2, 3).shape
    (2, 3)
    """
    return _filled(cls, _extents(shape, size, "empty"), 0, dtype or default_float(), device, requires_grad, "empty")


def ones(
    cls: type[Tensor],
    *shape: Any,
    size: Any = None,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones of float32 or `dtype`.

    >>> Tensor.ones(3, dtype="int32").tolist()
    [1, 1, 1]
    """
    return _filled(cls, _extents(shape, size, "ones"), 1, dtype or default_float(), device, requires_grad, "ones")


def full_like(
    self: Tensor,
    fill_value: Scalar,
    dtype: Any = None,
    *,
    device: str | None = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """`fill_value` everywhere, with the shape, device and dtype of this tensor, unless they are given.

    memory_format: for programs of PyTorch, as in the functions below; memory is in C order.

    >>> Tensor([1, 2]).full_like(7).tolist()
    [7, 7]
    """
    return self.full(self.shape, fill_value, dtype or self.dtype, device or self._device or None, requires_grad)


def zeros_like(
    self: Tensor,
    dtype: Any = None,
    *,
    device: str | None = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Zeros with the shape, dtype and device of this tensor.

    >>> Tensor([1, 2]).zeros_like().tolist()
    [0, 0]
    """
    return self.full_like(0, dtype, device=device, requires_grad=requires_grad)


def ones_like(
    self: Tensor,
    dtype: Any = None,
    *,
    device: str | None = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Ones with the shape, dtype and device of this tensor.

    >>> Tensor([1.5, 2.5]).ones_like().tolist()
    [1.0, 1.0]
    """
    return self.full_like(1, dtype, device=device, requires_grad=requires_grad)


def empty_like(
    self: Tensor,
    dtype: Any = None,
    *,
    device: str | None = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """`empty` with the shape, dtype and device of this tensor: zeros.

    >>> Tensor([1, 2]).empty_like().shape
    (2,)
    """
    return self.full_like(0, dtype, device=device, requires_grad=requires_grad)


def arange(
    cls: type[Tensor],
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: Any = None,
    device: str | None = None,
    *,
    end: float | None = None,
) -> Tensor:
    """`start`, `start + step`, … before `stop` (from 0, with one argument). int64 for ints, else float32.

    end: PyTorch's name of `stop`. Raises ShapeError where it would not end, and DtypeError for numbers that `dtype`
    cannot hold.

    >>> from rulegrad import Tensor
    >>> Tensor.arange(2, 8, 3).tolist()
    [2, 5]
    """
    stop = either(stop, end, "arange", "stop", "end")
    if stop is None:
        start, stop = 0, start
    start, stop, step = (_real(value, "arange") for value in (start, stop, step))
    whole = all(isinstance(value, int) for value in (start, stop, step))
    wanted = (int64 if whole else default_float()) if dtype is None else as_dtype(dtype)
    count = _steps(start, stop, step)
    if wanted.is_integer and count:
        check_range(int(start), wanted, "arange")
        check_range(int(start + step * (count - 1)), wanted, "arange")
    numbers = counted(cls, count, device, "arange")
    if whole:
        return _shifted(numbers, step, start).cast(wanted)
    exact = wanted if wanted.is_float else float32
    return _shifted(numbers.cast(exact), step, start).cast(wanted)


def linspace(
    cls: type[Tensor],
    start: float,
    stop: float | None = None,
    count: int | None = None,
    dtype: Any = None,
    device: str | None = None,
    *,
    end: float | None = None,
    steps: int | None = None,
) -> Tensor:
    """`count` numbers at equal distances from `start` to `stop`, both included.

    end, steps: PyTorch's names of `stop` and `count`. Raises ConfigError where one of them is missing.

    >>> Tensor.linspace(0, 2, 5).tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0]
    """
    stop = either(stop, end, "linspace", "stop", "end")
    count = either(count, steps, "linspace", "count", "steps")
    if stop is None or count is None:
        raise ConfigError("linspace: it needs a start, a stop and a count")
    number = whole_number(count, "linspace")
    start, stop = _real(start, "linspace"), _real(stop, "linspace")
    step = (stop - start) / (number - 1) if number > 1 else 0.0
    wanted = as_dtype(default_float() if dtype is None else dtype)
    exact = wanted if wanted.is_float else float32
    places = counted(cls, number, device, "linspace")
    values = _shifted(places.cast(exact), step, start)
    if number > 1:
        # start + step * (number - 1) is stop only up to rounding.
        values = places.equal(number - 1).where(stop, values)
    return values.cast(wanted)


def eye(
    cls: type[Tensor],
    n: int,
    m: int | None = None,
    dtype: Any = None,
    device: str | None = None,
) -> Tensor:
    """The identity matrix of n rows, or a rectangular part of it with m columns.

    >>> Tensor.eye(2).tolist(), Tensor.eye(1, 3).tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0, 0.0]])
    """
    high = counted(cls, whole_number(n, "eye"), device, "eye")
    wide = high if m is None else counted(cls, whole_number(m, "eye"), device, "eye")
    return (high.unsqueeze(1) == wide).cast(default_float() if dtype is None else dtype)


def counted(cls: type[Tensor], count: int, device: str | None, name: str) -> Tensor:
    """0 … count - 1 as int64, which takes no memory. Raises ShapeError for a count that is not an extent."""
    (extent,) = extents((count,), name)
    return cls._new(UOp("ARANGE", (), "int64", extent=extent), None, device_name(device))


def _extents(shape: tuple[Any, ...], size: Any, name: str) -> tuple[int, ...]:
    """A shape, of which PyTorch's name is `size`."""
    return extents(shape if size is None else (*shape, size), name)


def _real(value: Any, name: str) -> Any:
    """A Python int or float."""
    number, dtype = number_of(value, name)
    if dtype.is_complex:
        raise DtypeError(f"{name}: {number} is complex; give real numbers")
    return number


def _steps(start: float, stop: float, step: float) -> int:
    """How many numbers there are from `start`, `step` apart, before `stop`."""
    if step == 0:
        raise ShapeError("arange: a step of 0 never arrives; use another step")
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        return max(-((start - stop) // step), 0)
    count = (stop - start) / step
    if not math.isfinite(count):
        raise ShapeError(f"arange: from {start} to {stop} by {step} is not a finite count; use finite numbers")
    return max(math.ceil(count), 0)


def _shifted(numbers: Tensor, step: Scalar, start: Scalar) -> Tensor:
    """`start + step * numbers`, without the operations that change nothing."""
    scaled = numbers if step == 1 else numbers * step
    return scaled if start == 0 else scaled + start


def new_tensor(
    self: Tensor, data: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of `data` with this tensor's dtype and device.

    >>> Tensor([0.5]).new_tensor([1, 2]).tolist()
    [1.0, 2.0]
    """
    return type(self)(data, dtype or self.dtype, device or self.device, requires_grad=requires_grad)


def new(self: Tensor, *arguments: Any, device: str | None = None) -> Tensor:
    """PyTorch's constructor of before: a tensor of these values, or of this shape, with this one's dtype and device.

    Integers, and a `size()`, are a shape; a list is of values.

    >>> x = Tensor([0.5])
    >>> x.new(2, 3).shape, x.new(x.size()).shape, x.new([2, 3]).tolist(), x.new().shape
    ((2, 3), (1,), [2.0, 3.0], (0,))
    """
    if len(arguments) == 1 and not isinstance(arguments[0], (int, np.integer, Size)):
        return self.new_tensor(arguments[0], device=device)
    return self.new_empty(*(arguments or (0,)), device=device)


def new_zeros(
    self: Tensor, *shape: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """`zeros` with this tensor's dtype and device.

    >>> Tensor([1, 2]).new_zeros(3).tolist()
    [0, 0, 0]
    """
    how: dict[str, Any] = {"device": device or self.device, "requires_grad": requires_grad}
    return self.zeros(*shape, dtype=dtype or self.dtype, **how)


def new_ones(
    self: Tensor, *shape: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """`ones` with this tensor's dtype and device.

    >>> Tensor([1, 2]).new_ones(1, 3).tolist()
    [[1, 1, 1]]
    """
    how: dict[str, Any] = {"device": device or self.device, "requires_grad": requires_grad}
    return self.ones(*shape, dtype=dtype or self.dtype, **how)


def new_empty(
    self: Tensor, *shape: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """`empty` with this tensor's dtype and device: zeros.

    >>> Tensor([1, 2]).new_empty(3).shape
    (3,)
    """
    how: dict[str, Any] = {"device": device or self.device, "requires_grad": requires_grad}
    return self.empty(*shape, dtype=dtype or self.dtype, **how)


def new_full(
    self: Tensor,
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`full` with this tensor's dtype and device.

    >>> Tensor([0.5]).new_full((2,), 7).tolist()
    [7.0, 7.0]
    """
    return self.full(shape, fill_value, dtype or self.dtype, device or self.device, requires_grad)


def fill(self: Tensor, value: Operand) -> Tensor:
    """A tensor of this shape and dtype with one number everywhere, which may come from a tensor without axes.

    >>> Tensor([1, 2]).fill(7).tolist()
    [7, 7]
    """
    number: Any = as_operand(self, value, "fill")
    if is_weak_scalar(number):
        return self.full_like(number)
    if number.ndim:
        raise ShapeError(f"fill: a value of shape {number.shape}; give one number")
    found: Tensor = number.cast(self.dtype).expand(self.shape)._same()
    return found


def scalar_tensor(cls: type[Tensor], value: Any, dtype: Any = None, device: str | None = None) -> Tensor:
    """A tensor without axes, float32 by default.

    >>> Tensor.scalar_tensor(3).tolist()
    3.0
    """
    return cls.full((), value, default_float() if dtype is None else dtype, device)


def logspace(
    cls: type[Tensor],
    start: float,
    stop: float | None = None,
    count: int | None = None,
    base: float = 10.0,
    dtype: Any = None,
    device: str | None = None,
    *,
    end: float | None = None,
    steps: int | None = None,
) -> Tensor:
    """`count` powers of `base`, with exponents at equal distances from `start` to `stop`, both included.

    end, steps: PyTorch's names of `stop` and `count`.

    >>> Tensor.logspace(0, 2, 3, base=2.0).tolist()
    [1.0, 2.0, 4.0]
    """
    wanted = as_dtype(default_float() if dtype is None else dtype)
    exact = float64 if wanted == float64 else float32
    stop, count = either(stop, end, "logspace", "stop", "end"), either(count, steps, "logspace", "count", "steps")
    return cls.linspace(start, stop, count, exact, device).pow(float(base), swapped=True).cast(wanted)
