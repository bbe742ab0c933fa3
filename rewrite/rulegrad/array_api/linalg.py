"""The linear algebra extension, over matrices (…, rows, columns) in batches.

Norms, products, traces and diagonals are part of the graph. Decompositions and what is made of them (also det, inv and
solve) are computed by LAPACK on the host, so they synchronise: the array is computed, copied out, and the result copied
in.
"""

from __future__ import annotations

from typing import Any

from rulegrad.tensor import Tensor
from rulegrad.tensor import linalg as tensors

from .linear_algebra import matmul, matrix_transpose, tensordot, vecdot
from .operands import Array, Axis, array, axes_of, inexact, of_arrays

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals",
    "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


# ---- by LAPACK, on the host: they synchronise ----

cholesky = of_arrays(tensors.cholesky, "* upper", inexact)
qr = of_arrays(tensors.qr, "* mode", inexact)
svd = of_arrays(tensors.svd, "* full_matrices", inexact)
svdvals = of_arrays(tensors.svdvals, "", inexact)
eigh = of_arrays(tensors.eigh, "", inexact)
eigvalsh = of_arrays(tensors.eigvalsh, "", inexact)
eig = of_arrays(tensors.eig, "", inexact)
eigvals = of_arrays(tensors.eigvals, "", inexact)
det = of_arrays(tensors.det, "", inexact)
slogdet = of_arrays(tensors.slogdet, "", inexact)
inv = of_arrays(tensors.inv, "", inexact)
pinv = of_arrays(tensors.pinv, "* rtol", inexact)
matrix_rank = of_arrays(tensors.matrix_rank, "* rtol", inexact)
matrix_power = of_arrays(tensors.matrix_power, "n /", inexact)


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


# ---- part of the graph ----

cross = of_arrays(tensors.cross, "axis", arrays="x1 x2")
diagonal = of_arrays(tensors.diagonal, "* offset")
outer = of_arrays(Tensor.outer, arrays="x1 x2")
matrix_norm = of_arrays(tensors.matrix_norm, "* ord keepdims", inexact)


def trace(x: Array, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sums of the diagonals of matrices, `offset` above the main one; in `dtype`, or as `sum`.

    >>> from rulegrad import array_api as xp
    >>> int(xp.linalg.trace(xp.asarray([[1, 2], [3, 4]])))
    5
    """
    values = array(x, "trace")
    return tensors.diagonal(values if dtype is None else values.cast(dtype), offset).sum(-1, False, dtype)


def vector_norm(x: Array, /, axis: Axis = None, *, keepdims: bool = False, ord: int | float = 2) -> Array:
    """The norms of vectors along `axis` (several axes, or all by default, count as one).

    ord: p of the p-norm; inf and -inf for the largest and the smallest absolute value, 0 to count what is not 0.

    >>> from rulegrad import array_api as xp
    >>> float(xp.linalg.vector_norm(xp.asarray([3.0, 4.0])))
    5.0
    """
    values = inexact(x, "vector_norm")
    return tensors.vector_norm(values, ord, axes_of(axis, values.ndim, "vector_norm"), keepdims)
