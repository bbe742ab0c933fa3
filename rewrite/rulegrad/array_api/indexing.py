"""Indexing functions: take, take_along_axis."""

from __future__ import annotations

from rulegrad.errors import ShapeError
from rulegrad.tensor import Tensor

from .operands import Array, array, of_arrays

__all__ = ["take", "take_along_axis"]


def take(x: Array, indices: Array, /, axis: int | None = None) -> Array:
    """The elements of `x` at `indices` (integers of any shape) along `axis`, which a vector may leave out.

    The axes of `indices` stand in the place of `axis`. Raises ShapeError, DtypeError, IndexRangeError.

    >>> from rulegrad import array_api as xp
    >>> xp.take(xp.asarray([10, 20, 30]), xp.asarray([2, 0])).tolist()
    [30, 10]
    """
    values, places = array(x, "take"), array(indices, "take")
    if axis is None and values.ndim != 1:
        raise ShapeError(f"take: the shape is {values.shape}; name the axis")
    return values.take(places, axis)


take_along_axis = of_arrays(Tensor.take_along_axis, "axis", arrays="x indices")
