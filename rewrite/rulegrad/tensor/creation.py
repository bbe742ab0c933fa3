"""Tensors made from nothing: constants, number ranges, the identity matrix."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from rulegrad.errors import ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype, int64
from rulegrad.tensor.axes import integers, whole_number
from rulegrad.tensor.joining import Joining
from rulegrad.tensor.operands import constant, filled
from rulegrad.tensor.storage import Scalar, default_float, device_name, scalar_dtype

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T", bound=Joining)


class Creation(Joining):
    """zeros, ones, full, arange, linspace, eye, and the same like another tensor."""

    __slots__ = ()

    @classmethod
    def full(
        cls,
        shape: Any,
        value: Scalar,
        dtype: Any = None,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Self:
        """A tensor of `shape` with `value` everywhere; it takes no memory until it is realized.

        >>> from rulegrad import Tensor
        >>> Tensor.full((2, 2), 7).tolist()
        [[7, 7], [7, 7]]
        """
        extents = integers((shape,), "full")
        if min(extents, default=0) < 0:
            raise ShapeError(f"full: {extents} is not a shape; use sizes of 0 or more")
        wanted = scalar_dtype(value) if dtype is None else as_dtype(dtype)
        node = constant(value, wanted, "full")
        if extents:
            node = filled(extents, value if wanted.is_complex else node.attrs["value"], wanted)
        new = cls._new(node, None, device_name(device))
        return new.requires_grad_() if requires_grad else new

    @classmethod
    def zeros(
        cls,
        *shape: Any,
        dtype: Any = default_float,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Self:
        """Zeros of float32 or `dtype`: `Tensor.zeros(2, 3)` or `Tensor.zeros((2, 3))`."""
        return cls.full(integers(shape, "zeros"), 0, dtype, device, requires_grad)

    @classmethod
    def ones(
        cls,
        *shape: Any,
        dtype: Any = default_float,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Self:
        """Ones of float32 or `dtype`."""
        return cls.full(integers(shape, "ones"), 1, dtype, device, requires_grad)

    def full_like(self, value: Scalar, dtype: Any = None) -> Self:
        """`value` everywhere, with the shape, device and (unless `dtype` is given) dtype of this tensor."""
        return self.full(self.shape, value, dtype or self.dtype, self._device or None)

    def zeros_like(self, dtype: Any = None) -> Self:
        """Zeros with the shape, dtype and device of this tensor."""
        return self.full_like(0, dtype)

    def ones_like(self, dtype: Any = None) -> Self:
        """Ones with the shape, dtype and device of this tensor."""
        return self.full_like(1, dtype)

    @classmethod
    def arange(
        cls,
        start: float,
        stop: float | None = None,
        step: float = 1,
        dtype: Any = None,
        device: str | None = None,
    ) -> Self:
        """`start`, `start + step`, … before `stop` (from 0, with one argument). int64 for ints, else float32.

        >>> from rulegrad import Tensor
        >>> Tensor.arange(2, 8, 3).tolist()
        [2, 5]
        """
        if stop is None:
            start, stop = 0, start
        if step == 0:
            raise ShapeError("arange: a step of 0 never arrives; use another step")
        whole = all(isinstance(value, int) for value in (start, stop, step))
        wanted = (int64 if whole else default_float) if dtype is None else as_dtype(dtype)
        count = max(math.ceil((stop - start) / step), 0)
        if whole:
            count = len(range(int(start), int(stop), int(step)))
        numbers = cls._counted(count, device)
        if whole:
            return _shifted(numbers, step, start).cast(wanted)
        exact = wanted if wanted.is_float else default_float
        return _shifted(numbers.cast(exact), step, start).cast(wanted)

    @classmethod
    def linspace(
        cls,
        start: float,
        stop: float,
        count: int,
        dtype: Any = default_float,
        device: str | None = None,
    ) -> Self:
        """`count` numbers at equal distances from `start` to `stop`, both included."""
        number = whole_number(count, "linspace")
        step = (stop - start) / (number - 1) if number > 1 else 0.0
        wanted = as_dtype(dtype)
        exact = wanted if wanted.is_float else default_float
        places = cls._counted(number, device)
        values = _shifted(places.cast(exact), step, start)
        if number > 1:
            # start + step * (number - 1) is stop only up to rounding.
            values = places.equal(number - 1).where(stop, values)
        return values.cast(wanted)

    @classmethod
    def eye(
        cls,
        rows: int,
        columns: int | None = None,
        dtype: Any = default_float,
        device: str | None = None,
    ) -> Self:
        """The identity matrix, or a rectangular part of it."""
        high = cls._counted(whole_number(rows, "eye"), device)
        wide = high if columns is None else cls._counted(whole_number(columns, "eye"), device)
        return (high.unsqueeze(1) == wide).cast(dtype)

    @classmethod
    def _counted(cls, count: int, device: str | None) -> Self:
        """0 … count - 1 as int64, which takes no memory."""
        return cls._new(UOp("ARANGE", (), "int64", extent=max(count, 0)), None, device_name(device))


def _shifted(numbers: T, step: Scalar, start: Scalar) -> T:
    """`start + step * numbers`, without the operations that change nothing."""
    scaled = numbers if step == 1 else numbers * step
    return scaled if start == 0 else scaled + start
