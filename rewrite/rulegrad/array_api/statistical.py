"""Statistical functions: sums, products, means and extremes along axes."""

from __future__ import annotations

from typing import Any

from rulegrad.errors import DtypeError, ShapeError
from rulegrad.ir.dtype import as_dtype
from rulegrad.tensor.axes import one_axis

from .operands import Array, Axis, array, inexact, is_complex, real_float

__all__ = ["cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod", "std", "sum", "var"]


def sum(x: Array, /, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Array:
    """The sum over `axis`, in `dtype`: by default that of `x`, but int64 or uint64 for integers; 0 for no elements.

    >>> from rulegrad import array_api as xp
    >>> int(xp.sum(xp.asarray([100, 100], dtype=xp.int8)))
    200
    """
    values = array(x, "sum")
    return (values if dtype is None else values.cast(dtype)).sum(axis, keepdims, dtype)


def prod(x: Array, /, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Array:
    """The product over `axis`, in `dtype`: as that of `sum`; 1 for no elements.

    >>> from rulegrad import array_api as xp
    >>> int(xp.prod(xp.asarray([2, 3])))
    6
    """
    values = array(x, "prod")
    return (values if dtype is None else values.cast(dtype)).prod(axis, keepdims, dtype)


def max(x: Array, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The largest element along `axis`; nan when one is nan. Raises ShapeError for none, DtypeError for complex.

    >>> from rulegrad import array_api as xp
    >>> xp.max(xp.asarray([[1, 5], [3, 2]]), axis=1).tolist()
    [5, 3]
    """
    return _ordered(x, "max").max(axis, keepdims)


def min(x: Array, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The smallest element along `axis`; nan when one is nan. Raises ShapeError for none, DtypeError for complex.

    >>> from rulegrad import array_api as xp
    >>> xp.min(xp.asarray([[1, 5], [3, 2]]), axis=0).tolist()
    [1, 2]
    """
    return _ordered(x, "min").min(axis, keepdims)


def _ordered(x: Any, operation: str) -> Array:
    values = array(x, operation)
    if is_complex(values.dtype):
        raise DtypeError(f"{operation}: {values.dtype} numbers have no order; take it of abs, real or imag")
    return values


def mean(x: Array, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The mean over `axis` of floating-point values; nan for no elements. Raises DtypeError for other dtypes.

    >>> from rulegrad import array_api as xp
    >>> float(xp.mean(xp.asarray([1.0, 2.0])))
    1.5
    """
    return inexact(x, "mean").mean(axis, keepdims)


def var(x: Array, /, axis: Axis = None, *, correction: int | float = 0.0, keepdims: bool = False) -> Array:
    """The variance over `axis`: squared deviations from the mean, added up, over `n - correction`.

    Raises DtypeError unless the values are real floating-point numbers.

    >>> from rulegrad import array_api as xp
    >>> float(xp.var(xp.asarray([1.0, 3.0]), correction=1))
    2.0
    """
    return real_float(x, "var").var(axis, keepdims, correction)


def std(x: Array, /, axis: Axis = None, *, correction: int | float = 0.0, keepdims: bool = False) -> Array:
    """The standard deviation, the square root of `var`.

    >>> from rulegrad import array_api as xp
    >>> float(xp.std(xp.asarray([1.0, 3.0])))
    1.0
    """
    return real_float(x, "std").std(axis, keepdims, correction)


def cumulative_sum(x: Array, /, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False) -> Array:
    """The sums of the first 1, 2, … elements along `axis`; of the first 0 as well with `include_initial`.

    axis: may be left out for arrays of one axis. dtype: as that of `sum`. Raises ShapeError, DtypeError.

    >>> from rulegrad import array_api as xp
    >>> xp.cumulative_sum(xp.asarray([1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _cumulative(array(x, "cumulative_sum"), "sum", axis, dtype, include_initial)


def cumulative_prod(x: Array, /, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False) -> Array:
    """The products of the first 1, 2, … elements along `axis`; of the first 0 as well with `include_initial`.

    >>> from rulegrad import array_api as xp
    >>> xp.cumulative_prod(xp.asarray([1, 2, 3])).tolist()
    [1, 2, 6]
    """
    return _cumulative(array(x, "cumulative_prod"), "prod", axis, dtype, include_initial)


def _cumulative(x: Array, name: str, axis: int | None, dtype: Any, include_initial: bool) -> Array:
    if x.ndim == 0 or (axis is None and x.ndim > 1):
        raise ShapeError(f"cumulative_{name}: the shape is {x.shape}; name an axis of an array that has one")
    place = one_axis(0 if axis is None else axis, x.ndim, f"cumulative_{name}")
    wanted = _sum_dtype(x) if dtype is None else as_dtype(dtype)
    values: Array = getattr(x.cast(wanted), f"cum{name}")(place).cast(wanted)
    if not include_initial:
        return values
    first = Array.full(tuple(1 if k == place else n for k, n in enumerate(x.shape)), int(name == "prod"), wanted)
    return Array.cat([first.to(values.device), values], axis=place)


def _sum_dtype(x: Array) -> Any:
    """The dtype that `sum` gives."""
    if x.dtype.is_integer or x.dtype == "bool":
        return as_dtype("uint64" if x.dtype.kind == "uint" else "int64")
    return x.dtype
