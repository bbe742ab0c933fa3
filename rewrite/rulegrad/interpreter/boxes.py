"""Boxes of arrays, as they are copied to local memory: in lines of 128 bytes, whose places are exchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rulegrad.interpreter.fragments import xor_swizzled

_BYTES_OF_A_PLACE = 16
_PLACES = 3  # as powers of 2: eight places on a line, exchanged by eight lines


def box_of(
    array: np.ndarray[Any, Any], sizes: Sequence[int], box: Sequence[int], begin: Sequence[int]
) -> np.ndarray[Any, Any]:
    """The elements of a box that begins at these indices; 0 outside of the sizes.

    >>> box_of(np.arange(6).reshape(2, 3), (2, 2), (2, 2), (1, 1))
    array([[4, 0],
           [0, 0]])
    """
    found = np.zeros(box, array.dtype)
    indices = [np.arange(first, first + count) for first, count in zip(begin, box, strict=True)]
    inside = [(index >= 0) & (index < size) for index, size in zip(indices, sizes, strict=True)]
    there = [index[mask] for index, mask in zip(indices, inside, strict=True)]
    found[np.ix_(*inside)] = array[np.ix_(*there)]
    return found


def places(first: int, count: int, itemsize: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Where the elements of a box lie in local memory that begins at a multiple of 1024 bytes.

    >>> places(64, 9, 2)  # of the second line, whose first two places are exchanged
    array([72, 73, 74, 75, 76, 77, 78, 79, 64])
    """
    vector = (_BYTES_OF_A_PLACE // itemsize).bit_length() - 1
    return np.asarray(xor_swizzled(np.arange(first, first + count), (_PLACES, vector, _PLACES)))
