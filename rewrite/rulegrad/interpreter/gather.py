"""Reading and writing arrays at indices that are themselves arrays.

Every value of the interpreter is an array whose first `rank` axes are the loops it runs all at once and
whose other axes are the node's own shape; an axis of a loop that the value does not depend on has size 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rulegrad.errors import DeviceError
from rulegrad.interpreter.numerics import Array

Loops = Sequence[int | None]


def read(value: Array, rank: int, indices: Sequence[Array], loops: Loops, mask: Array | None, what: str) -> Array:
    """The elements of `value` at one index for each axis of its own; 0 where `mask` is false.

    `loops` says for each index what is known of it before: the loop that it is the counter of, -1 for a
    constant, None for any other. Raises DeviceError, naming `what`, for an index that is out of bounds
    where it is used.
    """
    view = _view(value, rank, indices, loops) if mask is None else None
    if view is not None:
        return view
    if mask is not None and not mask.any():
        shape = np.broadcast_shapes(mask.shape, *(index.shape for index in indices))
        return np.zeros(shape, value.dtype)
    flat = _flat(value.shape, rank, indices, mask, what)
    taken = value.reshape(-1)[flat]
    return taken if mask is None else np.where(mask, taken, np.zeros((), value.dtype))


def write(
    storage: Array,
    rank: int,
    indices: Sequence[Array],
    loops: Loops,
    value: Array,
    mask: Array | None,
    what: str,
    combine: np.ufunc | None = None,
) -> None:
    """Stores `value` into `storage`, which has no loop axes, at the indices; not where `mask` is false.

    The last of several values for one place stays; with `combine` they are all combined with what is there.
    Raises DeviceError, naming `what`, for an index that is out of bounds where it is used.
    """
    whole = storage.reshape((1,) * rank + storage.shape)
    view = _view(whole, rank, indices, loops) if mask is None and combine is None else None
    if view is not None and np.broadcast_shapes(view.shape, value.shape) == view.shape:
        view[...] = value
        return
    flat = _flat(whole.shape, rank, indices, mask, what)
    shape = np.broadcast_shapes(flat.shape, value.shape, () if mask is None else mask.shape)
    flat, value = np.broadcast_to(flat, shape), np.broadcast_to(value, shape)
    if mask is not None:
        chosen = np.broadcast_to(mask, shape)
        flat, value = flat[chosen], value[chosen]
    if combine is None:
        storage.reshape(-1)[flat] = value
    else:
        combine.at(storage.reshape(-1), flat, value)


def _view(value: Array, rank: int, indices: Sequence[Array], loops: Loops) -> Array | None:
    """The elements as a view, when each index is a constant or the counter of a loop of its own."""
    counted = [loop for loop in loops if loop is not None and loop >= 0]
    if None in loops or len(set(counted)) < len(counted) or any(size != 1 for size in value.shape[:rank]):
        return None
    cuts: list[Any] = []
    for index, loop, size in zip(indices, loops, value.shape[rank:], strict=True):
        if not index.size or not 0 <= (start := int(index.item(0))) <= size - index.size:
            return None
        cuts.append(start if loop == -1 else slice(start, start + index.size))
    positions = (*cuts, ...)  # "..." so that no axes give a view too
    chosen = value.reshape(value.shape[rank:])[positions]
    if counted != sorted(counted):  # the axis of each counter goes to its loop's place
        chosen = chosen.transpose(sorted(range(len(counted)), key=counted.__getitem__))
    sizes = dict(zip(sorted(counted), chosen.shape, strict=True))
    return np.asarray(chosen.reshape([sizes.get(loop, 1) for loop in range(rank)]))


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
