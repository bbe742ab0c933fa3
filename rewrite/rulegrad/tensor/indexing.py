"""`tensor[...]` with integers, slices, None and Ellipsis: views made of shrink, flip, windows and reshape."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from rulegrad._core import view_at
from rulegrad.errors import IndexRangeError, NoAxesError

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor


def basic_view(self: Tensor, index: Any) -> Tensor:
    """The view at `index`: integers, slices (any step but 0), None and one Ellipsis. Raises IndexRangeError."""
    made: Tensor | None = view_at(self, index)
    if made is not None:
        return made
    own = self.shape
    box = box_of(index if isinstance(index, tuple) else (index,), own)
    if all(step == 1 for step in box.steps):
        return self._part(box.begins, box.ends, box.shape)
    view = _every(self.shrink(*zip(box.begins, box.ends)), box.steps)
    return view if view.shape == box.shape else view.reshape(box.shape)


class Box(NamedTuple):
    """Where a view is along each axis of a tensor; and its shape, without axes for ints, with new ones for None."""

    begins: tuple[int, ...]
    ends: tuple[int, ...]
    steps: tuple[int, ...]
    counts: tuple[int, ...]
    shape: tuple[int, ...]


def box_of(index: tuple[Any, ...], own: tuple[int, ...]) -> Box:
    """The places that an index names in a tensor of the shape `own`. Raises IndexRangeError."""
    begins: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    counts: list[int] = []
    shape: list[int] = []
    for item in _complete(index, own):
        if item is None:
            shape.append(1)
            continue
        axis = len(begins)
        begin, end, step, keeps_axis = _bounds(item, own[axis], axis, own)
        begins.append(begin)
        ends.append(end)
        steps.append(step)
        counts.append(-(-(end - begin) // abs(step)))
        if keeps_axis:
            shape.append(counts[-1])
    return Box(tuple(begins), tuple(ends), tuple(steps), tuple(counts), tuple(shape))


def _every(self: Tensor, steps: tuple[int, ...]) -> Tensor:
    """Every `steps[k]`-th element of each axis, from the last one for a negative step; with further axes of one."""
    view = self
    backwards = [axis for axis, step in enumerate(steps) if step < 0]
    if backwards:
        view = view.flip(backwards)
    strides = [abs(step) for step in steps]
    for axis, (extent, stride) in reversed(list(enumerate(zip(view.shape, strides)))):
        if stride > 1 and extent:  # windows of one element, from the last axis on: each has one more axis behind it
            view = view._viewed("UNFOLD", axis=axis, size=1, step=stride, dilation=1)
    return view


def length(self: Tensor) -> int:
    if not self.ndim:
        raise NoAxesError("len: a scalar tensor has no length; use .size for the number of elements")
    return self.shape[0]


def iterate(self: Tensor) -> Iterator[Tensor]:
    if not self.ndim:
        raise NoAxesError("iteration: a scalar tensor cannot be iterated over; use .item() for its value")
    return (self[k] for k in range(self.shape[0]))


def _complete(items: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """`items` with the Ellipsis, or the missing slices at the end, written out."""
    ellipses = sum(item is Ellipsis for item in items)
    named = sum(item is not None and item is not Ellipsis for item in items)
    if ellipses > 1:
        raise IndexRangeError("index: more than one Ellipsis; use one, and ':' for single axes")
    if named > len(shape):
        raise IndexRangeError(f"index: {named} indices for a tensor of shape {shape}, which has {len(shape)} axes")
    rest = (slice(None),) * (len(shape) - named)
    if not ellipses:
        return items + rest
    at = next(k for k, item in enumerate(items) if item is Ellipsis)
    return items[:at] + rest + items[at + 1 :]


def _bounds(item: Any, extent: int, axis: int, shape: tuple[int, ...]) -> tuple[int, int, int, bool]:
    """Begin and end (in increasing order), step, and whether the axis stays, for one index of one axis."""
    if isinstance(item, slice):
        return _slice_bounds(item, extent)
    if isinstance(item, bool) or not hasattr(item, "__index__") or getattr(item, "ndim", False):
        raise IndexRangeError(
            f"index: a {type(item).__name__} at axis {axis}; a tensor is indexed by ints, slices, None, ..., and lists "
            "or arrays of ints or bools"
        )
    number = operator.index(item)
    if not -extent <= number < extent:
        raise IndexRangeError(f"index: {number} is out of range for axis {axis} of size {extent} (shape {shape})")
    number %= extent
    return number, number + 1, 1, False


def _slice_bounds(item: slice, extent: int) -> tuple[int, int, int, bool]:
    try:
        begin, end, step = item.indices(extent)
    except (ValueError, TypeError) as error:
        raise IndexRangeError(f"index: {item} cannot be used ({error}); use ints, and a step other than 0") from None
    if not range(begin, end, step):
        return 0, 0, 1, True
    # A backward slice is the same elements taken from the other end.
    return (begin, end, step, True) if step > 0 else (end + 1, begin + 1, step, True)
