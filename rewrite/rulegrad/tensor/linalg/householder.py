"""Householder's reflections, as LAPACK keeps them: Q = H1 H2 … Hk with H = 1 - tau v v^H, and v below the diagonal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rulegrad.errors import ShapeError
from rulegrad.tensor.linalg.host import adjoint, matrices, no_gradient, on_host, rounded, supported
from rulegrad.tensor.linalg.triangular import solve_triangular

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor


class Reflections(NamedTuple):
    """The result of `Tensor.geqrf`.

    >>> a, tau = Tensor([[3.0], [4.0]]).geqrf()
    >>> a.tolist(), [round(t, 3) for t in tau.tolist()]
    ([[-5.0], [0.5]], [1.6])
    """

    a: Tensor
    tau: Tensor


def geqrf(x: Tensor) -> Reflections:
    """R (above the diagonal, and on it) and the reflections of Q (below it) with `Q @ R = x`; and their factors.

    Synchronises. It has no gradient (RulegradError); `qr` has. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> geqrf(Tensor([[3.0], [4.0]])).a.tolist()
    [[-5.0], [0.5]]
    """
    matrices(x, "geqrf")
    no_gradient("geqrf", "linalg.qr", x)
    packed, tau = on_host("geqrf", _geqrf, supported(x))
    return Reflections(rounded(packed, x), rounded(tau, x))


def _geqrf(a: Array) -> tuple[Array, Array]:
    if not a.size:
        return a, np.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)
    transposed, tau = np.linalg.qr(a, mode="raw")  # as LAPACK has it, by columns
    return transposed.swapaxes(-1, -2), tau


def householder_product(x: Tensor, tau: Tensor) -> Tensor:
    """The first columns, as many as x has, of the product of the reflections below the diagonal of x.

    x: (…, rows, columns) with at least as many rows. tau: (…, k) for k <= columns. Synchronises. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> [[round(q, 3)] for (q,) in householder_product(*geqrf(Tensor([[3.0], [4.0]]))).tolist()]
    [[-0.6], [-0.8]]
    """
    matrices(x, "householder_product")
    rows, columns = x.shape[-2:]
    if rows < columns:
        raise ShapeError(f"householder_product: the shape {x.shape} has more columns than rows")
    vectors, middle = _compact(x, tau, "householder_product")
    one = x.eye(rows, columns, dtype=vectors.dtype, device=x._device or None)
    found: Tensor = one - vectors @ (middle @ adjoint(vectors)[..., :columns])
    return rounded(found, x)


def ormqr(x: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """`Q @ other`, where Q is the square product of the reflections below the diagonal of x.

    left: False for `other @ Q`. transpose: Q^H in the place of Q. Synchronises. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> abs(ormqr(*geqrf(Tensor([[3.0], [4.0]])), Tensor([[3.0], [4.0]]), transpose=True)).round(decimals=3).tolist()
    [[5.0], [0.0]]
    """
    matrices(x, "ormqr")
    matrices(other, "ormqr")
    if other.shape[-2 if left else -1] != x.shape[-2]:
        raise ShapeError(f"ormqr: reflections of {x.shape[-2]} elements do not fit matrices of shape {other.shape}")
    vectors, middle = _compact(x, tau, "ormqr")
    if transpose:
        middle = adjoint(middle)
    back = adjoint(vectors)
    moved: Tensor = vectors @ (middle @ (back @ other)) if left else ((other @ vectors) @ middle) @ back
    return rounded(other - moved, x)


def _compact(x: Tensor, tau: Tensor, operation: str) -> tuple[Tensor, Any]:
    """V and Tensor with H1 H2 … Hk = 1 - V Tensor V^H (Schreiber and Van Loan, 1989): Tensor = D (1 + S D)^-1.

    D is the diagonal of the factors, and S the part of V^H V above the diagonal.
    """
    count = tau.shape[-1] if tau.ndim else 0
    if tau.shape[:-1] != x.shape[:-2] or not tau.ndim or count > min(x.shape[-2:]):
        raise ShapeError(f"{operation}: factors of shape {tau.shape} do not fit reflections of shape {x.shape}")
    packed, factors = supported(x), supported(tau)
    one = x.eye(x.shape[-2], count, dtype=packed.dtype, device=x._device or None)
    vectors: Tensor = packed[..., :count].tril(-1) + one
    columns = factors.unsqueeze(-2)
    products = (adjoint(vectors) @ vectors).triu(1) * columns
    unit = x.eye(count, dtype=packed.dtype, device=x._device or None)
    diagonal = unit * columns
    return vectors, solve_triangular(products, diagonal, upper=True, left=False, unitriangular=True)
