"""Gradients of what `linalg` computes on the host: from operands, results and their gradients to those of operands.

For a real loss L the gradient G of a matrix X is such that dL = Re tr(G^H dX). Each formula is made of operations on
tensors, inverses and decompositions included, so it has a gradient itself. Sources: Giles, An extended collection of
matrix derivative results (2008); Golub and Pereyra, The differentiation of pseudo-inverses (1973); Townsend,
Differentiating the singular value decomposition (2016); Roberts and Roberts, QR and LQ decomposition matrix
backpropagation (2020); Boeddeker et al., On the computation of complex-valued gradients (2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from rulegrad.tensor.linalg import solving
from rulegrad.tensor.linalg.host import adjoint

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor

    Many: TypeAlias = Sequence[Tensor]


def _hermitian(x: Any) -> Any:
    """The mean of a matrix and its adjoint: the gradient of a matrix that is read as Hermitian."""
    return (x + adjoint(x)) / 2


def _one(n: int, like: Any) -> Any:
    """The unit matrix, real."""
    return like.eye(n, dtype=like.dtype.real if like.dtype.is_complex else like.dtype, device=like._device or None)


def _on_diagonal(x: Any) -> Any:
    """Diagonal matrices of vectors."""
    return x.unsqueeze(-1) * _one(x.shape[-1], x)


def _diagonal(x: Any) -> Any:
    """The diagonals of matrices."""
    return (x * _one(x.shape[-1], x)).sum(-1)


def _ratio(a: Any, b: Any) -> Any:
    """a / b, where 0 / 0 is 0."""
    nothing = a.equal(0) & b.equal(0)
    return nothing.where(0, a / nothing.where(1, b))


def _differences(x: Any) -> Any:
    """x[j] - x[i], in row i and column j."""
    return x.unsqueeze(-2) - x.unsqueeze(-1)


def of_inv(operands: Many, results: Many, gradients: Many) -> Many:
    """dY = -Y dX Y"""
    back = adjoint(results[0])
    return (-(back @ gradients[0] @ back),)


def of_solve(operands: Many, results: Many, gradients: Many) -> Many:
    """A dX = dB - dA X"""
    right = solving.solve(adjoint(operands[0]), gradients[0])
    return -(right @ adjoint(results[0])), right


def of_det(operands: Many, results: Many, gradients: Many) -> Many:
    """d det = tr(cof^T dX), where cof is the matrix of cofactors"""
    return (gradients[0].unsqueeze(-1).unsqueeze(-1) * solving.cofactors(operands[0], results[0]).conj(),)


def of_slogdet(operands: Many, results: Many, gradients: Many) -> Many:
    """d log det = tr(X^-1 dX): its real part is that of log|det|, its imaginary one that of the sign's angle"""
    (x,), (sign, _), (of_sign, slope) = operands, results, gradients
    if x.dtype.is_complex:
        slope = x.complex(slope, (of_sign.conj() * sign * 1j).real)
    return (slope.unsqueeze(-1).unsqueeze(-1) * adjoint(solving.inv_ex(x).inverse),)


def of_pinv(operands: Many, results: Many, gradients: Many) -> Many:
    """dP = -P dX P + P P^H dX^H (1 - X P) + (1 - P X) dX^H P^H P, where the rank does not change"""
    (x,), (p,), (g,) = operands, results, gradients
    back, across = adjoint(p), adjoint(g)
    rows = _one(x.shape[-2], x) - x @ p
    columns = _one(x.shape[-1], x) - p @ x
    return (rows @ across @ (p @ back) + (back @ p) @ across @ columns - back @ g @ back,)


def of_cholesky(operands: Many, results: Many, gradients: Many) -> Many:
    """dL = L half(L^-1 dX L^-H), where half keeps the lower triangle and half of the diagonal"""
    (lower,), (g,) = results, gradients
    inverse = solving.inv(lower)
    product = (adjoint(lower) @ g).tril()
    half = product - product * _one(lower.shape[-1], lower) / 2
    return (_hermitian(adjoint(inverse) @ half @ inverse),)


def of_qr(operands: Many, results: Many, gradients: Many) -> Many:
    """dQ = dX R^-1 - Q (W + C), dR = (C - W) R for C = Q^H dX R^-1 and W skew; of as many rows as columns, or more"""
    (q, r), (of_q, of_r) = results, gradients
    both = r @ adjoint(of_r) - adjoint(of_q) @ q
    below = both.tril(-1)
    middle = below + adjoint(below) + _on_diagonal(_diagonal(both).real)
    return ((of_q + q @ middle) @ adjoint(solving.inv_ex(r).inverse),)


def of_eigh(operands: Many, results: Many, gradients: Many) -> Many:
    """dw = diag(V^H dX V), dV = V (F * (V^H dX V)) with F[i, j] = 1 / (w[j] - w[i])"""
    (w, v), (of_w, of_v) = results, gradients
    product = adjoint(v) @ of_v
    turned = product - _on_diagonal(_diagonal(product))
    return (_hermitian(v @ (_on_diagonal(of_w) + _ratio(turned, _differences(w))) @ adjoint(v)),)


def of_svd(operands: Many, results: Many, gradients: Many) -> Many:
    """The gradient of the thin decomposition, where no singular value is repeated."""
    (u, s, vh), (of_u, of_s, of_vh) = results, gradients
    v, of_v = adjoint(vh), adjoint(of_vh)
    distance = _differences(s.square())
    left, right = adjoint(u) @ of_u, adjoint(v) @ of_v
    values, columns = s.unsqueeze(-1), s.unsqueeze(-2)
    skew = [part - _on_diagonal(_diagonal(part)) for part in (left - adjoint(left), right - adjoint(right))]
    core = _ratio(skew[0], distance) * columns + values * _ratio(skew[1], distance) + _on_diagonal(of_s)
    if u.dtype.is_complex:
        core = core + _on_diagonal(_ratio(_diagonal(left).imag, s) * 1j)
    found = u @ core @ vh
    if u.shape[-2] > u.shape[-1]:
        found = found + _ratio(of_u - u @ left, columns) @ vh
    if v.shape[-2] > v.shape[-1]:
        found = found + u @ adjoint(_ratio(of_v - v @ right, columns))
    return (found,)


def of_eig(operands: Many, results: Many, gradients: Many) -> Many:
    """dw = diag(V^-1 dX V), dV = V (F * (V^-1 dX V)), less its part along V, for columns of length 1"""
    (w, v), (of_w, of_v) = results, gradients
    product = adjoint(v) @ of_v
    turned = product - (adjoint(v) @ v) * _diagonal(product).real.unsqueeze(-2)
    turned = turned - _on_diagonal(_diagonal(turned))
    core = _on_diagonal(of_w) + _ratio(turned, _differences(w).conj())
    return (solving.solve(adjoint(v), core @ adjoint(v)),)
