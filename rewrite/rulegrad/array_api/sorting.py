"""Sorting functions: sort, argsort."""

from __future__ import annotations

from .operands import Array, array

__all__ = ["argsort", "sort"]


def sort(x: Array, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Array:
    """The elements along `axis` in order; nan last (first with `descending`). Always stable.

    >>> from rulegrad import array_api as xp
    >>> xp.sort(xp.asarray([3, 1, 2]), descending=True).tolist()
    [3, 2, 1]
    """
    values: Array = array(x, "sort").sort(axis, descending).values
    return values


def argsort(x: Array, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Array:
    """The places (int64) of the elements along `axis`, in the elements' order. Equal ones keep theirs.

    >>> from rulegrad import array_api as xp
    >>> xp.argsort(xp.asarray([3, 1, 2])).tolist()
    [1, 2, 0]
    """
    return array(x, "argsort").argsort(axis, descending)
