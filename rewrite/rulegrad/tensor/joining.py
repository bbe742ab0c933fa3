"""Tensors put together and taken apart along an axis."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rulegrad.errors import ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import bool_
from rulegrad.tensor.axes import axis_or_dim, integers, one_axis, whole_number
from rulegrad.tensor.constants import filled
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.movement import slice_axis
from rulegrad.tensor.operands import cast_to, expand_to, result_dtype, tensors_of, with_nothing_of

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor


@built_once
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
    result = first._result(uop, *tensors[1:])
    for empty in (t for t in tensors if not t.shape[place]) if len(parts) < len(tensors) else ():
        result = with_nothing_of(result, empty)
    return result


@built_once
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


def split(
    self: Tensor,
    sizes: Any = None,
    axis: int = 0,
    dim: int | None = None,
    *,
    split_size: Any = None,
    split_size_or_sections: Any = None,
) -> tuple[Tensor, ...]:
    """Parts of the given sizes along `axis`; one number for parts of that size (the last may be smaller).

    split_size, split_size_or_sections: PyTorch's names of sizes.

    >>> [part.tolist() for part in Tensor([1, 2, 3, 4, 5]).split(2)]
    [[1, 2], [3, 4], [5]]
    """
    sizes = next((one for one in (sizes, split_size, split_size_or_sections) if one is not None), None)
    place = one_axis(axis_or_dim(axis, dim, "split", 0), self.ndim, "split")
    extent = self.shape[place]
    if not isinstance(sizes, Sequence) or isinstance(sizes, str):
        size = whole_number(sizes, "split")
        if size < 1:
            raise ShapeError(f"split: parts of size {size}; use a size of 1 or more")
        sizes = [min(size, extent - begin) for begin in range(0, extent, size)] or [0]
    sizes = [whole_number(size, "split") for size in sizes]
    if sum(sizes) != extent:
        raise ShapeError(f"split: the sizes {tuple(sizes)} do not add up to {extent}, axis {place} of {self.shape}")
    parts, begin = [], 0
    for size in sizes:
        parts.append(slice_axis(self, place, begin, begin + size))
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
    if not self.shape[place]:
        return self.split([0] * chunks, place)
    return self.split(max(-(-self.shape[place] // chunks), 1), place)


@built_once
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
    if not extent or not shift % extent:
        return self._same()
    distance = shift if abs(shift) < extent else shift % extent
    return self._result(UOp("ROLL", (self.uop,), axis=place, by=distance))


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


def atleast_1d(self: Tensor | Sequence[Tensor], *others: Tensor) -> Any:
    """The tensor, or each of several as a tuple, with an axis at least.

    >>> Tensor(3).atleast_1d().tolist()
    [3]
    """
    return _each(self, others, lambda x: x if x.ndim else x.reshape(1), "atleast_1d")


def atleast_2d(self: Tensor | Sequence[Tensor], *others: Tensor) -> Any:
    """The tensor, or each of several, with two axes at least: vectors are rows.

    >>> [part.tolist() for part in Tensor(3).atleast_2d(Tensor([1, 2]))]
    [[[3]], [[1, 2]]]
    """
    return _each(self, others, lambda x: x if x.ndim > 1 else x.reshape(1, -1), "atleast_2d")


def atleast_3d(self: Tensor | Sequence[Tensor], *others: Tensor) -> Any:
    """The tensor, or each of several, with three axes at least: matrices get one at the end, vectors on each side.

    >>> Tensor([1, 2]).atleast_3d().tolist()
    [[[1], [2]]]
    """

    def wide(x: Tensor) -> Tensor:
        return x if x.ndim > 2 else x.unsqueeze(2) if x.ndim == 2 else x.reshape(1, -1, 1)

    return _each(self, others, wide, "atleast_3d")


def hsplit(self: Tensor, sections: Any) -> tuple[Tensor, ...]:
    """Parts along the second axis, of a vector along its only one: so many equal ones, or those between places.

    Raises ShapeError for an extent that is not a multiple; `tensor_split` takes any.

    >>> [part.tolist() for part in Tensor([[1, 2], [3, 4]]).hsplit(2)]
    [[[1], [3]], [[2], [4]]]
    """
    return _equal_parts(self, sections, 0 if self.ndim == 1 else 1, 1, "hsplit")


def vsplit(self: Tensor, sections: Any) -> tuple[Tensor, ...]:
    """`hsplit` along the first of two axes at least.

    >>> [part.tolist() for part in Tensor([[1, 2], [3, 4]]).vsplit(2)]
    [[[1, 2]], [[3, 4]]]
    """
    return _equal_parts(self, sections, 0, 2, "vsplit")


def dsplit(self: Tensor, sections: Any) -> tuple[Tensor, ...]:
    """`hsplit` along the third axis.

    >>> [part.tolist() for part in Tensor([[[1, 2]]]).dsplit(2)]
    [[[[1]]], [[[2]]]]
    """
    return _equal_parts(self, sections, 2, 3, "dsplit")


def _equal_parts(self: Tensor, sections: Any, axis: int, rank: int, name: str) -> tuple[Tensor, ...]:
    if self.ndim < rank:
        raise ShapeError(f"{name}: the shape is {self.shape}; it needs {rank} {'axes' if rank > 1 else 'axis'}")
    if not isinstance(sections, Sequence):
        count = whole_number(sections, name)
        if count < 1 or self.shape[axis] % count:
            raise ShapeError(
                f"{name}: {count} equal parts of axis {axis} of the shape {self.shape}; use tensor_split for others"
            )
    return self.tensor_split(sections, axis)


def block_diag(self: Tensor | Sequence[Tensor], *others: Tensor) -> Tensor:
    """The matrix with these matrices (vectors as rows, numbers) along its diagonal, and zeros elsewhere.

    >>> Tensor([[1, 2]]).block_diag(Tensor([[3], [4]])).tolist()
    [[1, 2, 0], [0, 0, 3], [0, 0, 4]]
    """
    blocks = [x.atleast_2d() for x in tensors_of(self, others, "block_diag")]
    if any(x.ndim > 2 for x in blocks):
        raise ShapeError(f"block_diag: the shapes {[x.shape for x in blocks]}; give matrices")
    width, begin, rows = sum(x.shape[1] for x in blocks), 0, []
    for block in blocks:
        rows.append(block.pad([(0, 0), (begin, width - begin - block.shape[1])]))
        begin += block.shape[1]
    found: Tensor = rows[0].cat(*rows[1:])
    return found


def cartesian_prod(self: Tensor | Sequence[Tensor], *others: Tensor) -> Tensor:
    """All tuples with an element of each vector, as rows in order; of one vector the vector.

    >>> Tensor([1, 2]).cartesian_prod(Tensor([3, 4])).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    vectors = tensors_of(self, others, "cartesian_prod")
    if any(v.ndim != 1 for v in vectors):
        raise ShapeError(f"cartesian_prod: the shapes {[v.shape for v in vectors]}; give vectors")
    if len(vectors) == 1:
        return vectors[0]._same()
    columns = [grid.flatten() for grid in vectors[0].meshgrid(*vectors[1:], indexing="ij")]
    return columns[0].stack(*columns[1:], axis=1)


def combinations(self: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All ways to take `r` elements of this vector in order, as rows; with replacement one may come again.

    >>> Tensor([1, 2, 3]).combinations().tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    count = whole_number(r, "combinations")
    if self.ndim != 1 or count < 0:
        raise ShapeError(f"combinations: {r} elements of the shape {self.shape}; take 0 or more of a vector")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(choose(range(self.size), count)), np.int64)
    if not places.size:
        return self.shrink((0, 0)) if not count else self.new_empty(0, count)
    return self.take(places)


def _each(first: Any, others: tuple[Any, ...], change: Any, name: str) -> Any:
    """`change` of one tensor, or of each of several, as a tuple."""
    if not others and not isinstance(first, Sequence):
        return change(first)
    return tuple(change(x) for x in tensors_of(first, others, name))


def split_with_sizes(self: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """`split` by a list of sizes.

    >>> [part.tolist() for part in Tensor([1, 2, 3]).split_with_sizes([1, 2])]
    [[1], [2, 3]]
    """
    return self.split(list(split_sizes), dim)
