"""GATHER, SCATTER, CUMCOUNT and RECURRENCE on NumPy arrays whose first axes are loops."""

from __future__ import annotations

import numpy as np

from rulegrad.interpreter.numerics import Array


def gather(x: Array, index: Array, axis: int) -> Array:
    """The elements of x whose place along the axis is the index; the nearest one for an index out of range."""
    last = x.shape[axis] - 1
    if index.dtype == np.uint64:
        index = np.minimum(index, np.uint64(last))
    places = np.clip(index.astype(np.int64, copy=False), 0, last)
    x, places = _with_same_loops(x, places, axis)
    return np.asarray(np.take_along_axis(x, places, axis))


def scatter(x: Array, index: Array, updates: Array, axis: int, combine: np.ufunc | None) -> Array:
    """x, with the updates put, or combined in order, into the places along the axis that the index names."""
    index, updates = np.broadcast_arrays(index.astype(np.int64, copy=False), updates)
    x, index = _with_same_loops(x, index, axis)
    updates = np.broadcast_to(updates, index.shape)
    inside = (index >= 0) & (index < x.shape[axis])
    places = [np.broadcast_to(line, index.shape)[inside] for line in np.ogrid[tuple(map(slice, index.shape))]]
    places[axis] = index[inside]
    result: Array = x.copy()
    if combine is None:
        result[tuple(places)] = updates[inside]
    else:
        combine.at(result, tuple(places), updates[inside])
    return result


def scan(combine: np.ufunc, x: Array, axis: int) -> Array:
    """The running reduction along the axis. Of equal values the last one counts, whose sign may be another.

    >>> scan(np.maximum, np.array([1, 3, 2]), 0).tolist()
    [1, 3, 3]
    """
    # NumPy takes the first of equal halves, and the second of other floats.
    halves = x.dtype == np.float16 and combine in (np.maximum, np.minimum)
    found = combine.accumulate(x, axis, dtype=np.float32 if halves else x.dtype)
    return found.astype(x.dtype) if halves else found


def recurrence(factors: Array, added: Array, axis: int) -> Array:
    """Along the axis, each factor times the value before (0 before the first), and what is added.

    >>> recurrence(np.array([9.0, 2.0, 0.5]), np.array([1.0, 1.0, 1.0]), 0).tolist()
    [1.0, 3.0, 2.5]
    """
    factors, added = np.broadcast_arrays(factors, added)
    result = np.empty(added.shape, added.dtype)
    a, b, places = (np.moveaxis(array, axis, 0) for array in (factors, added, result))
    value = np.zeros(places.shape[1:], added.dtype)
    for k in range(len(places)):
        value = places[k] = a[k] * value + b[k]
    return result


def cumcount(numbers: Array, axis: int, extent: int) -> Array:
    """How many elements before it along the axis are equal to each.

    >>> cumcount(np.array([3, 1, 3, 3, 1]), 0, 4).tolist()
    [0, 0, 1, 2, 1]
    """
    along = np.moveaxis(np.clip(numbers, 0, extent - 1), axis, -1)
    order = np.argsort(along, -1, kind="stable")
    inorder = np.take_along_axis(along, order, -1)
    positions = np.arange(along.shape[-1], dtype=np.int32)
    starts = np.concatenate([np.ones_like(inorder[..., :1], bool), inorder[..., 1:] != inorder[..., :-1]], -1)
    before = positions - np.maximum.accumulate(np.where(starts, positions, 0), -1, dtype=np.int32)
    result = np.empty(along.shape, np.int32)
    np.put_along_axis(result, order, before, -1)
    return np.moveaxis(result, -1, axis)


def _with_same_loops(x: Array, index: Array, axis: int) -> tuple[Array, Array]:
    """Both arrays with the same extents in all axes but one."""
    own, other = list(x.shape), list(index.shape)
    own[axis] = other[axis] = 1
    shape = list(np.broadcast_shapes(own, other))
    sizes = [(*shape[:axis], array.shape[axis], *shape[axis + 1 :]) for array in (x, index)]
    return np.broadcast_to(x, sizes[0]), np.broadcast_to(index, sizes[1])
