"""Activation checkpointing: the same gradients, the same random numbers, less memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.errors import ConfigError, RulegradError
from rulegrad.nn.utils import checkpoint, checkpoint_sequential

Call = Callable[..., Any]


def plain(function: Call, *arguments: Any) -> Any:
    return function(*arguments)


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def gradients(call: Call, dropout: float = 0.0) -> list[Any]:
    """The loss and all gradients of three blocks, and what is drawn after them."""
    Tensor.manual_seed(3)
    blocks = [nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 6)) for _ in range(3)]
    x = start = Tensor(numbers(4, 6), requires_grad=True)
    for block in blocks:
        x = call(block, x) + x
    loss = x.square().mean().backward()
    found = [loss, start.grad, *(p.grad for block in blocks for p in block.parameters()), Tensor.rand(3)]
    return [value.tolist() for value in found]


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_gradients_are_the_same(dropout: float, device: str) -> None:
    with rg.config(device=device):
        for found, expected in zip(gradients(checkpoint, dropout), gradients(plain, dropout), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_other_random_numbers_where_they_are_not_to_be_the_same() -> None:
    x = Tensor(np.ones(64, np.float32), requires_grad=True)

    def kept_where(**how: bool) -> tuple[list[bool], list[bool]]:
        x.grad = None
        y = checkpoint(lambda x: x.dropout(0.5, training=True), x, **how)
        y.sum().backward()
        return (y > 0).tolist(), (x.grad > 0).tolist()

    forward, backward = kept_where()
    assert forward == backward
    forward, backward = kept_where(preserve_rng_state=False)
    assert forward != backward


def test_keywords_structures_and_several_results() -> None:
    x, y = (Tensor(numbers(3) + k, requires_grad=True) for k in range(2))

    def function(pair: dict[str, Tensor], scale: float, by: Tensor) -> tuple[Tensor, Tensor]:
        return pair["x"] * pair["y"] * scale, (pair["x"] + by).exp()

    def found(call: Call) -> list[Any]:
        x.grad = y.grad = None
        first, second = call(function, {"x": x, "y": y}, 2.0, by=y)
        (first * second).sum().backward()
        return [x.grad.tolist(), y.grad.tolist()]

    np.testing.assert_allclose(found(checkpoint), found(lambda f, *a, **k: f(*a, **k)), rtol=1e-5)


def test_an_argument_that_is_changed_in_place_afterwards() -> None:
    w, x = Tensor([2.0], requires_grad=True), Tensor([3.0])
    y = checkpoint(lambda x: (x * w).square(), x)
    x += 1.0
    y.backward()
    assert w.grad.tolist() == [36.0]


def test_the_mode_of_autocast_is_that_of_the_first_call() -> None:
    layer, x = nn.Linear(4, 4), Tensor(numbers(2, 4), requires_grad=True)
    dtypes = []

    def function(x: Tensor) -> Tensor:
        y = layer(x)
        dtypes.append(y.dtype)
        return y.float()

    with rg.autocast():
        loss = checkpoint(function, x).sum()
    loss.backward()
    assert dtypes == ["bfloat16", "bfloat16"]


def test_a_function_that_is_captured_or_needs_no_gradient_is_called_once() -> None:
    calls = []

    def function(x: Tensor) -> Tensor:
        calls.append(1)
        return x * 2

    with rg.no_grad():
        assert checkpoint(function, Tensor([1.0], requires_grad=True)).tolist() == [2.0]
    x = Tensor([1.0], requires_grad=True)

    @rg.jit
    def step(x: Tensor) -> Tensor:
        return checkpoint(function, x).sum().backward()

    step(x)
    assert x.grad.tolist() == [2.0] and len(calls) == 2


def peak(call: Call, layers: int) -> int:
    """Bytes of the largest moment of a forward and backward pass, beyond what there was before."""
    Tensor.manual_seed(1)
    parts = [[nn.Linear(32, 32), nn.Tanh()] * 5 for _ in range(layers)]
    blocks = [nn.Sequential(*part) for part in parts]
    parameters = [p for block in blocks for p in block.parameters()]
    x = Tensor(numbers(4096, 32))
    Tensor.realize(x, *parameters)
    rg.reset_peak_memory()
    before = rg.peak_memory()
    for block in blocks:
        x = call(block, x)
    loss = x.square().mean().backward()
    Tensor.realize(loss, *(p.grad for p in parameters))
    return rg.peak_memory() - before


def test_a_deep_network_needs_less_memory() -> None:
    """Of 12 blocks of 5 layers the values of one, and the 12 that are between them, in the place of 60."""
    layer = 4096 * 32 * 4
    with_all, with_few = peak(plain, 12), peak(checkpoint, 12)
    assert with_all > 60 * layer and with_few < 26 * layer, (with_all / layer, with_few / layer)
    # What a further block needs is its result.
    assert peak(checkpoint, 16) - with_few < 4.5 * layer


def test_a_sequence_in_segments() -> None:
    layers = [nn.Linear(5, 5) for _ in range(7)]
    x = Tensor(numbers(2, 5), requires_grad=True)
    found = []
    for segments in (1, 3, 7):
        x.grad = None
        checkpoint_sequential(layers, segments, x).sum().backward()
        found.append(x.grad.numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-5)
    with pytest.raises(ConfigError, match="8 segments of 7 functions"):
        checkpoint_sequential(layers, 8, x)


def test_a_result_that_is_no_tensor() -> None:
    with pytest.raises(RulegradError, match="must give a tensor"):
        checkpoint(lambda x: {"x": x}, Tensor([1.0], requires_grad=True))
