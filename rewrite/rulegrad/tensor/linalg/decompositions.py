"""Decompositions of matrices, by LAPACK on the host. Gradients: `linalg.gradients`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rulegrad.errors import ConfigError
from rulegrad.ir.dtype import complex64, complex128, float64
from rulegrad.tensor.linalg import gradients
from rulegrad.tensor.linalg.host import (
    LinalgError,
    adjoint,
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


class QR(NamedTuple):
    """The result of `qr`.

    >>> q, r = rg.linalg.qr(Tensor([[3.0], [4.0]]))
    >>> q.shape, r.shape
    ((2, 1), (1, 1))
    """

    Q: Tensor
    R: Tensor


class SVD(NamedTuple):
    """The result of `svd`.

    >>> u, s, vh = rg.linalg.svd(Tensor([[3.0, 0.0], [0.0, 4.0]]))
    >>> s.tolist()
    [4.0, 3.0]
    """

    U: Tensor
    S: Tensor
    Vh: Tensor


class CholeskyEx(NamedTuple):
    """The result of `cholesky_ex`.

    >>> triangle, info = rg.linalg.cholesky_ex(Tensor([[4.0]]))
    >>> triangle.tolist(), info.item()
    ([[2.0]], 0)
    """

    L: Tensor
    info: Tensor


class Eigh(NamedTuple):
    """The result of `eigh`.

    >>> values, vectors = rg.linalg.eigh(Tensor([[2.0, 0.0], [0.0, 1.0]]))
    >>> values.tolist()
    [1.0, 2.0]
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


class Eig(NamedTuple):
    """The result of `eig`.

    >>> values, vectors = rg.linalg.eig(Tensor([[2.0, 0.0], [0.0, 2.0]]))
    >>> values.tolist()
    [(2+0j), (2+0j)]
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


def cholesky(x: Tensor, upper: bool = False) -> Tensor:
    """Lower triangles L with `L @ L^H = x`, or upper U with `U^H @ U = x`. Synchronises.

    Reads only the triangle that it is asked for. Raises ShapeError, and LinalgError for matrices that are not positive
    definite. Gradient: that of Hermitian matrices.

    >>> from rulegrad import Tensor
    >>> cholesky(Tensor([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    square(x, "cholesky")
    if upper:
        found: Tensor = adjoint(cholesky(adjoint(x)))
        return found
    (lower,) = on_host("cholesky", np.linalg.cholesky, supported(x), formula=gradients.of_cholesky)
    return rounded(lower, x)


def cholesky_ex(x: Tensor, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx:
    """`cholesky`, and `info` (int32): 0, or for a matrix that is not positive definite, whose triangle is given as nan,
    the size of the first leading minor that is not.

    check_errors: raise LinalgError for such a matrix, as `cholesky`.

    >>> from rulegrad import Tensor
    >>> cholesky_ex(Tensor([[4.0, 0.0], [0.0, -1.0]])).info.item()
    2
    """
    square(x, "cholesky_ex")
    try:
        return CholeskyEx(cholesky(x, upper), x.zeros(x.shape[:-2], dtype="int32", device=x._device or None))
    except LinalgError:
        if check_errors:
            raise
    matrix = supported(x.detach())
    (info,) = on_host("cholesky_ex", _first_minor, adjoint(matrix) if upper else matrix)
    positive = info.unsqueeze(-1).unsqueeze(-1).equal(0)
    one = x.eye(x.shape[-1], dtype=x.dtype, device=x._device or None)
    return CholeskyEx(positive.where(cholesky(positive.where(x, one), upper), float("nan")), info)


def _first_minor(a: Array) -> Array:
    """The size of the first leading minor of each matrix that is not positive definite, or 0."""

    def positive(matrix: Array) -> bool:
        try:
            np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            return False
        return True

    n = a.shape[-1]
    found = [next((k for k in range(1, n + 1) if not positive(m[:k, :k])), 0) for m in a.reshape(-1, n, n)]
    return np.asarray(found, np.int32).reshape(a.shape[:-2])


def qr(x: Tensor, mode: str = "reduced") -> QR:
    """Q with orthonormal columns and upper triangles R with `Q @ R = x`. Synchronises.

    mode: "reduced", "complete" for square Q, or "r" for R of "reduced" and an empty Q. Raises ConfigError for
    another one, ShapeError. Gradient: where the first columns, as many as Q has, are independent. With mode="complete"
    and more rows than columns there is none (RulegradError): the columns that are added are not determined.

    >>> from rulegrad import Tensor
    >>> abs(qr(Tensor([[3.0], [4.0]])).R).tolist()
    [[5.0]]
    """
    matrices(x, "qr")
    if mode not in ("reduced", "complete", "r"):
        raise ConfigError(f"qr: mode is {mode!r}; use 'reduced', 'complete' or 'r'")
    rows, columns = x.shape[-2:]
    if mode == "complete" and rows > columns:
        no_gradient(f"qr of {x.shape} with mode={mode!r}", "mode='reduced'", x)
    matrix = supported(x)
    if rows < columns and tracks(x):
        # The others follow from the first columns: R = Q^H x.
        q, first = qr(matrix[..., :rows])
        r = first.cat(adjoint(q) @ matrix[..., rows:], axis=-1)
    else:
        complete = mode == "complete"
        q, r = on_host(
            "qr",
            lambda a: tuple(np.linalg.qr(a, "complete" if complete else "reduced")),
            matrix,
            formula=gradients.of_qr,
        )
    if mode == "r":
        q = x.zeros((0,), dtype=q.dtype, device=x._device or None)
    return QR(rounded(q, x), rounded(r, x))


def svd(x: Tensor, full_matrices: bool = True) -> SVD:
    """U, S, Vh with `U @ diag(S) @ Vh = x`; S is real and falls. Synchronises.

    full_matrices: square U and Vh; otherwise as many columns and rows as S has elements. Raises ShapeError, and
    LinalgError when the iteration does not end. Gradient: of full_matrices=False, or square matrices, where no singular
    value is repeated, for results that do not depend on the signs of columns (of complex matrices: on their phases).
    RulegradError for others: the columns that are added are not determined.

    >>> from rulegrad import Tensor
    >>> svd(Tensor([[3.0, 0.0], [0.0, 4.0]])).S.tolist()
    [4.0, 3.0]
    """
    matrices(x, "svd")
    if full_matrices and x.shape[-1] != x.shape[-2]:
        no_gradient(f"svd of {x.shape} with full_matrices=True", "full_matrices=False", x)
    thin = not full_matrices or tracks(x)
    parts = on_host(
        "svd",
        lambda a: tuple(np.linalg.svd(a, full_matrices=not thin)),
        supported(x),
        formula=gradients.of_svd,
    )
    return SVD(*(rounded(part, x) for part in parts))


def svdvals(x: Tensor) -> Tensor:
    """The singular values, real and falling. Synchronises. Gradient: dS = diag(U^H dx V), where none is repeated.

    >>> from rulegrad import Tensor
    >>> svdvals(Tensor([[3.0, 0.0], [0.0, 4.0]])).tolist()
    [4.0, 3.0]
    """
    matrices(x, "svdvals")
    if tracks(x):
        values: Tensor = svd(x, full_matrices=False).S
        return values
    (found,) = on_host("svdvals", lambda a: np.linalg.svd(a, compute_uv=False), supported(x))
    return rounded(found, x)


def eigh(x: Tensor, UPLO: str = "L") -> Eigh:  # noqa: N803  (PyTorch's name)
    """Eigenvalues, real and rising, and eigenvectors, in columns, of Hermitian matrices. Synchronises.

    Reads the lower triangle; the upper one with UPLO="U". Raises ConfigError for another UPLO, ShapeError, and
    LinalgError when the iteration does not end. Gradient: that of Hermitian matrices, where no eigenvalue is repeated,
    for results that do not depend on the columns' signs (phases).

    >>> from rulegrad import Tensor
    >>> eigh(Tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
    [1.0, 2.0]
    """
    square(x, "eigh")
    x = _lower(x, UPLO, "eigh")
    parts = on_host("eigh", lambda a: tuple(np.linalg.eigh(a)), supported(x), formula=gradients.of_eigh)
    return Eigh(*(rounded(part, x) for part in parts))


def eigvalsh(x: Tensor, UPLO: str = "L") -> Tensor:  # noqa: N803  (PyTorch's name)
    """The eigenvalues of Hermitian matrices, real and rising, with the gradient and UPLO of `eigh`. Synchronises.

    >>> from rulegrad import Tensor
    >>> eigvalsh(Tensor([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [1.0, 2.0]
    """
    square(x, "eigvalsh")
    x = _lower(x, UPLO, "eigvalsh")
    if tracks(x):
        values: Tensor = eigh(x).eigenvalues
        return values
    (found,) = on_host("eigvalsh", np.linalg.eigvalsh, supported(x))
    return rounded(found, x)


def _lower(x: Tensor, triangle: str, operation: str) -> Tensor:
    """Matrices whose lower triangle is to be read."""
    if triangle not in ("L", "U"):
        raise ConfigError(f"{operation}: UPLO is {triangle!r}; use 'L' or 'U'")
    found: Tensor = x if triangle == "L" else adjoint(x)
    return found


def eig(x: Tensor) -> Eig:
    """Eigenvalues, in no order, and eigenvectors, in columns, of square matrices: complex. Synchronises.

    Raises ShapeError, and LinalgError for infinities, nan, and what does not end. Gradient: where no eigenvalue is
    repeated, for results that do not depend on the phases of columns.

    >>> from rulegrad import Tensor
    >>> eig(Tensor([[0.0, -1.0], [1.0, 0.0]])).eigenvalues.shape
    (2,)
    """
    square(x, "eig")
    matrix = supported(x)
    wide = matrix.dtype in (float64, complex128)
    parts = on_host("eig", _eig, matrix.cast(complex128 if wide else complex64), formula=gradients.of_eig)
    return Eig(*parts)


def eigvals(x: Tensor) -> Tensor:
    """The eigenvalues of square matrices: complex, in no order, with the gradient of `eig`. Synchronises.

    >>> from rulegrad import Tensor
    >>> eigvals(Tensor([[0.0, -1.0], [1.0, 0.0]])).dtype
    DType('complex64')
    """
    square(x, "eigvals")
    values: Tensor = eig(x).eigenvalues
    return values


def _eig(a: Array) -> tuple[Array, ...]:
    """Real matrices are done as such: it is faster, and pairs of eigenvalues are conjugates."""
    found = np.linalg.eig(a if a.imag.any() else a.real)
    return tuple(_as_complex(part) for part in found)


def _as_complex(a: Array) -> Array:
    return np.asarray(a).astype(np.result_type(a.dtype, np.complex64), copy=False)
