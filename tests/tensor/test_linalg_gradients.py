"""Gradients of what linear algebra computes on the host: first and second ones, of real and complex matrices, under vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor, grad, hessian, jacobian, jvp, vmap
from rulegrad.errors import RulegradError
from rulegrad.tensor import linalg
from rulegrad.tensor.linalg.host import adjoint

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


def real_of(x: Tensor) -> Tensor:
    """A sum in which every element, and both parts of a complex one, count differently."""
    weights = Tensor(np.cos(np.arange(x.size) * 1.7).reshape(x.shape))
    return (x.real * weights + x.imag * weights.flip(list(range(x.ndim))).sin()).sum()


def positive(x: Tensor) -> Tensor:
    return x @ adjoint(x) + x.eye(x.shape[-1], dtype=x.dtype)


def of_vectors(v: Tensor) -> Tensor:
    """A sum that does not depend on the columns' phases: the projections on the first column, and on the second."""
    return real_of(v[..., :1] @ adjoint(v[..., :1])) + 2 * real_of(v[..., 1:2] @ adjoint(v[..., 1:2]))


def of_eigh(x: Tensor) -> Tensor:
    found = linalg.eigh(positive(x))
    return real_of(found.eigenvalues) + of_vectors(found.eigenvectors)


def of_svd(x: Tensor) -> Tensor:
    u, s, vh = linalg.svd(x, full_matrices=False)
    return real_of(s) + real_of(u[..., :1] @ vh[..., :1, :]) + of_vectors(u) + of_vectors(adjoint(vh))


def of_eig(x: Tensor) -> Tensor:
    w, v = linalg.eig(x)
    return (w**3).sum().real + w.abs().sum() + (v * v.conj()).real.square().sum()


SYMMETRIC = np.array([[0.0, 2.0, 1j], [2.0, 0.0, 3.0], [1j, 3.0, 1 + 1j]])

#: Real functions of a matrix with these rows and columns.
CASES: dict[str, tuple[Function, tuple[int, int]]] = {
    "inv": (lambda x: real_of(linalg.inv(x)), (3, 3)),
    "solve": (lambda x: real_of(linalg.solve(x, x[:, :2] * x[:1, :2])), (3, 3)),
    "solve of a vector": (lambda x: real_of(linalg.solve(x, x[0])), (3, 3)),
    "det": (lambda x: real_of(linalg.det(x)), (3, 3)),
    "slogdet": (lambda x: real_of(linalg.slogdet(x).logabsdet) + real_of(linalg.slogdet(x).sign), (3, 3)),
    "matrix_power": (lambda x: real_of(linalg.matrix_power(x, -2)), (3, 3)),
    "cholesky": (lambda x: real_of(linalg.cholesky(positive(x))), (3, 3)),
    "cholesky, upper": (lambda x: real_of(linalg.cholesky(positive(x), upper=True)), (3, 3)),
    "qr of a square": (lambda x: sum(map(real_of, linalg.qr(x))), (3, 3)),
    "qr of a tall one": (lambda x: sum(map(real_of, linalg.qr(x))), (4, 2)),
    "qr of a wide one": (lambda x: sum(map(real_of, linalg.qr(x))), (2, 4)),
    "eigh": (of_eigh, (3, 3)),
    "eigvalsh": (lambda x: real_of(linalg.eigvalsh(positive(x))), (3, 3)),
    "svd": (of_svd, (3, 3)),
    "svd of a tall one": (of_svd, (4, 2)),
    "svd of a wide one": (of_svd, (2, 4)),
    "svdvals": (lambda x: real_of(linalg.svdvals(x)), (3, 2)),
    "nuclear norm": (lambda x: linalg.matrix_norm(x, "nuc"), (2, 3)),
    "pinv": (lambda x: real_of(linalg.pinv(x)), (4, 2)),
    "pinv of a wide one": (lambda x: real_of(linalg.pinv(x)), (2, 4)),
    "eig": (of_eig, (3, 3)),
    "eigh of the upper triangle": (lambda x: real_of(linalg.eigh(positive(x), "U").eigenvalues), (3, 3)),
    "pinv of a Hermitian one": (lambda x: real_of(linalg.pinv(positive(x), hermitian=True)), (3, 3)),
    "cond": (lambda x: linalg.cond(x) + linalg.cond(x, "fro"), (3, 3)),
    "lu of a square": (lambda x: real_of(linalg.lu(x).L) + real_of(linalg.lu(x).U), (3, 3)),
    "lu of a tall one": (lambda x: real_of(linalg.lu_factor(x).LU), (4, 2)),
    "lu of a wide one": (lambda x: real_of(linalg.lu_factor(x).LU), (2, 4)),
    "lu_solve": (lambda x: real_of(linalg.lu_solve(*linalg.lu_factor(x), x[:, :2] * x[:1, :2])), (3, 3)),
    "lu_solve of the adjoint": (
        lambda x: real_of(linalg.lu_solve(*linalg.lu_factor(x), x[:2], left=False, adjoint=True)),
        (3, 3),
    ),
    "solve_triangular": (lambda x: real_of(linalg.solve_triangular(x, x[:, :2] * x[:1, :2], upper=True)), (3, 3)),
    "solve_triangular, ones on the diagonal": (
        lambda x: real_of(linalg.solve_triangular(x, x[:2], upper=False, left=False, unitriangular=True)),
        (3, 3),
    ),
    "cholesky_solve": (lambda x: real_of(x.cholesky_solve(positive(x).cholesky())), (3, 3)),
    "ldl_solve": (lambda x: real_of(linalg.ldl_solve(*linalg.ldl_factor(Tensor(SYMMETRIC)), x**3)), (3, 3)),
    "cholesky_inverse": (lambda x: real_of(x.cholesky_inverse(upper=True)), (3, 3)),
    "householder_product": (lambda x: real_of(linalg.householder_product(x, x[0] * x[1])), (4, 2)),
    "ormqr": (lambda x: real_of(x.ormqr(x[0] * x[1], x.mT * 2, left=False, transpose=True)), (4, 2)),
    "lstsq": (lambda x: sum(map(real_of, linalg.lstsq(x, x[:, :1] ** 2, driver="gelsd")[:2])), (4, 2)),
    "lstsq of a wide one": (lambda x: real_of(linalg.lstsq(x, x[:, :1] ** 2).solution), (2, 4)),
    "matrix_exp": (lambda x: real_of(linalg.matrix_exp(x)), (3, 3)),
    "tensorsolve": (lambda x: real_of(linalg.tensorsolve(x.reshape(1, 3, 3), x[:1])), (3, 3)),
    "multi_dot": (lambda x: real_of(linalg.multi_dot([x[0], x.mT, x])), (2, 2)),
    "vander": (lambda x: real_of(linalg.vander(x, N=4)), (2, 2)),
}


def drawn(shape: tuple[int, ...], kind: str, seed: int = 3) -> Array:
    generator = np.random.default_rng(seed)
    real = generator.normal(size=shape)
    return real if kind == "real" else real + 1j * generator.normal(size=shape)


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("name", CASES)
def test_first_and_second_derivatives(any_device, name, kind):
    function, shape = CASES[name]
    x, way = drawn(shape, kind), drawn(shape, kind, seed=4)
    slope: Any = grad(function)
    step = 1e-6

    def ends(of: Function) -> Array:
        found: Array = (of(Tensor(x + step * way)).numpy() - of(Tensor(x - step * way)).numpy()) / (2 * step)
        return found

    first, second = jvp(slope, [Tensor(x)], [Tensor(way)])
    along = np.real(np.conj(first.numpy()) * way).sum()
    np.testing.assert_allclose(along, ends(function), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(second.numpy(), ends(slope), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        "inv",
        "solve",
        "det",
        "slogdet",
        "cholesky",
        "qr of a tall one",
        "eigh",
        "svd",
        "pinv",
        "lu_solve",
        "solve_triangular",
        "householder_product",
        "matrix_exp",
    ],
)
def test_mapped_over_a_batch(any_device, name):
    """Values and gradients of each matrix, one by one."""
    function, shape = CASES[name]
    stack = drawn((2, *shape), "real")
    np.testing.assert_allclose(
        vmap(function)(Tensor(stack)).numpy(), [function(Tensor(x)).numpy() for x in stack], rtol=1e-10
    )
    np.testing.assert_allclose(
        vmap(grad(function))(Tensor(stack)).numpy(), [grad(function)(Tensor(x)).numpy() for x in stack], rtol=1e-8
    )


def test_mapped_over_one_operand_and_twice(any_device):
    a, b = drawn((2, 3, 3), "real"), drawn((4, 3), "real", seed=5)
    found = vmap(lambda x: vmap(lambda y: linalg.solve(x, y))(Tensor(b)))(Tensor(a))
    np.testing.assert_allclose(found.numpy(), [[np.linalg.solve(x, y) for y in b] for x in a], rtol=1e-10)


def test_what_depends_on_all_elements_of_a_map(any_device):
    """Whether there are residuals, and whether there is an error, is asked of all matrices together."""
    a = drawn((2, 4, 2), "real")
    found = vmap(lambda x: linalg.lstsq(x, x[:, :1] ** 2, driver="gelsd").residuals)(Tensor(a))
    expected = [np.linalg.lstsq(x, x[:, :1] ** 2, rcond=None)[1] for x in a]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)
    symmetric = a[:, :2] + a[:, :2].mT
    solved = vmap(lambda x: linalg.ldl_solve(*linalg.ldl_factor(x), x))(Tensor(symmetric))
    np.testing.assert_allclose(solved.numpy(), np.stack([np.eye(2)] * 2), atol=1e-10)
    with pytest.raises(linalg.LinalgError, match="for k = 1"):
        vmap(lambda x: linalg.ldl_factor(x).LD)(Tensor(symmetric * np.array([1.0, 0.0])[:, None, None]))


def test_matrices_of_derivatives(any_device):
    """The Jacobian of the inverse is -Y[i, k] Y[l, j]; the Hessian of log det is -Y[j, k] Y[l, i], for Y = X^-1."""
    x = drawn((2, 2), "real") + 2 * np.eye(2)
    y = np.linalg.inv(x)
    np.testing.assert_allclose(jacobian(linalg.inv)(Tensor(x)).numpy(), -np.einsum("ik,lj->ijkl", y, y), rtol=1e-10)
    second = hessian(lambda z: linalg.slogdet(z).logabsdet)(Tensor(x))
    np.testing.assert_allclose(second.numpy(), -np.einsum("jk,li->ijkl", y, y), rtol=1e-10)


def test_backward_through_backward_of_leaves(any_device):
    """`.grad` is that of the matrix as it was, when the leaf is changed in between."""
    x = Tensor(np.diag([2.0, 4.0]), requires_grad=True)
    found = linalg.det(x)
    x.assign(Tensor(np.eye(2)))
    found.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.diag([4.0, 2.0]))


def test_the_determinant_of_a_singular_matrix_has_a_gradient(any_device):
    x = np.array([[1.0, 2.0], [2.0, 4.0]])
    np.testing.assert_allclose(grad(linalg.det)(Tensor(x)).numpy(), [[4, -2], [-2, 1]], atol=1e-12)
    z = x * (1 + 1j)
    np.testing.assert_allclose(
        grad(lambda w: linalg.det(w).real)(Tensor(z)).numpy(),
        np.conj([[4, -2], [-2, 1]] * np.array(1 + 1j)),
        atol=1e-12,
    )
    with pytest.raises(RulegradError, match="a second derivative was asked for at a singular matrix"):
        hessian(linalg.det)(Tensor(x))


def test_a_singular_matrix_beside_a_regular_one() -> None:
    x = Tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]], requires_grad=True, device="numpy")
    linalg.slogdet(x).logabsdet[0].backward()
    assert x.grad is not None and x.grad[0].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert np.isnan(x.grad[1].numpy()).all()


def test_repeated_values_do_not_matter_where_vectors_are_not_used(any_device):
    x = np.eye(3)
    np.testing.assert_allclose(grad(lambda a: linalg.eigvalsh(a).sum())(Tensor(x)).numpy(), x)
    np.testing.assert_allclose(grad(lambda a: linalg.matrix_norm(a, "nuc"))(Tensor(x)).numpy(), x, atol=1e-12)


def test_operands_are_computed_once(any_device):
    """A function that waits for its operand keeps what it computed."""
    x = Tensor(np.diag([2.0, 4.0])) * 1
    linalg.det(x)
    assert x.uop.op == "BUFFER"
