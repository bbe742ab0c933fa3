"""Triangles, LU, reflections, least squares, exponentials and what reports errors by numbers: against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg.lapack

from rulegrad import Tensor
from rulegrad.errors import RulegradError, ShapeError
from rulegrad.tensor import linalg

pytestmark = pytest.mark.usefixtures("on_the_interpreter")

SHAPES = [(4, 4), (5, 3), (3, 5), (2, 3, 3), (70, 67), (0, 3, 3), (3, 0), (0, 0)]


def drawn(shape: tuple[int, ...], dtype: str = "float64", seed: int = 3) -> Any:
    generator = np.random.default_rng(seed)
    values = generator.normal(size=shape)
    return (values + 1j * generator.normal(size=shape) if "complex" in dtype else values).astype(dtype)


def near(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(found.numpy() if isinstance(found, Tensor) else found, expected, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", SHAPES)
def test_lu_multiplies_back(dtype: str, shape: tuple[int, ...]) -> None:
    a = drawn(shape, dtype)
    p, lower, upper = (part.numpy() for part in linalg.lu(Tensor(a)))
    near(p @ lower @ upper, a)
    assert (abs(lower) <= 1 + 1e-12).all() or dtype == "complex128"  # every pivot is the largest of its column
    near(np.triu(lower, 1), 0 * np.triu(lower, 1))
    if shape[-1] == shape[-2]:
        packed, pivots = linalg.lu_factor(Tensor(a))
        assert pivots.dtype == "int32"
        b = drawn((*shape[:-1], 2), dtype, seed=4)
        for adjoint, of in ((False, a), (True, a.conj().swapaxes(-1, -2))):
            near(of @ linalg.lu_solve(packed, pivots, Tensor(b), adjoint=adjoint).numpy(), b)
            left = linalg.lu_solve(packed, pivots, Tensor(b).mT, left=False, adjoint=adjoint)
            near(left.numpy() @ of, b.swapaxes(-1, -2))


def test_lu_without_pivots_and_of_singular_matrices() -> None:
    a = drawn((3, 3)) + 9 * np.eye(3)
    p, lower, upper = linalg.lu(Tensor(a), pivot=False)
    assert p.shape == (0,)
    near(lower @ upper, a)
    assert linalg.lu_factor_ex(Tensor(np.diag([1.0, 0.0, 2.0]))).info.item() == 2
    with pytest.raises(linalg.LinalgError, match=r"U\[k, k\] is 0 for k = 2"):
        linalg.lu_factor_ex(Tensor(np.diag([1.0, 0.0, 2.0])), check_errors=True)
    with pytest.raises(ShapeError, match="a pivot is not among the rows"):
        Tensor(a).lu_unpack(Tensor([1, 2, 4]))
    with pytest.raises(ShapeError, match=r"pivots of shape \(2,\)"):
        Tensor(a).lu_unpack(Tensor([1, 2]))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("n", [0, 1, 3, 70])
def test_triangles(dtype: str, upper: bool, n: int) -> None:
    a = drawn((n, n), dtype) + 9 * np.eye(n)
    triangle = np.triu(a) if upper else np.tril(a)
    b = drawn((2, n, 4), dtype)
    x = Tensor(a)
    near(triangle @ linalg.solve_triangular(x, Tensor(b), upper=upper).numpy(), b)
    near(linalg.solve_triangular(x, Tensor(b).mT, upper=upper, left=False).numpy() @ triangle, b.swapaxes(-1, -2))
    ones = np.triu(a, 1) / 20 if upper else np.tril(a, -1) / 20
    found = linalg.solve_triangular(Tensor(ones), Tensor(b), upper=upper, unitriangular=True)
    near((ones + np.eye(n)) @ found.numpy(), b)
    old = Tensor(b).triangular_solve(x, upper, transpose=True)
    near(triangle.T @ old.solution.numpy(), b)
    positive = triangle.conj().T @ triangle if upper else triangle @ triangle.conj().T
    near(positive @ Tensor(b).cholesky_solve(x.triu() if upper else x.tril(), upper).numpy(), b)
    near(positive @ (x.triu() if upper else x.tril()).cholesky_inverse(upper).numpy(), np.eye(n))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 6, 40])
def test_symmetric_matrices_that_are_not_positive(dtype: str, hermitian: bool, n: int) -> None:
    a = drawn((2, 2, n, n), dtype)
    a = a + (a.conj() if hermitian else a).swapaxes(-1, -2)
    a[0] *= 1 - np.eye(n) if n > 1 else 1  # needs blocks of two rows
    packed, pivots = linalg.ldl_factor(Tensor(np.tril(a) + np.triu(np.ones((n, n)), 1)), hermitian=hermitian)
    assert pivots.dtype == "int32" and (n < 2 or (pivots.numpy()[0] < 0).any(-1).all())
    b = drawn((2, n, 3), dtype, seed=4)
    near(a @ linalg.ldl_solve(packed, pivots, Tensor(b), hermitian=hermitian).numpy(), np.broadcast_to(b, (2, 2, n, 3)))


def test_factors_as_lapack_keeps_them() -> None:
    a = np.array([[0.0, 2.0, 1.0], [2.0, 0.0, 3.0], [1.0, 3.0, 1.0]])
    packed, pivots = linalg.ldl_factor(Tensor(a))
    expected, permuted, _ = scipy.linalg.lapack.dsytrf(a, lower=1)
    near(packed, np.tril(expected))
    assert pivots.tolist() == list(permuted)
    assert linalg.ldl_factor_ex(Tensor(np.diag([1.0, 0.0, 2.0]))).info.item() == 2
    with pytest.raises(linalg.LinalgError, match=r"D\[k, k\] is 0 for k = 2"):
        linalg.ldl_factor(Tensor(np.diag([1.0, 0.0, 2.0])))
    with pytest.raises(RulegradError, match="ldl_factor has no gradient"):
        linalg.ldl_factor(Tensor(a, requires_grad=True))


def test_a_zero_on_the_diagonal_of_a_triangle_gives_infinities() -> None:
    found = linalg.solve_triangular(Tensor([[0.0, 0.0], [0.0, 1.0]]), Tensor([[1.0], [1.0]]), upper=True)
    assert found.tolist() == [[float("inf")], [1.0]]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (2, 4, 3), (0, 4, 3), (3, 0)])
def test_reflections(dtype: str, shape: tuple[int, ...]) -> None:
    a = drawn(shape, dtype)
    packed, tau = Tensor(a).geqrf()
    q, r = linalg.householder_product(packed, tau).numpy(), np.triu(packed.numpy())[..., : shape[-1], :]
    near(q @ r, a)
    other = drawn((*shape[:-2], shape[-2], 2), dtype)
    whole = packed.ormqr(tau, Tensor(np.broadcast_to(np.eye(shape[-2], dtype=dtype), (*shape[:-1], shape[-2])).copy()))
    for transpose in (False, True):
        of = whole.numpy().conj().swapaxes(-1, -2) if transpose else whole.numpy()
        near(packed.ormqr(tau, Tensor(other), transpose=transpose), of @ other)
        near(packed.ormqr(tau, Tensor(other).mT, False, transpose), other.swapaxes(-1, -2) @ of)
    near(whole.numpy()[..., : shape[-1]], q)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_least_squares(dtype: str, driver: str) -> None:
    for shape in ((5, 3), (3, 5), (3, 3)):
        a, b = drawn(shape, dtype), drawn((shape[0], 2), dtype, seed=4)
        expected, residuals, rank, singular = np.linalg.lstsq(a, b, rcond=None)
        found = linalg.lstsq(Tensor(a), Tensor(b), driver=driver)
        near(found.solution, expected)
        near(linalg.lstsq(Tensor(a), Tensor(b[:, 0].copy())).solution, expected[:, 0])
        if driver != "gelsy":
            near(found.residuals, residuals)
        assert driver == "gels" or found.rank.item() == rank
        near(found.singular_values, singular if driver in ("gelsd", "gelss") else np.empty(0))


def test_least_squares_of_low_rank() -> None:
    a = np.outer([1.0, 2.0, 3.0], [1.0, 1.0])
    found = linalg.lstsq(Tensor(a), Tensor([1.0, 2.0, 4.0], dtype="float64"), driver="gelsd")
    assert found.rank.item() == 1 and found.residuals.shape == (0,)
    near(found.solution, np.linalg.lstsq(a, np.array([1.0, 2.0, 4.0]), rcond=None)[0])


def test_exponentials_of_matrices() -> None:
    values = np.array([0.0, 1e-9, 0.3, 4.0, 60.0])
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    found = linalg.matrix_exp(Tensor(values[:, None, None] * turn)).numpy()
    cos, sin = np.cos(values), np.sin(values)
    near(found, np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2), 1e-12)
    assert np.isnan(Tensor([[np.inf]]).matrix_exp().numpy()).all()
    assert linalg.matrix_exp(Tensor(np.zeros((2, 0, 0)))).shape == (2, 0, 0)


def test_numbers_of_errors() -> None:
    stack = np.stack([np.diag([4.0, 9.0]), np.zeros((2, 2)), np.diag([1.0, -1.0])])
    x = Tensor(stack)
    inverse, info = linalg.inv_ex(x)
    assert info.tolist() == [0, 1, 0] and info.dtype == "int32"
    near(inverse, np.stack([np.diag([0.25, 1 / 9]), np.full((2, 2), np.nan), np.diag([1.0, -1.0])]))
    result, info = linalg.solve_ex(x, Tensor(np.ones((3, 2))))
    assert info.tolist() == [0, 1, 0] and np.isnan(result.numpy()).tolist() == [[False] * 2, [True] * 2, [False] * 2]
    assert linalg.inv_ex(Tensor.ones(3, 3)).info.item() == 2
    triangle, info = linalg.cholesky_ex(x)
    assert info.tolist() == [0, 1, 2] and triangle[0].tolist() == [[2.0, 0.0], [0.0, 3.0]]
    for function in (linalg.inv_ex, linalg.cholesky_ex):
        with pytest.raises(linalg.LinalgError):
            function(x, check_errors=True)


@pytest.mark.parametrize("p", [None, 2, -2, "fro", "nuc", 1, -1, np.inf, -np.inf])
def test_condition_numbers(p: Any) -> None:
    a = drawn((2, 3, 3))
    near(linalg.cond(Tensor(a), p), np.linalg.cond(a, p))
    assert linalg.cond(Tensor([[1.0, 0.0], [0.0, 0.0]]), 1).item() == np.inf


def test_ranks_by_absolute_and_relative_limits() -> None:
    a = np.diag([10.0, 1.0, -0.1])
    ranks = [
        linalg.matrix_rank(Tensor(a), **limits).item()
        for limits in ({}, {"atol": 0.5}, {"rtol": 0.5}, {"atol": 0.5, "rtol": 0.5}, {"atol": 0.5, "hermitian": True})
    ]
    assert ranks == [3, 2, 1, 1, 2]
    near(linalg.pinv(Tensor(a), atol=0.5, hermitian=True), np.diag([0.1, 1.0, 0.0]))
    limits = Tensor([0.0, 0.5], dtype="float64")
    assert linalg.matrix_rank(Tensor(np.stack([a, a])), atol=limits, rtol=0.0).tolist() == [3, 2]


def test_solutions_of_vectors_and_from_the_right() -> None:
    a, b = drawn((2, 3, 3)), drawn((2, 3))
    near(linalg.solve(Tensor(a), Tensor(b)), np.linalg.solve(a, b[..., None])[..., 0])
    right = drawn((2, 4, 3))
    near(linalg.solve(Tensor(a), Tensor(right), left=False).numpy() @ a, right)


def test_products() -> None:
    chain = [drawn(shape) for shape in ((10, 2), (2, 9), (9, 3), (3,))]
    near(linalg.multi_dot([Tensor(a) for a in chain]), np.linalg.multi_dot(chain))
    near(linalg.vander(Tensor([[1, 2], [3, 4]]), N=3), [[[1, 1, 1], [1, 2, 4]], [[1, 3, 9], [1, 4, 16]]])
    a = drawn((2, 3, 6))
    near(linalg.tensorinv(Tensor(a)), np.linalg.tensorinv(a, 2))
    near(linalg.tensorsolve(Tensor(a), Tensor(np.ones((2, 3)))), np.linalg.tensorsolve(a, np.ones((2, 3))))
    near(Tensor(np.ones((1, 2))).tensordot(Tensor(a), dims=([0, 1], [1, 0])), a.sum((0, 1)))
    with pytest.raises(ShapeError, match="cannot|can be multiplied"):
        linalg.multi_dot([Tensor(chain[0]), Tensor(chain[2])])


def test_norms_of_chosen_axes() -> None:
    a = drawn((2, 3, 4))
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        near(linalg.norm(Tensor(a), order, (2, 0), True), np.linalg.norm(a, order, (2, 0), True))
    near(linalg.norm(Tensor(a)), np.linalg.norm(a))
    assert Tensor(a).half().norm(dtype="float32").dtype == Tensor(a[0]).norm("nuc", dtype="float32").dtype == "float32"
    near(linalg.norm(Tensor(a), 3, 1), np.linalg.norm(a, 3, 1))
    assert linalg.norm(Tensor(a).half(), dtype="float32").dtype == "float32"
    with pytest.raises(ShapeError, match="name one axis or two"):
        linalg.norm(Tensor(a), 1)


def test_low_rank() -> None:
    a = drawn((6, 2)) @ drawn((2, 5), seed=5)
    for matrix in (a, a.T.copy()):
        u, s, v = Tensor(matrix).svd_lowrank(q=2)
        near(u.numpy() * s.numpy() @ v.numpy().T, matrix)
        near(s, np.linalg.svd(matrix, compute_uv=False)[:2])
        u, s, v = Tensor(matrix).pca_lowrank(q=2)
        near(s, np.linalg.svd(matrix - matrix.mean(0), compute_uv=False)[:2])
    with pytest.raises(ShapeError, match="q=7"):
        Tensor(a).svd_lowrank(q=7)


def test_old_names() -> None:
    a = drawn((4, 3))
    u, s, v = Tensor(a).svd()
    near(u.numpy() * s.numpy() @ v.numpy().T, a)
    assert [part.shape for part in Tensor(a).svd(some=False)] == [(4, 4), (3,), (3, 3)]
    assert not Tensor(a).svd(compute_uv=False).U.numpy().any()
    assert Tensor(a).qr(some=False).Q.shape == (4, 4) and linalg.qr(Tensor(a), "r").Q.shape == (0,)
    near(abs(linalg.qr(Tensor(a), "r").R), abs(np.linalg.qr(a, "r")))


def test_small_floats_and_integers() -> None:
    x = Tensor(drawn((3, 3)).astype(np.float16))
    assert {part.dtype.name for part in linalg.lu(x)} == {"float16"}
    for found in (x.matrix_exp(), x.cholesky_inverse(), linalg.lstsq(x, x).solution, x.geqrf().a, linalg.cond(x)):
        assert found.dtype == "float16"
    whole = Tensor([[2, 0], [0, 4]])
    assert linalg.solve_triangular(whole, whole, upper=True).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_what_is_refused() -> None:
    x = Tensor(drawn((3, 3)), requires_grad=True)
    with pytest.raises(RulegradError, match=r"geqrf has no gradient; use linalg\.qr"):
        x.geqrf()
    with pytest.raises(ValueError, match="UPLO is 'X'"):
        linalg.eigh(x, "X")
    with pytest.raises(ValueError, match="driver is 'gel'"):
        linalg.lstsq(x, x, driver="gel")
    for wrong in (
        lambda: linalg.solve_triangular(x, Tensor.ones(2, 3), upper=True),
        lambda: linalg.householder_product(x, Tensor.ones(4)),
        lambda: linalg.householder_product(Tensor.ones(2, 3), Tensor.ones(2)),
        lambda: linalg.lu_solve(x, Tensor.ones(2), x),
        lambda: linalg.ldl_solve(Tensor.eye(3), Tensor.ones(2), x),
        lambda: linalg.tensorinv(Tensor.ones(2, 3)),
        lambda: linalg.matrix_norm(x, 1, (0, 0)),
    ):
        with pytest.raises(ShapeError):
            wrong()
