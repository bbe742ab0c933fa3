"""L D L^T of symmetric (or Hermitian) matrices that need not be positive definite, and systems that they solve.

By the pivoting of Bunch and Kaufman (Some stable methods for calculating inertia and solving symmetric linear systems;
1977), in the form in which LAPACK's sytrf and hetrf keep it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from rulegrad.errors import ShapeError
from rulegrad.tensor.linalg.host import LinalgError, largest, matrices, no_gradient, on_host, rounded, square, supported
from rulegrad.tensor.operands import broadcast_shapes, result_dtype

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor


#: For which the elements grow as little after two steps of one row as after one of two.
_ALPHA: Final = (1 + math.sqrt(17)) / 8


class LDLFactor(NamedTuple):
    """The result of `ldl_factor`.

    >>> packed, pivots = rg.linalg.ldl_factor(Tensor([[4.0, 2.0], [2.0, 5.0]]))
    >>> packed.tolist(), pivots.tolist()
    ([[4.0, 0.0], [0.5, 4.0]], [1, 2])
    """

    LD: Tensor
    pivots: Tensor


class LDLFactorEx(NamedTuple):
    """The result of `ldl_factor_ex`.

    >>> rg.linalg.ldl_factor_ex(Tensor([[0.0]])).info.item()
    1
    """

    LD: Tensor
    pivots: Tensor
    info: Tensor


def ldl_factor(x: Tensor, *, hermitian: bool = False) -> LDLFactor:
    """L and D of `x = L @ D @ L.mT`, for symmetric x, in one matrix, as LAPACK has them. Synchronises.

    D has blocks of one row, or of two where `pivots` (int32) are negative; L has the exchanges of rows between its
    columns, so `ldl_solve` is what to use it with. Reads the lower triangle, and gives zeros in the other one.
    hermitian: for `x = L @ D @ L^H`. It has no gradient (RulegradError); `solve` has. Raises ShapeError, and
    LinalgError for a singular matrix.

    >>> from rulegrad import Tensor
    >>> ldl_factor(Tensor([[0.0, 1.0], [1.0, 0.0]])).pivots.tolist()
    [-2, -2]
    """
    packed, pivots, info = ldl_factor_ex(x, hermitian=hermitian)
    if (place := largest(info)) > 0:
        raise LinalgError(f"ldl_factor: D[k, k] is 0 for k = {place}, counted from 1")
    return LDLFactor(packed, pivots)


def ldl_factor_ex(x: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> LDLFactorEx:
    """`ldl_factor`, and `info` (int32): 0, or the first place on the diagonal of D, counted from 1, with a zero.

    check_errors: raise LinalgError where there is one, as `ldl_factor`.

    >>> from rulegrad import Tensor
    >>> ldl_factor_ex(Tensor([[[2.0]], [[0.0]]])).info.tolist()
    [0, 1]
    """
    square(x, "ldl_factor")
    no_gradient("ldl_factor", "linalg.solve", x)
    if check_errors:
        ldl_factor(x, hermitian=hermitian)
    packed, pivots, info = on_host("ldl_factor", partial(_each_factored, hermitian=hermitian), supported(x))
    return LDLFactorEx(rounded(packed, x), pivots, info)


def ldl_solve(packed: Tensor, pivots: Tensor, b: Tensor, *, hermitian: bool = False) -> Tensor:
    """X with `A @ X = b`, for what `ldl_factor` found of A. Synchronises. Gradient: of b.

    b: (…, n, k); the batches broadcast. Raises ShapeError, and RulegradError where the factors need a gradient.

    >>> from rulegrad import Tensor
    >>> ldl_solve(*ldl_factor(Tensor([[4.0, 2.0], [2.0, 5.0]])), Tensor([[6.0], [7.0]])).tolist()
    [[1.0], [1.0]]
    """
    square(packed, "ldl_solve")
    matrices(b, "ldl_solve")
    no_gradient("ldl_solve, by its factors,", "linalg.solve", packed)
    n = packed.shape[-1]
    if pivots.shape != packed.shape[:-1] or n != b.shape[-2]:
        raise ShapeError(
            f"ldl_solve: pivots of shape {pivots.shape} and a right side of shape {b.shape} do not fit matrices of "
            f"shape {packed.shape}"
        )
    dtype = result_dtype(packed, b)
    first, second = supported(packed.cast(dtype)), supported(b.cast(dtype))
    batch = broadcast_shapes("ldl_solve", packed.shape[:-2], b.shape[:-2])

    def of_solution(operands: Any, results: Any, gradients: Any) -> tuple[Any, Any, Any]:
        """dX = A^-1 dB, so the gradient of B is A^-H G"""
        factors, exchanges, _ = operands
        back = factors if hermitian or not factors.dtype.is_complex else factors.conj()
        return factors, exchanges, ldl_solve(back.detach(), exchanges, gradients[0], hermitian=hermitian)

    (found,) = on_host(
        "ldl_solve",
        partial(_each_solved, hermitian=hermitian),
        first.expand(*batch, n, n),
        pivots.expand(*batch, n),
        second.expand(*batch, *b.shape[-2:]),
        formula=of_solution,
    )
    return found.cast(dtype) if dtype.is_float else found


def _each_factored(a: Array, hermitian: bool) -> tuple[Array, Array, Array]:
    n = a.shape[-1]
    stack = np.array(a).reshape(math.prod(a.shape[:-2]), n, n)
    pivots, info = np.zeros((len(stack), n), np.int32), np.zeros(len(stack), np.int32)
    for number, matrix in enumerate(stack):
        for k, rows, other in _steps(matrix, hermitian):
            pivots[number, k : k + rows] = other + 1 if rows == 1 else -(other + 1)
            if rows == 1 and matrix[k, k] == 0 and not info[number]:
                info[number] = k + 1
    return np.tril(stack).reshape(a.shape), pivots.reshape(a.shape[:-1]), info.reshape(a.shape[:-2])


def _steps(a: Array, hermitian: bool) -> Iterator[tuple[int, int, int]]:
    """Eliminates, in place. Of each step its first row, how many rows it has, and what the last is exchanged with."""
    n, k = len(a), 0
    while k < n:
        if hermitian:  # rounding would give the diagonal imaginary parts, which grow
            a[np.diag_indices(n)] = a.diagonal().real
        rows, other = _pivot(a, k)
        last = k + rows - 1
        if other != last:
            _exchange(a, k, last, other, hermitian)
        end = k + rows
        below, block = a[end:, k:end].copy(), a[k:end, k:end].copy()
        if rows == 2:
            block[0, 1] = block[1, 0].conj() if hermitian else block[1, 0]
        if end < n and block.any():
            left = np.linalg.solve(block.T, below.T).T
            a[end:, end:] -= left @ (below.conj().T if hermitian else below.T)  # of which the lower triangle is read
            a[end:, k:end] = left
        yield k, rows, other
        k = end


def _pivot(a: Array, k: int) -> tuple[int, int]:
    """How many rows the next block has, and the row that its last one is exchanged with."""
    n = len(a)
    own = _size(a[k, k])
    if k == n - 1:
        return 1, k
    column = _size(a[k + 1 :, k])
    other = k + 1 + int(column.argmax())
    largest = column.max()
    if own >= _ALPHA * largest:
        return 1, k
    in_row = max(_size(a[other, k:other]).max(), _size(a[other + 1 :, other]).max(initial=0))
    if own * in_row >= _ALPHA * largest * largest:
        return 1, k
    return (1 if _size(a[other, other]) >= _ALPHA * in_row else 2), other


def _size(x: Array) -> Array:
    return np.asarray(abs(x.real) + abs(x.imag))


def _exchange(a: Array, k: int, row: int, other: int, hermitian: bool) -> None:
    """Rows and columns `row` < `other` of the lower triangle that is left from k on."""
    a[other + 1 :, [row, other]] = a[other + 1 :, [other, row]]
    between = slice(row + 1, other)
    down, across = a[between, row].copy(), a[other, between].copy()
    a[between, row], a[other, between] = (across.conj(), down.conj()) if hermitian else (across, down)
    a[row, row], a[other, other] = a[other, other], a[row, row]
    if hermitian:
        a[other, row] = a[other, row].conj()
    if row > k:
        a[[row, other], k] = a[[other, row], k]


def _each_solved(a: Array, pivots: Array, b: Array, hermitian: bool) -> Array:
    n, count = b.shape[-2:]
    stack = np.array(b).reshape(math.prod(b.shape[:-2]), n, count)
    for matrix, order, x in zip(a.reshape(-1, n, n) if n else [], pivots.reshape(-1, n) if n else [], stack):
        _solve(matrix, order, x, hermitian)
    return stack.reshape(b.shape)


def _solve(a: Array, pivots: Array, x: Array, hermitian: bool) -> None:
    """One system, in place: through the steps of the elimination, and back."""
    n, k, steps = len(a), 0, []
    while k < n:
        rows, other = (1, pivots[k] - 1) if pivots[k] > 0 else (2, -pivots[k] - 1)
        end = k + rows
        steps.append((k, end, other))
        x[[end - 1, other]] = x[[other, end - 1]]
        x[end:] -= a[end:, k:end] @ x[k:end]
        block = a[k:end, k:end].copy()
        if rows == 2:
            block[0, 1] = block[1, 0].conj() if hermitian else block[1, 0]
        with np.errstate(all="ignore"):
            x[k:end] = x[k:end] / block if rows == 1 else np.linalg.solve(block, x[k:end])
        k = end
    for k, end, other in reversed(steps):
        left = a[end:, k:end]
        x[k:end] -= (left.conj() if hermitian else left).T @ x[end:]
        x[[end - 1, other]] = x[[other, end - 1]]
