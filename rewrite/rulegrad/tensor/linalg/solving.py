"""Determinants, inverses, linear systems and ranks, by LAPACK on the host. Gradients are those of real matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from rulegrad.errors import ShapeError
from rulegrad.ir.dtype import as_dtype
from rulegrad.tensor.axes import whole_number
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.linalg.host import (
    differentiated,
    from_host,
    matrices,
    on_host,
    rounded,
    square,
    supported,
    tracks,
)
from rulegrad.tensor.operands import result_dtype

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor

    T = TypeVar("T", bound=Tensor)


class Slogdet(NamedTuple):
    """What `slogdet` finds."""

    sign: Tensor
    logabsdet: Tensor


def inv(x: T) -> T:
    """The inverses of square matrices. Synchronises. Raises ShapeError, and LinalgError for a singular matrix.

    Gradient: dY = -Y dx Y.

    >>> from rulegrad import Tensor
    >>> inv(Tensor([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    square(x, "inv")
    matrix = supported(x)
    found = from_host(on_host("inv", np.linalg.inv, matrix), x)
    if tracks(x):
        constant = found._new(found.uop, found._history, found._device)
        found = differentiated(found, -(constant @ matrix @ constant))
    return rounded(found, x)


def solve(a: T, b: T) -> T:
    """X with `a @ X = b`. Synchronises. Raises ShapeError, and LinalgError for a singular matrix.

    a: (…, n, n). b: a vector (n,), or matrices (…, n, k); the batches broadcast. Gradient: that of `inv(a) @ b`.

    >>> from rulegrad import Tensor
    >>> solve(Tensor([[2.0, 0.0], [0.0, 4.0]]), Tensor([2.0, 4.0])).tolist()
    [1.0, 1.0]
    """
    square(a, "solve")
    if not b.ndim or a.shape[-1] != b.shape[-1 if b.ndim == 1 else -2]:
        raise ShapeError(f"solve: a right side of shape {b.shape} does not fit matrices of shape {a.shape}")
    dtype = result_dtype(a, b)
    first, second = supported(a.cast(dtype)), supported(b.cast(dtype))
    found = from_host(on_host("solve", np.linalg.solve, first, second), a)
    if tracks(a, b):
        found = differentiated(found, inv(first) @ second)
    return found.cast(dtype) if dtype.is_float else found


def det(x: T) -> T:
    """The determinants of square matrices. Synchronises. Gradient: d det = det tr(x^-1 dx), of regular matrices only.

    >>> from rulegrad import Tensor
    >>> det(Tensor([[2.0, 0.0], [0.0, 3.0]])).item()
    6.0
    """
    square(x, "det")
    matrix = supported(x)
    values = on_host("det", np.linalg.det, matrix)
    found = from_host(values, x)
    if tracks(x):
        inverse = on_host("det: the gradient", np.linalg.inv, matrix)
        slope = from_host(np.swapaxes(inverse, -2, -1) * np.asarray(values)[..., None, None], x)
        found = differentiated(found, (slope * matrix).sum((-2, -1)))
    return rounded(found, x)


def slogdet(x: T) -> Slogdet:
    """The signs of the determinants (unit numbers, for complex ones), and the logarithms of their absolute values.

    Synchronises. Gradient: d log|det| = tr(x^-1 dx), of regular real matrices; the sign has none.

    >>> from rulegrad import Tensor
    >>> slogdet(Tensor([[-1.0]])).sign.item()
    -1.0
    """
    square(x, "slogdet")
    matrix = supported(x)
    sign, logarithm = on_host("slogdet", np.linalg.slogdet, matrix)
    found = from_host(logarithm, x)
    if tracks(x):
        inverse = on_host("slogdet: the gradient", np.linalg.inv, matrix)
        found = differentiated(found, (from_host(np.swapaxes(inverse, -2, -1), x) * matrix).sum((-2, -1)))
    return Slogdet(rounded(from_host(sign, x), x), rounded(found, x))


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
        return x.eye(x.shape[-1], dtype=x.dtype, device=x._device or None).expand(x.shape)
    return _power(base, abs(exponent))


def _power(base: T, exponent: int) -> T:
    if exponent == 1:
        return base
    half = _power(base, exponent // 2)
    even = half @ half
    return even @ base if exponent % 2 else even


def pinv(x: T, rtol: Any = None) -> T:
    """The pseudo-inverses (…, columns, rows) of matrices. Synchronises.

    rtol: singular values up to `rtol` times the largest count as 0; by default max(rows, columns) * eps. Gradient,
    where the rank does not change (Golub and Pereyra, 1973): dP = -P dx P + P P^T dx^T (1 - x P) + (1 - P x) dx^T P^T
    P.

    >>> from rulegrad import Tensor
    >>> pinv(Tensor([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    matrices(x, "pinv")
    matrix = supported(x)
    tolerance = _tolerance(x, matrix, rtol)
    if not x.size:
        return rounded(from_host(np.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), matrix.dtype.numpy), x), x)
    values = on_host("pinv", lambda a: np.linalg.pinv(a, rcond=tolerance), matrix)
    found = from_host(values, x)
    if tracks(x):
        found = differentiated(found, _pinv_model(matrix, from_host(values, x)))
    return rounded(found, x)


def _pinv_model(x: T, p: T) -> T:
    constant = x.detach()
    rows = x.eye(x.shape[-2], dtype=x.dtype, device=x._device or None) - constant @ p
    columns = x.eye(x.shape[-1], dtype=x.dtype, device=x._device or None) - p @ constant
    return p @ p.mT @ x.mT @ rows + columns @ x.mT @ p.mT @ p - p @ x @ p


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

    return from_host(on_host("matrix_rank", rank, matrix), x)


def _tolerance(x: Tensor, matrix: Tensor, rtol: Any) -> Any:
    """`rtol` as NumPy takes it: a number, or an array over the batch."""
    if rtol is None:
        return max(x.shape[-2:]) * float(np.finfo(as_dtype(matrix.dtype).numpy).eps)
    return rtol.numpy() if isinstance(rtol, TensorCore) else rtol  # type: ignore[attr-defined]
