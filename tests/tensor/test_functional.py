"""grad, vjp, jvp, jacobian, hessian and vmap: their values against formulas, and how they compose."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from rulegrad import (
    Tensor,
    custom_gradient,
    enable_grad,
    grad,
    hessian,
    jacobian,
    jvp,
    no_grad,
    value_and_grad,
    vjp,
    vmap,
)
from rulegrad.errors import ConfigError, DtypeError, RewriteError, RuleError, RulegradError, ShapeError
from rulegrad.ir import UOp

A = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])
B = np.array([[2.0, 1.0, 0.5], [-1.0, 3.0, 2.0]])


def doubles(values: Any) -> Tensor:
    return Tensor(np.asarray(values, np.float64))


def close(found: Tensor, expected: Any) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-12)


# ---- grad ----


def test_grad_of_one_and_of_several_arguments(device: str) -> None:
    def f(a: Tensor, b: Tensor, power: int = 2) -> Tensor:
        return (a**power * b).sum()

    close(grad(f)(doubles(A), doubles(B)), 2 * A * B)
    first, second = grad(f, argnums=(0, -1))(doubles(A), doubles(B), power=3)
    close(first, 3 * A**2 * B)
    close(second, A**3)


def test_the_same_tensor_as_two_arguments(any_device: str) -> None:
    x = doubles(A)
    first, second = grad(lambda a, b: (a * a * b).sum(), argnums=(0, 1))(x, x)
    close(first, 2 * A * A)
    close(second, A * A)


class Layer(NamedTuple):
    weight: Tensor
    bias: Tensor


def test_arguments_and_results_that_are_nested(any_device: str) -> None:
    model = {"layers": [Layer(doubles(A), doubles(1.0)), Layer(doubles(B), doubles(2.0))], "name": "model"}

    def loss(m: Any, x: Tensor) -> Tensor:
        for layer in m["layers"]:
            x = x * layer.weight + layer.bias
        return x.sum()

    gradient = grad(loss)(model, doubles(1.0))
    assert gradient["name"] == "model" and isinstance(gradient["layers"][0], Layer)
    close(gradient["layers"][0].weight, B)
    close(gradient["layers"][0].bias, B.sum())
    close(gradient["layers"][1].bias, 6.0)


def test_value_and_auxiliary_results(any_device: str) -> None:
    def f(x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        y = x * x
        return y.sum(), {"y": y}

    (value, aux), gradient = value_and_grad(f, has_aux=True)(doubles(A))
    assert value.item() == (A * A).sum() and not value.requires_grad and not aux["y"].requires_grad
    close(gradient, 2 * A)
    gradient, aux = grad(f, has_aux=True)(doubles(A))
    close(aux["y"], A * A)


def test_higher_derivatives(any_device: str) -> None:
    def f(x: Tensor) -> Tensor:
        return (x**4).sum()

    third = grad(lambda x: grad(lambda x: grad(f)(x).sum())(x).sum())(doubles(A))
    close(third, 24 * A)


def test_a_derivative_inside_a_function_that_is_differentiated(any_device: str) -> None:
    # d/dx (x * d/dy (x y^2) at y = x) = d/dx 2 x^3
    def outer(x: Tensor) -> Tensor:
        return x * grad(lambda y: x * y * y)(x)

    close(grad(outer)(doubles(3.0)), 54.0)


def test_what_is_realized_on_the_way_keeps_its_gradient(device: str) -> None:
    def f(x: Tensor) -> Tensor:
        y = (x * x).realize()
        assert y.numpy().shape == (2, 3)
        return (y * x).sum()

    close(grad(f)(doubles(A)), 3 * A**2)


def test_an_argument_that_is_realized_is_counted_once(any_device: str) -> None:
    """Its values are in the memory of the tensor that was given, on which the argument's own graph is built, too."""

    def cube(x: Tensor) -> Tensor:
        square = x**2
        x.realize()
        return (square * x).sum()

    x = Tensor([2.0])
    assert grad(cube)(x).tolist() == [12.0]
    assert grad(lambda y: grad(cube)(y).sum())(x).tolist() == [12.0]


def test_an_argument_that_does_not_matter_has_gradient_zero(any_device: str) -> None:
    first, second = grad(lambda a, b: (a * 2).sum(), argnums=(0, 1))(doubles(A), doubles(B))
    close(first, np.full_like(A, 2.0))
    close(second, np.zeros_like(B))
    close(grad(lambda a: doubles(1.0))(doubles(A)), np.zeros_like(A))


def test_gradients_go_on_to_leaves_outside(any_device: str) -> None:
    weight = Tensor(np.array(3.0), requires_grad=True)
    gradient = grad(lambda x: (weight * x * x).sum())(doubles(A))
    assert gradient.requires_grad
    gradient.sum().backward()
    assert weight.grad is not None
    close(weight.grad, 2 * A.sum())
    assert not grad(lambda x: (x * x).sum())(doubles(A)).requires_grad


def test_the_modes(any_device: str) -> None:
    with no_grad():
        close(grad(lambda x: (x * x).sum())(doubles(A)), 2 * A)
        weight = Tensor([1.0], requires_grad=True)
        assert not (weight * 2).requires_grad
        with enable_grad():
            assert (weight * 2).requires_grad


def test_what_cannot_be_differentiated(any_device: str) -> None:
    with pytest.raises(ShapeError, match=r"must be one number, not \(2, 3\); reduce it, or use vjp"):
        grad(lambda x: x * 2)(doubles(A))
    with pytest.raises(ShapeError, match="not float"):
        grad(lambda x: 2.0)(doubles(A))
    with pytest.raises(DtypeError, match="an argument of dtype int64 has no gradient"):
        grad(lambda x: x.sum())(Tensor([1, 2]))
    with pytest.raises(DtypeError, match="a result of dtype bool has no gradient"):
        grad(lambda x: (x > 1).any())(doubles(A))
    with pytest.raises(IndexError):
        grad(lambda x: x.sum(), argnums=1)(doubles(A))


# ---- vjp, jvp, jacobian, hessian ----


def test_vjp_of_several_results(device: str) -> None:
    (product, total), pullback = vjp(lambda a, b: (a * b, {"sum": a.sum(0)}), doubles(A), doubles(B))
    close(product, A * B)
    close(total["sum"], A.sum(0))
    first, second = pullback((doubles(B), {"sum": doubles([1.0, 2.0, 3.0])}))
    close(first, B * B + np.array([1.0, 2.0, 3.0]))
    close(second, A * B)
    with pytest.raises(ShapeError, match=r"a gradient of shape \(3,\) for a tensor of shape \(2, 3\)"):
        pullback((doubles([1.0, 2.0, 3.0]), {"sum": doubles([1.0, 2.0, 3.0])}))
    with pytest.raises(ShapeError, match="1 tensors were given, and 2 are needed"):
        pullback(doubles(A))
    with pytest.raises(DtypeError, match="float32 for a tensor of float64"):
        pullback((Tensor(B.astype(np.float32)), {"sum": doubles([1.0, 2.0, 3.0])}))


def test_jvp_is_the_derivative_in_a_direction(device: str) -> None:
    value, direction = jvp(
        lambda a, b: (a.exp() * b, (a * 3).sum()), [doubles(A), doubles(B)], [doubles(B), doubles(A)]
    )
    close(value[0], np.exp(A) * B)
    close(direction[0], np.exp(A) * B * B + np.exp(A) * A)
    close(direction[1], 3 * B.sum())


def test_jvp_of_what_does_not_depend_on_its_argument(any_device: str) -> None:
    value, direction = jvp(lambda a: doubles(B) * 2, [doubles(A)], [doubles(B)])
    close(value, 2 * B)
    close(direction, np.zeros_like(B))
    with pytest.raises(ShapeError, match="a tangent of shape"):
        jvp(lambda a: a, [doubles(A)], [doubles(1.0)])


def test_jacobian_and_hessian(any_device: str) -> None:
    x = doubles([0.5, -1.0, 2.0])
    matrix = jacobian(lambda a: (a * a).sum() * a)(x)
    v = x.numpy()
    close(matrix, (v * v).sum() * np.eye(3) + 2 * np.outer(v, v))
    found = hessian(lambda a: (a**3).sum() * a[0])(x).numpy()
    assert found == _finite_hessian(lambda a: (a**3).sum() * a[0], v)
    parts = jacobian(lambda p: p["a"] * p["b"])({"a": x, "b": x})
    close(parts["a"], np.diag(v))


def _finite_hessian(f: Any, x: Any) -> Any:
    import itertools

    h, n = 1e-3, len(x)
    result = np.empty((n, n))
    for i, j in itertools.product(range(n), range(n)):
        e, d = np.eye(n)[i] * h, np.eye(n)[j] * h
        result[i, j] = (f(x + e + d) - f(x + e - d) - f(x - e + d) + f(x - e - d)) / (4 * h * h)
    return pytest.approx(result, rel=1e-4, abs=1e-4)


# ---- vmap ----


def op(name: str, x: Tensor, *others: Tensor, **attributes: Any) -> Tensor:
    return x._result(UOp(name, (x.uop, *(other.uop for other in others)), **attributes), *others)


FUNCTIONS = {
    "elementwise": lambda x: (x * 2 + 1).exp().maximum(x),
    "reduce": lambda x: x.sum(0) * x.max(),
    "movement": lambda x: x.reshape(3, 2).permute(1, 0).flip(1)[:, 1:].pad(((1, 0), (0, 2))),
    "cast": lambda x: (x.cast("int32") + x.cast("float32")).cast("float64"),
    "where": lambda x: (x > 0).where(x, -x * 3),
    "matmul": lambda x: x @ Tensor(B.T),
    "softmax": lambda x: x.softmax(-1),
    "constant": lambda x: doubles(7.0),
    "index": lambda x: x[1, ::2],
    "gather": lambda x: op("GATHER", x, Tensor([[0, 2], [1, 1]]), axis=1),
    "gather with a mapped index": lambda x: op("GATHER", doubles(B), (x > 0).cast("int64"), axis=1),
    "scatter": lambda x: op("SCATTER", x, Tensor([[0, 1, 1]]), x[1:] * 2, op="ADD", axis=0),
    "running": lambda x: op("SCAN", x, op="ADD", axis=1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_mapped_function_is_the_function_of_each_element(device: str, name: str) -> None:
    stacked = np.random.default_rng(1).normal(size=(4, 2, 3))
    function = FUNCTIONS[name]
    expected = np.stack([function(doubles(x)).numpy() for x in stacked])
    found = vmap(function)(doubles(stacked))
    assert found.dtype == function(doubles(stacked[0])).dtype
    close(found, expected)


def test_axes_of_arguments_and_results(any_device: str) -> None:
    x, y = np.arange(24.0).reshape(2, 4, 3), np.arange(4.0)
    found = vmap(lambda a, b, c: a * b + c, in_axes=(1, 0, None), out_axes=-1)(doubles(x), doubles(y), doubles(x[:, 0]))
    expected = np.stack([x[:, k] * y[k] + x[:, 0] for k in range(4)], -1)
    close(found, expected)
    tree = vmap(lambda p: {"sum": p[0] + p[1]}, in_axes=-1)((doubles(y), doubles(x.transpose(0, 2, 1)[0])))
    close(tree["sum"], (y + x.transpose(0, 2, 1)[0]).T)


def test_maps_in_maps(any_device: str) -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(4, 3)
    table = vmap(lambda x: vmap(lambda y: (x * y).sum())(doubles(b)))(doubles(a))
    close(table, a @ b.T)
    both = vmap(lambda x: vmap(lambda s: x * s + x.sum(), out_axes=1)(x))(doubles(a))
    close(both, np.stack([np.stack([x * s + x.sum() for s in x], 1) for x in a]))


def test_the_gradient_of_each_sample(any_device: str) -> None:
    weight, x, y = doubles(B[0]), doubles(A), doubles([1.0, 2.0])

    def loss(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return ((w * x).sum() - y) ** 2

    found = vmap(grad(loss), in_axes=(None, 0, 0))(weight, x, y)
    error = A @ B[0] - np.array([1.0, 2.0])
    close(found, 2 * error[:, None] * A)
    close(grad(lambda w: vmap(loss, in_axes=(None, 0, 0))(w, x, y).sum())(weight), (2 * error[:, None] * A).sum(0))


def test_gradients_of_leaves_flow_through_a_map(any_device: str) -> None:
    leaf = Tensor(A, requires_grad=True)
    vmap(lambda row: (row * row).sum())(leaf).sum().backward()
    assert leaf.grad is not None
    close(leaf.grad, 2 * A)


def test_maps_that_are_wrong(any_device: str) -> None:
    with pytest.raises(ShapeError, match="must have one size, not 2 and 3"):
        vmap(lambda a, b: a)(doubles(A), doubles(A.T))
    with pytest.raises(ShapeError, match="no mapped argument"):
        vmap(lambda a: a, in_axes=None)(doubles(A))
    with pytest.raises(ShapeError, match="in_axes has 1 entries for 2 arguments"):
        vmap(lambda a, b: a, in_axes=(0,))(doubles(A), doubles(A))
    with pytest.raises(RulegradError, match=r"asked for inside the function.*where\(condition"):
        vmap(lambda a: a if a.sum() > 0 else -a)(doubles(A))


# ---- gradients by the user's rules ----


def test_a_gradient_given_as_a_rule(device: str) -> None:
    @custom_gradient("test_clipped", "(_, _, limit) -> (none, min(max(d, -limit), limit), none)")
    def clipped(x: Tensor, limit: Tensor) -> Tensor:
        return x + limit * 0

    gradient = grad(lambda x: (clipped(x, doubles(1.5)) * doubles(B)).sum())(doubles(A))
    close(gradient, np.clip(B, -1.5, 1.5))
    leaf = Tensor(A, requires_grad=True)
    (clipped(leaf, doubles(0.25)) * 3).sum().backward()
    assert leaf.grad is not None
    close(leaf.grad, np.full_like(A, 0.25))


def test_rules_for_gradients_that_are_wrong(any_device: str) -> None:
    with pytest.raises(RuleError, match="expected an expression"):
        custom_gradient("test_wrong", "(_, x) -> (none, d *)")
    with pytest.raises(RulegradError, match="the rule must be"):
        custom_gradient("test_wrong", "d * 2")
    with pytest.raises(RulegradError, match="cannot be the name"):
        custom_gradient("two words")

    @custom_gradient("test_unruled")
    def unruled(x: Tensor) -> Tensor:
        return x * 2

    with pytest.raises(RewriteError, match='no rule for CUSTOM.name="test_unruled"'):
        grad(lambda x: unruled(x).sum())(doubles(A))
    with pytest.raises(RulegradError, match="takes tensors only, not a float"):
        unruled(2.0)


def test_elements_of_a_map_draw_the_same_random_numbers_or_different_ones() -> None:
    x = doubles(np.zeros((3, 4)))
    same = vmap(lambda row: row + Tensor.rand(4, dtype="float64"))(x).numpy()
    assert (same == same[0]).all()
    Tensor.manual_seed(3)
    found = vmap(lambda row: row + Tensor.rand(4, dtype="float64"), randomness="different")(x).numpy()
    after = Tensor.rand(2).numpy()
    Tensor.manual_seed(3)
    np.testing.assert_array_equal(found, Tensor.rand(3, 4, dtype="float64").numpy())  # one element after the other
    np.testing.assert_array_equal(after, Tensor.rand(2).numpy())
    Tensor.manual_seed(3)
    nested = vmap(
        lambda block: vmap(lambda row: row + Tensor.rand(2, dtype="float64"), randomness="different")(block),
        randomness="different",
    )(doubles(np.zeros((2, 3, 2)))).numpy()
    Tensor.manual_seed(3)
    np.testing.assert_array_equal(nested, Tensor.rand(2, 3, 2, dtype="float64").numpy())
    with pytest.raises(ConfigError, match='the randomness is "same" or "different"'):
        vmap(lambda row: row, randomness="error")
