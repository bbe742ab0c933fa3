"""Norms of vectors and matrices, and condition numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.tensor import linalg
from rulegrad.tensor.axes import axes_or_dim, is_list, one_axis
from rulegrad.tensor.linalg.host import matrices, rounded, square
from rulegrad.tensor.reduce import accumulation_dtype, root_of

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor


def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    axis: Any = None,
    keepdims: bool = False,
) -> Tensor:
    """The p-norm over the axes `dim` together (all by default), `(sum |x|^p)^(1/p)` for p = `ord`; real.

    ord: inf and -inf for the largest and the smallest absolute value, 0 for the number of elements that are not 0.
    dtype: cast to this dtype before.

    >>> from rulegrad import Tensor
    >>> vector_norm(Tensor([3.0, 4.0])).item(), vector_norm(Tensor([3.0, -4.0]), math.inf).item()
    (5.0, 4.0)
    """
    axes, keep = axes_or_dim(axis, dim, "vector_norm"), keepdim or keepdims
    if dtype is not None:
        x = x.cast(dtype)
    size = x.abs() if x.dtype.is_complex or ord != 2 else x
    result = size.dtype
    wide = size.cast(accumulation_dtype(result))
    if ord == math.inf:
        return size.max(axes, keep)
    if ord == -math.inf:
        return size.min(axes, keep)
    if ord == 0:
        return size.cast("bool").sum(axes, keep, result)
    if ord == 1:
        return wide.sum(axes, keep).cast(result)
    if ord == 2:
        return root_of(wide.square().sum(axes, keep)).cast(result)
    return root_of(wide.pow(ord).sum(axes, keep), ord).cast(result)


def matrix_norm(
    x: Tensor,
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
    keepdims: bool = False,
) -> Tensor:
    """The norms of matrices, whose rows and columns are the two axes `dim`; real.

    ord: "fro" (the root of the sum of squares), "nuc" (the sum of singular values), 1 and -1 (the largest and smallest
    sum of a column's absolute values), inf and -inf (of a row's), 2 and -2 (the largest and smallest singular value).
    "nuc", 2 and -2 synchronise. dtype: cast to this dtype before. Raises ShapeError, and ConfigError for another `ord`.

    >>> from rulegrad import Tensor
    >>> matrix_norm(Tensor([[1.0, -2.0], [3.0, 4.0]]), ord=1).item()
    6.0
    """
    matrices(x, "matrix_norm")
    if not is_list(dim) or len(dim) != 2:
        raise ShapeError(f"matrix_norm: dim={dim}; a matrix has two axes")
    rows, columns = (one_axis(axis, x.ndim, "matrix_norm") for axis in dim)
    if rows == columns:
        raise ShapeError(f"matrix_norm: axis {rows} twice; name two axes")
    if dtype is not None:
        x = x.cast(dtype)
    found = _matrix_norm(x, ord, rows, columns)
    if keepdim or keepdims:
        for axis in sorted((rows, columns)):
            found = found.unsqueeze(axis)
    return found


def _matrix_norm(x: Tensor, ord: Any, rows: int, columns: int) -> Tensor:
    if ord == "fro":
        return vector_norm(x, 2, (rows, columns))
    if ord in (1, -1, math.inf, -math.inf):
        along, across = (rows, columns) if abs(ord) == 1 else (columns, rows)
        totals = vector_norm(x, 1, along)
        rest = across - (along < across)
        return _largest(totals, rest) if ord > 0 else totals.min(rest)
    if ord in (2, -2, "nuc"):
        values = linalg.svdvals(x.moveaxis((rows, columns), (-2, -1)))
        found = values.sum(-1) if ord == "nuc" else _largest(values, -1) if ord > 0 else values.min(-1)
        return rounded(found, x)
    raise ConfigError(f"matrix_norm: ord is {ord!r}; use 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")


def _largest(x: Tensor, axis: int) -> Tensor:
    """The largest of numbers that are not negative: of none of them, 0."""
    return x.max(axis) if x.shape[axis] else x.sum(axis)


def norm(x: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of a vector, or of matrices: `vector_norm` or `matrix_norm`, by the number of axes.

    dim: one axis for a norm of vectors, two for one of matrices; without it, those of a tensor with one or two axes.
    ord: None for the root of the sum of squares, of any number of axes; else as there. Raises ShapeError, ValueError.

    >>> from rulegrad import Tensor
    >>> x = Tensor([[1.0, -2.0], [3.0, 4.0]])
    >>> norm(x, 1).item(), norm(x, 1, dim=0).tolist()
    (6.0, [4.0, 6.0])
    """
    if ord is None:
        return vector_norm(x, 2, dim, keepdim, dtype=dtype)
    if dim is None and x.ndim not in (1, 2):
        raise ShapeError(f"norm: ord={ord!r} of the shape {x.shape}; name one axis or two with dim=")
    axes = tuple(range(x.ndim)) if dim is None else tuple(dim) if is_list(dim) else (dim,)
    if len(axes) == 2:
        return matrix_norm(x, ord, axes, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise ShapeError(f"norm: ord={ord!r} along {len(axes)} axis; that is a norm of matrices, which have two")
    return vector_norm(x, ord, axes, keepdim, dtype=dtype)


def cond(x: Tensor, p: Any = None) -> Tensor:
    """The condition numbers of matrices: the norm of the matrix times that of its inverse; inf for a singular one.

    p: None or 2, the largest singular value divided by the smallest, of any matrix; -2 for the inverse of that; for
    others ("fro", "nuc", 1, -1, inf, -inf) the matrices are square. Synchronises. Raises ShapeError, ValueError.

    >>> from rulegrad import Tensor
    >>> cond(Tensor([[4.0, 0.0], [0.0, 2.0]])).item()
    2.0
    """
    if p in (None, 2, -2):
        matrices(x, "cond")
        values = linalg.svdvals(x)
        if not values.shape[-1]:
            return values.sum(-1)
        large, small = values.max(-1), values.min(-1)
        return small / large if p == -2 else large / small
    square(x, "cond")
    inverse: Any
    inverse, info = linalg.inv_ex(x)
    regular: Any = info.equal(0)
    found = matrix_norm(x, p) * matrix_norm(regular.unsqueeze(-1).unsqueeze(-1).where(inverse, 0), p)
    result: Tensor = regular.where(found, math.inf)
    return result
