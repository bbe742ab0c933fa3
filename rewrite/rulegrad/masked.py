"""Reductions and normalizations of the elements that a mask counts, under PyTorch's names (`torch.masked`).

mask: bools that broadcast to the input: the elements where it is True count; without one, all do. dim: an axis,
several, or (by default) all. dtype: that of the result; by default that of the input, of places too. Where nothing
counts, the result is that of nothing: 0 of `sum`, 1 of `prod`, -inf of `amax`, nan of `mean`. All raise ShapeError for
a mask that does not broadcast and for axes that do not exist, DtypeError for values that are not tensors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from rulegrad.errors import DtypeError, ShapeError
from rulegrad.ir.dtype import DType, as_dtype, float32
from rulegrad.ir.limits import extremes
from rulegrad.tensor.axes import one_axis, several_axes
from rulegrad.tensor.linalg.norms import vector_norm
from rulegrad.tensor.operands import as_tensor, broadcast_shapes
from rulegrad.tensor.storage import default_float
from rulegrad.tensor.tensor import Tensor

Axes: TypeAlias = "int | Sequence[int] | None"

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


# ---- reductions ----


def sum(input: Tensor, dim: Axes = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The sum of the counted elements.

    >>> from rulegrad import Tensor, masked
    >>> masked.sum(Tensor([[1, 2], [3, 4]]), 1, mask=Tensor([[True, False], [True, True]])).tolist()
    [1, 7]
    """
    return _filled(input, mask, 0, "sum").sum(_axes(dim, input, "sum"), keepdim, _dtype(input, dtype))


def prod(input: Tensor, dim: Axes = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The product of the counted elements.

    >>> from rulegrad import Tensor
    >>> prod(Tensor([[1, 2], [3, 4]]), 1, mask=Tensor([[True, False], [True, True]])).tolist()
    [1, 12]
    """
    return _filled(input, mask, 1, "prod").prod(_axes(dim, input, "prod"), keepdim, _dtype(input, dtype))


def amax(input: Tensor, dim: Axes = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The largest of the counted elements; the least number of the dtype (-inf) where there is none.

    >>> from rulegrad import Tensor
    >>> amax(Tensor([[1.0, 2.0], [3.0, 4.0]]), 1, mask=Tensor([[True, False], [False, False]])).tolist()
    [1.0, -inf]
    """
    filled = _filled(input, mask, extremes(input.dtype)[0], "amax")
    return filled.max(_axes(dim, input, "amax"), keepdim).cast(_dtype(input, dtype))


def amin(input: Tensor, dim: Axes = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The smallest of the counted elements; the largest number of the dtype (inf) where there is none.

    >>> from rulegrad import Tensor
    >>> amin(Tensor([[1, 2], [3, 4]]), 1, mask=Tensor([[False, True], [True, True]])).tolist()
    [2, 3]
    """
    filled = _filled(input, mask, extremes(input.dtype)[1], "amin")
    return filled.min(_axes(dim, input, "amin"), keepdim).cast(_dtype(input, dtype))


def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The place of the largest of the counted elements, in the dtype of the input unless another is given.

    >>> from rulegrad import Tensor
    >>> argmax(Tensor([[1, 2], [3, 4]]), 1, mask=Tensor([[True, False], [True, True]])).tolist()
    [0, 1]
    """
    filled = _filled(input, mask, extremes(input.dtype)[0], "argmax")
    return filled.argmax(dim, keepdim).cast(_dtype(input, dtype))


def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The place of the smallest of the counted elements, in the dtype of the input unless another is given.

    >>> from rulegrad import Tensor
    >>> argmin(Tensor([[1, 2], [3, 4]]), 1, mask=Tensor([[False, True], [True, True]])).tolist()
    [1, 0]
    """
    filled = _filled(input, mask, extremes(input.dtype)[1], "argmin")
    return filled.argmin(dim, keepdim).cast(_dtype(input, dtype))


def mean(input: Tensor, dim: Axes = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The mean of the counted elements; nan where there is none. Raises DtypeError for integers, without a `dtype`.

    >>> from rulegrad import Tensor
    >>> mean(Tensor([[1.0, 2.0], [3.0, 4.0]]), 1, mask=Tensor([[True, False], [True, True]])).tolist()
    [1.0, 3.5]
    """
    wanted = _dtype(input, dtype)
    if not wanted.is_inexact:
        raise DtypeError(f"mean: {wanted} cannot hold a mean; give the dtype of the result, as dtype='float32'")
    total = sum(input, dim, keepdim=keepdim, dtype=wanted, mask=mask)
    return (total / _count(input, mask, dim, keepdim, "mean")).cast(wanted)


def var(
    input: Tensor,
    dim: Axes = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Tensor:
    """The variance of the counted elements: divided by their number less `correction`, by default 1, as in PyTorch.

    >>> from rulegrad import Tensor
    >>> var(Tensor([1.0, 3.0, 100.0]), mask=Tensor([True, True, False])).item()
    2.0
    """
    if unbiased is not None and correction is not None:
        raise ShapeError("var: unbiased and correction are two names of one argument; give one of them")
    less = correction if correction is not None else 1.0 if unbiased is None else float(unbiased)
    wanted = _dtype(input, dtype) if dtype is not None or input.dtype.is_inexact else default_float()
    exact = wanted if wanted.is_inexact else default_float()
    total = sum(input, dim, keepdim=True, dtype=exact, mask=mask)
    deviation = input - total / _count(input, mask, dim, True, "var")
    squares = sum((deviation * deviation.conj()).cast(exact), dim, keepdim=keepdim, dtype=exact, mask=mask)
    count = _count(input, mask, dim, keepdim, "var").cast(squares.real.dtype if exact.is_complex else exact)
    return (squares / (count - less).clip(0, None)).cast(wanted)


def std(
    input: Tensor,
    dim: Axes = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Tensor:
    """The square root of `var`.

    >>> from rulegrad import Tensor
    >>> std(Tensor([1.0, 3.0, 100.0]), unbiased=False, mask=Tensor([True, True, False])).item()
    1.0
    """
    squares = var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask)
    return squares.sqrt().cast(squares.dtype)


def norm(
    input: Tensor,
    ord: float = 2.0,
    dim: Axes = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Tensor:
    """The norm of the vector of the counted elements, of the order `ord`.

    >>> from rulegrad import Tensor
    >>> norm(Tensor([3.0, 4.0, 5.0]), mask=Tensor([True, True, False])).item()
    5.0
    """
    filled = _filled(input, mask, math.inf if ord == -math.inf else 0, "norm").cast(_dtype(input, dtype))
    return vector_norm(filled, ord, _axes(dim, input, "norm"), keepdim)


def median(input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The lower of the counted elements in the middle, as in PyTorch; nan where none is counted.

    >>> from rulegrad import Tensor
    >>> median(Tensor([5.0, 1.0, 3.0, 9.0]), mask=Tensor([True, True, False, True])).item()
    5.0
    """
    wanted = _dtype(input, dtype)
    wide = input if input.dtype.is_float else input.cast(float32)
    axis = one_axis(dim, input.ndim, "median", of_scalar=True)
    if not input.ndim:
        return median(wide.reshape(1), 0, dtype=wanted, mask=mask)
    ordered = _filled(wide, mask, math.nan, "median").sort(axis)[0]
    count = (~ordered.isnan()).sum(axis, keepdims=True)
    middle: Tensor = ordered.take_along_axis(((count - 1) // 2).clip(0, None), axis)
    return (middle if keepdim else middle.squeeze(axis)).cast(wanted)


def logsumexp(input: Tensor, dim: Axes = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The logarithm of the sum of the exponentials of the counted elements.

    >>> from rulegrad import Tensor
    >>> logsumexp(Tensor([1.0, 2.0]), mask=Tensor([True, False])).item()
    1.0
    """
    filled = _filled(input, mask, extremes(input.dtype)[0], "logsumexp")
    return filled.logsumexp(_axes(dim, input, "logsumexp"), keepdim).cast(_dtype(input, dtype))


# ---- as many results as elements ----


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The sums of the counted elements up to each place.

    >>> from rulegrad import Tensor
    >>> cumsum(Tensor([1, 2, 3]), 0, mask=Tensor([True, False, True])).tolist()
    [1, 1, 4]
    """
    return _filled(input, mask, 0, "cumsum").cast(_dtype(input, dtype)).cumsum(dim).cast(_dtype(input, dtype))


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The products of the counted elements up to each place.

    >>> from rulegrad import Tensor
    >>> cumprod(Tensor([2, 3, 4]), 0, mask=Tensor([True, False, True])).tolist()
    [2, 2, 8]
    """
    return _filled(input, mask, 1, "cumprod").cast(_dtype(input, dtype)).cumprod(dim).cast(_dtype(input, dtype))


def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The exponentials of the counted elements as shares of their sum; 0 elsewhere, nan where none is counted.

    >>> from rulegrad import Tensor
    >>> softmax(Tensor([1.0, 1.0, 9.0]), 0, mask=Tensor([True, True, False])).tolist()
    [0.5, 0.5, 0.0]
    """
    filled = _filled(input, mask, extremes(input.dtype)[0], "softmax")
    return filled.softmax(dim, _dtype(input, dtype))


def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """`softmax` of the negative.

    >>> from rulegrad import Tensor
    >>> softmin(Tensor([1.0, 1.0, -9.0]), 0, mask=Tensor([True, True, False])).tolist()
    [0.5, 0.5, 0.0]
    """
    filled = _filled(input, mask, extremes(input.dtype)[1], "softmin")
    return filled.softmin(dim, _dtype(input, dtype))


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The logarithm of `softmax`.

    >>> from rulegrad import Tensor
    >>> log_softmax(Tensor([1.0, 9.0]), 0, mask=Tensor([True, False])).tolist()
    [0.0, -inf]
    """
    filled = _filled(input, mask, extremes(input.dtype)[0], "log_softmax")
    return filled.log_softmax(dim, _dtype(input, dtype))


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The counted elements divided by their norm along `dim`, or by `eps` where that is smaller; 0 elsewhere.

    >>> from rulegrad import Tensor
    >>> normalize(Tensor([3.0, 4.0, 5.0]), 1.0, 0, mask=Tensor([True, False, True])).tolist()
    [0.375, 0.0, 0.625]
    """
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(input, mask, 0, "normalize") / length.clip(eps, None)


def logaddexp(
    input: Tensor, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None
) -> Tensor:
    """`log(exp(input) + exp(other))`, where what a mask does not count adds nothing.

    >>> from rulegrad import Tensor
    >>> logaddexp(Tensor([1.0, 2.0]), Tensor([9.0, 9.0]), other_mask=Tensor([False, False])).tolist()
    [1.0, 2.0]
    """
    second = as_tensor(input, other, "logaddexp")
    first = _filled(input, input_mask, extremes(input.dtype)[0], "logaddexp")
    second = _filled(second, other_mask, extremes(second.dtype)[0], "logaddexp")
    return first.logaddexp(second).cast(_dtype(input, dtype))


# ---- arguments ----


def _mask(input: Tensor, mask: Any, name: str) -> Tensor:
    """The mask as bools, of the shape of the input."""
    counted = as_tensor(input, mask, name).cast("bool")
    if broadcast_shapes(name, input.shape, counted.shape) != input.shape:
        raise ShapeError(f"{name}: a mask of shape {counted.shape} for the shape {input.shape}; give one that fits in")
    return counted.expand(*input.shape)


def _filled(input: Tensor, mask: Any, value: float, name: str) -> Tensor:
    """The input, with `value` where the mask does not count."""
    if not isinstance(input, Tensor):
        raise DtypeError(f"{name}: a {type(input).__name__} has no mask; give a tensor")
    return input if mask is None else _mask(input, mask, name).where(input, value)


def _count(input: Tensor, mask: Any, dim: Axes, keepdim: bool, name: str) -> Tensor:
    """How many elements count."""
    counted = input.full_like(True, "bool") if mask is None else _mask(input, mask, name)
    return counted.sum(_axes(dim, input, name), keepdim)


def _axes(dim: Axes, input: Tensor, name: str) -> tuple[int, ...]:
    """As in PyTorch, no axes are all axes."""
    return several_axes(None if dim == () else dim, input.ndim, name)


def _dtype(input: Tensor, dtype: Any) -> DType:
    return input.dtype if dtype is None else as_dtype(dtype)
