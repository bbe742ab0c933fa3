"""Linear algebra over batches of matrices (…, rows, columns).

`products` and `norms` are part of the graph. The others call LAPACK through NumPy, or what NumPy does not have of it,
on the host (`host`): they compute their argument, wait for it, and copy the result back.
"""

from typing import TYPE_CHECKING

from rulegrad.support.late import late_names
from rulegrad.tensor.outputs import taking_out

if TYPE_CHECKING:
    from rulegrad.tensor.linalg.decompositions import (
        QR,
        SVD,
        CholeskyEx,
        Eig,
        Eigh,
        cholesky,
        cholesky_ex,
        eig,
        eigh,
        eigvals,
        eigvalsh,
        qr,
        svd,
        svdvals,
    )
    from rulegrad.tensor.linalg.exponential import matrix_exp
    from rulegrad.tensor.linalg.factoring import LU, LUFactor, LUFactorEx, lu, lu_factor, lu_factor_ex, lu_solve
    from rulegrad.tensor.linalg.host import LinAlgError, LinalgError
    from rulegrad.tensor.linalg.householder import householder_product
    from rulegrad.tensor.linalg.least_squares import LeastSquares, lstsq
    from rulegrad.tensor.linalg.norms import cond, matrix_norm, norm, vector_norm
    from rulegrad.tensor.linalg.products import (
        cross,
        diagonal,
        matmul,
        multi_dot,
        tensordot,
        tensorinv,
        tensorsolve,
        vander,
        vecdot,
    )
    from rulegrad.tensor.linalg.solving import (
        InvEx,
        Slogdet,
        SolveEx,
        det,
        inv,
        inv_ex,
        matrix_power,
        matrix_rank,
        pinv,
        slogdet,
        solve,
        solve_ex,
    )
    from rulegrad.tensor.linalg.symmetric import LDLFactor, LDLFactorEx, ldl_factor, ldl_factor_ex, ldl_solve
    from rulegrad.tensor.linalg.triangular import solve_triangular

__getattr__ = late_names(
    __name__,
    {
        "decompositions": "QR SVD CholeskyEx Eig Eigh cholesky cholesky_ex eig eigh eigvals eigvalsh qr svd svdvals",
        "exponential": "matrix_exp",
        "factoring": "LU LUFactor LUFactorEx lu lu_factor lu_factor_ex lu_solve",
        "host": "LinAlgError LinalgError",
        "householder": "householder_product",
        "least_squares": "LeastSquares lstsq",
        "norms": "cond matrix_norm norm vector_norm",
        "products": "cross diagonal matmul multi_dot tensordot tensorinv tensorsolve vander vecdot",
        "solving": "InvEx Slogdet SolveEx det inv inv_ex matrix_power matrix_rank pinv slogdet solve solve_ex",
        "symmetric": "LDLFactor LDLFactorEx ldl_factor ldl_factor_ex ldl_solve",
        "triangular": "solve_triangular",
    },
    taking_out,
)

__all__ = [
    "LU",
    "QR",
    "SVD",
    "CholeskyEx",
    "Eig",
    "Eigh",
    "InvEx",
    "LDLFactor",
    "LDLFactorEx",
    "LUFactor",
    "LUFactorEx",
    "LeastSquares",
    "LinAlgError",
    "LinalgError",
    "Slogdet",
    "SolveEx",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]
