"""The linear algebra extension, over matrices (…, rows, columns) in batches.

Norms, products, traces and diagonals are part of the graph. Decompositions and what is made of them (also det, inv and
solve) are computed by LAPACK on the host, so they synchronise: the array is computed, copied out, and the result copied
in.
"""

from __future__ import annotations

from typing import Any

from rulegrad.tensor import linalg as tensors

from .linear_algebra import matmul, matrix_transpose, tensordot, vecdot
from .operands import Array, Axis, array, axes_of, inexact

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals",
    "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


# ---- decompositions ----


def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """The lower triangles L with `L @ L^H = x`, or the upper U with `U^H @ U = x`; on the host, so it synchronises.

    x: Hermitian positive definite matrices. Raises LinalgError when they are not.

    >>> from rulegrad import array_api as xp
    >>> xp.linalg.cholesky(xp.asarray([[4.0, 0.0], [0.0, 9.0]])).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    return tensors.cholesky(inexact(x, "cholesky"), upper)


def qr(x: Array, /, *, mode: str = "reduced") -> tensors.QR:
    """Matrices with orthonormal columns and upper triangles with `Q @ R = x`; on the host, so it synchronises.

    mode: "reduced", or "complete" for square Q. Raises ValueError for another one.

    >>> from rulegrad import array_api as xp
    >>> xp.linalg.qr(xp.ones((3, 2))).Q.shape
    (3, 2)
    """
    return tensors.qr(inexact(x, "qr"), mode)


def svd(x: Array, /, *, full_matrices: bool = True) -> tensors.SVD:
    """U, S, Vh with `U @ diag(S) @ Vh = x`, S real and falling; on the host, so it synchronises.

    full_matrices: square U and Vh; otherwise only as many columns and rows as S has elements.

    >>> from rulegrad import array_api as xp
    >>> xp.linalg.svd(xp.asarray([[3.0, 0.0], [0.0, 4.0]])).S.tolist()
    [4.0, 3.0]
    """
    return tensors.svd(inexact(x, "svd"), full_matrices)


def svdvals(x: Array, /) -> Array:
    """The singular values, real and falling; on the host, so it synchronises.

    >>> from rulegrad import array_api as xp
    >>> xp.linalg.svdvals(xp.asarray([[3.0, 0.0], [0.0, 4.0]])).tolist()
    [4.0, 3.0]
    """
    return tensors.svdvals(inexact(x, "svdvals"))


def eigh(x: Array, /) -> tensors.Eigh:
    """Eigenvalues, real and rising, and eigenvectors (columns) of Hermitian matrices; on the host: it synchronises.

    >>> from rulegrad import array_api as xp
    >>> xp.linalg.eigh(xp.asarray([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
    [1.0, 2.0]
    """
    return tensors.eigh(inexact(x, "eigh"))


def eigvalsh(x: Array, /) -> Array:
    """The eigenvalues of Hermitian matrices, real and rising; on the host, so it synchronises.

    >>> from rulegrad import array_api as xp
    >>> xp.linalg.eigvalsh(xp.asarray([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [1.0, 2.0]
    """
    return tensors.eigvalsh(inexact(x, "eigvalsh"))


def eig(x: Array, /) -> tensors.Eig:
    """Eigenvalues and eigenvectors (columns) of square matrices, complex; on the host, so it synchronises.

    >>> from rulegrad import array_api as xp
    >>> xp.linalg.eig(xp.asarray([[0.0, -1.0], [1.0, 0.0]])).eigenvalues.dtype
    DType('complex64')
    """
    return tensors.eig(inexact(x, "eig"))


def eigvals(x: Array, /) -> Array:
    """The eigenvalues of square matrices, complex, in no order; on the host, so it synchronises.

    >>> from rulegrad import array_api as xp
    >>> xp.linalg.eigvals(xp.asarray([[0.0, -1.0], [1.0, 0.0]])).shape
    (2,)
    """
    return tensors.eigvals(inexact(x, "eigvals"))


# ---- what is made of decompositions ----


def det(x: Array, /) -> Array:
    """The determinants of square matrices; on the host, so it synchronises.

    >>> from rulegrad import array_api as xp
    >>> float(xp.linalg.det(xp.asarray([[2.0, 0.0], [0.0, 3.0]])))
    6.0
    """
    return tensors.det(inexact(x, "det"))


def slogdet(x: Array, /) -> tensors.Slogdet:
    """The sign of the determinants, and the logarithm of their absolute value; on the host: it synchronises.

    >>> from rulegrad import array_api as xp
    >>> float(xp.linalg.slogdet(xp.asarray([[-1.0]])).sign)
    -1.0
    """
    return tensors.slogdet(inexact(x, "slogdet"))


def inv(x: Array, /) -> Array:
    """The inverses of square matrices; on the host, so it synchronises. Raises LinalgError for a singular one.

    >>> from rulegrad import array_api as xp
    >>> xp.linalg.inv(xp.asarray([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return tensors.inv(inexact(x, "inv"))


def pinv(x: Array, /, *, rtol: float | Array | None = None) -> Array:
    """The pseudo-inverses; on the host, so it synchronises.

    rtol: singular values below `rtol` times the largest count as 0; by default max(rows, columns) * eps.

    >>> from rulegrad import array_api as xp
    >>> xp.linalg.pinv(xp.asarray([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    return tensors.pinv(inexact(x, "pinv"), rtol=rtol)


def solve(x1: Array, x2: Array, /) -> Array:
    """X with `x1 @ X = x2`; on the host, so it synchronises. Raises LinalgError for a singular matrix.

    x1: (…, n, n). x2: a vector (n,), or matrices (…, n, k); batches broadcast.

    >>> from rulegrad import array_api as xp
    >>> xp.linalg.solve(xp.asarray([[2.0, 0.0], [0.0, 4.0]]), xp.asarray([2.0, 4.0])).tolist()
    [1.0, 1.0]
    """
    a, b = inexact(x1, "solve"), inexact(x2, "solve")
    # Here only what has one axis is a vector.
    return tensors.solve(a, b if b.ndim < 2 else b.reshape((1,) * (a.ndim - b.ndim) + b.shape))


def matrix_rank(x: Array, /, *, rtol: float | Array | None = None) -> Array:
    """How many singular values are above `rtol` times the largest (int64); on the host, so it synchronises.

    rtol: by default max(rows, columns) * eps.

    >>> from rulegrad import array_api as xp
    >>> int(xp.linalg.matrix_rank(xp.ones((3, 3))))
    1
    """
    return tensors.matrix_rank(inexact(x, "matrix_rank"), rtol=rtol)


def matrix_power(x: Array, n: int, /) -> Array:
    """Square matrices multiplied by themselves `n` times; for n < 0 their inverses, which synchronises.

    >>> from rulegrad import array_api as xp
    >>> xp.linalg.matrix_power(xp.asarray([[1.0, 1.0], [0.0, 1.0]]), 5).tolist()
    [[1.0, 5.0], [0.0, 1.0]]
    """
    return tensors.matrix_power(inexact(x, "matrix_power"), n)


# ---- part of the graph ----


def cross(x1: Array, x2: Array, /, axis: int = -1) -> Array:
    """The cross products of vectors of 3 elements along `axis`; the other axes broadcast. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.linalg.cross(xp.asarray([1, 0, 0]), xp.asarray([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    return tensors.cross(array(x1, "cross"), array(x2, "cross"), axis)


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices, `offset` above the main one (below it for offset < 0). Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.linalg.diagonal(xp.asarray([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    return tensors.diagonal(array(x, "diagonal"), offset)


def trace(x: Array, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sums of the diagonals of matrices, `offset` above the main one; in `dtype`, or as `sum`.

    >>> from rulegrad import array_api as xp
    >>> int(xp.linalg.trace(xp.asarray([[1, 2], [3, 4]])))
    5
    """
    values = array(x, "trace")
    return tensors.diagonal(values if dtype is None else values.cast(dtype), offset).sum(-1, False, dtype)


def outer(x1: Array, x2: Array, /) -> Array:
    """All products of an element of one vector and one of another. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.linalg.outer(xp.asarray([1, 2]), xp.asarray([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    return array(x1, "outer").outer(array(x2, "outer"))


def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """The norms of matrices: "fro", "nuc", or the operator norms 1, -1, 2, -2, inf, -inf.

    "nuc", 2 and -2 need the singular values, so they synchronise. Raises ValueError for another `ord`.

    >>> from rulegrad import array_api as xp
    >>> float(xp.linalg.matrix_norm(xp.asarray([[3.0, 0.0], [0.0, 4.0]])))
    5.0
    """
    return tensors.matrix_norm(inexact(x, "matrix_norm"), ord, keepdims=keepdims)


def vector_norm(x: Array, /, axis: Axis = None, *, keepdims: bool = False, ord: int | float = 2) -> Array:
    """The norms of vectors along `axis` (several axes, or all by default, count as one).

    ord: p of the p-norm; inf and -inf for the largest and the smallest absolute value, 0 to count what is not 0.

    >>> from rulegrad import array_api as xp
    >>> float(xp.linalg.vector_norm(xp.asarray([3.0, 4.0])))
    5.0
    """
    values = inexact(x, "vector_norm")
    return tensors.vector_norm(values, ord, axes_of(axis, values.ndim, "vector_norm"), keepdims)
