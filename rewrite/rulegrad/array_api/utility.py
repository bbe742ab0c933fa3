"""Utility functions: all, any, diff."""

from __future__ import annotations

from rulegrad.errors import ShapeError
from rulegrad.ir.dtype import bool_
from rulegrad.tensor.axes import one_axis

from .operands import Array, Axis, array

__all__ = ["all", "any", "diff"]


def all(x: Array, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Whether all elements along `axis` are true (not zero); True for none.

    >>> from rulegrad import array_api as xp
    >>> bool(xp.all(xp.asarray([1, 0])))
    False
    """
    return array(x, "all").all(axis, keepdims)


def any(x: Array, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Whether an element along `axis` is true (not zero); False for none.

    >>> from rulegrad import array_api as xp
    >>> bool(xp.any(xp.asarray([1, 0])))
    True
    """
    return array(x, "any").any(axis, keepdims)


def diff(
    x: Array,
    /,
    n: int = 1,
    axis: int = -1,
    *,
    prepend: Array | None = None,
    append: Array | None = None,
) -> Array:
    """The differences of neighbours along `axis`, `n` times over; of bools, whether they differ.

    prepend, append: arrays of the same shape but for `axis`, joined to `x` first. Raises ShapeError for n < 0.

    >>> from rulegrad import array_api as xp
    >>> xp.diff(xp.asarray([1, 4, 9]), n=2).tolist()
    [2]
    """
    values = array(x, "diff")
    if n < 0:
        raise ShapeError(f"diff: n is {n}; use 0 or more")
    place = one_axis(axis, values.ndim, "diff")
    parts = [part for part in (prepend, values, append) if part is not None]
    if len(parts) > 1:
        values = Array.cat(parts, axis=place)
    for _ in range(min(n, values.shape[place])):
        count = values.shape[place]
        bounds: list[tuple[int, int] | None] = [None] * values.ndim
        bounds[place] = (1, count)
        later = values.shrink(*bounds)
        bounds[place] = (0, count - 1)
        earlier = values.shrink(*bounds)
        values = later != earlier if values.dtype == bool_ else later - earlier
    return values
