"""Sorting functions: sort, argsort."""

from __future__ import annotations

from rulegrad.tensor import Tensor

from .operands import Array, array, of_arrays

__all__ = ["argsort", "sort"]


def sort(x: Array, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Array:
    """The elements along `axis` in order; nan last (first with `descending`). Always stable.

    >>> from rulegrad import array_api as xp
    >>> xp.sort(xp.asarray([3, 1, 2]), descending=True).tolist()
    [3, 2, 1]
    """
    values: Array = array(x, "sort").sort(axis, descending).values
    return values


argsort = of_arrays(Tensor.argsort, "axis * descending stable")
