"""Manipulation functions: shapes, order of axes, joining and taking apart."""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad.errors import ShapeError
from rulegrad.tensor import Tensor
from rulegrad.tensor.movement import squeeze_ones
from rulegrad.tensor.operands import broadcast_shapes as joined_shape

from .operands import Array, Axis, array, axes_of, of_arrays

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
    return tuple(Tensor.broadcast_tensors([array(one, "broadcast_arrays") for one in arrays]))


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


expand_dims = of_arrays(Tensor.expand_dims, "axis")


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


moveaxis = of_arrays(Tensor.moveaxis, "source destination /")


def roll(x: Array, /, shift: int | tuple[int, ...], axis: Axis = None) -> Array:
    """The elements moved by `shift` places along `axis` (in the flat array by default), round the end.

    One shift for all axes, or one for each; an axis may be named more than once. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.roll(xp.asarray([1, 2, 3]), 1).tolist()
    [3, 1, 2]
    """
    if axis is None and isinstance(shift, tuple):
        raise ShapeError(f"roll: shifts {shift} for the flat array; give one shift, or name the axes")
    return array(x, "roll").roll(shift, axis)


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
    return tuple(array(x, "unstack").unbind(axis))


def tile(x: Array, repetitions: tuple[int, ...], /) -> Array:
    """The whole array `repetitions[k]` times along axis k; the shorter of shape and repetitions gets ones in front.

    >>> from rulegrad import array_api as xp
    >>> xp.tile(xp.asarray([1, 2]), (2, 2)).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    return array(x, "tile").tile(repetitions)


def repeat(x: Array, repeats: int | Array, /, axis: int | None = None) -> Array:
    """Each element along `axis` (of the flat array by default) `repeats` times: a number, or one for each.

    An array of numbers decides the shape, so it is computed and waited for. Raises ShapeError, DtypeError.

    >>> from rulegrad import array_api as xp
    >>> xp.repeat(xp.asarray([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    """
    return array(x, "repeat").repeat_interleave(repeats, axis)
