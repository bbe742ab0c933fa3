"""Searching functions: places of extremes and of non-zero elements, selection."""

from __future__ import annotations

from typing import Any

from rulegrad.errors import ShapeError
from rulegrad.tensor import Tensor
from rulegrad.tensor.storage import Scalar

from .operands import Array, array, of_arrays, ordered

__all__ = ["argmax", "argmin", "count_nonzero", "nonzero", "searchsorted", "where"]


argmax = of_arrays(Tensor.argmax, "axis * keepdims", ordered)
argmin = of_arrays(Tensor.argmin, "axis * keepdims", ordered)
count_nonzero = of_arrays(Tensor.count_nonzero, "axis * keepdims")


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """The places of the elements that are not zero, in row-major order: one array of int64 for each axis.

    The shape depends on the values, so this computes `x` and waits for it. Raises ShapeError for no axes.

    >>> from rulegrad import array_api as xp
    >>> [places.tolist() for places in xp.nonzero(xp.asarray([[0, 1], [1, 0]]))]
    [[0, 1], [1, 0]]
    """
    values = array(x, "nonzero")
    if not values.ndim:
        raise ShapeError("nonzero: an array without axes has no places; compare it with 0, or reshape it to (1,)")
    found: tuple[Array, ...] = tuple(values.nonzero(as_tuple=True))
    return found


def searchsorted(x1: Array, x2: Array | Scalar, /, *, side: str = "left", sorter: Array | None = None) -> Array:
    """Where the elements of `x2` belong in the sorted vector `x1` (int64), before equal ones or after ("right").

    sorter: the order in which `x1` is sorted, when it is not. Raises ShapeError, ValueError for another side.

    >>> from rulegrad import array_api as xp
    >>> xp.searchsorted(xp.asarray([1, 3, 5]), xp.asarray([3, 4])).tolist()
    [1, 2]
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side is {side!r}; use 'left' or 'right'")
    ordered = array(x1, "searchsorted")
    if ordered.ndim != 1:
        raise ShapeError(f"searchsorted: the shape of x1 is {ordered.shape}; give a sorted array of one axis")
    wanted = x2 if isinstance(x2, Tensor) else Tensor(x2)
    right: Any = side
    result: Array = ordered.searchsorted(wanted, side=right, sorter=sorter)
    return result


def where(condition: Array, x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The elements of `x1` where the condition is true, those of `x2` elsewhere; shapes and dtypes are joined.

    >>> from rulegrad import array_api as xp
    >>> xp.where(xp.asarray([True, False]), xp.asarray([1, 2]), 0).tolist()
    [1, 0]
    """
    return Tensor.where(array(condition, "where"), x1, x2)
