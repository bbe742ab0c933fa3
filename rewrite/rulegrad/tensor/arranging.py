"""Tensors rearranged: repeated, rotated, put side by side, taken apart; triangles, diagonals and coordinates."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rulegrad.errors import ShapeError
from rulegrad.tensor.axes import axis_or_dim, integers, one_axis, whole_number
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.joining import cat, roll_axis
from rulegrad.tensor.linalg import products
from rulegrad.tensor.movement import slice_axis
from rulegrad.tensor.operands import broadcast_shapes, tensors_of

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor


# ---- repeated and turned ----


def tile(self: Tensor, *counts: Any, dims: Any = None) -> Tensor:
    """The whole tensor `counts[k]` times along axis k, as NumPy's tile: counts that are left out are 1, in front.

    dims: PyTorch's name of the counts.

    >>> from rulegrad import Tensor
    >>> Tensor([1, 2]).tile(2).tolist()
    [1, 2, 1, 2]
    """
    numbers = integers(counts if dims is None else (*counts, dims), "tile")
    if min(numbers, default=0) < 0:
        raise ShapeError(f"tile: the counts {numbers}; use 0 or more")
    numbers = (1,) * (self.ndim - len(numbers)) + numbers
    return self.repeat(*numbers) if numbers else self._same()


def repeat_interleave(
    self: Tensor,
    repeats: Any = None,
    axis: int | None = None,
    *,
    dim: int | None = None,
    output_size: int | None = None,
) -> Tensor:
    """Each element `repeats` times in a row along `axis`, or in the flat tensor. NumPy's repeat.

    Without `repeats` the tensor itself is the numbers of times, and its places are repeated, as in PyTorch.

    repeats: a number, or one for each element: a list or an array; a tensor synchronises. output_size: their sum,
    with which PyTorch does not wait for a tensor; ShapeError where it is another.

    >>> from rulegrad import Tensor
    >>> Tensor([1, 2]).repeat_interleave(2).tolist(), Tensor([1, 2]).repeat_interleave([0, 3]).tolist()
    ([1, 1, 2, 2], [2, 2, 2])
    """
    named = axis_or_dim(axis, dim, "repeat_interleave")
    if repeats is None:
        if self.ndim != 1 or named not in (None, 0, -1):
            raise ShapeError(
                f"repeat_interleave: without repeats it takes a vector of them, not the shape {self.shape}"
            )
        counted: Tensor = self.arange(self.shape[0], device=self._device or None)
        return counted.repeat_interleave(self, 0, output_size=output_size)
    if named is None:
        return self.flatten().repeat_interleave(repeats, 0, output_size=output_size)
    k = one_axis(named, self.ndim, "repeat_interleave")
    counts = np.asarray(repeats.tolist() if hasattr(repeats, "tolist") else repeats)
    if counts.dtype.kind not in "iu" or counts.ndim > 1 or (counts.size and counts.min() < 0):
        raise ShapeError(f"repeat_interleave: repeats={repeats}; use numbers of 0 or more, one or a vector of them")
    if counts.ndim and counts.size not in (1, self.shape[k]):
        raise ShapeError(f"repeat_interleave: {counts.size} counts for axis {k} of the shape {self.shape}")
    total = int(counts.sum()) * (self.shape[k] if counts.size == 1 else 1)
    if output_size is not None and output_size != total:
        raise ShapeError(f"repeat_interleave: output_size={output_size}, and the repeats give {total}")
    if counts.size == 1:
        count = int(counts.reshape(()))
        wide = self.unsqueeze(k + 1).expand(self.shape[: k + 1] + (count,) + self.shape[k + 1 :])
        return wide.reshape(self.shape[:k] + (self.shape[k] * count,) + self.shape[k + 1 :])._same()
    places = np.repeat(np.arange(self.shape[k]), counts)
    return self.take(places, k)


@built_once
def roll(self: Tensor, shift: Any = None, axis: Any = None, *, shifts: Any = None, dims: Any = None) -> Tensor:
    """The elements moved by `shift` places along `axis`, or in the flat tensor; those that fall off come in again.

    Several shifts and axes are paired; a single one is for all. `shifts` and `dims` are PyTorch's names.

    >>> from rulegrad import Tensor
    >>> Tensor([[1, 2], [3, 4]]).roll((1, 1), (0, 1)).tolist()
    [[4, 3], [2, 1]]
    """
    distances = integers((shift if shifts is None else shifts,), "roll")
    named = axis_or_dim(axis, dims, "roll")
    if named is None:
        return self.flatten().roll(sum(distances), 0).reshape(self.shape)
    axes = integers((named,), "roll")
    count = max(len(axes), len(distances))
    if len(axes) not in (1, count) or len(distances) not in (1, count):
        raise ShapeError(f"roll: {len(distances)} shifts for {len(axes)} axes; give one each")
    result = self
    for distance, k in zip(distances * (count // len(distances)), axes * (count // len(axes))):
        result = roll_axis(result, distance, k)
    return result


def rot90(self: Tensor, k: int = 1, axes: tuple[int, int] = (0, 1), *, dims: tuple[int, int] | None = None) -> Tensor:
    """Turned `k` times by 90 degrees, from the first of the axes (or `dims`) towards the second.

    >>> from rulegrad import Tensor
    >>> Tensor([[1, 2], [3, 4]]).rot90().tolist()
    [[2, 4], [1, 3]]
    """
    plane = [one_axis(axis, self.ndim, "rot90") for axis in integers((dims or axes,), "rot90")]
    if len(plane) != 2 or plane[0] == plane[1]:
        raise ShapeError(f"rot90: the axes {plane}; name two axes, none twice")
    first, second = plane
    turns = whole_number(k, "rot90") % 4
    if turns == 2:
        return self.flip(first, second)
    if turns == 1:
        return self.flip(second).transpose(first, second)
    return self.transpose(first, second).flip(second) if turns else self._shared()


# ---- axes ----


def expand_dims(self: Tensor, axis: Any = 0) -> Tensor:
    """NumPy's name of `unsqueeze`; several axes count in the result.

    >>> Tensor.zeros(2, 3).expand_dims((0, 2)).shape
    (1, 2, 1, 3)
    """
    axes = integers((axis,), "expand_dims")
    rank = self.ndim + len(axes)
    places = sorted(one_axis(k, rank, "expand_dims") for k in axes)
    if len(set(places)) != len(places):
        raise ShapeError(f"expand_dims: the axes {axes} name one axis twice")
    result = self
    for place in places:
        result = result.unsqueeze(place)
    return result


def moveaxis(self: Tensor, source: Any, destination: Any) -> Tensor:
    """The axes `source` moved to the places `destination`; the others keep their order.

    >>> Tensor.zeros(2, 3, 4).moveaxis((0, 1), (2, 0)).shape
    (3, 4, 2)
    """
    found = [one_axis(k, self.ndim, "moveaxis", of_scalar=True) for k in integers((source,), "moveaxis")]
    places = [one_axis(k, self.ndim, "moveaxis", of_scalar=True) for k in integers((destination,), "moveaxis")]
    if len(found) != len(places) or len(set(found)) != len(found) or len(set(places)) != len(places):
        raise ShapeError(f"moveaxis: {source} to {destination}; name as many axes as places, each once")
    if not self.ndim:  # as in PyTorch; NumPy's function raises
        return self
    order = [k for k in range(self.ndim) if k not in found]
    for place, k in sorted(zip(places, found)):
        order.insert(place, k)
    return self.permute(order)


# ---- together ----


def concat(
    self: Tensor | Sequence[Tensor], *others: Tensor | int, axis: int | None = 0, dim: int | None = None
) -> Tensor:
    """The array API's name of `cat`; with `axis=None` the tensors are made flat first.

    >>> x = Tensor([[1, 2]])
    >>> x.concat(x).tolist(), x.concat(x, axis=None).tolist()
    ([[1, 2], [1, 2]], [1, 2, 1, 2])
    """
    if axis is None and dim is None:
        flat = [t.flatten() for t in tensors_of(self, others, "concat")]
        return flat[0].cat(*flat[1:])
    return cat(self, *others, axis=axis or 0, dim=dim)


def hstack(self: Tensor | Sequence[Tensor], *others: Tensor) -> Tensor:
    """The tensors side by side: along the second axis, vectors along the first.

    >>> Tensor.hstack([Tensor([[1], [2]]), Tensor([[3], [4]])]).tolist()
    [[1, 3], [2, 4]]
    """
    tensors = [t if t.ndim else t.reshape(1) for t in tensors_of(self, others, "hstack")]
    return tensors[0].cat(*tensors[1:], axis=min(tensors[0].ndim - 1, 1))


def vstack(self: Tensor | Sequence[Tensor], *others: Tensor) -> Tensor:
    """The tensors one below the other: along the first axis, vectors as rows.

    >>> Tensor.vstack([Tensor([1, 2]), Tensor([3, 4])]).tolist()
    [[1, 2], [3, 4]]
    """
    tensors = [t if t.ndim > 1 else t.reshape(1, -1) for t in tensors_of(self, others, "vstack")]
    return tensors[0].cat(*tensors[1:], axis=0)


def dstack(self: Tensor | Sequence[Tensor], *others: Tensor) -> Tensor:
    """The tensors behind each other: along the third axis; vectors are rows of matrices.

    >>> Tensor.dstack([Tensor([1, 2]), Tensor([3, 4])]).tolist()
    [[[1, 3], [2, 4]]]
    """
    tensors = [t if t.ndim > 1 else t.reshape(1, -1) for t in tensors_of(self, others, "dstack")]
    tensors = [t if t.ndim > 2 else t.unsqueeze(2) for t in tensors]
    return tensors[0].cat(*tensors[1:], axis=2)


def column_stack(self: Tensor | Sequence[Tensor], *others: Tensor) -> Tensor:
    """Vectors as the columns of a matrix, matrices side by side.

    >>> from rulegrad import Tensor
    >>> Tensor.column_stack([Tensor([1, 2]), Tensor([3, 4])]).tolist()
    [[1, 3], [2, 4]]
    """
    tensors = [t if t.ndim > 1 else t.reshape(-1, 1) for t in tensors_of(self, others, "column_stack")]
    return tensors[0].cat(*tensors[1:], axis=1)


def broadcast_tensors(self: Tensor | Sequence[Tensor], *others: Tensor) -> list[Tensor]:
    """All tensors, expanded to their common shape; NumPy's broadcast_arrays.

    >>> [x.tolist() for x in Tensor([1, 2]).broadcast_tensors(Tensor([[3], [4]]))]
    [[[1, 2], [1, 2]], [[3, 3], [4, 4]]]
    """
    tensors = tensors_of(self, others, "broadcast_tensors")
    shape = broadcast_shapes("broadcast_tensors", *(t.shape for t in tensors))
    return [t.expand(shape) for t in tensors]


def meshgrid(self: Tensor | Sequence[Tensor], *others: Tensor, indexing: Literal["xy", "ij"] = "xy") -> list[Tensor]:
    """Coordinates of a grid from vectors: "xy" as NumPy, whose second axis is the first vector's; "ij" in order.

    >>> from rulegrad import Tensor
    >>> [part.tolist() for part in Tensor([1, 2]).meshgrid(Tensor([3, 4]))]
    [[[1, 2], [1, 2]], [[3, 3], [4, 4]]]
    """
    vectors = tensors_of(self, others, "meshgrid")
    if any(v.ndim > 1 for v in vectors) or indexing not in ("xy", "ij"):
        raise ShapeError(
            f'meshgrid: indexing={indexing!r} ("xy" or "ij"), shapes {[v.shape for v in vectors]} (vectors)'
        )
    rank = len(vectors)
    axes = list(range(rank))
    if indexing == "xy" and rank > 1:
        axes[:2] = [1, 0]
    lines = [v.reshape(tuple(v.size if k == axis else 1 for k in range(rank))) for v, axis in zip(vectors, axes)]
    return [line._same() for line in lines[0].broadcast_tensors(*lines[1:])]


# ---- apart ----


def tensor_split(
    self: Tensor, indices_or_sections: Any, axis: int = 0, *, dim: int | None = None
) -> tuple[Tensor, ...]:
    """So many parts of nearly one size along `axis`, or the parts between places; NumPy's array_split.

    indices_or_sections: a number, or a sequence of places; also a tensor, which synchronises, or an array.

    >>> from rulegrad import Tensor
    >>> [part.tolist() for part in Tensor([1, 2, 3, 4, 5]).tensor_split(2)]
    [[1, 2, 3], [4, 5]]
    """
    k = one_axis(axis_or_dim(axis, dim, "tensor_split", 0), self.ndim, "tensor_split")
    extent = self.shape[k]
    given = indices_or_sections
    parts = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(parts, Sequence):
        borders = [0, *(slice(None, whole_number(p, "tensor_split")).indices(extent)[1] for p in parts), extent]
    else:
        count = whole_number(parts, "tensor_split")
        if count < 1:
            raise ShapeError(f"tensor_split: {count} parts; use 1 or more")
        borders = [number * (extent // count) + min(number, extent % count) for number in range(count + 1)]
    return tuple(slice_axis(self, k, begin, max(begin, end)) for begin, end in itertools.pairwise(borders))


def unbind(self: Tensor, axis: int = 0, *, dim: int | None = None) -> tuple[Tensor, ...]:
    """The slices along `axis`, without that axis.

    >>> [part.tolist() for part in Tensor([[1, 2], [3, 4]]).unbind(1)]
    [[1, 3], [2, 4]]
    """
    k = one_axis(axis_or_dim(axis, dim, "unbind", 0), self.ndim, "unbind")
    before, after = tuple(self.shape[:k]), tuple(self.shape[k + 1 :])
    first, rest = (0,) * k, (0,) * len(after)
    return tuple(self._part((*first, n, *rest), (*before, n + 1, *after), before + after) for n in range(self.shape[k]))


# ---- triangles and diagonals ----


def _below(self: Tensor, diagonal: int) -> Tensor:
    """Whether an element of the last two axes is on or below a diagonal."""
    rows, columns = self.shape[-2:]
    device = self._device or None
    return self.arange(columns, device=device) <= self.arange(rows, device=device).unsqueeze(1) + diagonal


def _need_matrix(self: Tensor, name: str) -> None:
    if self.ndim < 2:
        raise ShapeError(f"{name}: the shape {self.shape} has no rows and columns; give at least two axes")


@built_once
def tril(self: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangles of matrices: zeros above the diagonal with that number (positive ones are above).

    >>> from rulegrad import Tensor
    >>> Tensor([[1, 2], [3, 4]]).tril().tolist()
    [[1, 0], [3, 4]]
    """
    _need_matrix(self, "tril")
    return _below(self, whole_number(diagonal, "tril")).where(self, 0).cast(self.dtype)


@built_once
def triu(self: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangles of matrices: zeros below the diagonal with that number.

    >>> Tensor([[1, 2], [3, 4]]).triu().tolist()
    [[1, 2], [0, 4]]
    """
    _need_matrix(self, "triu")
    return _below(self, whole_number(diagonal, "triu") - 1).where(0, self).cast(self.dtype)


def tril_indices(
    cls: type[Tensor], row: int, col: int | None = None, offset: int = 0, device: str | None = None
) -> Tensor:
    """Row and column numbers of a lower triangle, as PyTorch's: of shape (2, count).

    >>> Tensor.tril_indices(2).tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    found = np.tril_indices(row, offset, row if col is None else col)
    return cls(np.stack(found).astype(np.int64), device=device)


def triu_indices(
    cls: type[Tensor], row: int, col: int | None = None, offset: int = 0, device: str | None = None
) -> Tensor:
    """Row and column numbers of an upper triangle, as PyTorch's: of shape (2, count).

    >>> Tensor.triu_indices(2).tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    found = np.triu_indices(row, offset, row if col is None else col)
    return cls(np.stack(found).astype(np.int64), device=device)


def diagonal(self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonals over two axes, `offset` above the main one, as the last axis; a view.

    >>> from rulegrad import Tensor
    >>> Tensor([[1, 2], [3, 4]]).diagonal().tolist()
    [1, 4]
    """

    _need_matrix(self, "diagonal")
    first, second = (one_axis(axis, self.ndim, "diagonal") for axis in (dim1, dim2))
    if first == second:
        raise ShapeError(f"diagonal: axis {first} twice; name two axes")
    matrices: Any = self.moveaxis((first, second), (-2, -1))
    return products.diagonal(matrices, whole_number(offset, "diagonal"))


@built_once
def trace(self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1, dtype: Any = None) -> Tensor:
    """The sums of the diagonals over two axes.

    >>> Tensor([[1, 2], [3, 4]]).trace().item()
    5
    """
    _need_matrix(self, "trace")
    return self.diagonal(offset, dim1, dim2).sum(-1, dtype=dtype)


@built_once
def diag(self: Tensor, diagonal: int = 0) -> Tensor:
    """Of a vector the matrix with it on a diagonal, of a matrix its diagonal.

    >>> Tensor([1, 2]).diag().tolist(), Tensor([[1, 2], [3, 4]]).diag().tolist()
    ([[1, 0], [0, 2]], [1, 4])
    """
    if self.ndim == 2:
        return self.diagonal(diagonal)._same()
    if self.ndim != 1:
        raise ShapeError(f"diag: the shape is {self.shape}; give a vector or a matrix")
    return self.diag_embed(diagonal)


def diag_embed(self: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last axis on a diagonal, zeros elsewhere; dim1, dim2: their axes in the result.

    >>> Tensor([[1, 2], [3, 4]]).diag_embed().tolist()
    [[[1, 0], [0, 2]], [[3, 0], [0, 4]]]
    """
    first, second = (one_axis(axis, self.ndim + 1, "diag_embed") for axis in (dim1, dim2))
    if first == second:
        raise ShapeError(f"diag_embed: axis {first} twice; name two axes")
    offset = whole_number(offset, "diag_embed")
    extent = self.shape[-1] if self.ndim else 0
    rest = [(0, 0)] * (self.ndim - 1)
    places = self.arange(extent, device=self.device)
    square = (places.unsqueeze(-1) == places).where(self.unsqueeze(-1), 0).cast(self.dtype)
    below, right = max(-offset, 0), max(offset, 0)
    return square.pad([*rest, (below, right), (right, below)]).moveaxis((-2, -1), (first, second))


def diagflat(self: Tensor, offset: int = 0) -> Tensor:
    """The matrix with all elements, in order, on a diagonal.

    >>> Tensor([[1, 2]]).diagflat().tolist()
    [[1, 0], [0, 2]]
    """
    return self.flatten().diag_embed(offset)
