"""Reductions: one value for the elements along some axes. `axis`/`keepdims`, or PyTorch's `dim`/`keepdim`."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType, as_dtype, bool_, float32, float64, int64, uint64
from rulegrad.tensor import selections
from rulegrad.tensor.axes import axes_or_dim, axis_or_dim, one_axis, several_axes
from rulegrad.tensor.constants import constant, filled
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.graph_functions import built_once

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor

#: An axis, several, or None for all of them.
Axes = Any


def accumulation_dtype(dtype: DType) -> DType:
    """The dtype in which values of `dtype` are added up: small floats in float32."""
    return float32 if dtype.is_float and dtype.bits < float32.bits else dtype


def _reduce(self: Tensor, op: str, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """The reduction by `op`, in the tensor's own dtype."""
    shape = self.shape
    kept = tuple([1 if k in axes else n for k, n in enumerate(shape)])
    result = self
    if 0 in shape:
        result = _nothing_reduced(self, kept, 0)
    elif kept != shape:
        result = self._result(UOp("REDUCE", (self.uop,), op=op, axes=axes))
    final = kept if keepdims else tuple([n for k, n in enumerate(shape) if k not in axes])
    if final != kept:
        return result._result(UOp("RESHAPE", (result.uop,), shape=final))
    return self._same() if result is self else result


def _nothing_reduced(self: Tensor, kept: tuple[int, ...], identity: int) -> Tensor:
    """The identity in the shape `kept`, which is what no elements give; a gradient goes back to this tensor."""
    whole = filled(kept, identity, self.dtype)
    if not self._requires_grad:
        return self._new(whole, None, self._device)
    none, ends = (0,) * self.ndim, tuple(builtins.min(n, k) for n, k in zip(self.shape, kept))
    part = UOp("SHRINK", (self.uop,), begin=none, end=ends)
    zeros = UOp("PAD", (part,), before=none, after=tuple(k - n for n, k in zip(ends, kept)))
    return self._result(UOp("ADD", (zeros, whole)))


def _accumulate(self: Tensor, op: str, identity: int, axes: tuple[int, ...], keepdims: bool, dtype: Any) -> Tensor:
    result = as_dtype(dtype) if dtype is not None else _sum_dtype(self.dtype)
    if 0 in self.shape:
        kept = tuple(1 if k in axes else n for k, n in enumerate(self.shape))
        return _reduce(_nothing_reduced(self.cast(result), kept, identity), op, axes, keepdims)
    return _reduce(self.cast(accumulation_dtype(result)), op, axes, keepdims).cast(result)


def dim_of_pytorch(axis: Any, dim: Any, keepdim: bool | None) -> int | None:
    """The axis of a reduction that is written in PyTorch's words: named `dim`, or beside `keepdim`; else None."""
    if dim is None and keepdim is not None:
        return axis if isinstance(axis, int) else None
    return dim if isinstance(dim, int) and axis is None else None


def reduced_axes(self: Tensor, axis: Axes, dim: Axes, name: str, default: int | None = None) -> tuple[int, ...]:
    return several_axes(axes_or_dim(axis, dim, name, default), self.ndim, name)


@built_once
def sum(
    self: Tensor,
    axis: Axes = None,
    keepdims: bool = False,
    dtype: Any = None,
    *,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """The sum over `axis`. Bools and small integers give int64 or uint64; float16 adds up in float32.

    >>> from rulegrad import Tensor
    >>> Tensor([[1, 2], [3, 4]]).sum(axis=0).tolist()
    [4, 6]
    """
    return _accumulate(self, "ADD", 0, reduced_axes(self, axis, dim, "sum"), keepdims or keepdim, dtype)


@built_once
def prod(
    self: Tensor,
    axis: Axes = None,
    keepdims: bool = False,
    dtype: Any = None,
    *,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """The product over `axis`, with the dtypes of `sum`.

    >>> Tensor([[1, 2], [3, 4]]).prod(axis=0).tolist()
    [3, 8]
    """
    return _accumulate(self, "MUL", 1, reduced_axes(self, axis, dim, "prod"), keepdims or keepdim, dtype)


@built_once
def mean(
    self: Tensor,
    axis: Axes = None,
    keepdims: bool = False,
    dtype: Any = None,
    *,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """The mean over `axis`; of integers it is float64, as in NumPy, unless `dtype` is given.

    >>> Tensor([[1, 2], [3, 4]]).mean(axis=1).tolist()
    [1.5, 3.5]
    """
    if dtype is not None:
        return self.cast(dtype).mean(axis, keepdims, dim=dim, keepdim=keepdim)
    axes = reduced_axes(self, axis, dim, "mean")
    result = self.dtype if self.dtype.is_inexact else float64
    total = self.sum(axes, keepdims or keepdim, accumulation_dtype(result))
    return (total / element_count(self, axes)).cast(result)


@built_once
def var(
    self: Tensor,
    axis: Axes = None,
    keepdims: bool = False,
    correction: float | None = None,
    *,
    dim: Axes = None,
    keepdim: bool | None = None,
    unbiased: bool | None = None,
    ddof: float | None = None,
) -> Tensor:
    """The variance over `axis`: squared deviations over `n - correction`.

    The correction is 0 by default, as in NumPy and the array API; PyTorch's is 1, which is `correction=1`, its
    `unbiased=True`, or NumPy's `ddof=1` here. It is PyTorch's too beside `dim` and
    `keepdim`, its words. Of complex numbers it is real: the sum of those of the parts. Raises ConfigError for two of
    these names.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, 3.0]).var().item(), Tensor([1.0, 3.0]).var(correction=1).item()
    (1.0, 2.0)
    >>> Tensor([[1.0, 3.0]]).var(axis=1).item(), Tensor([[1.0, 3.0]]).var(dim=1).item()
    (1.0, 2.0)
    """
    axes = reduced_axes(self, axis, dim, "var")
    correction = _correction(correction, unbiased, ddof, dim is not None or keepdim is not None, "var")
    if self.dtype.is_complex:  # the squared sizes of the deviations, which are those of the parts
        kept = keepdims or bool(keepdim)
        return self.real.var(axes, kept, correction) + self.imag.var(axes, kept, correction)
    result = self.dtype if self.dtype.is_float else float64
    wide = self.cast(accumulation_dtype(result))
    deviation = wide - wide.mean(axes, keepdims=True)
    total = deviation.square().sum(axes, keepdims or bool(keepdim))
    return (total / builtins.max(element_count(self, axes) - correction, 0)).cast(result)


@built_once
def std(
    self: Tensor,
    axis: Axes = None,
    keepdims: bool = False,
    correction: float | None = None,
    *,
    dim: Axes = None,
    keepdim: bool | None = None,
    unbiased: bool | None = None,
    ddof: float | None = None,
) -> Tensor:
    """The standard deviation, the square root of `var`: with the correction 0 by default, 1 beside `dim` and `keepdim`.

    >>> Tensor([1.0, 5.0]).std().item()
    2.0
    """
    correction = _correction(correction, unbiased, ddof, dim is not None or keepdim is not None, "std")
    return root_of(self.var(reduced_axes(self, axis, dim, "std"), keepdims or bool(keepdim), correction))


def var_mean(
    self: Tensor, axis: Axes = None, keepdims: bool = False, correction: float | None = None, **names: Any
) -> tuple[Tensor, Tensor]:
    """`(var, mean)` over `axis`, with the arguments of `var`: the correction is 0, and 1 beside `dim` or `keepdim`.

    >>> [part.item() for part in Tensor([1.0, 5.0]).var_mean()]
    [4.0, 3.0]
    """
    names_of_mean = {key: value for key, value in names.items() if key in ("dim", "keepdim")}
    return self.var(axis, keepdims, correction, **names), self.mean(axis, keepdims, **names_of_mean)


def std_mean(
    self: Tensor, axis: Axes = None, keepdims: bool = False, correction: float | None = None, **names: Any
) -> tuple[Tensor, Tensor]:
    """`(std, mean)` over `axis`, with the arguments of `std`: the correction is 0, and 1 beside `dim` or `keepdim`.

    >>> [part.item() for part in Tensor([1.0, 5.0]).std_mean()]
    [2.0, 3.0]
    """
    names_of_mean = {key: value for key, value in names.items() if key in ("dim", "keepdim")}
    return self.std(axis, keepdims, correction, **names), self.mean(axis, keepdims, **names_of_mean)


def root_of(self: Tensor, power: float = 2) -> Tensor:
    """The root of a sum of absolute values to that power; at 0 its gradient is taken as 0."""
    is_zero = UOp("CMPEQ", (self.uop, filled(self.shape, 0, self.dtype)))
    x = UOp("WHERE", (is_zero, filled(self.shape, 1, self.dtype), self.uop))
    root = UOp("SQRT", (x,)) if power == 2 else UOp("POW", (x, constant(1 / power, self.dtype, "norm")))
    zero = 0 if power > 0 else math.inf
    return self._result(UOp("WHERE", (is_zero, filled(self.shape, zero, self.dtype), root)))


@overload
def max(
    self: Tensor, axis: None = None, keepdims: bool = False, *, dim: int, keepdim: bool = False
) -> selections.Selected: ...
@overload
def max(self: Tensor, axis: int, keepdims: bool = False, *, dim: None = None, keepdim: bool) -> selections.Selected: ...
@overload
def max(
    self: Tensor, axis: Axes = None, keepdims: bool = False, *, dim: Sequence[int] | None = None, keepdim: None = None
) -> Tensor: ...
def max(
    self: Tensor, axis: Axes = None, keepdims: bool = False, *, dim: Axes = None, keepdim: bool | None = None
) -> Tensor | selections.Selected:
    """The largest element along `axis`; nan when one is nan. Raises ShapeError for no elements.

    With another tensor in the place of the axis it is `maximum`, as in PyTorch. An axis that is named `dim` is
    PyTorch's, also one beside `keepdim`, and so is the result: (values, indices).

    >>> Tensor([[1, 4], [3, 2]]).max(axis=1).tolist()
    [4, 3]
    >>> values, indices = Tensor([[1, 4], [3, 2]]).max(dim=1); indices.tolist()
    [1, 0]
    """
    named = dim_of_pytorch(axis, dim, keepdim)
    if named is not None:
        need_elements(self, reduced_axes(self, None, named, "max"), "max")
        return selections.largest(self, named, keepdims or bool(keepdim))
    return amax(self, axis, keepdims, dim=dim, keepdim=bool(keepdim))


@built_once
def amax(self: Tensor, axis: Axes = None, keepdims: bool = False, *, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """The largest element along `axis`, whatever the axis is called: `max` without places.

    >>> Tensor([[1, 4], [3, 2]]).amax(dim=1).tolist()
    [4, 3]
    """
    if isinstance(axis, TensorCore) and (axis.ndim or not axis.dtype.is_integer):
        return self.maximum(axis)
    axes = reduced_axes(self, axis, dim, "max")
    need_elements(self, axes, "max")
    return _reduce(self, "MAX", axes, keepdims or keepdim)


@overload
def min(
    self: Tensor, axis: None = None, keepdims: bool = False, *, dim: int, keepdim: bool = False
) -> selections.Selected: ...
@overload
def min(self: Tensor, axis: int, keepdims: bool = False, *, dim: None = None, keepdim: bool) -> selections.Selected: ...
@overload
def min(
    self: Tensor, axis: Axes = None, keepdims: bool = False, *, dim: Sequence[int] | None = None, keepdim: None = None
) -> Tensor: ...
def min(
    self: Tensor, axis: Axes = None, keepdims: bool = False, *, dim: Axes = None, keepdim: bool | None = None
) -> Tensor | selections.Selected:
    """The smallest element along `axis`; nan when one is nan. Raises ShapeError for no elements.

    With another tensor in the place of the axis it is `minimum`, as in PyTorch. An axis that is named `dim` is
    PyTorch's, also one beside `keepdim`, and so is the result: (values, indices).

    >>> Tensor([[1, 4], [3, 2]]).min(axis=1).tolist()
    [1, 2]
    >>> values, indices = Tensor([[1, 4], [3, 2]]).min(dim=1); indices.tolist()
    [0, 1]
    """
    named = dim_of_pytorch(axis, dim, keepdim)
    if named is not None:
        need_elements(self, reduced_axes(self, None, named, "min"), "min")
        return selections.smallest(self, named, keepdims or bool(keepdim))
    return amin(self, axis, keepdims, dim=dim, keepdim=bool(keepdim))


@built_once
def amin(self: Tensor, axis: Axes = None, keepdims: bool = False, *, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """The smallest element along `axis`, whatever the axis is called: `min` without places.

    >>> Tensor([[1, 4], [3, 2]]).amin(dim=1).tolist()
    [1, 2]
    """
    if isinstance(axis, TensorCore) and (axis.ndim or not axis.dtype.is_integer):
        return self.minimum(axis)
    axes = reduced_axes(self, axis, dim, "min")
    need_elements(self, axes, "min")
    return _reduce(self, "MIN", axes, keepdims or keepdim)


@built_once
def any(self: Tensor, axis: Axes = None, keepdims: bool = False, *, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """Whether an element along `axis` is true (not zero).

    >>> Tensor([[0, 1], [0, 0]]).any(axis=1).tolist()
    [True, False]
    """
    axes = several_axes(axis_or_dim(axis, dim, "any"), self.ndim, "any")  # none, where `dim` is empty, as in PyTorch
    return _accumulate(self.cast("bool"), "OR", False, axes, keepdims or keepdim, bool_)


@built_once
def all(self: Tensor, axis: Axes = None, keepdims: bool = False, *, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """Whether all elements along `axis` are true (not zero).

    >>> Tensor([[1, 2], [3, 0]]).all(axis=1).tolist()
    [True, False]
    """
    axes = several_axes(axis_or_dim(axis, dim, "all"), self.ndim, "all")  # none, where `dim` is empty, as in PyTorch
    return _accumulate(self.cast("bool"), "AND", True, axes, keepdims or keepdim, bool_)


# ---- places ----


@built_once
def argmax(
    self: Tensor,
    axis: int | None = None,
    keepdims: bool = False,
    *,
    dim: int | None = None,
    keepdim: bool = False,
) -> Tensor:
    """The place (int64) of the first largest element along `axis`, or in the flat tensor; nan is largest.

    >>> Tensor([1, 5, 3, 5]).argmax().item()
    1
    """
    return _place(self, "MAX", "argmax", axis_or_dim(axis, dim, "argmax"), keepdims or keepdim)


@built_once
def argmin(
    self: Tensor,
    axis: int | None = None,
    keepdims: bool = False,
    *,
    dim: int | None = None,
    keepdim: bool = False,
) -> Tensor:
    """The place (int64) of the first smallest element along `axis`, or in the flat tensor; nan is smallest.

    >>> Tensor([[4, 1], [2, 3]]).argmin(axis=1).tolist()
    [1, 0]
    """
    return _place(self, "MIN", "argmin", axis_or_dim(axis, dim, "argmin"), keepdims or keepdim)


def _place(self: Tensor, op: str, name: str, axis: int | None, keepdims: bool) -> Tensor:
    if axis is None or not self.ndim:
        reduced_axes(self, axis, None, name)
        place = _place(self.flatten(), op, name, 0, keepdims)
        return place.reshape((1,) * self.ndim) if keepdims else place
    k = one_axis(axis, self.ndim, name)
    need_elements(self, (k,), name)
    values, extent = self.detach(), self.shape[k]
    best = _reduce(values, op, (k,), keepdims=True)
    # nan equals nothing, but it wins both comparisons.
    found = (values == best) | (values != values) if self.dtype.is_float else values == best
    # Counted from the end, the first place is the largest number.
    counted = type(self).arange(extent, 0, -1, device=self._device or None)
    counted = counted.reshape(tuple(extent if axis == k else 1 for axis in range(self.ndim)))
    return _reduce(found.where(counted, 0), "MAX", (k,), keepdims).sub(extent, swapped=True)


# ---- helpers ----


def element_count(self: Tensor, axes: tuple[int, ...]) -> int:
    return math.prod(self.shape[k] for k in axes)


def need_elements(self: Tensor, axes: tuple[int, ...], name: str) -> None:
    if element_count(self, axes) == 0:
        raise ShapeError(
            f"{name}: there are no elements along {axes} of the shape {self.shape}, "
            f"and {name} of nothing is not defined"
        )


def _sum_dtype(dtype: DType) -> DType:
    if dtype.is_inexact:
        return dtype
    return uint64 if dtype.kind == "uint" else int64


def _correction(
    correction: float | None, unbiased: bool | None, ddof: float | None, of_pytorch: bool, name: str
) -> float:
    """The correction to the number of elements, under one of its three names; 1 by default in PyTorch's words."""
    named = {"correction": correction, "unbiased": unbiased, "ddof": ddof}
    given = {key: value for key, value in named.items() if value is not None}
    if len(given) > 1:
        raise ConfigError(f"{name}: {' and '.join(given)} are names of one argument; give one of them")
    return float(next(iter(given.values()), of_pytorch))
