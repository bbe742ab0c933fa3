"""Reading and writing arrays at indices that are themselves arrays.

Every value of the interpreter is an array whose first `rank` axes are the loops it runs all at once and
whose other axes are the node's own shape; an axis of a loop that the value does not depend on has size 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rulegrad.errors import DeviceError
from rulegrad.runtime.numerics import Array


def read(value: Array, rank: int, indices: Sequence[Array], mask: Array | None, what: str) -> Array:
    """The elements of `value` at one index for each axis of its own; 0 where `mask` is false.

    Raises DeviceError, naming `what`, for an index that is out of bounds where it is used.
    """
    view = _view(value, rank, indices) if mask is None else None
    if view is not None:
        return view
    if mask is not None and not mask.any():
        shape = np.broadcast_shapes(mask.shape, *(index.shape for index in indices))
        return np.zeros(shape, value.dtype)
    flat = _flat(value.shape, rank, indices, mask, what)
    taken = value.reshape(-1)[flat]
    return taken if mask is None else np.where(mask, taken, np.zeros((), value.dtype))


def write(storage: Array, rank: int, indices: Sequence[Array], value: Array, mask: Array | None, what: str) -> None:
    """Stores `value` into `storage`, which has no loop axes, at the indices; not where `mask` is false.

    Raises DeviceError, naming `what`, for an index that is out of bounds where it is used.
    """
    whole = storage.reshape((1,) * rank + storage.shape)
    view = _view(whole, rank, indices) if mask is None else None
    if view is not None and np.broadcast_shapes(view.shape, value.shape) == view.shape:
        view[...] = value
        return
    flat = _flat(whole.shape, rank, indices, mask, what)
    shape = np.broadcast_shapes(flat.shape, value.shape, () if mask is None else mask.shape)
    flat, value = np.broadcast_to(flat, shape), np.broadcast_to(value, shape)
    if mask is not None:
        chosen = np.broadcast_to(mask, shape)
        flat, value = flat[chosen], value[chosen]
    storage.reshape(-1)[flat] = value


def _view(value: Array, rank: int, indices: Sequence[Array]) -> Array | None:
    """The elements as a view, when each index is a constant or runs along a loop of its own in steps of 1."""
    if any(size != 1 for size in value.shape[:rank]):
        return None
    slices: list[slice] = []
    loops: list[int] = []
    for index, size in zip(indices, value.shape[rank:], strict=True):
        run = _run(index)
        if run is None or run[1] < 0 or run[1] + run[2] > size or run[0] in loops:
            return None
        loop, start, length = run
        slices.append(slice(start, start + length))
        if loop >= 0:
            loops.append(loop)
    cuts = (*slices, ...)  # "..." so that no axes give a view too
    chosen = value.reshape(value.shape[rank:])[cuts]
    # Axes that a loop runs along go to that loop's place, the others (of size 1) disappear.
    kept = [position for position, index in enumerate(indices) if index.size > 1]
    chosen = chosen.reshape([chosen.shape[position] for position in kept])
    chosen = chosen.transpose(np.argsort(loops)) if loops else chosen
    sizes = dict(zip(sorted(loops), chosen.shape, strict=True))
    return np.asarray(chosen.reshape([sizes.get(loop, 1) for loop in range(rank)]))


def _run(index: Array) -> tuple[int, int, int] | None:
    """(loop, start, length) of an index that counts up by 1 along one loop; loop -1 for a constant."""
    if index.size == 0:
        return None
    first = int(index.flat[0])
    if index.size == 1:
        return -1, first, 1
    loops = [axis for axis, size in enumerate(index.shape) if size > 1]
    if len(loops) != 1 or not np.array_equal(index.ravel(), np.arange(first, first + index.size)):
        return None
    return loops[0], first, index.size


def _flat(shape: tuple[int, ...], rank: int, indices: Sequence[Array], mask: Array | None, what: str) -> Array:
    """Positions in the flattened array, with every index checked where `mask` is true."""
    position = np.zeros((1,) * rank, np.int64)
    steps = [1]
    for size in reversed(shape[1:]):
        steps.insert(0, steps[0] * size)
    for axis in range(rank):
        if shape[axis] > 1:
            along = [-1 if k == axis else 1 for k in range(rank)]
            position = position + np.arange(shape[axis]).reshape(along) * steps[axis]
    for axis, index in enumerate(indices):
        size = shape[rank + axis]
        index = index.astype(np.int64, copy=False)
        if index.size and (index.min() < 0 or index.max() >= size):
            index = _within(index, size, mask, axis, what)
        position = position + index * steps[rank + axis]
    return position


def _within(index: Array, size: int, mask: Array | None, axis: int, what: str) -> Array:
    """The index with 0 where it is not used. Raises DeviceError when it is out of bounds where it is used."""
    outside = (index < 0) | (index >= size)
    wrong = outside if mask is None else outside & mask
    if wrong.any():
        bad = np.broadcast_to(index, wrong.shape)[wrong].flat[0]
        raise DeviceError(f"{what}: index {bad} is out of bounds for axis {axis} of size {size}")
    return np.where(outside, 0, index)
