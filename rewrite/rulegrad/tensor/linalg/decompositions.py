"""Decompositions of matrices, by LAPACK on the host. Gradients: Giles, An extended collection of matrix derivative
results (2008), and Townsend, Differentiating the singular value decomposition (2016), for real matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from rulegrad.tensor.linalg.host import (
    differentiated,
    from_host,
    matrices,
    no_gradient,
    on_host,
    rounded,
    square,
    supported,
    tracks,
)

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor

    T = TypeVar("T", bound=Tensor)


class QR(NamedTuple):
    """What `qr` finds."""

    Q: Tensor
    R: Tensor


class SVD(NamedTuple):
    """What `svd` finds."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class Eigh(NamedTuple):
    """What `eigh` finds."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class Eig(NamedTuple):
    """What `eig` finds."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def cholesky(x: T, upper: bool = False) -> T:
    """Lower triangles L with `L @ L^H = x`, or upper U with `U^H @ U = x`. Synchronises.

    Reads only the triangle that it is asked for. Raises ShapeError, and LinalgError for matrices that are not positive
    definite. Gradient: dL = L half(L^-1 dx L^-T), where half keeps the lower triangle and half of the diagonal.

    >>> from rulegrad import Tensor
    >>> cholesky(Tensor([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    square(x, "cholesky")
    matrix = supported(x)
    if upper:
        lower = on_host("cholesky", lambda a: np.linalg.cholesky(_adjoint(a)), matrix)
        found = from_host(_adjoint(lower), x)
    else:
        lower = on_host("cholesky", np.linalg.cholesky, matrix)
        found = from_host(lower, x)
    if tracks(x):
        inverse = from_host(np.linalg.inv(lower), x)
        keeps = from_host(np.tril(np.ones_like(lower[..., :1, :1] * lower)) - np.eye(x.shape[-1]) / 2, x)
        model = from_host(lower, x) @ ((inverse @ _symmetric(matrix) @ inverse.mT) * keeps.cast(matrix.dtype))
        found = differentiated(found, model.mT if upper else model)
    return rounded(found, x)


def qr(x: T, mode: str = "reduced") -> QR:
    """Q with orthonormal columns and upper triangles R with `Q @ R = x`. Synchronises.

    mode: "reduced", or "complete" for square Q. Raises ValueError for another one, ShapeError. Gradient: of "reduced",
    for matrices with as many rows as columns or more; with C = Q^T dx R^-1 and W = tril(C, -1) - tril(C, -1)^T it is
    dQ = dx R^-1 + Q (W - C), dR = (C - W) R. Raises RulegradError for others.

    >>> from rulegrad import Tensor
    >>> abs(qr(Tensor([[3.0], [4.0]])).R).tolist()
    [[5.0]]
    """
    matrices(x, "qr")
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode is {mode!r}; use 'reduced' or 'complete'")
    tall = x.shape[-2] >= x.shape[-1]
    if mode == "complete" or not tall:
        no_gradient(f"qr of {x.shape} with mode={mode!r}", "mode='reduced' and as many rows as columns or more", x)
    matrix = supported(x)
    first, second = on_host("qr", _qr_of(mode), matrix)
    q, r = from_host(first, x), from_host(second, x)
    if tracks(x):
        inverse = from_host(np.linalg.inv(second), x)
        below = from_host(np.tril(np.ones(second.shape, second.dtype), -1), x)
        q_constant, r_constant = from_host(first, x), from_host(second, x)
        part = q_constant.mT @ matrix @ inverse
        turn = part * below - (part * below).mT
        q = differentiated(q, matrix @ inverse + q_constant @ (turn - part))
        r = differentiated(r, (part - turn) @ r_constant)
    return QR(rounded(q, x), rounded(r, x))


def svd(x: T, full_matrices: bool = True) -> SVD:
    """U, S, Vh with `U @ diag(S) @ Vh = x`; S is real and falls. Synchronises.

    full_matrices: square U and Vh; otherwise as many columns and rows as S has elements. Has no gradient
    (RulegradError; `svdvals` has one). Raises ShapeError, and LinalgError when the iteration does not end.

    >>> from rulegrad import Tensor
    >>> svd(Tensor([[3.0, 0.0], [0.0, 4.0]])).S.tolist()
    [4.0, 3.0]
    """
    matrices(x, "svd")
    no_gradient("svd", "svdvals for the singular values", x)
    found = on_host("svd", lambda a: np.linalg.svd(a, full_matrices=full_matrices), supported(x))
    return SVD(*(rounded(from_host(part, x), x) for part in found))


def svdvals(x: T) -> T:
    """The singular values, real and falling. Synchronises. Gradient: dS = diag(U^T dx V), where none is repeated.

    >>> from rulegrad import Tensor
    >>> svdvals(Tensor([[3.0, 0.0], [0.0, 4.0]])).tolist()
    [4.0, 3.0]
    """
    matrices(x, "svdvals")
    matrix = supported(x)
    if not tracks(x):
        return rounded(from_host(on_host("svdvals", lambda a: np.linalg.svd(a, compute_uv=False), matrix), x), x)
    u, s, vh = on_host("svdvals", lambda a: np.linalg.svd(a, full_matrices=False), matrix)
    left, right = from_host(u, x), from_host(_adjoint(vh), x)
    return rounded(differentiated(from_host(s, x), (left * (matrix @ right)).sum(-2)), x)


def eigh(x: T) -> Eigh:
    """Eigenvalues, real and rising, and eigenvectors, in columns, of Hermitian matrices. Synchronises.

    Reads the lower triangle. Raises ShapeError, and LinalgError when the iteration does not end. Gradient, where no
    eigenvalue is repeated: dw = diag(V^T dx V), dV = V (F * (V^T dx V)) with F[i, j] = 1 / (w[j] - w[i]), 0 for i = j.

    >>> from rulegrad import Tensor
    >>> eigh(Tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
    [1.0, 2.0]
    """
    square(x, "eigh")
    matrix = supported(x)
    w, v = on_host("eigh", np.linalg.eigh, matrix)
    values, vectors = from_host(w, x), from_host(v, x)
    if tracks(x):
        constant = from_host(v, x)
        turned = constant.mT @ _symmetric(matrix) @ constant
        distance = w[..., None, :] - w[..., :, None]
        with np.errstate(divide="ignore"):
            factors = np.where(np.eye(w.shape[-1], dtype=bool), 0, 1 / distance).astype(w.dtype)
        values = differentiated(values, (constant * (_symmetric(matrix) @ constant)).sum(-2))
        vectors = differentiated(vectors, constant @ (from_host(factors, x) * turned))
    return Eigh(rounded(values, x), rounded(vectors, x))


def eigvalsh(x: T) -> T:
    """The eigenvalues of Hermitian matrices, real and rising, with the gradient of `eigh`. Synchronises.

    >>> from rulegrad import Tensor
    >>> eigvalsh(Tensor([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [1.0, 2.0]
    """
    square(x, "eigvalsh")
    if tracks(x):
        values: T = eigh(x).eigenvalues  # type: ignore[assignment]
        return values
    return rounded(from_host(on_host("eigvalsh", np.linalg.eigvalsh, supported(x)), x), x)


def eig(x: T) -> Eig:
    """Eigenvalues, in no order, and eigenvectors, in columns, of square matrices: complex. Synchronises.

    Has no gradient. Raises ShapeError, RulegradError, and LinalgError for infinities, nan, and what does not end.

    >>> from rulegrad import Tensor
    >>> eig(Tensor([[0.0, -1.0], [1.0, 0.0]])).eigenvalues.shape
    (2,)
    """
    square(x, "eig")
    no_gradient("eig", "eigh for symmetric matrices", x)
    found = on_host("eig", np.linalg.eig, supported(x))
    return Eig(*(from_host(_as_complex(part), x) for part in found))


def eigvals(x: T) -> T:
    """The eigenvalues of square matrices: complex, in no order. Synchronises. Has no gradient.

    >>> from rulegrad import Tensor
    >>> eigvals(Tensor([[0.0, -1.0], [1.0, 0.0]])).dtype
    'complex64'
    """
    square(x, "eigvals")
    no_gradient("eigvals", "eigvalsh for symmetric matrices", x)
    return from_host(_as_complex(on_host("eigvals", np.linalg.eigvals, supported(x))), x)


def _qr_of(mode: str) -> Callable[[Array], Any]:
    return lambda a: np.linalg.qr(a, "complete" if mode == "complete" else "reduced")


def _adjoint(a: Array) -> Array:
    return np.conj(np.swapaxes(a, -2, -1))


def _symmetric(x: T) -> T:
    """The mean of a matrix and its transpose: a gradient for it is symmetric."""
    return (x + x.mT) / 2


def _as_complex(a: Array) -> Array:
    return np.asarray(a).astype(np.result_type(a.dtype, np.complex64), copy=False)
