"""Linear algebra over batches of matrices (…, rows, columns).

`products` and `norms` are part of the graph. `decompositions` and `solving` call LAPACK through NumPy on the host
(`host`): they compute their argument, wait for it, and copy the result back.
"""

from rulegrad.tensor.linalg.decompositions import (
    QR,
    SVD,
    Eig,
    Eigh,
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from rulegrad.tensor.linalg.host import LinalgError
from rulegrad.tensor.linalg.norms import matrix_norm, vector_norm
from rulegrad.tensor.linalg.products import cross, diagonal, tensordot, vecdot
from rulegrad.tensor.linalg.solving import Slogdet, det, inv, matrix_power, matrix_rank, pinv, slogdet, solve

__all__ = [
    "QR",
    "SVD",
    "Eig",
    "Eigh",
    "LinalgError",
    "Slogdet",
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "vecdot",
    "vector_norm",
]
