"""Matrix instructions on arrays: what the threads of a group hold, as matrices and back, by the layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rulegrad.ir.dtype import as_dtype

if TYPE_CHECKING:
    from rulegrad.interpreter.numerics import Array
    from rulegrad.ir import UOp


def positions(layout: Sequence[int], threads: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Where each element of each thread stands in its matrix, in row-major order: an array (threads, elements).

    A layout has a number for each bit of a thread, then of an element, from the lowest up; the position is the sum of
    the numbers whose bits are set.

    >>> positions([1, 2], 2)  # two threads with two elements each, the threads in neighbouring columns
    array([[0, 2],
           [1, 3]])
    """
    count = threads.bit_length() - 1
    thread, element = np.arange(threads)[:, None], np.arange(1 << (len(layout) - count))
    found = np.zeros((threads, len(element)), np.int64)
    for place, number in enumerate(layout):
        bit = thread >> place if place < count else element >> (place - count)
        found += (bit & 1) * number
    return found


def xor_swizzled(places: np.ndarray[Any, np.dtype[np.int64]], swizzle: Sequence[int]) -> np.ndarray[Any, Any]:
    """Addresses in a block with bits XORed by others: (count, from, distance), or nothing.

    >>> xor_swizzled(np.arange(8), (1, 0, 2))  # bit 0 by bit 2
    array([0, 1, 2, 3, 5, 4, 7, 6])
    """
    if not swizzle:
        return places
    count, first, distance = swizzle
    return places ^ ((places >> (first + distance)) % (1 << count) << first)


def multiply(node: UOp, result: Array, left: Array, right: Array) -> Array:
    """The result of a MATRIX_MULACC: the fragments are arrays (groups, threads, elements).

    What lies in local memory is there once: its array is (groups, 1, elements).
    """
    rows, columns, depth = node.attrs["size"]
    threads = node.attrs["threads"]
    kind = as_dtype(node.src[0].dtype).numpy
    given = as_dtype(node.attrs["input"]).numpy  # where the device lacks it, integers hold its bits
    left, right = (np.ascontiguousarray(fragments).view(given) for fragments in (left, right))
    a, b, c = (
        _matrices(fragments, positions(node.attrs[name], fragments.shape[1]), shape).astype(kind)
        for name, fragments, shape in (
            ("left", left, (rows, depth)), ("right", right, (depth, columns)), ("result", result, (rows, columns)),
        )
    )  # fmt: skip
    total = (c + np.matmul(a, b)).reshape(len(c), -1)
    return np.asarray(total[:, positions(node.attrs["result"], threads)])


def _matrices(fragments: Array, places: np.ndarray[Any, np.dtype[np.int64]], shape: tuple[int, int]) -> Array:
    """The matrix that each group of threads holds together."""
    found = np.zeros((len(fragments), shape[0] * shape[1]), fragments.dtype)
    found[:, places] = fragments
    return found.reshape(len(fragments), *shape)
