"""Least squares, and singular values of matrices of low rank by random projections."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.tensor.axes import whole_number
from rulegrad.tensor.linalg import gradients
from rulegrad.tensor.linalg.decompositions import qr, svd, svdvals
from rulegrad.tensor.linalg.host import adjoint, largest, matrices, on_host, supported
from rulegrad.tensor.linalg.solving import above, limits_of, matrix_rank, pinv
from rulegrad.tensor.operands import broadcast_shapes, result_dtype

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor


_DRIVERS: Final = ("gels", "gelsy", "gelsd", "gelss")


class LeastSquares(NamedTuple):
    """The result of `lstsq`.

    >>> found = rg.linalg.lstsq(Tensor([[1.0], [1.0]]), Tensor([[1.0], [3.0]]), driver="gelsd")
    >>> [round(part, 4) for part in (found.solution.item(), found.residuals.item())], found.rank.item()
    ([2.0, 2.0], 1)
    """

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class LowRank(NamedTuple):
    """The result of `Tensor.svd_lowrank` and `Tensor.pca_lowrank`: `U @ diag(S) @ V^H` is near the matrix.

    >>> Tensor.ones(3, 2).svd_lowrank(q=1).S.shape
    (1,)
    """

    U: Tensor
    S: Tensor
    V: Tensor


def lstsq(a: Tensor, b: Tensor, rcond: Any = None, *, driver: str | None = None) -> LeastSquares:
    """X for which `|a @ X - b|` is least, and of those the smallest. By singular values, so it synchronises.

    a: (…, rows, columns). b: (…, rows, k); or vectors, of shape a.shape[:-1]. The batches broadcast.
    rcond: singular values up to it times the largest count as 0; by default max(rows, columns) * eps.
    driver: says, as in PyTorch, what else is found; "gelsy" by default. With all but "gels" the rank; with "gelsd" and
    "gelss" the singular values; with all but "gelsy", for more rows than columns and where all ranks are full, the
    residuals: the sums of squares of `a @ X - b`. What is not found is an empty tensor. Gradient: of solution and
    residuals, where the rank does not change. Raises ShapeError, and ConfigError for another driver.

    >>> from rulegrad import Tensor
    >>> lstsq(Tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), Tensor([1.0, 2.0, 3.0])).solution.round(decimals=3).tolist()
    [1.0, 1.0]
    """
    matrices(a, "lstsq")
    driver = "gelsy" if driver is None else driver
    if driver not in _DRIVERS:
        raise ConfigError(f"lstsq: driver is {driver!r}; use one of {', '.join(map(repr, _DRIVERS))}")
    vectors = b.ndim == 1 or (a.ndim > 2 and b.shape == a.shape[:-1])
    right = b.unsqueeze(-1) if vectors else b
    if right.ndim < 2 or a.shape[-2] != right.shape[-2]:
        raise ShapeError(f"lstsq: a right side of shape {b.shape} does not fit matrices of shape {a.shape}")
    dtype = result_dtype(a, b)
    first, second = supported(a.cast(dtype)), supported(right.cast(dtype))
    rtol = 0.0 if driver == "gels" and rcond is None else rcond
    found, residuals = _solved(first, second, rtol)
    ranks: Any = matrix_rank(a, rtol=rcond)
    empty = a.zeros((0,), dtype=first.dtype.real, device=a._device or None)
    full = driver == "gels" or (driver != "gelsy" and not largest((ranks < a.shape[-1]).cast("int8")))
    if a.shape[-2] <= a.shape[-1] or not full:
        residuals = empty
    solution = found.squeeze(-1) if vectors else found
    return LeastSquares(
        solution.cast(dtype) if dtype.is_float else solution,
        residuals.squeeze(-1) if vectors and residuals is not empty else residuals,
        empty.cast("int64") if driver == "gels" else ranks,
        svdvals(a) if driver in ("gelsd", "gelss") else empty,
    )


def _solved(a: Tensor, b: Tensor, rtol: Any) -> tuple[Tensor, Tensor]:
    """The solutions and the sums of squares of what they leave."""
    batch = broadcast_shapes("lstsq", a.shape[:-2], b.shape[:-2])
    whole, right = a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])
    limits = limits_of(whole, whole, None, rtol)
    (found,) = on_host(
        "lstsq", partial(_by_singular_values, limits=limits), whole, right, formula=partial(_of_lstsq, rtol=rtol)
    )
    left = whole @ found - right
    squares = left.abs().square() if left.dtype.is_complex else left.square()
    return found, squares.sum(-2)


def _by_singular_values(a: Array, b: Array, limits: Any) -> Array:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    kept = above(s, limits)
    inverse = np.where(kept, 1 / np.where(kept, s, 1), 0).astype(s.dtype)
    return np.asarray(vh.conj().mT @ (inverse[..., None] * (u.conj().mT @ b)))


def _of_lstsq(operands: Any, results: Any, gradients_of: Any, rtol: Any) -> Sequence[Any]:
    """X = P B for the pseudo-inverse P of A"""
    (a, b), (g,) = operands, gradients_of
    inverse = pinv(a, rtol=rtol)
    return *gradients.of_pinv((a,), (inverse,), (g @ adjoint(b),)), adjoint(inverse) @ g


def svd_lowrank(x: Tensor, q: int = 6, niter: int = 2, M: Any = None) -> LowRank:  # noqa: N803  (PyTorch's name)
    """The `q` largest singular values of `x - M`, nearly, and their vectors: of a random projection on q columns.

    niter: how often the projection is improved by a product with the matrix and its adjoint. M: 0 by default. (Halko,
    Martinsson and Tropp: Finding structure with randomness; 2009, algorithm 5.1.) Synchronises. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> svd_lowrank(Tensor([[3.0, 0.0], [0.0, 4.0]]), q=2).S.round(decimals=3).tolist()
    [4.0, 3.0]
    """
    matrices(x, "svd_lowrank")
    rows, columns = x.shape[-2:]
    count = whole_number(q, "svd_lowrank")
    if not 0 <= count <= min(rows, columns):
        raise ShapeError(f"svd_lowrank: q={count} singular values of matrices of shape {x.shape}")
    matrix = supported(x if M is None else x - M)
    if rows < columns:
        found = svd_lowrank(adjoint(matrix), count, niter)
        return LowRank(found.V, found.S, found.U)
    drawn = x.randn(columns, count, dtype=matrix.dtype.real, device=x.device)
    basis = qr(matrix @ drawn.cast(matrix.dtype)).Q
    for _ in range(niter):
        basis = qr(matrix @ qr(adjoint(matrix) @ basis).Q).Q
    u, s, vh = svd(adjoint(basis) @ matrix, full_matrices=False)
    return LowRank(basis @ u, s, adjoint(vh))


def pca_lowrank(x: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> LowRank:
    """The principal components of observations (rows), nearly: `svd_lowrank` of the matrix less the mean of its rows.

    q: by default 6, or fewer where the matrix is smaller. center: False for the matrix as it is. V has the directions
    in its columns. Synchronises. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> abs(pca_lowrank(Tensor([[1.0, 1.0], [3.0, 1.0]]), q=1).V).round(decimals=3).tolist()
    [[1.0], [0.0]]
    """
    matrices(x, "pca_lowrank")
    count = min(6, *x.shape[-2:]) if q is None else q
    return svd_lowrank(x, count, niter, x.mean(-2, keepdims=True) if center else None)
