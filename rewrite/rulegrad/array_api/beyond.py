"""Functions that the standard does not have, and that SciPy and xarray look for in a namespace all the same."""

from __future__ import annotations

from .operands import Array, array

__all__ = ["diag", "einsum"]


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
