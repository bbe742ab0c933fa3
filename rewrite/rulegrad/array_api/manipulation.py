"""Manipulation functions: shapes, order of axes, joining and taking apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rulegrad.errors import ShapeError
from rulegrad.tensor import Tensor
from rulegrad.tensor.axes import one_axis, whole_number
from rulegrad.tensor.movement import squeeze_ones
from rulegrad.tensor.operands import broadcast_shapes as joined_shape

from .operands import Array, Axis, array, axes_of

__all__ = [
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis",
    "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack", "tile", "unstack",
]  # fmt: skip


# ---- shapes ----


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all `shapes` broadcast to. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return joined_shape("broadcast_shapes", *shapes) if shapes else ()


def broadcast_arrays(*arrays: Array) -> tuple[Array, ...]:
    """The arrays, all of the shape that they broadcast to. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> [x.shape for x in xp.broadcast_arrays(xp.zeros((2, 1)), xp.zeros(3))]
    [(2, 3), (2, 3)]
    """
    given = [array(one, "broadcast_arrays") for one in arrays]
    shape = broadcast_shapes(*[one.shape for one in given])
    return tuple(one.expand(shape) for one in given)


def broadcast_to(x: Array, /, shape: tuple[int, ...]) -> Array:
    """`x` repeated to `shape`: along axes of size 1, and along new ones in front. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.broadcast_to(xp.asarray([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    if any(extent < 0 for extent in shape):
        raise ShapeError(f"broadcast_to: {shape} is not a shape; use sizes of 0 or more")
    return array(x, "broadcast_to").expand(shape)


def reshape(x: Array, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Array:
    """The same elements, in row-major order, in another shape; one extent may be -1. Raises ShapeError.

    copy: True for a new array; otherwise it is a view of `x`, whatever the shapes.

    >>> from rulegrad import array_api as xp
    >>> xp.reshape(xp.arange(4), (2, -1)).tolist()
    [[0, 1], [2, 3]]
    """
    view = array(x, "reshape").reshape(shape)
    return view._same() if copy else view


def expand_dims(x: Array, /, axis: int | tuple[int, ...] = 0) -> Array:
    """With new axes of size 1 at the places `axis` of the result. Raises IndexRangeError, an IndexError.

    >>> from rulegrad import array_api as xp
    >>> xp.expand_dims(xp.zeros((2, 3)), axis=(0, -1)).shape
    (1, 2, 3, 1)
    """
    values = array(x, "expand_dims")
    named = axis if isinstance(axis, tuple) else (axis,)
    rank = values.ndim + len(named)
    places = axes_of(named, rank, "expand_dims")
    extents = iter(values.shape)
    return values.reshape(tuple(1 if k in places else next(extents) for k in range(rank)))


def squeeze(x: Array, /, axis: int | tuple[int, ...]) -> Array:
    """Without the named axes, which must be of size 1. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.squeeze(xp.zeros((1, 3)), axis=0).shape
    (3,)
    """
    values = array(x, "squeeze")
    return squeeze_ones(values, axes_of(axis, values.ndim, "squeeze"))


# ---- order ----


def flip(x: Array, /, axis: Axis = None) -> Array:
    """The elements in reverse order along the axes, all of them by default.

    >>> from rulegrad import array_api as xp
    >>> xp.flip(xp.asarray([1, 2, 3])).tolist()
    [3, 2, 1]
    """
    values = array(x, "flip")
    return values.flip(axes_of(axis, values.ndim, "flip")) if values.ndim else values


def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Array:
    """The axes in another order: axis k of the result is axis `axes[k]`. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.permute_dims(xp.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return array(x, "permute_dims").permute(tuple(axes))


def moveaxis(x: Array, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Array:
    """The axes `source` moved to the places `destination`; the others keep their order. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.moveaxis(xp.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    values = array(x, "moveaxis")
    sources = axes_of(source, values.ndim, "moveaxis")
    places = axes_of(destination, values.ndim, "moveaxis")
    if len(sources) != len(places):
        raise ShapeError(f"moveaxis: {len(sources)} axes for {len(places)} places; give one place for each")
    order = [axis for axis in range(values.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return values.permute(tuple(order)) if values.ndim else values


def roll(x: Array, /, shift: int | tuple[int, ...], axis: Axis = None) -> Array:
    """The elements moved by `shift` places along `axis` (in the flat array by default), round the end.

    One shift for all axes, or one for each; an axis may be named more than once. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.roll(xp.asarray([1, 2, 3]), 1).tolist()
    [3, 1, 2]
    """
    values = array(x, "roll")
    if axis is None:
        if isinstance(shift, tuple):
            raise ShapeError(f"roll: shifts {shift} for the flat array; give one shift, or name the axes")
        return values.flatten().roll(shift, 0).reshape(values.shape)
    axes = axis if isinstance(axis, tuple) else (axis,)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts for {len(axes)} axes; give one for each")
    for distance, place in zip(shifts, axes, strict=True):
        values = values.roll(distance, one_axis(place, values.ndim, "roll"))
    return values


# ---- joining and taking apart ----


def concat(arrays: Sequence[Array], /, axis: int | None = 0) -> Array:
    """The arrays one after the other along `axis`, or flat for None; dtypes are promoted. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.concat([xp.asarray([1]), xp.asarray([2, 3])]).tolist()
    [1, 2, 3]
    """
    given = [array(one, "concat") for one in arrays]
    if not given:
        raise ShapeError("concat: there are no arrays; give at least one")
    if axis is None:
        return Tensor.cat([one.flatten() for one in given], axis=0)
    return Tensor.cat(given, axis=axis)


def stack(arrays: Sequence[Array], /, axis: int = 0) -> Array:
    """The arrays, of one shape, along a new axis; dtypes are promoted. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.stack([xp.asarray([1, 2]), xp.asarray([3, 4])], axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    given = [array(one, "stack") for one in arrays]
    if not given:
        raise ShapeError("stack: there are no arrays; give at least one")
    return Tensor.stack(given, axis=axis)


def unstack(x: Array, /, axis: int = 0) -> tuple[Array, ...]:
    """The parts of `x` along `axis`, without it. Raises IndexRangeError, an IndexError.

    >>> from rulegrad import array_api as xp
    >>> [part.tolist() for part in xp.unstack(xp.asarray([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    values = array(x, "unstack")
    place = one_axis(axis, values.ndim, "unstack")
    return tuple(values[(slice(None),) * place + (k,)] for k in range(values.shape[place]))


def tile(x: Array, repetitions: tuple[int, ...], /) -> Array:
    """The whole array `repetitions[k]` times along axis k; the shorter of shape and repetitions gets ones in front.

    >>> from rulegrad import array_api as xp
    >>> xp.tile(xp.asarray([1, 2]), (2, 2)).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    values = array(x, "tile")
    counts = (1,) * (values.ndim - len(repetitions)) + tuple(repetitions)
    if any(count < 0 for count in counts):
        raise ShapeError(f"tile: the repetitions {repetitions} are not all 0 or more")
    return values.repeat(*counts) if counts else values


def repeat(x: Array, repeats: int | Array, /, axis: int | None = None) -> Array:
    """Each element along `axis` (of the flat array by default) `repeats` times: a number, or one for each.

    An array of numbers decides the shape, so it is computed and waited for. Raises ShapeError, DtypeError.

    >>> from rulegrad import array_api as xp
    >>> xp.repeat(xp.asarray([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    """
    values = array(x, "repeat")
    if axis is None:
        values = values.flatten()
    place = 0 if axis is None else one_axis(axis, values.ndim, "repeat")
    if isinstance(repeats, Tensor) and repeats.size != 1:
        return _repeated_each(values, repeats, place)
    count = whole_number(repeats, "repeat")
    if count < 0:
        raise ShapeError(f"repeat: each element {count} times; use 0 or more")
    before, extent, after = values.shape[:place], values.shape[place], values.shape[place + 1 :]
    grown = values.unsqueeze(place + 1).expand((*before, extent, count, *after))
    return grown.reshape((*before, extent * count, *after))._same()


def _repeated_each(values: Array, repeats: Array, place: int) -> Array:
    counts = repeats.numpy()
    if not repeats.dtype.is_integer or counts.shape != (values.shape[place],) or (counts < 0).any():
        raise ShapeError(
            f"repeat: numbers of dtype {repeats.dtype} and shape {repeats.shape} for axis {place} of the shape "
            f"{values.shape}; give one integer of 0 or more for each element"
        )
    places = Tensor(np.repeat(np.arange(len(counts)), counts), device=values.device)
    return values[(slice(None),) * place + (places,)]
