"""Tensors put together and taken apart along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rulegrad.errors import ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import bool_
from rulegrad.tensor.axes import axis_or_dim, integers, one_axis, whole_number
from rulegrad.tensor.constants import filled
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.operands import cast_to, expand_to, result_dtype, tensors_of

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor


def cat(self: Tensor | Sequence[Tensor], *others: Tensor | int, axis: int = 0, dim: int | None = None) -> Tensor:
    """The tensors one after the other along `axis`; `Tensor.cat([a, b], 1)` as well. Dtypes are promoted.

    Every element is copied exactly: -0.0, nan and infinities as well. Vectors without elements are left out, as in
    PyTorch. Raises ShapeError and DtypeError.

    >>> from rulegrad import Tensor
    >>> Tensor.cat([Tensor([[1], [2]]), Tensor([[3], [4]])], 1).tolist()
    [[1, 3], [2, 4]]
    """
    others, axis = _with_axis(self, others, axis_or_dim(axis, dim, "cat", 0))
    tensors = tensors_of(self, others, "cat")
    dtype = result_dtype(*tensors)
    # As in PyTorch: a vector without elements, which a loop begins with, fits beside everything.
    tensors = [t for t in tensors if t.shape != (0,)] or tensors
    first = tensors[0]
    place = one_axis(axis, first.ndim, "cat")
    without = [t.shape[:place] + t.shape[place + 1 :] for t in tensors]
    if any(rest != without[0] for rest in without):
        shapes = ", ".join(str(t.shape) for t in tensors)
        raise ShapeError(f"cat: the shapes {shapes} differ in an axis other than {place}; they must agree there")
    parts = [t for t in tensors if t.shape[place]] or tensors[:1]
    uop = _cat_nodes([cast_to(t.uop, dtype) for t in parts], place)
    return first._result(uop, *tensors[1:])


def stack(self: Tensor | Sequence[Tensor], *others: Tensor | int, axis: int = 0, dim: int | None = None) -> Tensor:
    """The tensors, of one shape, along a new axis; `Tensor.stack([a, b], 1)` as well. Raises ShapeError.

    >>> Tensor.stack([Tensor([1, 2]), Tensor([3, 4])], 1).tolist()
    [[1, 3], [2, 4]]
    """
    others, axis = _with_axis(self, others, axis_or_dim(axis, dim, "stack", 0))
    tensors = tensors_of(self, others, "stack")
    if any(t.shape != tensors[0].shape for t in tensors):
        shapes = ", ".join(str(t.shape) for t in tensors)
        raise ShapeError(f"stack: the shapes {shapes} differ; they must all be the same")
    place = one_axis(axis, tensors[0].ndim + 1, "stack")
    parts = [t.unsqueeze(place) for t in tensors]
    return type(parts[0]).cat(parts, axis=place)


def split(self: Tensor, sizes: int | Sequence[int], axis: int = 0, dim: int | None = None) -> tuple[Tensor, ...]:
    """Parts of the given sizes along `axis`; one number for parts of that size (the last may be smaller).

    >>> [part.tolist() for part in Tensor([1, 2, 3, 4, 5]).split(2)]
    [[1, 2], [3, 4], [5]]
    """
    place = one_axis(axis_or_dim(axis, dim, "split", 0), self.ndim, "split")
    extent = self.shape[place]
    if not isinstance(sizes, Sequence):
        size = whole_number(sizes, "split")
        if size < 1:
            raise ShapeError(f"split: parts of size {size}; use a size of 1 or more")
        sizes = [min(size, extent - begin) for begin in range(0, extent, size)]
    if sum(sizes) != extent:
        raise ShapeError(f"split: the sizes {tuple(sizes)} do not add up to {extent}, axis {place} of {self.shape}")
    parts, begin = [], 0
    for size in sizes:
        bounds: list[tuple[int, int] | None] = [None] * self.ndim
        bounds[place] = (begin, begin + size)
        parts.append(self.shrink(*bounds))
        begin += size
    return tuple(parts)


def chunk(self: Tensor, chunks: int, axis: int = 0, dim: int | None = None) -> tuple[Tensor, ...]:
    """At most `chunks` parts of one size along `axis` (the last may be smaller). Raises ShapeError.

    >>> [part.tolist() for part in Tensor([1, 2, 3, 4, 5]).chunk(2)]
    [[1, 2, 3], [4, 5]]
    """
    if whole_number(chunks, "chunk") < 1:
        raise ShapeError(f"chunk: {chunks} parts; use 1 or more")
    place = one_axis(axis_or_dim(axis, dim, "chunk", 0), self.ndim, "chunk")
    return self.split(max(-(-self.shape[place] // chunks), 1), place)


def repeat(self: Tensor, *counts: Any) -> Tensor:
    """The whole tensor `counts[k]` times along axis k, as `numpy.tile`; further counts are new axes in front.

    >>> Tensor([[1, 2]]).repeat(2, 2).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    return repeat_axes(self, integers(counts, "repeat"))._same()


def repeat_axes(self: Tensor, counts: tuple[int, ...]) -> Tensor:
    """`repeat` as a view, which cannot be written to."""
    shape = (1,) * (len(counts) - self.ndim) + self.shape
    if len(counts) != len(shape) or min(counts, default=0) < 0:
        raise ShapeError(
            f"repeat: the counts {counts} for the shape {self.shape}; give a number of 0 or more for each axis"
        )
    split = tuple(n for extent in shape for n in (1, extent))
    grown = tuple(n for count, extent in zip(counts, shape) for n in (count, extent))
    whole = tuple(count * extent for count, extent in zip(counts, shape))
    return self.reshape(split).expand(grown).reshape(whole)


def roll_axis(self: Tensor, shift: int, axis: int) -> Tensor:
    """The elements moved by `shift` places along one axis; those that fall off come in at the other end."""
    place = one_axis(axis, self.ndim, "roll")
    extent = self.shape[place]
    cut = (-shift) % extent if extent else 0
    if not cut:
        return self._same()
    first, second = self.split([cut, extent - cut], place)
    return second.cat(first, axis=place)


def _with_axis(first: Any, others: tuple[Any, ...], axis: int) -> tuple[tuple[Any, ...], int]:
    """The axis of `f([a, b], 1)`, which PyTorch's users give by position, apart from the tensors."""
    if others and isinstance(others[-1], int) and not isinstance(first, TensorCore):
        return others[:-1], others[-1]
    return others, axis


def _cat_nodes(parts: list[UOp], axis: int) -> UOp:
    """One node for the parts: each is padded to the whole extent, and the place along the axis selects one."""
    extents = [part.shape[axis] for part in parts]
    whole = sum(extents)
    rank = len(parts[0].shape)

    def widened(part: UOp, begin: int) -> UOp:
        before, after = [0] * rank, [0] * rank
        before[axis], after[axis] = begin, whole - begin - part.shape[axis]
        return UOp("PAD", (part,), before=tuple(before), after=tuple(after))

    begin = whole - extents[-1]
    result = widened(parts[-1], begin) if begin else parts[-1]
    shape = result.shape
    for part, extent in zip(reversed(parts[:-1]), reversed(extents[:-1])):
        # True before the end of this part; later parts are chosen by what is already in `result`.
        mask_shape = tuple(begin if k == axis else 1 for k in range(rank))
        mask = widened(filled(mask_shape, True, bool_), 0)
        begin -= extent
        result = UOp("WHERE", (expand_to(mask, shape), widened(part, begin), result))
    return result
