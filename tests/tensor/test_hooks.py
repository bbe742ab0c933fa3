"""Hooks on gradients, beside PyTorch's values."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.errors import GradientError, ShapeError
from rulegrad.tensor import hooks


def leaf(*values: float) -> Tensor:
    return Tensor([float(value) for value in values], requires_grad=True)


def test_hooks_of_results() -> None:
    seen: list[Any] = []
    x = leaf(1, 2)
    y = x * x
    first = y.register_hook(lambda d: seen.append(d.tolist()))  # type: ignore[func-returns-value]
    y.register_hook(lambda d: d * 2)
    z = y + 1
    second = z.register_hook(lambda d: -d)
    (z * y).sum().backward()  # z is read once, y twice
    assert seen == [[2 - 1, 5 - 4]] and x.grad is not None and x.grad.tolist() == [2 * 1 * 2, 2 * 2 * 2]
    first.remove()
    second.remove()
    second.remove()
    x.grad = None
    (z * y).sum().backward()
    assert len(seen) == 1 and x.grad is not None and x.grad.tolist() == [2 * 1 * 2 * 3, 2 * 2 * 2 * 9]


def test_hooks_of_realized_results_and_of_views() -> None:
    x = leaf(1, 2, 3)
    y = x * 2
    y.register_hook(lambda d: d * 10)
    y.realize()
    seen: list[Any] = []
    y.register_hook(lambda d: seen.append(d.tolist()))  # type: ignore[func-returns-value]
    y[1:].sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0, 20, 20] and seen == [[0, 10, 10]]
    part = (x * 3)[:2]
    part.register_hook(lambda d: d + 1)
    x.grad = None
    part.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [6, 6, 0]


def test_hooks_of_leaves() -> None:
    x, done = leaf(1, 2), list[Any]()
    x.register_hook(lambda d: d.clamp(0, 1))
    x.register_post_accumulate_grad_hook(lambda t: done.append(t.grad.tolist()))
    (x * 3).sum().backward()
    (x * -3).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1, 1] and done == [[1, 1], [1, 1]]
    (found,) = rg.autograd.grad((x * 3).sum(), [x])
    assert found.tolist() == [1, 1]
    known = len(hooks._of_leaves)
    del x
    gc.collect()
    assert len(hooks._of_leaves) == known - 1


def test_second_derivatives_go_through_hooks() -> None:
    x = leaf(2)
    y = x * x
    y.register_hook(lambda d: d * x)
    (slope,) = rg.autograd.grad((y * y).sum(), [x], create_graph=True)  # 2 x² * x * 2 x = 4 x⁴
    assert slope.item() == 64
    (second,) = rg.autograd.grad(slope.sum(), [x])
    assert second.item() == 192  # 4 x² y: 8 x y, and by y 4 x², through the hook again, times 2 x


def test_a_step_that_is_captured() -> None:
    layer = nn.Linear(2, 2)
    layer.weight.register_hook(lambda d: d * 0)

    @rg.jit
    def step(x: Tensor) -> Tensor:
        layer.weight.grad = layer.bias.grad = None
        layer(x).sum().backward()
        assert layer.weight.grad is not None
        return layer.weight.grad + 1

    for _ in range(3):
        np.testing.assert_array_equal(step(Tensor.ones(3, 2)).numpy(), np.ones((2, 2)))


@pytest.mark.parametrize(
    ("hook", "error", "message"),
    [
        (lambda d: 1, GradientError, "a hook returned int; return the gradient, a tensor, or None"),
        (lambda d: d.sum(), ShapeError, r"a hook returned a gradient of shape \(\) for one of shape \(2,\)"),
    ],
)
def test_what_hooks_return_is_checked(hook: Callable[[Tensor], Any], error: type[Exception], message: str) -> None:
    x = leaf(1, 2)
    y = x * 2
    y.register_hook(hook)
    with pytest.raises(error, match=message):
        y.sum().backward()


def test_mistakes() -> None:
    with pytest.raises(GradientError, match="register_hook: this tensor has no gradient"):
        Tensor([1.0]).register_hook(print)
    with pytest.raises(GradientError, match="is not a leaf that requires a gradient"):
        (leaf(1) * 2).register_post_accumulate_grad_hook(print)
