"""Determinants, inverses, linear systems and ranks, by LAPACK on the host. Gradients: `linalg.gradients`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rulegrad.errors import RulegradError, ShapeError
from rulegrad.ir.dtype import as_dtype
from rulegrad.tensor.axes import whole_number
from rulegrad.tensor.linalg import gradients
from rulegrad.tensor.linalg.factoring import eliminated
from rulegrad.tensor.linalg.host import LinalgError, matrices, on_host, rounded, square, supported
from rulegrad.tensor.operands import broadcast_shapes, result_dtype

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor


class Slogdet(NamedTuple):
    """The result of `slogdet`.

    >>> sign, logabsdet = rg.linalg.slogdet(Tensor([[-1.0]]))
    >>> sign.item(), logabsdet.item()
    (-1.0, 0.0)
    """

    sign: Tensor
    logabsdet: Tensor


def inv(x: Tensor) -> Tensor:
    """The inverses of square matrices. Synchronises. Raises ShapeError, and LinalgError for a singular matrix.

    >>> from rulegrad import Tensor
    >>> inv(Tensor([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    square(x, "inv")
    (found,) = on_host("inv", np.linalg.inv, supported(x), formula=gradients.of_inv)
    return rounded(found, x)


class InvEx(NamedTuple):
    """The result of `inv_ex`.

    >>> inverse, info = rg.linalg.inv_ex(Tensor([[2.0]]))
    >>> inverse.tolist(), info.item()
    ([[0.5]], 0)
    """

    inverse: Tensor
    info: Tensor


class SolveEx(NamedTuple):
    """The result of `solve_ex`.

    >>> result, info = rg.linalg.solve_ex(Tensor([[2.0]]), Tensor([1.0]))
    >>> result.tolist(), info.item()
    ([0.5], 0)
    """

    result: Tensor
    info: Tensor


def inv_ex(x: Tensor, *, check_errors: bool = False) -> InvEx:
    """`inv`, and `info` (int32): 0, or for a singular matrix, whose inverse is given as nan, the place of a zero pivot.

    check_errors: raise LinalgError for a singular one, as `inv`.

    >>> from rulegrad import Tensor
    >>> inv_ex(Tensor([[[0.0]], [[4.0]]])).info.tolist()
    [1, 0]
    """
    try:
        return InvEx(inv(x), x.zeros(x.shape[:-2], dtype="int32", device=x._device or None))
    except LinalgError:
        if check_errors:
            raise
    regular, info = _regular(x)
    return InvEx(_nan_where(info, inv(regular)), info)


def _regular(x: Tensor) -> tuple[Tensor, Tensor]:
    """The matrices with the unit matrix in the place of singular ones; and where the first zero pivot of those is."""
    (info,) = on_host("inv_ex", _zero_pivots, supported(x.detach()))
    one = x.eye(x.shape[-1], dtype=x.dtype, device=x._device or None)
    return info.unsqueeze(-1).unsqueeze(-1).equal(0).where(x, one), info


def _zero_pivots(a: Array) -> Array:
    """Of each matrix the place of its first zero pivot, counted from 1, or 0 where it has an inverse."""
    n = a.shape[-1]

    def place(matrix: Array) -> int:
        try:
            np.linalg.inv(matrix)
        except np.linalg.LinAlgError:
            diagonal = eliminated(matrix, pivot=True)[0].diagonal()
            # LAPACK found a zero; rounded in another order, it may not be one here.
            return 1 + int((diagonal == 0).argmax()) if (diagonal == 0).any() else n
        return 0

    return np.array([place(matrix) for matrix in a.reshape(-1, n, n)], np.int32).reshape(a.shape[:-2])


def _nan_where(info: Tensor, result: Tensor) -> Tensor:
    return info.reshape(info.shape + (1,) * (result.ndim - info.ndim)).equal(0).where(result, float("nan"))


def solve(a: Tensor, b: Tensor, *, left: bool = True) -> Tensor:
    """X with `a @ X = b` (`X @ a = b` with left=False). Synchronises. Raises ShapeError, LinalgError when singular.

    a: (…, n, n). b: matrices (…, n, k), or (…, k, n) with left=False; or vectors: (n,), or a.shape[:-1]. The batches
    broadcast.

    >>> from rulegrad import Tensor
    >>> solve(Tensor([[2.0, 0.0], [0.0, 4.0]]), Tensor([2.0, 4.0])).tolist()
    [1.0, 1.0]
    """
    square(a, "solve")
    vectors = b.ndim == 1 or (a.ndim > 2 and b.shape == a.shape[:-1])
    if vectors:
        left = True
    if not b.ndim or a.shape[-1] != b.shape[-1 if vectors or not left else -2]:
        raise ShapeError(f"solve: a right side of shape {b.shape} does not fit matrices of shape {a.shape}")
    if not left:
        return solve(a.mT, b.mT).mT
    dtype = result_dtype(a, b)
    first, second = supported(a.cast(dtype)), supported(b.cast(dtype))
    columns = second.unsqueeze(-1) if vectors else second
    batch = broadcast_shapes("solve", first.shape[:-2], columns.shape[:-2])
    operands = first.expand(*batch, *first.shape[-2:]), columns.expand(*batch, *columns.shape[-2:])
    (found,) = on_host("solve", np.linalg.solve, *operands, formula=gradients.of_solve)
    found = found.squeeze(-1) if vectors else found
    return found.cast(dtype) if dtype.is_float else found


def solve_ex(a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False) -> SolveEx:
    """`solve`, and `info` (int32): 0, or for a singular matrix, whose solution is given as nan, as of `inv_ex`.

    >>> from rulegrad import Tensor
    >>> solve_ex(Tensor([[0.0]]), Tensor([1.0])).info.item()
    1
    """
    try:
        return SolveEx(solve(a, b, left=left), a.zeros(a.shape[:-2], dtype="int32", device=a._device or None))
    except LinalgError:
        if check_errors:
            raise
    regular, info = _regular(a)
    return SolveEx(_nan_where(info, solve(regular, b, left=left)), info)


def det(x: Tensor) -> Tensor:
    """The determinants of square matrices. Synchronises. Second derivatives: of regular matrices.

    >>> from rulegrad import Tensor
    >>> det(Tensor([[2.0, 0.0], [0.0, 3.0]])).item()
    6.0
    """
    square(x, "det")
    (found,) = on_host("det", np.linalg.det, supported(x), formula=gradients.of_det)
    return rounded(found, x)


def cofactors(x: Any, determinant: Any) -> Any:
    """The derivatives of the determinants by the elements: det x^-Tensor; of singular matrices by singular values."""
    try:
        return determinant.unsqueeze(-1).unsqueeze(-1) * inv(x).mT
    except LinalgError:
        (found,) = on_host("det: the gradient", _cofactors, x, formula=_no_second_derivative)
        return found


def _cofactors(a: Array) -> Array:
    u, s, vh = np.linalg.svd(a)
    n = s.shape[-1]
    others = np.where(np.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
    factor = (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]
    return np.asarray(factor * ((u * others[..., None, :]) @ vh).conj())


def _no_second_derivative(*_: Any) -> Any:
    raise RulegradError("det: a second derivative was asked for at a singular matrix, where there is none here")


def slogdet(x: Tensor) -> Slogdet:
    """The signs of the determinants (unit numbers, for complex ones), and the logarithms of their absolute values.

    Synchronises. The gradient is nan for singular matrices; the sign has one for complex numbers only.

    >>> from rulegrad import Tensor
    >>> slogdet(Tensor([[-1.0]])).sign.item()
    -1.0
    """
    square(x, "slogdet")
    sign, logarithm = on_host(
        "slogdet", lambda a: tuple(np.linalg.slogdet(a)), supported(x), formula=gradients.of_slogdet
    )
    return Slogdet(rounded(sign if x.dtype.is_complex else sign.detach(), x), rounded(logarithm, x))


def matrix_power(x: Tensor, n: int) -> Tensor:
    """Square matrices multiplied by themselves `n` times; for n < 0 their inverses, which synchronises.

    >>> from rulegrad import Tensor
    >>> matrix_power(Tensor([[1.0, 1.0], [0.0, 1.0]]), 5).tolist()
    [[1.0, 5.0], [0.0, 1.0]]
    """
    square(x, "matrix_power")
    exponent = whole_number(n, "matrix_power")
    base = x if exponent >= 0 else inv(x)
    if not exponent:
        return x.eye(x.shape[-1], dtype=x.dtype, device=x._device or None).expand(x.shape)._same()
    return _power(base, abs(exponent))


def _power(base: Tensor, exponent: int) -> Tensor:
    if exponent == 1:
        return base
    half = _power(base, exponent // 2)
    even = half @ half
    return even @ base if exponent % 2 else even


def pinv(x: Tensor, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Tensor:
    """The pseudo-inverses (…, columns, rows) of matrices. Synchronises.

    Singular values up to `atol`, and up to `rtol` times the largest, count as 0; numbers, or tensors over the batch. By
    default rtol is max(rows, columns) * eps, and with an atol above 0 it is 0. hermitian: the matrices are, and only
    their lower triangle is read. Gradient: where the rank does not change.

    >>> from rulegrad import Tensor
    >>> pinv(Tensor([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    (square if hermitian else matrices)(x, "pinv")
    matrix = supported(x)
    limits = limits_of(x, matrix, atol, rtol)
    (found,) = on_host(
        "pinv",
        lambda a: _pinv(a, limits, hermitian),
        matrix,
        formula=gradients.of_pinv,
    )
    return rounded(found, x)


def _pinv(a: Array, limits: tuple[Any, Any], hermitian: bool) -> Array:
    u, s, vh = _singular(a, hermitian)
    kept = above(s, limits)
    inverse = np.where(kept, 1 / np.where(kept, s, 1), 0)
    return np.asarray((vh.conj().mT * inverse[..., None, :]) @ u.conj().mT)


def _singular(a: Array, hermitian: bool) -> tuple[Array, Array, Array]:
    """U, S and V^H of thin matrices; from eigenvalues, of which S has the signs, where the matrices are Hermitian."""
    if not hermitian:
        found: tuple[Array, Array, Array] = np.linalg.svd(a, full_matrices=False)
        return found
    values, vectors = np.linalg.eigh(a)
    return vectors, values, vectors.conj().mT


def above(s: Array, limits: tuple[Any, Any]) -> Array:
    """Which singular values do not count as 0."""
    size = abs(s)
    absolute, relative = limits
    least = np.maximum(absolute, relative * size.max(-1, initial=0))
    return np.asarray(size > least[..., None])


def matrix_rank(x: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """How many singular values are above `atol` and above `rtol` times the largest (int64). Synchronises.

    atol, rtol: as of `pinv`. tol: another name of atol. hermitian: the matrices are, and only their lower triangle is
    read.

    >>> from rulegrad import Tensor
    >>> matrix_rank(Tensor([[1.0, 1.0], [1.0, 1.0]])).item()
    1
    """
    (square if hermitian else matrices)(x, "matrix_rank")
    matrix = supported(x)
    limits = limits_of(x, matrix, atol if tol is None else tol, rtol)

    def rank(a: Array) -> Array:
        s = np.linalg.eigvalsh(a) if hermitian else np.linalg.svd(a, compute_uv=False)
        return np.asarray(above(s, limits).sum(-1, dtype=np.int64))

    (found,) = on_host("matrix_rank", rank, matrix)
    return found


def limits_of(x: Tensor, matrix: Tensor, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """The absolute and the relative limit, as numbers or arrays over the batch."""
    absolute, relative = (np.asarray(t.numpy() if hasattr(t, "uop") else t or 0.0) for t in (atol, rtol))
    if rtol is None:
        eps = float(np.finfo(as_dtype(matrix.dtype).numpy).eps)
        relative = np.where(absolute > 0, 0.0, max(x.shape[-2:]) * eps)
    return absolute, relative
