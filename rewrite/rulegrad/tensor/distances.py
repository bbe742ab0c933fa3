"""Distances and similarities of vectors: pairs of rows, and all pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rulegrad.errors import ShapeError
from rulegrad.tensor.axes import one_axis
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.linalg.norms import vector_norm
from rulegrad.tensor.operands import as_tensor, broadcast_shapes
from rulegrad.tensor.transcendental import as_floating

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor


@built_once
def cosine_similarity(self: Tensor, other: Operand, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`; their norms count as `eps` or more. It broadcasts.

    >>> from rulegrad import Tensor
    >>> Tensor([[1.0, 0.0]]).cosine_similarity(Tensor([[2.0, 0.0]])).tolist()
    [1.0]
    """
    second = as_tensor(self, other, "cosine_similarity")
    shape = broadcast_shapes("cosine_similarity", self.shape, second.shape)
    axis = one_axis(dim, len(shape), "cosine_similarity", of_scalar=True)
    first, second = (x.expand(shape) if shape else x.reshape(1) for x in (self, second))
    return (first.normalize(2.0, axis, eps) * second.normalize(2.0, axis, eps)).sum(axis)


@built_once
def pairwise_distance(self: Tensor, other: Operand, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of `self - other + eps` along the last axis. It broadcasts.

    >>> Tensor([[0.0, 0.0]]).pairwise_distance(Tensor([[3.0, 4.0]]), eps=0.0).tolist()
    [5.0]
    """
    difference = self - other + eps
    return vector_norm(difference, p, -1, keepdim)


@built_once
def cdist(self: Tensor, other: Operand, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The p-norms of the differences of all pairs of points: (…, n, k) and (…, m, k) give (…, n, m).

    Always from the differences, so that near points have an exact distance, whatever compute_mode says.

    >>> Tensor([[0.0, 0.0]]).cdist(Tensor([[3.0, 4.0], [0.0, 1.0]])).tolist()
    [[5.0, 1.0]]
    """
    right = as_tensor(self, other, "cdist")
    if min(self.ndim, right.ndim) < 2 or self.shape[-1] != right.shape[-1]:
        raise ShapeError(f"cdist: the shapes {self.shape} and {right.shape}; both need (…, points, coordinates)")
    return _length((as_floating(self).unsqueeze(-2) - as_floating(right).unsqueeze(-3)), p)


def pdist(self: Tensor, p: float = 2.0) -> Tensor:
    """The p-norms of the differences of the rows i < j of a matrix: the part of `cdist` above the diagonal.

    >>> Tensor([[0.0, 0.0], [3.0, 4.0], [3.0, 0.0]]).pdist().tolist()
    [5.0, 3.0, 4.0]
    """
    if self.ndim != 2:
        raise ShapeError(f"pdist: the shape is {self.shape}; it needs (points, coordinates)")
    first, second = np.triu_indices(self.shape[0], 1)
    rows: Any = as_floating(self)
    return _length((rows[first] - rows[second]), p)


def _length(self: Tensor, p: float) -> Tensor:
    if not self.shape[-1]:
        return self.sum(-1)
    return vector_norm(self, p, -1)
