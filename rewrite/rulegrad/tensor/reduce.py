"""Reductions: one value for the elements along some axes. `axis`/`keepdims`, or PyTorch's `dim`/`keepdim`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType, as_dtype, bool_, float32, float64, int64, uint64
from rulegrad.tensor.axes import axis_or_dim, one_axis, several_axes
from rulegrad.tensor.constants import constant, filled
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.creation import Creation

if TYPE_CHECKING:
    from typing_extensions import Self

#: An axis, several, or None for all of them.
Axes = Any


def accumulation_dtype(dtype: DType) -> DType:
    """The dtype in which values of `dtype` are added up: small floats in float32."""
    return float32 if dtype.is_float and dtype.bits < float32.bits else dtype


class Reduce(Creation):
    """sum, prod, max, min, mean, var, std, any, all, argmax, argmin."""

    __slots__ = ()

    def _reduce(self, op: str, axes: tuple[int, ...], keepdims: bool) -> Self:
        """The reduction by `op`, in the tensor's own dtype."""
        shape = self.shape
        kept = tuple([1 if k in axes else n for k, n in enumerate(shape)])
        result = self
        if 0 in shape:
            result = self._nothing_reduced(kept, 0)
        elif kept != shape:
            result = self._result(UOp("REDUCE", (self.uop,), op=op, axes=axes))
        final = kept if keepdims else tuple([n for k, n in enumerate(shape) if k not in axes])
        if final != kept:
            return result._result(UOp("RESHAPE", (result.uop,), shape=final))
        return self._same() if result is self else result

    def _nothing_reduced(self, kept: tuple[int, ...], identity: int) -> Self:
        """The identity in the shape `kept`, which is what no elements give; a gradient goes back to this tensor."""
        whole = filled(kept, identity, self.dtype)
        if not self._requires_grad:
            return self._new(whole, None, self._device)
        none, ends = (0,) * self.ndim, tuple(min(n, k) for n, k in zip(self.shape, kept))
        part = UOp("SHRINK", (self.uop,), begin=none, end=ends)
        zeros = UOp("PAD", (part,), before=none, after=tuple(k - n for n, k in zip(ends, kept)))
        return self._result(UOp("ADD", (zeros, whole)))

    def _accumulate(self, op: str, identity: int, axes: tuple[int, ...], keepdims: bool, dtype: Any) -> Self:
        result = as_dtype(dtype) if dtype is not None else _sum_dtype(self.dtype)
        if 0 in self.shape:
            kept = tuple(1 if k in axes else n for k, n in enumerate(self.shape))
            return self.cast(result)._nothing_reduced(kept, identity)._reduce(op, axes, keepdims)
        return self.cast(accumulation_dtype(result))._reduce(op, axes, keepdims).cast(result)

    def _axes(self, axis: Axes, dim: Axes, name: str, default: int | None = None) -> tuple[int, ...]:
        return several_axes(axis_or_dim(axis, dim, name, default), self.ndim, name)

    def sum(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        dtype: Any = None,
        *,
        dim: Axes = None,
        keepdim: bool = False,
    ) -> Self:
        """The sum over `axis`. Bools and small integers give int64 or uint64; float16 adds up in float32.

        >>> from rulegrad import Tensor
        >>> Tensor([[1, 2], [3, 4]]).sum(axis=0).tolist()
        [4, 6]
        """
        return self._accumulate("ADD", 0, self._axes(axis, dim, "sum"), keepdims or keepdim, dtype)

    def prod(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        dtype: Any = None,
        *,
        dim: Axes = None,
        keepdim: bool = False,
    ) -> Self:
        """The product over `axis`, with the dtypes of `sum`.

        >>> Tensor([[1, 2], [3, 4]]).prod(axis=0).tolist()
        [3, 8]
        """
        return self._accumulate("MUL", 1, self._axes(axis, dim, "prod"), keepdims or keepdim, dtype)

    def mean(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        dtype: Any = None,
        *,
        dim: Axes = None,
        keepdim: bool = False,
    ) -> Self:
        """The mean over `axis`; of integers it is float64, as in NumPy, unless `dtype` is given.

        >>> Tensor([[1, 2], [3, 4]]).mean(axis=1).tolist()
        [1.5, 3.5]
        """
        if dtype is not None:
            return self.cast(dtype).mean(axis, keepdims, dim=dim, keepdim=keepdim)
        axes = self._axes(axis, dim, "mean")
        result = self.dtype if self.dtype.is_inexact else float64
        total = self.sum(axes, keepdims or keepdim, accumulation_dtype(result))
        return (total / self._count(axes)).cast(result)

    def var(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        correction: float | None = None,
        *,
        dim: Axes = None,
        keepdim: bool = False,
        unbiased: bool | None = None,
        ddof: float | None = None,
    ) -> Self:
        """The variance over `axis`: squared deviations over `n - correction`.

        The correction is 0 by default, as in NumPy and the array API; PyTorch's is 1, which is `correction=1`, its
        `unbiased=True`, or NumPy's `ddof=1` here. Raises ConfigError for two of these names.

        >>> from rulegrad import Tensor
        >>> Tensor([1.0, 3.0]).var().item(), Tensor([1.0, 3.0]).var(correction=1).item()
        (1.0, 2.0)
        """
        axes = self._axes(axis, dim, "var")
        correction = _correction(correction, unbiased, ddof, "var")
        result = self.dtype if self.dtype.is_float else float64
        wide = self.cast(accumulation_dtype(result))
        deviation = wide - wide.mean(axes, keepdims=True)
        total = deviation.square().sum(axes, keepdims or keepdim)
        return (total / max(self._count(axes) - correction, 0)).cast(result)

    def std(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        correction: float | None = None,
        *,
        dim: Axes = None,
        keepdim: bool = False,
        unbiased: bool | None = None,
        ddof: float | None = None,
    ) -> Self:
        """The standard deviation, the square root of `var`: with the correction 0 by default, where PyTorch's is 1.

        >>> Tensor([1.0, 5.0]).std().item()
        2.0
        """
        correction = _correction(correction, unbiased, ddof, "std")
        return self.var(self._axes(axis, dim, "std"), keepdims, correction, keepdim=keepdim)._root()

    def var_mean(
        self, axis: Axes = None, keepdims: bool = False, correction: float | None = None, **names: Any
    ) -> tuple[Self, Self]:
        """`(var, mean)` over `axis`, with the arguments of `var`: the correction is 0 by default, where PyTorch's is 1.

        >>> [part.item() for part in Tensor([1.0, 5.0]).var_mean()]
        [4.0, 3.0]
        """
        names_of_mean = {key: value for key, value in names.items() if key in ("dim", "keepdim")}
        return self.var(axis, keepdims, correction, **names), self.mean(axis, keepdims, **names_of_mean)

    def std_mean(
        self, axis: Axes = None, keepdims: bool = False, correction: float | None = None, **names: Any
    ) -> tuple[Self, Self]:
        """`(std, mean)` over `axis`, with the arguments of `std`: the correction is 0 by default, where PyTorch's is 1.

        >>> [part.item() for part in Tensor([1.0, 5.0]).std_mean()]
        [2.0, 3.0]
        """
        names_of_mean = {key: value for key, value in names.items() if key in ("dim", "keepdim")}
        return self.std(axis, keepdims, correction, **names), self.mean(axis, keepdims, **names_of_mean)

    def _root(self, power: float = 2) -> Self:
        """The root of a sum of absolute values to that power; at 0 its gradient is taken as 0."""
        is_zero = UOp("CMPEQ", (self.uop, filled(self.shape, 0, self.dtype)))
        x = UOp("WHERE", (is_zero, filled(self.shape, 1, self.dtype), self.uop))
        root = UOp("SQRT", (x,)) if power == 2 else UOp("POW", (x, constant(1 / power, self.dtype, "norm")))
        zero = 0 if power > 0 else math.inf
        return self._result(UOp("WHERE", (is_zero, filled(self.shape, zero, self.dtype), root)))

    def max(self, axis: Axes = None, keepdims: bool = False, *, dim: Axes = None, keepdim: bool = False) -> Self:
        """The largest element along `axis`; nan when one is nan. Raises ShapeError for no elements.

        With another tensor in the place of the axis it is `maximum`, as in PyTorch.

        >>> Tensor([[1, 4], [3, 2]]).max(axis=1).tolist()
        [4, 3]
        """
        if isinstance(axis, TensorCore) and (axis.ndim or not axis.dtype.is_integer):
            return self.maximum(axis)
        axes = self._axes(axis, dim, "max")
        self._need_elements(axes, "max")
        return self._reduce("MAX", axes, keepdims or keepdim)

    def min(self, axis: Axes = None, keepdims: bool = False, *, dim: Axes = None, keepdim: bool = False) -> Self:
        """The smallest element along `axis`; nan when one is nan. Raises ShapeError for no elements.

        With another tensor in the place of the axis it is `minimum`, as in PyTorch.

        >>> Tensor([[1, 4], [3, 2]]).min(axis=1).tolist()
        [1, 2]
        """
        if isinstance(axis, TensorCore) and (axis.ndim or not axis.dtype.is_integer):
            return self.minimum(axis)
        axes = self._axes(axis, dim, "min")
        self._need_elements(axes, "min")
        return self._reduce("MIN", axes, keepdims or keepdim)

    def any(self, axis: Axes = None, keepdims: bool = False, *, dim: Axes = None, keepdim: bool = False) -> Self:
        """Whether an element along `axis` is true (not zero).

        >>> Tensor([[0, 1], [0, 0]]).any(axis=1).tolist()
        [True, False]
        """
        return self.cast("bool")._accumulate("OR", False, self._axes(axis, dim, "any"), keepdims or keepdim, bool_)

    def all(self, axis: Axes = None, keepdims: bool = False, *, dim: Axes = None, keepdim: bool = False) -> Self:
        """Whether all elements along `axis` are true (not zero).

        >>> Tensor([[1, 2], [3, 0]]).all(axis=1).tolist()
        [True, False]
        """
        return self.cast("bool")._accumulate("AND", True, self._axes(axis, dim, "all"), keepdims or keepdim, bool_)

    # ---- places ----

    def argmax(
        self,
        axis: int | None = None,
        keepdims: bool = False,
        *,
        dim: int | None = None,
        keepdim: bool = False,
    ) -> Self:
        """The place (int64) of the first largest element along `axis`, or in the flat tensor; nan is largest.

        >>> Tensor([1, 5, 3, 5]).argmax().item()
        1
        """
        return self._place("MAX", "argmax", axis_or_dim(axis, dim, "argmax"), keepdims or keepdim)

    def argmin(
        self,
        axis: int | None = None,
        keepdims: bool = False,
        *,
        dim: int | None = None,
        keepdim: bool = False,
    ) -> Self:
        """The place (int64) of the first smallest element along `axis`, or in the flat tensor; nan is smallest.

        >>> Tensor([[4, 1], [2, 3]]).argmin(axis=1).tolist()
        [1, 0]
        """
        return self._place("MIN", "argmin", axis_or_dim(axis, dim, "argmin"), keepdims or keepdim)

    def _place(self, op: str, name: str, axis: int | None, keepdims: bool) -> Self:
        if axis is None or not self.ndim:
            self._axes(axis, None, name)
            place = self.flatten()._place(op, name, 0, keepdims)
            return place.reshape((1,) * self.ndim) if keepdims else place
        k = one_axis(axis, self.ndim, name)
        self._need_elements((k,), name)
        values, extent = self.detach(), self.shape[k]
        best = values._reduce(op, (k,), keepdims=True)
        # nan equals nothing, but it wins both comparisons.
        found = (values == best) | (values != values) if self.dtype.is_float else values == best
        # Counted from the end, the first place is the largest number.
        counted = type(self).arange(extent, 0, -1, device=self._device or None)
        counted = counted.reshape(tuple(extent if axis == k else 1 for axis in range(self.ndim)))
        return found.where(counted, 0)._reduce("MAX", (k,), keepdims).sub(extent, swapped=True)

    # ---- helpers ----

    def _count(self, axes: tuple[int, ...]) -> int:
        return math.prod(self.shape[k] for k in axes)

    def _need_elements(self, axes: tuple[int, ...], name: str) -> None:
        if self._count(axes) == 0:
            raise ShapeError(
                f"{name}: there are no elements along {axes} of the shape {self.shape}, "
                f"and {name} of nothing is not defined"
            )


def _sum_dtype(dtype: DType) -> DType:
    if dtype.is_inexact:
        return dtype
    return uint64 if dtype.kind == "uint" else int64


def _correction(correction: float | None, unbiased: bool | None, ddof: float | None, name: str) -> float:
    """What is subtracted from the number of elements, under one of its three names."""
    named = {"correction": correction, "unbiased": unbiased, "ddof": ddof}
    given = {key: value for key, value in named.items() if value is not None}
    if len(given) > 1:
        raise ConfigError(f"{name}: {' and '.join(given)} are names of one argument; give one of them")
    return float(next(iter(given.values()), 0) or 0)
