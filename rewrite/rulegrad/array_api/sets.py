"""Set functions: the distinct elements of an array. Their number depends on the values, so these wait for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rulegrad.tensor import Tensor
from rulegrad.tensor.storage import Scalar

from .operands import Array, array

__all__ = ["isin", "unique_all", "unique_counts", "unique_inverse", "unique_values"]


class UniqueAll(NamedTuple):
    """The result of `unique_all`."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`."""

    values: Array
    inverse_indices: Array


def unique_values(x: Array, /) -> Array:
    """The distinct elements, in order. Each nan is distinct from the others, -0.0 and 0.0 are not.

    >>> from rulegrad import array_api as xp
    >>> xp.unique_values(xp.asarray([3, 1, 3])).tolist()
    [1, 3]
    """
    values: Array = _unique(x, "unique_values").values
    return values


def unique_counts(x: Array, /) -> UniqueCounts:
    """The distinct elements, in order, and how often each is there (int64).

    >>> from rulegrad import array_api as xp
    >>> xp.unique_counts(xp.asarray([3, 1, 3])).counts.tolist()
    [1, 2]
    """
    found = _unique(x, "unique_counts")
    return UniqueCounts(found[0], found[3])


def unique_inverse(x: Array, /) -> UniqueInverse:
    """The distinct elements, in order, and for each element of `x` the place of its equal among them (int64).

    >>> from rulegrad import array_api as xp
    >>> xp.unique_inverse(xp.asarray([3, 1, 3])).inverse_indices.tolist()
    [1, 0, 1]
    """
    found = _unique(x, "unique_inverse")
    return UniqueInverse(found[0], found[2])


def unique_all(x: Array, /) -> UniqueAll:
    """The distinct elements, in order; the place of each one's first occurrence in the flat array; for each element
    of `x` the place of its equal among them; and how often each is there. Places and counts are int64.

    >>> from rulegrad import array_api as xp
    >>> [part.tolist() for part in xp.unique_all(xp.asarray([3, 1, 3]))]
    [[1, 3], [1, 0], [1, 0, 1], [1, 2]]
    """
    return _unique(x, "unique_all")


def _unique(x: Array, operation: str) -> UniqueAll:
    values = array(x, operation)
    if not values.dtype.is_complex:
        return UniqueAll(*values.unique_all())
    # Complex numbers have no order of their own; NumPy's is by parts.
    distinct, places, inverse, counts = np.unique(
        values.numpy(), return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    parts = (distinct, places, inverse.reshape(values.shape), counts)
    return UniqueAll(*(Tensor(part, device=values.device) for part in parts))


def isin(x1: Array | Scalar, x2: Array | Scalar, /, *, invert: bool = False) -> Array:
    """Whether each element of `x1` equals one of `x2` (or, with `invert`, none); nan equals nothing.

    >>> from rulegrad import array_api as xp
    >>> xp.isin(xp.asarray([1, 2, 3]), xp.asarray([3, 1])).tolist()
    [True, False, True]
    """
    wanted = x1 if isinstance(x1, Tensor) else Tensor(x1)
    return wanted.isin(x2, invert)
