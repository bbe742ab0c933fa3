"""Products over chosen axes, cross products, diagonals: all part of the graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rulegrad.errors import ShapeError
from rulegrad.tensor import linalg
from rulegrad.tensor.axes import axis_or_dim, is_list, one_axis, whole_number
from rulegrad.tensor.linalg.host import matrices
from rulegrad.tensor.operands import broadcast_shapes, result_dtype, tensors_of
from rulegrad.tensor.reduce import accumulation_dtype

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor


def tensordot(a: Tensor, b: Tensor, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """The sums of products over pairs of axes: the last `axes` of `a` with the first of `b`, or those named for each.

    The other axes of `a` come first in the result, then those of `b`. Raises ShapeError, IndexRangeError.

    >>> from rulegrad import Tensor
    >>> tensordot(Tensor([[1, 2], [3, 4]]), Tensor([1, 1]), axes=1).tolist()
    [3, 7]
    """
    first, second = paired_axes(a, b, axes)
    if [a.shape[k] for k in first] != [b.shape[k] for k in second]:
        raise ShapeError(f"tensordot: axes {first} of {a.shape} and {second} of {b.shape} differ in size")
    free_a = [k for k in range(a.ndim) if k not in first]
    free_b = [k for k in range(b.ndim) if k not in second]
    shape = [a.shape[k] for k in free_a] + [b.shape[k] for k in free_b]
    inner = math.prod(a.shape[k] for k in first)
    left = a.permute([*free_a, *first]).reshape(math.prod(a.shape[k] for k in free_a), inner)
    right = b.permute([*second, *free_b]).reshape(inner, math.prod(b.shape[k] for k in free_b))
    return left.matmul(right).reshape(tuple(shape))


def paired_axes(a: Tensor, b: Tensor, axes: Any) -> tuple[list[int], list[int]]:
    """The axes of `tensordot`, counted from the front."""
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise ShapeError(f"tensordot: {axes} axes of the shapes {a.shape} and {b.shape}; they have not so many")
        return list(range(a.ndim - axes, a.ndim)), list(range(axes))
    first = [one_axis(k, a.ndim, "tensordot") for k in _listed(axes[0])]
    second = [one_axis(k, b.ndim, "tensordot") for k in _listed(axes[1])]
    if len(first) != len(second) or len(set(first)) != len(first) or len(set(second)) != len(second):
        raise ShapeError(f"tensordot: {axes} is not a list of pairs of axes; name as many of each, and each once")
    return first, second


def _listed(axes: Any) -> list[int]:
    return list(axes) if isinstance(axes, Sequence) else [axes]


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """`a @ b`: vectors, matrices, and batches of matrices, which broadcast. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> matmul(Tensor([[1, 2], [3, 4]]), Tensor([1, 1])).tolist()
    [3, 7]
    """
    return a.matmul(b)


def vecdot(a: Tensor, b: Tensor, axis: int = -1, *, dim: int | None = None) -> Tensor:
    """The sums of `conj(a) * b` along `axis`, in the promoted dtype; the other axes broadcast.

    >>> from rulegrad import Tensor
    >>> vecdot(Tensor([[1, 2], [3, 4]]), Tensor([1, 1])).tolist()
    [3, 7]
    """
    axis = axis_or_dim(axis, dim, "vecdot", -1)
    dtype = result_dtype(a, b)
    wide = accumulation_dtype(dtype)
    left = a.conj() if a.dtype.is_complex else a
    return (left.cast(wide) * b.cast(wide)).sum(axis, dtype=wide).cast(dtype)


def cross(a: Tensor, b: Tensor, axis: int = -1, *, dim: int | None = None) -> Tensor:
    """The cross products of vectors of 3 elements along `axis`; the other axes broadcast. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> cross(Tensor([1, 0, 0]), Tensor([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    axis = axis_or_dim(axis, dim, "cross", -1)
    rank = max(a.ndim, b.ndim)
    place = one_axis(axis, rank, "cross") - rank if axis >= 0 else axis
    if any(x.ndim < -place or x.shape[place] != 3 for x in (a, b)):
        raise ShapeError(f"cross: axis {axis} of the shapes {a.shape} and {b.shape} is not of size 3 in both")
    shape = broadcast_shapes("cross", a.shape, b.shape)
    a, b = a.expand(shape), b.expand(shape)
    return a.roll(-1, place) * b.roll(-2, place) - a.roll(-2, place) * b.roll(-1, place)


def diagonal(x: Tensor, offset: int = 0, *, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices (…, rows, columns), `offset` above the main one (below for offset < 0); a view.

    dim1, dim2: the axes of the rows and of the columns. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> diagonal(Tensor([[1, 2, 3], [4, 5, 6]]), offset=1).tolist()
    [2, 6]
    """
    matrices(x, "diagonal")
    if (dim1, dim2) != (-2, -1):
        return x.diagonal(offset, dim1, dim2)
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


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of two or more matrices, with the fewest multiplications; the first and the last may be vectors.

    The order is found by dynamic programming over the shapes (Cormen et al., Introduction to Algorithms, chapter on
    matrix chains). Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> multi_dot([Tensor([1, 2]), Tensor([[1, 0], [0, 2]]), Tensor([[1], [1]])]).tolist()
    [5]
    """
    tensors = tensors_of(tensors, (), "multi_dot")
    if len(tensors) < 2:
        raise ShapeError(f"multi_dot: {len(tensors)} tensors; give two or more")
    first, last = tensors[0], tensors[-1]
    chain = list(tensors)
    chain[0] = first.unsqueeze(0) if first.ndim == 1 else first
    chain[-1] = last.unsqueeze(1) if last.ndim == 1 else last
    if any(x.ndim != 2 for x in chain) or any(x.shape[1] != y.shape[0] for x, y in pairwise(chain)):
        shapes = " and ".join(str(x.shape) for x in tensors)
        raise ShapeError(f"multi_dot: the shapes {shapes} are not those of matrices that can be multiplied in turn")
    found = _in_best_order(chain)
    return found.reshape(found.shape[int(first.ndim == 1) : 2 - int(last.ndim == 1)])


def _in_best_order(chain: list[Tensor]) -> Tensor:
    sizes = [chain[0].shape[0], *(x.shape[1] for x in chain)]
    best: dict[tuple[int, int], tuple[int, int]] = {(k, k + 1): (0, k) for k in range(len(chain))}
    for length in range(2, len(chain) + 1):
        for begin in range(len(chain) - length + 1):
            end = begin + length
            best[begin, end] = min(
                (best[begin, k][0] + best[k, end][0] + sizes[begin] * sizes[k] * sizes[end], k)
                for k in range(begin + 1, end)
            )

    def product(begin: int, end: int) -> Tensor:
        k = best[begin, end][1]
        return chain[begin] if end - begin == 1 else product(begin, k) @ product(k, end)

    return product(0, len(chain))


def vander(x: Tensor, N: int | None = None) -> Tensor:  # noqa: N803  (PyTorch's name)
    """The powers 0, 1, …, N - 1 of the elements, along a new last axis; by default as many as x has along its last.

    Integers become int64. (`numpy.vander` has the powers the other way round.) Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> vander(Tensor([1, 2, 3])).tolist()
    [[1, 1, 1], [1, 2, 4], [1, 3, 9]]
    """
    if N is None and not x.ndim:
        raise ShapeError("vander: a tensor without axes; say how many powers with N=")
    count = x.shape[-1] if N is None else whole_number(N, "vander")
    if count < 1:
        raise ShapeError(f"vander: {count} powers; use 1 or more")
    x = x if x.ndim else x.reshape(1)
    if not x.dtype.is_inexact:
        x = x.cast("int64")
    ones = x.ones_like().unsqueeze(-1)
    if count == 1:
        return ones
    powers = x.unsqueeze(-1).expand((*x.shape, count - 1)).cumprod(-1)
    return ones.cat(powers, axis=-1)


def tensorinv(x: Tensor, ind: int = 2) -> Tensor:
    """The inverse under `tensordot(·, ·, ind)`: of a tensor that is square when its first `ind` axes are one axis.

    The result's shape is `x.shape[ind:] + x.shape[:ind]`. Synchronises. Raises ShapeError, LinalgError.

    >>> from rulegrad import Tensor
    >>> tensorinv(Tensor.eye(6).reshape(2, 3, 6)).shape
    (6, 2, 3)
    """
    if whole_number(ind, "tensorinv") < 1:
        raise ShapeError(f"tensorinv: ind={ind}; use 1 or more")
    rows = math.prod(x.shape[:ind])
    if rows != math.prod(x.shape[ind:]):
        raise ShapeError(f"tensorinv: {x.shape[:ind]} and {x.shape[ind:]} have not as many elements")
    return linalg.inv(x.reshape(rows, rows)).reshape((*x.shape[ind:], *x.shape[:ind]))


def tensorsolve(a: Tensor, b: Tensor, dims: Any = None) -> Tensor:
    """X with `tensordot(a, X, X.ndim) = b`. Synchronises.

    a: (*b.shape, *X.shape), with as many elements in both parts; the axes `dims` are moved to its end before. Raises
    ShapeError, and LinalgError for a singular tensor.

    >>> from rulegrad import Tensor
    >>> tensorsolve(Tensor.eye(6).reshape(2, 3, 6), Tensor.ones(2, 3)).shape
    (6,)
    """
    if dims is not None:
        named = tuple(dims) if is_list(dims) else (dims,)
        a = a.moveaxis(named, tuple(range(-len(named), 0)))
    rest = a.shape[b.ndim :]
    if math.prod(rest) != b.size or math.prod(a.shape) != b.size**2:
        raise ShapeError(f"tensorsolve: a tensor of shape {a.shape} does not fit a right side of shape {b.shape}")
    return linalg.solve(a.reshape(b.size, b.size), b.flatten()).reshape(rest)
