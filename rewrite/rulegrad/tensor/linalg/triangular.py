"""Systems with triangular matrices, by substitution on the host; and what Cholesky's triangles solve."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from rulegrad.errors import ShapeError
from rulegrad.tensor.linalg.host import adjoint, matrices, on_host, square, supported
from rulegrad.tensor.operands import broadcast_shapes, result_dtype

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor


#: Rows and columns that are done one by one; larger blocks are products of matrices.
BLOCK: Final = 32


class TriangularSolve(NamedTuple):
    """The result of `Tensor.triangular_solve`.

    >>> solution, coefficient = Tensor([[2.0]]).triangular_solve(Tensor([[4.0]]))
    >>> solution.tolist(), coefficient.tolist()
    ([[0.5]], [[4.0]])
    """

    solution: Tensor
    cloned_coefficient: Tensor


def solve_triangular(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """X with `a @ X = b` (`X @ a = b` with left=False), for triangles `a`. Synchronises.

    a: (…, n, n), of which only the triangle is read, and with unitriangular=True not the diagonal, which counts as
    ones. b: (…, n, k), or (…, k, n) with left=False; the batches broadcast. A zero on the diagonal gives infinities and
    nan. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> solve_triangular(Tensor([[2.0, 1.0], [0.0, 4.0]]), Tensor([[4.0], [8.0]]), upper=True).tolist()
    [[1.0], [2.0]]
    """
    square(a, "solve_triangular")
    matrices(b, "solve_triangular")
    if a.shape[-1] != b.shape[-2 if left else -1]:
        raise ShapeError(f"solve_triangular: a right side of shape {b.shape} does not fit matrices of shape {a.shape}")
    if not left:
        return solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular).mT
    dtype = result_dtype(a, b)
    first, second = supported(a.cast(dtype)), supported(b.cast(dtype))
    batch = broadcast_shapes("solve_triangular", first.shape[:-2], second.shape[:-2])
    (found,) = on_host(
        "solve_triangular",
        partial(_substituted_quietly, upper=upper, unit=unitriangular),
        first.expand(*batch, *first.shape[-2:]),
        second.expand(*batch, *second.shape[-2:]),
        formula=partial(_of_triangular, upper=upper, unit=unitriangular),
    )
    return found.cast(dtype) if dtype.is_float else found


def _of_triangular(operands: Any, results: Any, gradients: Any, upper: bool, unit: bool) -> Sequence[Any]:
    """A dX = dB - dA X, where dA is a triangle"""
    (a, _), (x,), (g,) = operands, results, gradients
    right = solve_triangular(adjoint(a), g, upper=not upper, unitriangular=unit)
    product = -(right @ adjoint(x))
    return product.triu(int(unit)) if upper else product.tril(-int(unit)), right


def _substituted_quietly(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    with np.errstate(all="ignore"):
        return substituted(a, b, upper, unit)


def substituted(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    """X with a @ X = b, for arrays of triangles; by halves, so that most of it is products of matrices."""
    n = a.shape[-1]
    if n > BLOCK:
        half = n // 2
        first, second = slice(half, n), slice(0, half)
        if not upper:
            first, second = second, first
        done = substituted(a[..., first, first], b[..., first, :], upper, unit)
        left = b[..., second, :] - a[..., second, first] @ done
        rest = substituted(a[..., second, second], left, upper, unit)
        return np.concatenate((rest, done) if upper else (done, rest), axis=-2)
    x: Array = b.copy()
    for k in reversed(range(n)) if upper else range(n):
        if not unit:
            x[..., k, :] /= a[..., k, k, None]
        others = slice(0, k) if upper else slice(k + 1, n)
        x[..., others, :] -= a[..., others, k, None] * x[..., k, None, :]
    return x


def cholesky_solve(b: Tensor, triangle: Tensor, upper: bool = False) -> Tensor:
    """X with `A @ X = b`, where the triangles are Cholesky's of A: `L @ L^H`, or `U^H @ U` with upper=True.

    >>> from rulegrad import Tensor
    >>> cholesky_solve(Tensor([[8.0]]), Tensor([[2.0]])).tolist()
    [[2.0]]
    """
    square(triangle, "cholesky_solve")
    lower = adjoint(triangle) if upper else triangle
    found: Tensor = solve_triangular(adjoint(lower), solve_triangular(lower, b, upper=False), upper=True)
    return found


def cholesky_inverse(triangle: Tensor, upper: bool = False) -> Tensor:
    """The inverses of the matrices of which these are Cholesky's triangles.

    >>> from rulegrad import Tensor
    >>> cholesky_inverse(Tensor([[2.0]])).tolist()
    [[0.25]]
    """
    square(triangle, "cholesky_inverse")
    one = triangle.eye(triangle.shape[-1], dtype=triangle.dtype, device=triangle._device or None)
    return cholesky_solve(one, triangle, upper)
