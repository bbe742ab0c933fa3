"""Linear algebra: values against NumPy, gradients against finite differences, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor, no_grad
from rulegrad.errors import RulegradError, ShapeError
from rulegrad.tensor import linalg

generator = np.random.default_rng(7)
GENERAL = generator.standard_normal((2, 3, 3))
POSITIVE = GENERAL @ GENERAL.swapaxes(-1, -2) + np.eye(3)
TALL = generator.standard_normal((4, 3))
RIGHT = generator.standard_normal((3, 2))

Function = Callable[[Tensor], Tensor]


def symmetric(function: Function) -> Function:
    return lambda x: function((x + x.mT) / 2)


# ---- values ----


def test_results_are_numpys(device: str, check: Any):
    for dtype in ("float32", "float64"):
        a, b = POSITIVE.astype(dtype), RIGHT.astype(dtype)
        x, y = Tensor(a), Tensor(b)
        sign, logarithm = np.linalg.slogdet(a)
        check(
            (linalg.inv(x), np.linalg.inv(a)),
            (linalg.solve(x, y), np.linalg.solve(a, b)),
            (linalg.solve(x, y[:, 0]), np.linalg.solve(a, b[:, 0])),
            (linalg.det(x), np.linalg.det(a)),
            (linalg.slogdet(x).sign, sign),
            (linalg.slogdet(x).logabsdet, logarithm),
            (linalg.cholesky(x), np.linalg.cholesky(a)),
            (linalg.cholesky(x, upper=True), np.linalg.cholesky(a).swapaxes(-1, -2)),
            (linalg.eigvalsh(x), np.linalg.eigvalsh(a)),
            (linalg.svdvals(y), np.linalg.svd(b, compute_uv=False)),
            (linalg.pinv(y), np.linalg.pinv(b)),
            (linalg.matrix_power(x, 3), np.linalg.matrix_power(a, 3)),
            (linalg.matrix_power(x, -2), np.linalg.matrix_power(a, -2)),
            (linalg.matrix_power(x, 0), np.linalg.matrix_power(a, 0)),
            tolerance=1e-4 if dtype == "float32" else 1e-10,
        )


def test_decompositions_multiply_back(device: str, check: Any):
    x = Tensor(TALL)
    q, r = linalg.qr(x)
    check((q @ r, TALL), (q.mT @ q, np.eye(3)), tolerance=1e-12)
    q, r = linalg.qr(x, "complete")
    assert (q.shape, r.shape) == ((4, 4), (4, 3))
    check((q @ r, TALL), (q.mT @ q, np.eye(4)), tolerance=1e-12)
    u, s, vh = linalg.svd(x, full_matrices=False)
    check((u * s @ vh, TALL), tolerance=1e-12)
    assert [part.shape for part in linalg.svd(x)] == [(4, 4), (3,), (3, 3)]
    w, v = linalg.eigh(Tensor(POSITIVE))
    check((v * w.unsqueeze(-2) @ v.mT, POSITIVE), tolerance=1e-12)


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
@pytest.mark.parametrize("keepdims", [False, True])
def test_matrix_norms(any_device: str, check: Any, order: Any, keepdims: bool):
    expected = np.linalg.norm(GENERAL, order, (-2, -1), keepdims)
    check((linalg.matrix_norm(Tensor(GENERAL), order, keepdim=keepdims), expected), tolerance=1e-12)


@pytest.mark.parametrize("order", [0, 1, 2, 3, -1, 0.5, np.inf, -np.inf])
def test_vector_norms(any_device: str, check: Any, order: float):
    values = np.where(GENERAL > 1, 0, GENERAL) if order == 0 else GENERAL
    x = Tensor(values)
    check(
        (linalg.vector_norm(x, order, 1), np.linalg.norm(values, order, 1)),
        (linalg.vector_norm(x, order), np.linalg.norm(values.ravel(), order)),
        (linalg.vector_norm(x, order, (0, 2), True), _over_two(values, order)),
        tolerance=1e-12,
    )


def _over_two(values: Any, order: float) -> Any:
    flat = values.transpose(1, 0, 2).reshape(values.shape[1], -1)
    return np.linalg.norm(flat, order, 1).reshape(1, -1, 1)


def test_products(any_device: str, check: Any):
    a, b = generator.integers(-5, 5, (2, 3, 4)), generator.integers(-5, 5, (4, 3, 5))
    x, y = Tensor(a), Tensor(b)
    vectors = generator.integers(-5, 5, (4, 3))
    check(
        (linalg.tensordot(x, y, ([1, 2], [1, 0])), np.tensordot(a, b, ([1, 2], [1, 0]))),
        (linalg.tensordot(x, y, 1), np.tensordot(a, b, 1)),
        (linalg.tensordot(x, y, 0), np.tensordot(a, b, 0)),
        (linalg.cross(Tensor(vectors), Tensor(vectors[0])), np.cross(vectors, vectors[0])),
        (linalg.vecdot(x, x[:, :1]), np.vecdot(a, a[:, :1])),
    )
    small = Tensor(np.full(3, 100, np.int8))
    assert linalg.vecdot(small, small).dtype == "int8"


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (2, 3, 3), (2, 0, 3)])
@pytest.mark.parametrize("offset", [-5, -2, -1, 0, 1, 3, 6])
def test_diagonals(any_device: str, check: Any, shape: tuple[int, ...], offset: int):
    values = np.arange(np.prod(shape)).reshape(shape) + 1.5
    check((linalg.diagonal(Tensor(values), offset), np.diagonal(values, offset, -2, -1)))


def test_ranks(any_device: str, check: Any):
    low = np.outer([1.0, 2.0, 3.0], [1.0, -1.0])
    stack = np.stack([POSITIVE[0][:, :2], low])
    check((linalg.matrix_rank(Tensor(stack)), np.array([2, 1])))
    loose = linalg.matrix_rank(Tensor(np.diag([1.0, 0.1])), rtol=0.5)
    assert loose.item() == 1
    check((linalg.pinv(Tensor(np.diag([1.0, 0.1])), rtol=Tensor(0.5, "float64")), np.diag([1.0, 0.0])))


def test_small_floats_are_computed_in_float32(any_device: str):
    x = Tensor(POSITIVE.astype(np.float16))
    assert linalg.inv(x).dtype == linalg.eigh(x).eigenvectors.dtype == "float16"
    assert linalg.det(Tensor(np.eye(2, dtype=np.int64))).dtype == "float64"


def test_matrices_without_elements(any_device: str):
    x = Tensor(np.zeros((2, 0, 0)))
    assert linalg.inv(x).shape == (2, 0, 0)
    assert linalg.det(x).tolist() == [1.0, 1.0]
    assert linalg.pinv(Tensor(np.zeros((0, 3)))).shape == (3, 0)
    assert linalg.matrix_rank(x).tolist() == [0, 0]


# ---- gradients ----

GRADIENTS: dict[str, tuple[Function, Any]] = {
    "inv": (linalg.inv, POSITIVE),
    "solve, of the matrix": (lambda a: linalg.solve(a, Tensor(RIGHT)), POSITIVE),
    "solve, of the right side": (lambda b: linalg.solve(Tensor(POSITIVE), b), RIGHT),
    "solve, of a vector": (lambda b: linalg.solve(Tensor(POSITIVE), b), RIGHT[:, 0]),
    "det": (linalg.det, GENERAL),
    "slogdet": (lambda x: linalg.slogdet(x).logabsdet, GENERAL),
    "pinv": (linalg.pinv, TALL),
    "matrix_power": (lambda x: linalg.matrix_power(x, 3), GENERAL),
    "matrix_power < 0": (lambda x: linalg.matrix_power(x, -2), POSITIVE),
    "cholesky": (symmetric(linalg.cholesky), POSITIVE),
    "cholesky, upper": (symmetric(lambda x: linalg.cholesky(x, upper=True)), POSITIVE),
    "eigvalsh": (symmetric(linalg.eigvalsh), POSITIVE),
    "eigh, vectors": (symmetric(lambda x: linalg.eigh(x).eigenvectors), POSITIVE),
    "qr, Q": (lambda x: linalg.qr(x).Q, TALL),
    "qr, R": (lambda x: linalg.qr(x).R, TALL),
    "svdvals": (linalg.svdvals, GENERAL),
    "nuclear norm": (lambda x: linalg.matrix_norm(x, "nuc"), GENERAL),
    "vector norm": (lambda x: linalg.vector_norm(x, 3, -1), GENERAL),
    "diagonal": (lambda x: linalg.diagonal(x, 1), GENERAL),
    "cross": (lambda x: linalg.cross(x, Tensor(GENERAL[0])), GENERAL),
    "tensordot": (lambda x: linalg.tensordot(x, Tensor(GENERAL), ([0, 2], [0, 1])), GENERAL),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_finite_differences(any_device: str, name: str):
    function, at = GRADIENTS[name]
    at = np.ascontiguousarray(at)
    x = Tensor(at, requires_grad=True)
    result = function(x)
    weights = np.cos(np.arange(result.size)).reshape(result.shape)
    (result * Tensor(weights)).sum().backward()
    assert x.grad is not None
    expected = np.zeros_like(at)
    for place in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[place] = 1e-6
        change = function(Tensor(at + step)).numpy() - function(Tensor(at - step)).numpy()
        expected[place] = (change * weights).sum() / 2e-6
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_gradients_go_on_through_graphs(any_device: str):
    x = Tensor(POSITIVE[0], requires_grad=True)
    (linalg.inv(x * 2).sum() * 3).backward()
    inverse = np.linalg.inv(2 * POSITIVE[0])
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), -6 * np.outer(inverse.sum(0), inverse.sum(1)), rtol=1e-10)


def test_no_gradient_where_none_is_recorded(any_device: str):
    x = Tensor(POSITIVE, requires_grad=True)
    with no_grad():
        assert not linalg.inv(x).requires_grad
        assert not linalg.svd(x).S.requires_grad
    assert not linalg.inv(x.detach()).requires_grad


@pytest.mark.parametrize("function", [linalg.svd, lambda x: linalg.qr(x, "complete")])
def test_a_missing_gradient_is_an_error(any_device: str, function: Any):
    with pytest.raises(RulegradError, match="has no gradient; use .* or detach"):
        function(Tensor(TALL, requires_grad=True))


# ---- what is refused ----


def test_matrices_that_do_not_fit(any_device: str):
    for function in (linalg.inv, linalg.det, linalg.cholesky, linalg.eigh, linalg.slogdet):
        with pytest.raises(ShapeError, match="not square"):
            function(Tensor(TALL))
        with pytest.raises(ShapeError, match="no rows and columns"):
            function(Tensor([1.0]))
    with pytest.raises(ShapeError, match="right side of shape"):
        linalg.solve(Tensor(POSITIVE), Tensor(TALL))
    with pytest.raises(ShapeError, match="differ in size"):
        linalg.tensordot(Tensor(TALL), Tensor(TALL), 1)
    with pytest.raises(ShapeError, match="not of size 3 in both"):
        linalg.cross(Tensor([1.0, 2.0]), Tensor([1.0, 2.0]))


def test_matrices_without_a_result(any_device: str):
    with pytest.raises(linalg.LinalgError, match="inv: singular matrix"):
        linalg.inv(Tensor([[1.0, 1.0], [1.0, 1.0]]))
    with pytest.raises(linalg.LinalgError, match="cholesky: .*positive definite"):
        linalg.cholesky(Tensor([[-1.0]]))


def test_names_that_do_not_exist(any_device: str):
    with pytest.raises(ValueError, match="mode is 'full'"):
        linalg.qr(Tensor(TALL), "full")
    with pytest.raises(ValueError, match="ord is 3"):
        linalg.matrix_norm(Tensor(TALL), 3)


# ---- methods ----


def test_methods_are_the_functions(any_device: str, check: Any):
    x, vector = Tensor(POSITIVE[0]), Tensor(GENERAL[0, 0])
    check(
        (x.det(), np.linalg.det(POSITIVE[0])),
        (x.logdet(), np.log(np.linalg.det(POSITIVE[0]))),
        (Tensor([[-1.0]]).logdet(), np.float32(np.nan)),
        (x.inverse(), np.linalg.inv(POSITIVE[0])),
        (Tensor(TALL).pinverse(), np.linalg.pinv(TALL)),
        (x.cholesky(), np.linalg.cholesky(POSITIVE[0])),
        (x.matrix_power(2), POSITIVE[0] @ POSITIVE[0]),
        (x.trace(), np.trace(POSITIVE[0])),
        (vector.cross(x), np.cross(GENERAL[0, 0], POSITIVE[0])),
        (vector.vdot(vector), np.vdot(GENERAL[0, 0], GENERAL[0, 0])),
        (x.norm(), np.linalg.norm(POSITIVE[0])),
        (x.norm(1, 0), np.abs(POSITIVE[0]).sum(0)),
        (x.norm("nuc"), np.linalg.norm(POSITIVE[0], "nuc")),
        (Tensor(GENERAL).diagonal(1, 2, 0), np.diagonal(GENERAL, 1, 2, 0)),
        tolerance=1e-10,
    )


@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 3])
@pytest.mark.parametrize("shape", [(3,), (1,), (0,), (3, 4)])
def test_diag(any_device: str, check: Any, shape: tuple[int, ...], offset: int):
    values = np.arange(np.prod(shape)).reshape(shape) + 1
    check((Tensor(values).diag(offset), np.diag(values, offset)))
