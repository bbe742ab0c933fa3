"""Determinants, inverses, linear systems and ranks, by LAPACK on the host. Gradients: `linalg.gradients`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from rulegrad.errors import RulegradError, ShapeError
from rulegrad.ir.dtype import as_dtype
from rulegrad.tensor.axes import whole_number
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.linalg import gradients
from rulegrad.tensor.linalg.host import LinalgError, matrices, on_host, rounded, square, supported
from rulegrad.tensor.operands import broadcast_shapes, result_dtype

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor

    T = TypeVar("T", bound=Tensor)


class Slogdet(NamedTuple):
    """What `slogdet` finds.

    >>> sign, logabsdet = rg.linalg.slogdet(Tensor([[-1.0]]))
    >>> sign.item(), logabsdet.item()
    (-1.0, 0.0)
    """

    sign: Tensor
    logabsdet: Tensor


def inv(x: T) -> T:
    """The inverses of square matrices. Synchronises. Raises ShapeError, and LinalgError for a singular matrix.

    >>> from rulegrad import Tensor
    >>> inv(Tensor([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    square(x, "inv")
    (found,) = on_host("inv", np.linalg.inv, supported(x), formula=gradients.of_inv)
    return rounded(found, x)


def solve(a: T, b: T) -> T:
    """X with `a @ X = b`. Synchronises. Raises ShapeError, and LinalgError for a singular matrix.

    a: (…, n, n). b: a vector (n,), or matrices (…, n, k); the batches broadcast.

    >>> from rulegrad import Tensor
    >>> solve(Tensor([[2.0, 0.0], [0.0, 4.0]]), Tensor([2.0, 4.0])).tolist()
    [1.0, 1.0]
    """
    square(a, "solve")
    if not b.ndim or a.shape[-1] != b.shape[-1 if b.ndim == 1 else -2]:
        raise ShapeError(f"solve: a right side of shape {b.shape} does not fit matrices of shape {a.shape}")
    dtype = result_dtype(a, b)
    first, second = supported(a.cast(dtype)), supported(b.cast(dtype))
    columns = second.unsqueeze(-1) if b.ndim == 1 else second
    batch = broadcast_shapes("solve", first.shape[:-2], columns.shape[:-2])
    operands = first.expand(*batch, *first.shape[-2:]), columns.expand(*batch, *columns.shape[-2:])
    (found,) = on_host("solve", np.linalg.solve, *operands, formula=gradients.of_solve)
    found = found.squeeze(-1) if b.ndim == 1 else found
    return found.cast(dtype) if dtype.is_float else found


def det(x: T) -> T:
    """The determinants of square matrices. Synchronises. Second derivatives: of regular matrices.

    >>> from rulegrad import Tensor
    >>> det(Tensor([[2.0, 0.0], [0.0, 3.0]])).item()
    6.0
    """
    square(x, "det")
    (found,) = on_host("det", np.linalg.det, supported(x), formula=gradients.of_det)
    return rounded(found, x)


def cofactors(x: Any, determinant: Any) -> Any:
    """The derivatives of the determinants by the elements: det x^-T; of singular matrices by singular values."""
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


def slogdet(x: T) -> Slogdet:
    """The signs of the determinants (unit numbers, for complex ones), and the logarithms of their absolute values.

    Synchronises. Gradient: of regular matrices; the sign has one for complex numbers only.

    >>> from rulegrad import Tensor
    >>> slogdet(Tensor([[-1.0]])).sign.item()
    -1.0
    """
    square(x, "slogdet")
    sign, logarithm = on_host(
        "slogdet", lambda a: tuple(np.linalg.slogdet(a)), supported(x), formula=gradients.of_slogdet
    )
    return Slogdet(rounded(sign if x.dtype.is_complex else sign.detach(), x), rounded(logarithm, x))


def matrix_power(x: T, n: int) -> T:
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


def _power(base: T, exponent: int) -> T:
    if exponent == 1:
        return base
    half = _power(base, exponent // 2)
    even = half @ half
    return even @ base if exponent % 2 else even


def pinv(x: T, rtol: Any = None) -> T:
    """The pseudo-inverses (…, columns, rows) of matrices. Synchronises.

    rtol: singular values up to `rtol` times the largest count as 0; by default max(rows, columns) * eps. Gradient:
    where the rank does not change.

    >>> from rulegrad import Tensor
    >>> pinv(Tensor([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    matrices(x, "pinv")
    matrix = supported(x)
    tolerance = _tolerance(x, matrix, rtol)
    (found,) = on_host("pinv", lambda a: _pinv(a, tolerance), matrix, formula=gradients.of_pinv)
    return rounded(found, x)


def _pinv(a: Array, tolerance: Any) -> Array:
    if not a.size:
        return np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    return np.asarray(np.linalg.pinv(a, rcond=tolerance))


def matrix_rank(x: Tensor, rtol: Any = None) -> Tensor:
    """How many singular values are above `rtol` times the largest (int64). Synchronises.

    rtol: by default max(rows, columns) * eps.

    >>> from rulegrad import Tensor
    >>> matrix_rank(Tensor([[1.0, 1.0], [1.0, 1.0]])).item()
    1
    """
    matrices(x, "matrix_rank")
    matrix = supported(x)
    tolerance = np.asarray(_tolerance(x, matrix, rtol))[..., None]

    def rank(a: Array) -> Array:
        if not a.size:
            return np.zeros(a.shape[:-2], np.int64)
        s = np.linalg.svd(a, compute_uv=False)
        return np.asarray((s > tolerance * s.max(-1, keepdims=True)).sum(-1, dtype=np.int64))

    (found,) = on_host("matrix_rank", rank, matrix)
    return found


def _tolerance(x: Tensor, matrix: Tensor, rtol: Any) -> Any:
    """`rtol` as NumPy takes it: a number, or an array over the batch."""
    if rtol is None:
        return max(x.shape[-2:]) * float(np.finfo(as_dtype(matrix.dtype).numpy).eps)
    return rtol.numpy() if isinstance(rtol, TensorCore) else rtol  # type: ignore[attr-defined]
