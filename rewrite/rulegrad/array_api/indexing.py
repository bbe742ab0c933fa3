"""Indexing functions: take, take_along_axis."""

from __future__ import annotations

from rulegrad.errors import DtypeError, ShapeError
from rulegrad.tensor.axes import one_axis
from rulegrad.tensor.operands import broadcast_shapes

from .operands import Array, array

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
    place = one_axis(0 if axis is None else axis, values.ndim, "take")
    if not places.dtype.is_integer:
        raise DtypeError(f"take: indices of dtype {places.dtype}; give integers")
    result: Array = values[(slice(None),) * place + (places,)]
    return result


def take_along_axis(x: Array, indices: Array, /, axis: int = -1) -> Array:
    """The elements of `x` along `axis` at `indices`, which has as many axes; the other axes broadcast.

    Raises ShapeError, DtypeError, IndexRangeError.

    >>> from rulegrad import array_api as xp
    >>> x = xp.asarray([[3, 1, 2], [9, 7, 8]])
    >>> xp.take_along_axis(x, xp.argsort(x)).tolist()
    [[1, 2, 3], [7, 8, 9]]
    """
    values, places = array(x, "take_along_axis"), array(indices, "take_along_axis")
    if values.ndim != places.ndim:
        raise ShapeError(f"take_along_axis: indices of shape {places.shape} for an array of shape {values.shape}")
    if not places.dtype.is_integer:
        raise DtypeError(f"take_along_axis: indices of dtype {places.dtype}; give integers")
    place = one_axis(axis, values.ndim, "take_along_axis")
    others = [shape[:place] + (1,) + shape[place + 1 :] for shape in (values.shape, places.shape)]
    common = broadcast_shapes("take_along_axis", *others)
    values, places = (
        one.expand(common[:place] + (one.shape[place],) + common[place + 1 :]) for one in (values, places)
    )
    result: Array = values.take_along_axis(places, place)
    return result
