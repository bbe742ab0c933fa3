"""Values, gradients and second gradients at special points: those of PyTorch, on file, and of what has no place there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor, config, grad
from rulegrad.nn import functional

HERE = Path(__file__).parent
# The cases are shared with the program that writes the file, which runs without this package.
sys.path.insert(0, str(HERE))
try:
    from torch_points import POINTS
finally:
    sys.path.remove(str(HERE))
ON_FILE = json.loads((HERE / "torch_values.json").read_text(encoding="utf-8"))["points"]


@pytest.fixture(autouse=True)
def interpreter():
    with config(device="numpy"), np.errstate(all="ignore"):
        yield


def total(*gradients: Tensor) -> Tensor:
    return sum((gradient.sum() for gradient in gradients[1:]), gradients[0].sum())


@pytest.mark.parametrize("name", POINTS)
def test_functions_are_those_of_torch(name: str) -> None:
    case, wanted = POINTS[name], ON_FILE[name]
    inputs, places = [Tensor(array) for array in case.inputs], tuple(range(len(case.inputs)))

    def first(*tensors: Tensor) -> Any:
        return grad(lambda *x: case.call(functional, *x).sum(), places)(*tensors)

    def agree(found: Tensor, values: list[float]) -> None:
        np.testing.assert_allclose(found.numpy().ravel(), values, rtol=2e-8, atol=1e-13, err_msg=name)

    agree(case.call(functional, *inputs), wanted["result"])
    leaves = [Tensor(array, requires_grad=True) for array in case.inputs]
    result = case.call(functional, *leaves).sum()
    if result.requires_grad:
        result.backward()
    for leaf, found, values in zip(leaves, first(*inputs), wanted["firsts"], strict=True):
        agree(found, values)
        if leaf.grad is not None:
            agree(leaf.grad, values)
    for found, values in zip(grad(lambda *x: total(*first(*x)), places)(*inputs), wanted["seconds"], strict=True):
        agree(found, values)


def slope(function: Any, *inputs: Any, order: int = 1) -> list[Any]:
    """The gradient of the sum of a function, or that of the sum of its gradient."""
    derivative = function
    for _ in range(order):
        derivative = grad(lambda x, f=derivative: f(x).sum())
    return derivative(Tensor(*inputs, dtype="float64")).tolist()


def test_zeros_and_kinks_where_torch_has_nan_or_something_else() -> None:
    """Rows of the table in docs/tensors.md."""
    zeros = [0.0, -0.0]
    assert slope(lambda x: x**0, [0.0, 2.0, np.nan, np.inf]) == [0.0] * 4
    assert slope(lambda x: x ** Tensor([0.0, 0.0], dtype="float64"), zeros, order=2) == [0.0, 0.0]
    assert slope(lambda x: x.hypot(0.0), zeros) == [0.0, 0.0]
    assert slope(lambda x: x.atan2(x), zeros) == [0.0, 0.0]
    assert slope(lambda x: x.copysign(-1.0), [0.0, 2.0, -np.inf]) == [0.0, -1.0, 1.0]
    assert slope(lambda x: x.norm(), zeros, order=2) == [0.0, 0.0]
    np.testing.assert_allclose(slope(lambda x: x.sinc(), zeros, order=2), [-(np.pi**2) / 3] * 2, rtol=1e-15)
    assert slope(lambda x: x.logaddexp(x), [-np.inf, np.inf]) == [1.0, 1.0]
    assert slope(lambda x: x.asinh(), [1e300]) == [1e-300]
    np.testing.assert_array_equal(slope(lambda x: x.acosh(), [-2.0]), [np.nan])
    assert slope(lambda x: x.fmod(1e-200), [1e200]) == [1.0]
    assert slope(lambda x: functional.max_pool1d(x.reshape(1, 1, 2), 2), [3.0, 3.0]) == [0.5, 0.5]


def test_gradients_of_nothing_have_its_shape() -> None:
    x = Tensor.zeros(0, 3, requires_grad=True)
    for result in (x.sum(), x.prod(0).sum(), x.cumsum(0).sum(), (x.T @ x).sum(), x.logsumexp(1).sum()):
        result.backward()
        assert x.grad is not None and x.grad.shape == (0, 3) and x.grad.tolist() == []
        x.grad = None
    assert Tensor([]).logsumexp().item() == -np.inf
    assert Tensor.zeros(2, 0).softmax().shape == (2, 0)


def test_third_derivatives_of_products_with_zeros() -> None:
    """Of x y z they are 1 by all three, whatever the values are."""
    for function in (lambda x: x.prod(), lambda x: x.cumprod(0)[-1]):
        assert slope(function, [0.0, 0.0, 2.0], order=2) == [2.0, 2.0, 0.0]
        assert slope(function, [0.0, 1.0, 2.0], order=3) == [2.0, 2.0, 2.0]


def test_the_sign_of_a_quotient_by_infinity() -> None:
    found = Tensor([np.inf, -np.inf, 1.0, -1.0]).floor_divide(Tensor([2.0, 2.0, -np.inf, np.inf]))
    np.testing.assert_array_equal(found.numpy(), [np.inf, -np.inf, -0.0, -0.0])
    assert np.signbit(found.numpy()).tolist() == [False, True, True, True]
