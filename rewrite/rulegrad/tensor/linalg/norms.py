"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from rulegrad.tensor.linalg.decompositions import svdvals
from rulegrad.tensor.linalg.host import matrices, rounded
from rulegrad.tensor.reduce import accumulation_dtype

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor

    T = TypeVar("T", bound=Tensor)


def vector_norm(x: T, axes: Any = None, ord: float = 2, keepdims: bool = False) -> T:
    """The p-norm over the axes together, `(sum |x|^p)^(1/p)` for p = `ord`; real.

    ord: inf and -inf for the largest and the smallest absolute value, 0 for the number of elements that are not 0.

    >>> from rulegrad import Tensor
    >>> vector_norm(Tensor([3.0, 4.0])).item(), vector_norm(Tensor([3.0, -4.0]), ord=math.inf).item()
    (5.0, 4.0)
    """
    size = x.abs() if x.dtype.is_complex or ord != 2 else x
    result = size.dtype
    wide = size.cast(accumulation_dtype(result))
    if ord == math.inf:
        return size.max(axes, keepdims)
    if ord == -math.inf:
        return size.min(axes, keepdims)
    if ord == 0:
        return size.cast("bool").sum(axes, keepdims, result)
    if ord == 1:
        return wide.sum(axes, keepdims).cast(result)
    if ord == 2:
        return wide.square().sum(axes, keepdims)._root().cast(result)
    return wide.pow(ord).sum(axes, keepdims)._root(ord).cast(result)


def matrix_norm(x: T, ord: Any = "fro", keepdims: bool = False) -> T:
    """The norms of matrices, real.

    ord: "fro" (the root of the sum of squares), "nuc" (the sum of singular values), 1 and -1 (the largest and smallest
    sum of a column's absolute values), inf and -inf (of a row's), 2 and -2 (the largest and smallest singular value).
    "nuc", 2 and -2 synchronise. Raises ValueError for another one.

    >>> from rulegrad import Tensor
    >>> matrix_norm(Tensor([[1.0, -2.0], [3.0, 4.0]]), 1).item()
    6.0
    """
    matrices(x, "matrix_norm")
    if ord == "fro":
        return vector_norm(x, (-2, -1), 2, keepdims)
    if ord in (1, -1, math.inf, -math.inf):
        along, across = (-2, -1) if abs(ord) == 1 else (-1, -2)
        totals = vector_norm(x, along, 1, keepdims=True)
        norms = totals.max(across, True) if ord > 0 else totals.min(across, True)
    elif ord in (2, -2, "nuc"):
        values = svdvals(x)
        norms = values.sum(-1) if ord == "nuc" else values.max(-1) if ord > 0 else values.min(-1)
        norms = rounded(norms, x).unsqueeze(-1).unsqueeze(-1)
    else:
        raise ValueError(f"matrix_norm: ord is {ord!r}; use 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    return norms if keepdims else norms.reshape(x.shape[:-2])
