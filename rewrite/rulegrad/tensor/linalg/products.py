"""Products over chosen axes, cross products, diagonals: all part of the graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rulegrad.errors import ShapeError
from rulegrad.tensor.axes import one_axis
from rulegrad.tensor.linalg.host import matrices
from rulegrad.tensor.operands import broadcast_shapes, result_dtype
from rulegrad.tensor.reduce import accumulation_dtype

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor

    T = TypeVar("T", bound=Tensor)


def tensordot(a: T, b: T, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> T:
    """The sums of products over pairs of axes: the last `axes` of `a` with the first of `b`, or those named for each.

    The other axes of `a` come first in the result, then those of `b`. Raises ShapeError, IndexRangeError.

    >>> from rulegrad import Tensor
    >>> tensordot(Tensor([[1, 2], [3, 4]]), Tensor([1, 1]), 1).tolist()
    [3, 7]
    """
    first, second = _paired_axes(a, b, axes)
    if [a.shape[k] for k in first] != [b.shape[k] for k in second]:
        raise ShapeError(f"tensordot: axes {first} of {a.shape} and {second} of {b.shape} differ in size")
    free_a = [k for k in range(a.ndim) if k not in first]
    free_b = [k for k in range(b.ndim) if k not in second]
    shape = [a.shape[k] for k in free_a] + [b.shape[k] for k in free_b]
    inner = math.prod(a.shape[k] for k in first)
    left = a.permute([*free_a, *first]).reshape(math.prod(a.shape[k] for k in free_a), inner)
    right = b.permute([*second, *free_b]).reshape(inner, math.prod(b.shape[k] for k in free_b))
    return left.matmul(right).reshape(tuple(shape))


def _paired_axes(a: Tensor, b: Tensor, axes: Any) -> tuple[list[int], list[int]]:
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise ShapeError(f"tensordot: {axes} axes of the shapes {a.shape} and {b.shape}; they have not so many")
        return list(range(a.ndim - axes, a.ndim)), list(range(axes))
    first = [one_axis(k, a.ndim, "tensordot") for k in _listed(axes[0])]
    second = [one_axis(k, b.ndim, "tensordot") for k in _listed(axes[1])]
    if len(first) != len(second) or len(set(first)) != len(first) or len(set(second)) != len(second):
        raise ShapeError(f"tensordot: {axes} is no list of pairs of axes; name as many of each, and each once")
    return first, second


def _listed(axes: Any) -> list[int]:
    return list(axes) if isinstance(axes, Sequence) else [axes]


def vecdot(a: T, b: T, axis: int = -1) -> T:
    """The sums of `conj(a) * b` along `axis`, in the promoted dtype; the other axes broadcast.

    >>> from rulegrad import Tensor
    >>> vecdot(Tensor([[1, 2], [3, 4]]), Tensor([1, 1])).tolist()
    [3, 7]
    """
    dtype = result_dtype(a, b)
    wide = accumulation_dtype(dtype)
    left = a.conj() if a.dtype.is_complex else a
    return (left.cast(wide) * b.cast(wide)).sum(axis, dtype=wide).cast(dtype)


def cross(a: T, b: T, axis: int = -1) -> T:
    """The cross products of vectors of 3 elements along `axis`; the other axes broadcast. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> cross(Tensor([1, 0, 0]), Tensor([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    rank = max(a.ndim, b.ndim)
    place = one_axis(axis, rank, "cross") - rank if axis >= 0 else axis
    if any(x.ndim < -place or x.shape[place] != 3 for x in (a, b)):
        raise ShapeError(f"cross: axis {axis} of the shapes {a.shape} and {b.shape} is not of size 3 in both")
    shape = broadcast_shapes("cross", a.shape, b.shape)
    a, b = a.expand(shape), b.expand(shape)
    return a.roll(-1, place) * b.roll(-2, place) - a.roll(-2, place) * b.roll(-1, place)


def diagonal(x: T, offset: int = 0) -> T:
    """The diagonals of matrices (…, rows, columns), `offset` above the main one (below for offset < 0); a view.

    >>> from rulegrad import Tensor
    >>> diagonal(Tensor([[1, 2, 3], [4, 5, 6]]), 1).tolist()
    [2, 6]
    """
    matrices(x, "diagonal")
    rows, columns = x.shape[-2:]
    first_row, first_column = max(-offset, 0), max(offset, 0)
    count = max(min(rows - first_row, columns - first_column), 0)
    whole: list[tuple[int, int] | None] = [None] * (x.ndim - 2)
    if not count:
        return x.shrink(*whole, (0, 0), (0, 0)).reshape((*x.shape[:-2], 0))
    part = x.shrink(*whole, (first_row, first_row + count), (first_column, first_column + count))
    # With one more column, the diagonal is the first column.
    flat = part.reshape((*x.shape[:-2], count * count))
    flat = flat._viewed("PAD", before=(0,) * flat.ndim, after=(*(0,) * (flat.ndim - 1), count))
    return flat.reshape((*x.shape[:-2], count, count + 1)).shrink(*whole, None, (0, 1)).reshape((*x.shape[:-2], count))
