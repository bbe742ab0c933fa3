"""Linear algebra as methods, with PyTorch's names. The functions are in `rulegrad.linalg`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulegrad.errors import ShapeError
from rulegrad.tensor import linalg
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.operands import as_tensor

if TYPE_CHECKING:
    from rulegrad.tensor.linalg import householder, least_squares, triangular
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor


def det(self: Tensor) -> Tensor:
    """The determinants of square matrices. Computes the tensor and waits, as all that calls LAPACK.

    >>> from rulegrad import Tensor
    >>> Tensor([[1.0, 2.0], [3.0, 4.0]]).det().shape
    ()
    """
    return linalg.det(self)


def slogdet(self: Tensor) -> linalg.Slogdet:
    """The signs of the determinants, and the logarithms of their absolute values.

    >>> sign, logarithm = Tensor([[0.0, 1.0], [1.0, 0.0]]).slogdet()
    >>> sign.item(), logarithm.item()
    (-1.0, 0.0)
    """
    return linalg.slogdet(self)


def logdet(self: Tensor) -> Tensor:
    """The logarithms of the determinants: nan for negative ones, complex for matrices of complex numbers.

    >>> Tensor([[1.0, 5.0], [0.0, 1.0]]).logdet().item()
    0.0
    """
    sign, logarithm = self.slogdet()
    if self.dtype.is_complex:
        return sign.log() + logarithm
    result: Tensor = (sign < 0).where(float("nan"), logarithm)
    return result


def inverse(self: Tensor) -> Tensor:
    """The inverses of square matrices. Raises LinalgError for a singular one.

    >>> Tensor([[1.0, 2.0], [0.0, 4.0]]).inverse().tolist()
    [[1.0, -0.5], [0.0, 0.25]]
    """
    return linalg.inv(self)


def pinverse(self: Tensor, rcond: float | None = None) -> Tensor:
    """The pseudo-inverses; singular values up to `rcond` times the largest count as 0.

    >>> Tensor([[2.0], [2.0]]).pinverse().round(decimals=3).tolist()
    [[0.25, 0.25]]
    """
    return linalg.pinv(self, rtol=rcond)


def cholesky(self: Tensor, upper: bool = False) -> Tensor:
    """Lower triangles L with `L @ L.mT == self`, or upper ones. Raises LinalgError.

    >>> Tensor([[4.0, 2.0], [2.0, 5.0]]).cholesky().tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    return linalg.cholesky(self, upper)


def cholesky_inverse(self: Tensor, upper: bool = False) -> Tensor:
    """The inverses of the matrices of which these are Cholesky's triangles, lower ones or upper ones.

    >>> Tensor([[2.0]]).cholesky_inverse().tolist()
    [[0.25]]
    """
    return linalg.triangular.cholesky_inverse(self, upper)


def cholesky_solve(self: Tensor, triangle: Operand, upper: bool = False) -> Tensor:
    """X with `A @ X == self`, where Cholesky's triangles of A are given.

    >>> Tensor([[8.0]]).cholesky_solve(Tensor([[2.0]])).tolist()
    [[2.0]]
    """
    return linalg.triangular.cholesky_solve(self, as_tensor(self, triangle, "cholesky_solve"), upper)


def triangular_solve(
    self: Tensor, a: Operand, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> triangular.TriangularSolve:
    """X with `a @ X == self` (`a.mT @ X` with transpose=True) for triangles `a`, and a copy of `a`.

    `linalg.solve_triangular` is PyTorch's newer name, with what the arguments mean.

    >>> Tensor([[4.0], [8.0]]).triangular_solve(Tensor([[2.0, 1.0], [0.0, 4.0]])).solution.tolist()
    [[1.0], [2.0]]
    """
    matrix: Any = as_tensor(self, a, "triangular_solve")
    turned = matrix.mT if transpose else matrix
    found = linalg.solve_triangular(turned, self, upper=upper != transpose, unitriangular=unitriangular)
    batch = found.shape[:-2]
    return linalg.triangular.TriangularSolve(found, matrix.expand(*batch, *matrix.shape[-2:]).clone())


def qr(self: Tensor, some: bool = True) -> linalg.QR:
    """`linalg.qr`: reduced, or complete with some=False.

    >>> Tensor.ones(3, 2).qr().Q.shape, Tensor.ones(3, 2).qr(some=False).Q.shape
    ((3, 2), (3, 3))
    """
    return linalg.qr(self, "reduced" if some else "complete")


def geqrf(self: Tensor) -> householder.Reflections:
    """R above the diagonal and the reflections of Q below it, as LAPACK has them, and their factors.

    >>> Tensor([[3.0], [4.0]]).geqrf().a.tolist()
    [[-5.0], [0.5]]
    """
    return linalg.householder.geqrf(self)


def orgqr(self: Tensor, tau: Operand) -> Tensor:
    """PyTorch's old name of `linalg.householder_product`.

    >>> Tensor([[3.0], [4.0]]).orgqr(Tensor([0.0])).tolist()
    [[1.0], [0.0]]
    """
    return linalg.householder_product(self, as_tensor(self, tau, "orgqr"))


def ormqr(self: Tensor, tau: Operand, other: Operand, left: bool = True, transpose: bool = False) -> Tensor:
    """`Q @ other`, or `other @ Q` with left=False, for the reflections of `geqrf`; Q^H with transpose=True.

    >>> Tensor([[3.0], [4.0]]).ormqr(Tensor([0.0]), Tensor([[1.0], [2.0]])).tolist()
    [[1.0], [2.0]]
    """
    factors, right = as_tensor(self, tau, "ormqr"), as_tensor(self, other, "ormqr")
    return linalg.householder.ormqr(self, factors, right, left, transpose)


def svd(self: Tensor, some: bool = True, compute_uv: bool = True) -> least_squares.LowRank:
    """U, S and V (not V^H, as of `linalg.svd`) with `U @ diag(S) @ V^H == self`; square ones with some=False.

    compute_uv: with False, U and V are zeros.

    >>> Tensor([[3.0, 0.0], [0.0, 4.0]]).svd().S.tolist()
    [4.0, 3.0]
    """
    x: Any = self
    if compute_uv:
        u, s, vh = linalg.svd(x, full_matrices=not some)
        return linalg.least_squares.LowRank(u, s, vh.mT.conj() if vh.dtype.is_complex else vh.mT)
    u, v = (x.zeros((*x.shape[:-2], n, n), dtype=x.dtype, device=x._device or None) for n in x.shape[-2:])
    return linalg.least_squares.LowRank(u, linalg.svdvals(x), v)


def svd_lowrank(self: Tensor, q: int = 6, niter: int = 2, M: Any = None) -> least_squares.LowRank:  # noqa: N803
    """The `q` largest singular values of `self - M`, nearly, and their vectors U and V, by random projections.

    niter: how often the projection is improved.

    >>> Tensor([[3.0, 0.0], [0.0, 4.0]]).svd_lowrank(q=2).S.round(decimals=3).tolist()
    [4.0, 3.0]
    """
    return linalg.least_squares.svd_lowrank(self, q, niter, M)


def pca_lowrank(self: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> least_squares.LowRank:
    """The `q` principal components of observations (rows), nearly: `svd_lowrank` of what lies around their mean.

    >>> abs(Tensor([[1.0, 1.0], [3.0, 1.0]]).pca_lowrank(q=1).V).round(decimals=3).tolist()
    [[1.0], [0.0]]
    """
    return linalg.least_squares.pca_lowrank(self, q, center, niter)


def lu(self: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Any, ...]:
    """`linalg.lu_factor`: L and U in one matrix, and the pivots; with get_infos, `info` of `lu_factor_ex` too.

    >>> packed, pivots = Tensor([[1.0, 2.0], [4.0, 4.0]]).lu()
    >>> packed.tolist(), pivots.tolist()
    ([[4.0, 4.0], [0.25, 1.0]], [2, 2])
    """
    found = linalg.lu_factor_ex(self, pivot=pivot)
    return tuple(found) if get_infos else (found.LU, found.pivots)


def lu_solve(self: Tensor, packed: Operand, pivots: Operand) -> Tensor:
    """X with `A @ X == self`, for what `lu` found of A.

    >>> Tensor([[3.0], [8.0]]).lu_solve(*Tensor([[1.0, 2.0], [4.0, 4.0]]).lu()).tolist()
    [[1.0], [1.0]]
    """
    factors, exchanges = (as_tensor(self, part, "lu_solve") for part in (packed, pivots))
    return linalg.lu_solve(factors, exchanges, self)


def lu_unpack(self: Tensor, pivots: Operand, unpack_data: bool = True, unpack_pivots: bool = True) -> linalg.LU:
    """P, L and U of what `lu` found; empty tensors for what is not asked for.

    >>> packed, pivots = Tensor([[1.0, 2.0], [4.0, 4.0]]).lu()
    >>> packed.lu_unpack(pivots).L.tolist()
    [[1.0, 0.0], [0.25, 1.0]]
    """
    return linalg.factoring.lu_unpack(self, as_tensor(self, pivots, "lu_unpack"), unpack_data, unpack_pivots)


def matrix_exp(self: Tensor) -> Tensor:
    """The exponentials of square matrices, `1 + x + x @ x / 2 + …`.

    >>> Tensor([[0.0, 1.0], [0.0, 0.0]]).matrix_exp().tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return linalg.matrix_exp(self)


def matrix_power(self: Tensor, n: int) -> Tensor:
    """Square matrices multiplied by themselves `n` times; for n < 0 their inverses.

    >>> Tensor([[1.0, 1.0], [0.0, 1.0]]).matrix_power(3).tolist()
    [[1.0, 3.0], [0.0, 1.0]]
    """
    return linalg.matrix_power(self, n)


def vdot(self: Tensor, other: Operand) -> Tensor:
    """The sum of `conj(self) * other` of two vectors.

    >>> Tensor([1 + 2j, 3 + 1j]).vdot(Tensor([1j, 1j])).item()
    (3+4j)
    """
    right = as_tensor(self, other, "vdot")
    if self.ndim != 1 or right.shape != self.shape:
        raise ShapeError(f"vdot: the shapes are {self.shape} and {right.shape}; both must be vectors of one length")
    return linalg.vecdot(self, right)


@built_once
def norm(self: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The p-norm over `dim`, all axes by default; "fro" is p = 2, "nuc" the sum of a matrix's singular values.

    dtype: cast to this dtype before.

    >>> from rulegrad import Tensor
    >>> Tensor([3.0, 4.0]).norm().item(), Tensor([3.0, -4.0]).norm(1).item()
    (5.0, 7.0)
    """
    if p == "nuc":
        return linalg.matrix_norm(self, p, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return linalg.vector_norm(self, 2 if p == "fro" else p, dim, keepdim, dtype=dtype)
