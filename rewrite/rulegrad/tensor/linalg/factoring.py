"""LU decompositions by elimination on the host, systems that they solve, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rulegrad.errors import ShapeError
from rulegrad.tensor.linalg.host import (
    LinalgError,
    adjoint,
    largest,
    matrices,
    on_host,
    rounded,
    square,
    supported,
    tracks,
)
from rulegrad.tensor.linalg.triangular import BLOCK, solve_triangular, substituted

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor


class LUFactor(NamedTuple):
    """The result of `lu_factor`.

    >>> packed, pivots = rg.linalg.lu_factor(Tensor([[1.0, 2.0], [4.0, 4.0]]))
    >>> packed.tolist(), pivots.tolist()
    ([[4.0, 4.0], [0.25, 1.0]], [2, 2])
    """

    LU: Tensor
    pivots: Tensor


class LUFactorEx(NamedTuple):
    """The result of `lu_factor_ex`.

    >>> rg.linalg.lu_factor_ex(Tensor([[1.0, 1.0], [1.0, 1.0]])).info.item()
    2
    """

    LU: Tensor
    pivots: Tensor
    info: Tensor


class LU(NamedTuple):
    """The result of `lu`.

    >>> p, l, u = rg.linalg.lu(Tensor([[1.0, 2.0], [4.0, 4.0]]))
    >>> (p @ l @ u).tolist()
    [[1.0, 2.0], [4.0, 4.0]]
    """

    P: Tensor
    L: Tensor
    U: Tensor


def lu_factor(x: Tensor, *, pivot: bool = True) -> LUFactor:
    """L (below the diagonal, which is ones) and U (above, and on it) in one matrix, with `P @ L @ U = x`. Synchronises.

    pivots: int32 (…, min(rows, columns)): row k was exchanged with row pivots[k], counted from 1 as in LAPACK.
    pivot: False for P = 1, which needs leading minors that are not 0. Raises ShapeError. A singular matrix has zeros on
    the diagonal of U. Gradient: where the first columns, or rows, are independent.

    >>> from rulegrad import Tensor
    >>> lu_factor(Tensor([[1.0, 2.0], [4.0, 4.0]])).LU.tolist()
    [[4.0, 4.0], [0.25, 1.0]]
    """
    matrices(x, "lu_factor")
    matrix = supported(x)
    packed, pivots = on_host("lu_factor", partial(eliminated, pivot=pivot), matrix.detach())
    if tracks(x):
        packed = _with_gradient(_permuted(matrix, pivots))
    return LUFactor(rounded(packed, x), pivots)


def lu_factor_ex(x: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LUFactorEx:
    """`lu_factor`, and `info` (int32): 0, or the first place on the diagonal of U, counted from 1, with a zero.

    check_errors: raise LinalgError where there is one.

    >>> from rulegrad import Tensor
    >>> lu_factor_ex(Tensor([[0.0]])).info.item()
    1
    """
    packed, pivots = lu_factor(x, pivot=pivot)
    info = _first_zero(packed)
    if check_errors and (place := largest(info)) > 0:
        raise LinalgError(f"lu_factor_ex: U[k, k] is 0 for k = {place}, counted from 1")
    return LUFactorEx(packed, pivots, info)


def _first_zero(packed: Tensor) -> Tensor:
    """The first place of a zero on the diagonals, counted from 1, or 0."""
    zero = packed.detach().diagonal(0, -2, -1).equal(0)
    if not zero.shape[-1]:
        return zero.any(-1).cast("int32")
    return zero.any(-1).where(zero.cast("int32").argmax(-1) + 1, 0).cast("int32")


def lu(x: Tensor, *, pivot: bool = True) -> LU:
    """P, L and U with `P @ L @ U = x`: a permutation, a lower triangle with ones on its diagonal, an upper triangle.

    P is (…, rows, rows), L (…, rows, k) and U (…, k, columns) for k = min(rows, columns). Synchronises. pivot: False
    for P = 1, given as an empty tensor. Gradient: as `lu_factor`.

    >>> from rulegrad import Tensor
    >>> lu(Tensor([[1.0, 2.0], [4.0, 4.0]])).U.tolist()
    [[4.0, 4.0], [0.0, 1.0]]
    """
    packed, pivots = lu_factor(x, pivot=pivot)
    return lu_unpack(packed, pivots, unpack_pivots=pivot)


def lu_unpack(packed: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> LU:
    """P, L and U of what `lu_factor` found; empty tensors for what is not asked for.

    >>> from rulegrad import Tensor
    >>> lu_unpack(*lu_factor(Tensor([[1.0, 2.0], [4.0, 4.0]]))).L.tolist()
    [[1.0, 0.0], [0.25, 1.0]]
    """
    matrices(packed, "lu_unpack")
    rows, columns = packed.shape[-2:]
    count = min(rows, columns)
    if pivots.shape != (*packed.shape[:-2], count):
        raise ShapeError(f"lu_unpack: pivots of shape {pivots.shape} do not fit matrices of shape {packed.shape}")
    empty = packed.zeros((0,), dtype=packed.dtype, device=packed._device or None)
    lower = upper = permutation = empty
    if unpack_data:
        lower = packed[..., :count].tril(-1) + _one(rows, packed)[:, :count]
        upper = packed[..., :count, :].triu()
    if unpack_pivots:
        positions = packed.arange(rows, device=packed._device or None).unsqueeze(-1)
        permutation = _order(pivots, rows).unsqueeze(-2).equal(positions).cast(packed.dtype)
    return LU(permutation, lower, upper)


def lu_solve(packed: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X with `A @ X = b`, for what `lu_factor` found of A. Synchronises.

    b: (…, n, k); with left=False `X @ A = b` and (…, k, n). adjoint: with A^H in the place of A. The batches broadcast.
    Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> lu_solve(*lu_factor(Tensor([[1.0, 2.0], [4.0, 4.0]])), Tensor([[3.0], [8.0]])).tolist()
    [[1.0], [1.0]]
    """
    square(packed, "lu_solve")
    matrices(b, "lu_solve")
    if pivots.shape != packed.shape[:-1] or packed.shape[-1] != b.shape[-2 if left else -1]:
        raise ShapeError(
            f"lu_solve: pivots of shape {pivots.shape} and a right side of shape {b.shape} do not fit matrices of "
            f"shape {packed.shape}"
        )
    if not left:
        found: Tensor = _adjoint(lu_solve(packed, pivots, _adjoint(b), adjoint=not adjoint))
        return found
    order = _order(pivots, packed.shape[-1]).unsqueeze(-1)
    if adjoint:
        first = solve_triangular(_adjoint(packed), b, upper=False)
        second = solve_triangular(_adjoint(packed), first, upper=True, unitriangular=True)
        back: Tensor = second.take_along_axis(order.argsort(-2), -2)
        return back
    first = solve_triangular(packed, b.take_along_axis(order, -2), upper=False, unitriangular=True)
    return solve_triangular(packed, first, upper=True)


_adjoint = adjoint


def _one(n: int, like: Tensor) -> Tensor:
    return like.eye(n, dtype=like.dtype, device=like._device or None)


# ---- rows in the order of pivots ----


def _order(pivots: Tensor, rows: int) -> Tensor:
    """The numbers of the rows of a matrix in the order that the exchanges put them in."""
    (found,) = on_host("lu_unpack", partial(_exchanged, rows=rows), pivots)
    return found


def _exchanged(pivots: Array, rows: int) -> Array:
    stack = pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    if stack.size and not (stack.min() > 0 and stack.max() <= rows):
        raise ShapeError(f"lu_unpack: a pivot is not among the rows 1 … {rows}")
    order = np.tile(np.arange(rows), (len(stack), 1))
    each = np.arange(len(stack))
    for k in range(stack.shape[1]):
        other = stack[:, k] - 1
        order[each, k], order[each, other] = order[each, other], order[each, k]
    return order.reshape(*pivots.shape[:-1], rows)


def _permuted(x: Tensor, pivots: Tensor) -> Tensor:
    return x.take_along_axis(_order(pivots, x.shape[-2]).unsqueeze(-1), -2)


# ---- elimination ----


def eliminated(a: Array, pivot: bool) -> tuple[Array, Array]:
    """LAPACK's getrf: by blocks of columns, with the largest element of each column as pivot."""
    rows, columns = a.shape[-2:]
    count = min(rows, columns)
    stack = np.array(a).reshape(math.prod(a.shape[:-2]), rows, columns)
    pivots = np.tile(np.arange(1, count + 1, dtype=np.int32), (len(stack), 1))
    with np.errstate(all="ignore"):
        for begin in range(0, count, BLOCK):
            end = min(begin + BLOCK, count)
            _eliminate(stack, pivots, begin, end, pivot)
            block = stack[:, begin:end, begin:end]
            right = substituted(block, stack[:, begin:end, end:], upper=False, unit=True)
            stack[:, begin:end, end:] = right
            stack[:, end:, end:] -= stack[:, end:, begin:end] @ right
    return stack.reshape(a.shape), pivots.reshape(*a.shape[:-2], count)


def _eliminate(stack: Array, pivots: Array, begin: int, end: int, pivot: bool) -> None:
    """Columns begin … end, in place; the columns behind them only have their rows exchanged."""
    each = np.arange(len(stack))
    for k in range(begin, end):
        if pivot:
            column = stack[:, k:, k]
            size = abs(column.real) + abs(column.imag) if np.iscomplexobj(column) else abs(column)
            place = k + size.argmax(-1)
            pivots[:, k] = place + 1
            stack[each, k], stack[each, place] = stack[each, place], stack[each, k]
        top = stack[:, k, k, None]
        below = stack[:, k + 1 :, k]
        below /= np.where(top == 0, 1, top)
        stack[:, k + 1 :, k + 1 : end] -= below[..., None] * stack[:, k, None, k + 1 : end]


# ---- gradients ----


def _with_gradient(x: Tensor) -> Tensor:
    """L and U in one matrix, of matrices that need no pivots, in steps that have gradients."""
    rows, columns = x.shape[-2:]
    count = min(rows, columns)
    (corner,) = on_host(
        "lu_factor",
        lambda a: eliminated(a, pivot=False)[0],
        x[..., :count, :count],
        formula=_of_lu,
    )
    if rows > columns:
        return corner.cat(solve_triangular(corner, x[..., count:, :], upper=True, left=False), axis=-2)
    if rows < columns:
        right = solve_triangular(corner, x[..., count:], upper=False, unitriangular=True)
        return corner.cat(right, axis=-1)
    return corner


def _of_lu(operands: Any, results: Any, gradients: Any) -> Sequence[Any]:
    """dL = L below(L^-1 dX U^-1), dU = above(L^-1 dX U^-1) U, where below is without the diagonal and above with it"""
    (packed,), (g,) = results, gradients
    lower, upper = packed.tril(-1) + _one(packed.shape[-1], packed), packed.triu()
    middle = (adjoint(lower) @ g.tril(-1)).tril(-1) + (g.triu() @ adjoint(upper)).triu()
    left = solve_triangular(adjoint(packed), middle, upper=True, unitriangular=True)
    return (solve_triangular(adjoint(packed), left, upper=False, left=False),)
