"""Functions that the standard does not have, and that SciPy and xarray look for in a namespace all the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from rulegrad.errors import ShapeError

from .operands import Array, array

__all__ = ["diag", "einsum", "pad", "transpose"]


def diag(x: Array, /, k: int = 0) -> Array:
    """The diagonal `k` of a matrix, or the matrix with a vector there and zeros elsewhere. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.diag(xp.asarray([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    return array(x, "diag").diag(k)


def einsum(subscripts: str, /, *operands: Array) -> Array:
    """Sums of products, by Einstein's notation. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.einsum("ij,ij->i", xp.ones((2, 3)), xp.ones((2, 3))).tolist()
    [3.0, 3.0]
    """
    result: Array = Array.einsum(subscripts, *(array(one, "einsum") for one in operands))
    return result


def pad(x: Array, /, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Array:
    """`x` surrounded by constants or by its own elements, as NumPy's function of that name does it.

    pad_width: a number, a pair (before, after), or a pair for each axis; constant_values likewise. mode: "constant",
    "edge", "reflect", "symmetric" or "wrap". Raises ShapeError, ConfigError for another mode.

    >>> from rulegrad import array_api as xp
    >>> xp.pad(xp.asarray([1, 2]), (1, 2), constant_values=(7, 8)).tolist()
    [7, 1, 2, 8, 8]
    """
    result = array(x, "pad")
    widths, values = (_pairs(one, result.ndim, "pad") for one in (pad_width, constant_values))
    if mode != "constant" or len({value for both in values for value in both}) < 2:
        return result.pad(widths, mode, values[0][0] if values else 0)
    for axis, (width, value) in enumerate(zip(widths, values, strict=True)):
        for side in (0, 1):
            one = [(0, 0)] * result.ndim
            one[axis] = (0, width[1]) if side else (width[0], 0)
            result = result.pad(one, mode, value[side])
    return result


def transpose(x: Array, /, axes: tuple[int, ...] | None = None) -> Array:
    """The axes of `x` in another order, the opposite one unless it is given. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.transpose(xp.ones((2, 3, 4))).shape, xp.transpose(xp.ones((2, 3, 4)), (0, 2, 1)).shape
    ((4, 3, 2), (2, 4, 3))
    """
    one = array(x, "transpose")
    return one.permute(tuple(reversed(range(one.ndim))) if axes is None else axes)


def _pairs(given: Any, ndim: int, operation: str) -> list[tuple[Any, Any]]:
    """A number, a pair, or a pair for each axis, as pairs for each axis."""
    try:
        return [(before, after) for before, after in np.broadcast_to(np.asarray(given), (ndim, 2)).tolist()]
    except ValueError:
        raise ShapeError(
            f"{operation}: {given!r} is not a number, not a pair, and not a list of {ndim} pairs"
        ) from None
