"""Statistical functions: sums, products, means and extremes along axes."""

from __future__ import annotations

from typing import Any

from rulegrad.tensor import Tensor

from .operands import Array, Axis, array, inexact, of_arrays, ordered, real_float

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


max = of_arrays(Tensor.max, "axis * keepdims", ordered)
min = of_arrays(Tensor.min, "axis * keepdims", ordered)
mean = of_arrays(Tensor.mean, "axis * keepdims", inexact)
var = of_arrays(Tensor.var, "axis * correction keepdims", real_float, correction=0.0)
std = of_arrays(Tensor.std, "axis * correction keepdims", real_float, correction=0.0)
cumulative_sum = of_arrays(Tensor.cumulative_sum, "axis * dtype include_initial")
cumulative_prod = of_arrays(Tensor.cumulative_prod, "axis * dtype include_initial")
