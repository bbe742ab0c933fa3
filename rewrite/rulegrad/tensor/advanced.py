"""Indexing with integer arrays and masks beside slices, for reading and for writing, with NumPy's rules.

Indices that are on the host (lists and NumPy arrays) are checked; see `gathering` for those on the device. A mask
on the device is turned into indices, which synchronises: its number of true elements is the extent of the result. A
mask to which a single value, or one value for each of the axes after it, is assigned does not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from rulegrad._core import put_at, view_at
from rulegrad.config import config
from rulegrad.errors import DtypeError, IndexRangeError, ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import bool_
from rulegrad.tensor.aliasing import is_same_view, mark_copied
from rulegrad.tensor.axes import one_axis, whole_number
from rulegrad.tensor.capturing import is_tracing
from rulegrad.tensor.constants import filled
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.gathering import along_axis, as_mask, checked_indices, taken
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.indexing import Box, basic_view, box_of
from rulegrad.tensor.inplace import become
from rulegrad.tensor.operands import as_operand, as_tensor, broadcast_shapes, with_nothing_of
from rulegrad.tensor.scattering import update_values, updated
from rulegrad.tensor.sets import nonzero_indices
from rulegrad.tensor.storage import is_weak_scalar

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor


class _Places(NamedTuple):
    """Places of an index with arrays: basic items that give a view, and index arrays for some axes of the view."""

    basic: tuple[Any, ...]
    axes: tuple[int, ...]
    arrays: tuple[Any, ...]  # NumPy arrays or tensors of integers
    shape: tuple[int, ...]  # that of the arrays, broadcast
    front: int  # where the axes of the arrays go, among the view's other axes


def get_item(self: Tensor, index: Any) -> Tensor:
    """The part of the tensor at `index`: ints, slices, None, Ellipsis, integer arrays, and masks, as in NumPy.

    Lists, NumPy arrays and tensors are arrays; a mask selects the elements where it is true, which synchronises
    when it is a tensor. An integer in a tensor without axes is read and gives a view, as in PyTorch; where it cannot be
    read (in a captured or a mapped function) the part is a copy; in a captured one what is written to it goes to this
    tensor, too. Raises IndexRangeError (a ShapeError and an IndexError).

    >>> from rulegrad import Tensor
    >>> x = Tensor.arange(6).reshape(2, 3)
    >>> x[-1, ::2].tolist(), x[[1, 0], 1:].tolist(), x[x > 3].tolist()
    ([3, 5], [[4, 5], [1, 2]], [4, 5])
    """
    made: Tensor | None = view_at(self, index)
    if made is not None:
        return made
    items = index if isinstance(index, tuple) else (index,)
    numbers = tuple(int(item) if _is_place(item) else item for item in items)
    if any(one is not other for one, other in zip(numbers, items)):
        return get_item(self, numbers)
    if not any(map(_is_array, items)):
        return basic_view(self, index)
    if any(map(_is_mask, items)):  # the result has as many elements as are true
        found = _without_masks(self.shape, items)
        return _gathered(self, items) if found is None else _gathered_at_integers(self, found)
    gathered = _gathered_at_integers(self, items)
    if is_tracing() and all(isinstance(item, TensorCore) and not item.ndim for item in items if _is_array(item)):
        mark_copied(gathered, lambda value: set_item(self, index, value))
    return gathered


def _is_place(item: Any) -> bool:
    """Whether it is an integer in a tensor whose value can be had: with it, the part is a view as with a number."""
    if not isinstance(item, TensorCore) or item.ndim or is_tracing():
        return False
    return item.dtype.kind in ("int", "uint") and not item.uop.toposort("BATCHED")


def _is_mask(item: Any) -> bool:
    return isinstance(item, TensorCore) and item.dtype == bool_


def _without_masks(shape: tuple[int, ...], items: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """An index with the places where its masks are true, for a known graph; None where it is not so simple."""
    found: list[Any] = []
    axis = 0
    for item in items:
        if not _is_mask(item):
            if not isinstance(item, (int, slice, type(None), TensorCore)) or isinstance(item, bool):
                return None
            axis += item is not None
            found.append(item)
            continue
        if not item.ndim or item.shape != shape[axis : axis + item.ndim]:
            return None
        axis += item.ndim
        found.extend(nonzero_indices(item))
    return tuple(found)


def _gathered(self: Tensor, items: tuple[Any, ...]) -> Tensor:
    places = _places(self, items)
    view = basic_view(self, places.basic)
    line = _line(view, places)
    head = view.permute(places.axes + tuple(k for k in range(view.ndim) if k not in places.axes))
    rest = head.shape[len(places.axes) :]
    flat = head.reshape((math.prod(head.shape[: len(places.axes)]),) + rest)
    found = taken(flat, along_axis(line, flat.shape, 0), 0).reshape(places.shape + rest)
    own = tuple(range(len(places.shape)))
    others = tuple(range(len(own), found.ndim))
    return found.permute(others[: places.front] + own + others[places.front :])


_gathered_at_integers = built_once(_gathered)


def set_item(self: Tensor, index: Any, value: Any) -> None:
    """Put `value` (which is broadcast) at `index`, here and in what this tensor is a view of.

    Where an array names an element several times, the last value stays. A tensor of integers takes floats rounded
    towards zero. Raises IndexRangeError, ShapeError and DtypeError; a leaf that requires a gradient can only be
    changed inside `no_grad()`.

    >>> from rulegrad import Tensor
    >>> x = Tensor.zeros(4)
    >>> x[1:3] = 5
    >>> x[[0]] += 1
    >>> x.tolist()
    [1.0, 5.0, 5.0, 0.0]
    """
    if not put_at(self, index, value) and not _is_at(self, index, value):
        become(self, _with(self, index, value, "STORE"), "x[...] = value")


def _is_at(self: Tensor, index: Any, value: Any) -> bool:
    """Whether `value` is the view at `index`: `x[index] += 1` puts it where it is already."""
    if not isinstance(value, TensorCore) or value._view is None:
        return False
    items = index if isinstance(index, tuple) else (index,)
    return not any(map(_is_array, items)) and is_same_view(basic_view(self, index), value)


def index_put(self: Tensor, indices: tuple[Any, ...], values: Any, accumulate: bool = False) -> Tensor:
    """PyTorch's index_put: a new tensor with `values` at `indices`, or added there.

    Raises DtypeError for indices that are not a tuple of one for each axis.

    >>> Tensor([1, 2, 3]).index_put(([0, 2],), [10, 30]).tolist()
    [10, 2, 30]
    """
    if not isinstance(indices, (tuple, list)):
        raise DtypeError(f"index_put: indices is a {type(indices).__name__}; give a tuple, with one for each axis")
    return _with(self, tuple(indices), values, "ADD" if accumulate else "STORE")


def masked_select(self: Tensor, mask: Operand) -> Tensor:
    """The elements where the mask (bools, which are broadcast) is true, as a vector. Synchronises.

    >>> Tensor([1, 2, 3]).masked_select([True, False, True]).tolist()
    [1, 3]
    """
    found = as_mask(self, mask, "masked_select")
    shape = broadcast_shapes("masked_select", self.shape, found.shape)
    return self.expand(shape)[found.expand(shape)]


def masked_scatter(self: Tensor, mask: Operand, source: Operand) -> Tensor:
    """PyTorch's masked_scatter: the elements of `source`, in order, where the mask (bools) is true; both broadcast.

    Synchronises where the source has fewer elements than this tensor, to count the places. Raises ShapeError when
    they are more than the source has, and DtypeError for a mask of numbers.

    >>> from rulegrad import Tensor
    >>> Tensor.zeros(3).masked_scatter([True, False, True], [5.0, 6.0]).tolist()
    [5.0, 0.0, 6.0]
    """
    found = as_mask(self, mask, "masked_scatter")
    shape = broadcast_shapes("masked_scatter", self.shape, found.shape)
    if shape != self.shape:
        return self.expand(shape).masked_scatter(found, source)
    wide = found.expand(shape)
    values = as_tensor(self, source, "masked_scatter").flatten()
    if values.size < self.size:
        chosen: Any = wide.sum()
        count = int(chosen.item())
        if count > values.size:
            raise ShapeError(
                f"masked_scatter: the source has {values.size} elements, and the mask is true at {count} places"
            )
        if not count:
            return self._same()
    position = wide.flatten().cumsum(0).reshape(self.shape) - 1
    return wide.where(values.take(position), self).cast(self.dtype)


# ---- what an index means ----


def _places(self: Tensor, items: tuple[Any, ...]) -> _Places:
    parts = [part for item in items for part in (_arrays_of(self, item) if _is_array(item) else [item])]
    basic: list[Any] = []
    found: list[tuple[int, Any, int]] = []  # axis of the view, array, place among the items
    own = 0
    for place, item in enumerate(_completed(parts, self.shape)):
        if item is None or isinstance(item, slice):
            basic.append(item)
        else:  # a number beside arrays is an array too
            array = item if isinstance(item, _Array) else _Array(np.asarray(whole_number(item, "index")))
            _check_extent(array, own, self.shape)
            found.append((len(basic), array.places, place))
            basic.append(None if array.is_new_axis else slice(None))
        own += basic[-1] is not None
    shape = _common_shape([tuple(array.shape) for _, array, _ in found])
    axes = tuple(axis for axis, _, _ in found)
    adjacent = all(b[2] - a[2] == 1 for a, b in itertools.pairwise(found))
    return _Places(tuple(basic), axes, tuple(array for _, array, _ in found), shape, axes[0] if adjacent else 0)


def _arrays_of(self: Tensor, item: Any) -> list[_Array]:
    """An array of integers as it is; a mask as an array of places for each of its axes."""
    if isinstance(item, TensorCore):
        if item.dtype.is_integer:
            return [_Array(item)]
        if item.dtype != bool_:
            raise IndexRangeError(f"index: a tensor of {item.dtype}; cast it to an integer dtype, or to bool")
        mask: Any = item
        if not mask.ndim:
            return [_Array(nonzero_indices(mask.reshape(1))[0], None, True)]
        return [_Array(places, extent) for places, extent in zip(nonzero_indices(mask), mask.shape)]
    array = _host_array(item)
    if array.dtype.kind == "b":
        if not array.ndim:
            return [_Array(np.flatnonzero(array), None, True)]
        return [_Array(places, extent) for places, extent in zip(array.nonzero(), array.shape)]
    if not array.size and not isinstance(item, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise IndexRangeError(f"index: an array of {array.dtype}; use integers, or bools for a mask")
    return [_Array(array)]


def _line(self: Tensor, places: _Places) -> Tensor:
    """One index for the axes that the arrays of a view index, as a vector; checked where it is on the host."""
    extents = [self.shape[axis] for axis in places.axes]
    if not math.prod(places.shape):  # arrays that are broadcast to none name nothing, as in NumPy
        return type(self)(np.zeros(0, np.int64), device=self._device or None)
    strides = [math.prod(extents[k + 1 :]) for k in range(len(extents))]
    host = np.zeros(places.shape, np.int64)
    device: Tensor | None = None
    for axis, array, extent, stride in zip(places.axes, places.arrays, extents, strides):
        if isinstance(array, np.ndarray):
            host = host + _checked(array, extent, axis) * stride
            continue
        index: Any = checked_indices(array, extent, axis, "index", True).cast("int64")
        if len(extents) > 1 and not config.check_indices:
            index = index.clip(0, max(extent - 1, 0))
        index = index * stride if stride != 1 else index
        device = index if device is None else device + index
    if device is None:
        return type(self)(np.ascontiguousarray(host.reshape(-1)), device=self._device or None)
    total = device.expand(places.shape)
    return (total if not host.any() else total + type(self)(host, device=self._device or None)).flatten()


# ---- writing ----


def _with(self: Tensor, index: Any, value: Any, op: str) -> Tensor:
    """This tensor with a value put, or added, at an index."""
    items = index if isinstance(index, tuple) else (index,)
    value = _value(self, value)
    if len(items) == 1 and isinstance(items[0], TensorCore) and items[0].dtype == bool_ and op == "STORE":
        chosen = _at_mask(self, items[0], value)
        if chosen is not None:
            return chosen
    if not any(map(_is_array, items)):
        if op == "ADD":
            value = basic_view(self, items) + value
        return _with_view(self, items, value)
    places = _places(self, items)
    view = basic_view(self, places.basic)
    changed = _with_arrays(view, places, value, op)
    whole = view.shape == self.shape and all(item == slice(None) for item in places.basic)
    return changed if whole else _with_view(self, places.basic, changed)


def _value(self: Tensor, value: Any) -> Tensor:
    found: Any = as_operand(self, value, "x[...] = value")
    if is_weak_scalar(found):
        if isinstance(found, float) and not self.dtype.is_inexact and math.isfinite(found):
            found = bool(found) if self.dtype == bool_ else int(found)
        return update_values(self, found, (), "x[...] = value")
    if found.dtype != self.dtype:  # as NumPy, an assignment converts
        found = found.cast(self.dtype)
    return found  # type: ignore[no-any-return]


def _at_mask(self: Tensor, mask: Any, value: Tensor) -> Tensor | None:
    """With one value, or one for each of the axes after the mask's; None for one value for each true element."""
    if mask.shape != self.shape[: mask.ndim] or value.ndim > self.ndim - mask.ndim:
        return None
    wide: Tensor = mask.reshape(mask.shape + (1,) * (self.ndim - mask.ndim))
    return wide.where(_broadcast(value, self.shape), self)


def _with_arrays(self: Tensor, places: _Places, value: Tensor, op: str) -> Tensor:
    order = places.axes + tuple(k for k in range(self.ndim) if k not in places.axes)
    head = self.permute(order)
    rest = head.shape[len(places.axes) :]
    flat = head.reshape((math.prod(head.shape[: len(places.axes)]),) + rest)
    wide = rest[: places.front] + places.shape + rest[places.front :]
    value = _broadcast(value, wide)
    own = tuple(range(places.front, places.front + len(places.shape)))
    value = value.permute(own + tuple(k for k in range(value.ndim) if k not in own))
    line = _line(self, places)
    updates = value.reshape((line.size,) + rest)
    changed = updated(flat, op, along_axis(line, flat.shape, 0), updates, 0)
    return changed.reshape(head.shape).permute(tuple(order.index(k) for k in range(self.ndim)))


def _with_view(self: Tensor, items: tuple[Any, ...], value: Tensor) -> Tensor:
    """With a value at ints, slices, None and Ellipsis."""
    box = box_of(items, self.shape)
    value = value if value.shape == box.shape else _broadcast(value, box.shape)
    if 0 in box.counts:
        same: Tensor = with_nothing_of(self._same(), value)
        return same
    value = value if box.shape == box.counts else value.reshape(box.counts)
    back = [k for k, step in enumerate(box.steps) if step < 0]
    value = value.flip(back) if back else value
    if box.counts == self.shape:
        return value._same()
    if all(step == 1 for step in box.steps):
        return _with_box(self, box, value)
    inside = self._new(filled(box.counts, True, bool_), None, self._device)
    distances = [abs(step) for step in box.steps]
    before = [
        begin if step > 0 else begin + (end - begin - 1) % -step
        for begin, end, step in zip(box.begins, box.ends, box.steps)
    ]
    return _spread(inside, distances, before, self.shape).where(_spread(value, distances, before, self.shape), self)


def _with_box(self: Tensor, box: Box, value: Tensor) -> Tensor:
    """With a value at neighbouring places along each axis, by nodes: as loops write rows."""
    after = tuple(n - end for n, end in zip(self.shape, box.ends))
    padded, inside = (
        UOp("PAD", (node,), before=box.begins, after=after) for node in (value.uop, filled(box.counts, True, bool_))
    )
    return self._result(UOp("WHERE", (inside, padded, self.uop)), value)


def _spread(self: Tensor, steps: list[int], before: list[int], shape: tuple[int, ...]) -> Tensor:
    """The elements `steps` apart, surrounded by zeros to a shape."""
    counts = self.shape
    wide = self.reshape([part for n in counts for part in (n, 1)])
    wide = wide.pad([part for step in steps for part in ((0, 0), (0, step - 1))])
    wide = wide.reshape([n * step for n, step in zip(counts, steps)])
    wide = wide.shrink(*((0, (n - 1) * step + 1) for n, step in zip(counts, steps)))
    return wide.pad([(b, n - b - m) for b, n, m in zip(before, shape, wide.shape)])


class _Array(NamedTuple):
    """An array of places on an axis (of the extent that a mask has there); a truth value makes a new axis."""

    places: Any
    extent: int | None = None
    is_new_axis: bool = False


_ARRAYS: Final = (list, tuple, bool, np.bool_, np.ndarray, TensorCore)
_NOT_ARRAYS: Final = (int, slice, type(None), type(...), np.generic, str, bytes, bytearray)


def _is_array(item: Any) -> bool:
    """Whether an index is one of several elements: any sequence, and arrays of other libraries, as in NumPy."""
    if isinstance(item, _ARRAYS):
        return True
    if isinstance(item, _NOT_ARRAYS):
        return False
    return isinstance(item, Sequence) or (hasattr(item, "__array__") and getattr(item, "ndim", 0) != 0)


def _host_array(item: Any) -> Any:
    """A list, or a tuple inside of an index, as an array of NumPy."""
    try:
        return np.asarray(item)
    except (ValueError, TypeError) as error:
        raise IndexRangeError(
            f"index: a {type(item).__name__} is not an array of indices ({error}); use ints"
        ) from None


def _completed(parts: list[Any], shape: tuple[int, ...]) -> list[Any]:
    """The items with the Ellipsis, or the missing slices at the end, written out."""
    ellipses = [k for k, part in enumerate(parts) if part is Ellipsis]
    used = sum(part is not None and part is not Ellipsis and not getattr(part, "is_new_axis", False) for part in parts)
    if len(ellipses) > 1:
        raise IndexRangeError("index: more than one Ellipsis; use one, and ':' for single axes")
    if used > len(shape):
        raise IndexRangeError(f"index: {used} indices for a tensor of shape {shape}, which has {len(shape)} axes")
    at = ellipses[0] if ellipses else len(parts)
    return parts[:at] + [slice(None)] * (len(shape) - used) + parts[at + 1 :]


def _check_extent(array: _Array, axis: int, shape: tuple[int, ...]) -> None:
    # As in NumPy, a mask without elements fits every extent: it chooses nothing.
    if array.extent and array.extent != shape[axis]:
        raise IndexRangeError(
            f"index: a mask with {array.extent} elements for axis {axis} of the shape {shape}; they must be as many"
        )


def _checked(places: Any, extent: int, axis: int) -> Any:
    """Places on an axis, counted from the front."""
    wrong = places[(places < -extent) | (places >= extent)] if places.size else places
    if wrong.size:
        raise IndexRangeError(f"index: {wrong.flat[0]} is out of range for axis {axis} of size {extent}")
    return np.where(places < 0, places + extent, places).astype(np.int64)


def _common_shape(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return broadcast_shapes("index", *shapes)
    except ShapeError as error:
        raise IndexRangeError(str(error)) from None


def _broadcast(value: Any, shape: tuple[int, ...]) -> Any:
    """A value in the shape of the place it is assigned to; axes of size 1 in front may be left out there."""
    extra = max(value.ndim - len(shape), 0)
    if any(n != 1 for n in value.shape[:extra]) or any(
        m not in (1, n) for m, n in zip(value.shape[extra:][::-1], shape[::-1])
    ):
        raise ShapeError(f"x[...] = value: a value of shape {value.shape} does not fit the shape {shape} of that place")
    return value.reshape(value.shape[extra:]).expand(shape)


def diagonal_scatter(self: Tensor, src: Operand, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """This tensor with `src`, of the shape of `diagonal(offset, dim1, dim2)`, on that diagonal.

    >>> Tensor([[1, 2], [3, 4]]).diagonal_scatter(Tensor([8, 9])).tolist()
    [[8, 2], [3, 9]]
    """
    values = as_tensor(self, src, "diagonal_scatter")
    shape = self.diagonal(offset, dim1, dim2).shape
    if values.shape != shape:
        raise ShapeError(f"diagonal_scatter: values of shape {values.shape} for a diagonal of shape {shape}")
    first, second = (one_axis(axis, self.ndim, "diagonal_scatter") for axis in (dim1, dim2))
    matrices = self.moveaxis((first, second), (-2, -1))
    rows, columns = matrices.shape[-2:]
    device = self._device or None
    # The diagonal along the rows or the columns, whichever its elements begin at first.
    lines = values.pad([(0, 0)] * (values.ndim - 1) + [(max(-offset, 0), rows - max(-offset, 0) - shape[-1])])
    on = self.arange(columns, device=device) == self.arange(rows, device=device).unsqueeze(1) + offset
    return on.where(lines.unsqueeze(-1), matrices).cast(self.dtype).moveaxis((-2, -1), (first, second))


def select_scatter(self: Tensor, src: Operand, dim: int, index: int) -> Tensor:
    """This tensor with `src` at `index` along `dim`.

    >>> Tensor([[1, 2], [3, 4]]).select_scatter(Tensor([8, 9]), 1, 0).tolist()
    [[8, 2], [9, 4]]
    """
    k = one_axis(dim, self.ndim, "select_scatter")
    return self.index_put((slice(None),) * k + (whole_number(index, "select_scatter"),), src)


def slice_scatter(
    self: Tensor, src: Operand, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """This tensor with `src` at a slice along `dim`.

    >>> Tensor([1, 2, 3, 4]).slice_scatter(Tensor([8, 9]), 0, 1, 3).tolist()
    [1, 8, 9, 4]
    """
    k = one_axis(dim, self.ndim, "slice_scatter")
    return self.index_put((slice(None),) * k + (slice(start, end, step),), src)


def as_strided_scatter(
    self: Tensor, src: Operand, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """This tensor with `src` at the places that `as_strided` shows. Raises ShapeError for places out of the tensor.

    >>> Tensor([1, 2, 3, 4]).as_strided_scatter(Tensor([8, 9]), (2,), (2,)).tolist()
    [8, 2, 9, 4]
    """
    numbers = self.arange(self.size, device=self.device).as_strided(size, stride, storage_offset)
    return self.flatten().index_put((numbers,), src).reshape(self.shape)
