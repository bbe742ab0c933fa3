"""Activation checkpointing: the same gradients, the same random numbers, less memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn, optim
from rulegrad.errors import ConfigError, RulegradError
from rulegrad.nn.utils import checkpoint, checkpoint_sequential

Call = Callable[..., Any]


def plain(function: Call, *arguments: Any) -> Any:
    return function(*arguments)


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def gradients(call: Call) -> list[Any]:
    """The loss and all gradients of three blocks, and what is drawn after them."""
    Tensor.manual_seed(3)
    blocks = [nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 6)) for _ in range(3)]
    x = start = Tensor(numbers(4, 6), requires_grad=True)
    for block in blocks:
        x = call(block, x) + x
    loss = x.square().mean().backward()
    found = [loss, start.grad, *(p.grad for block in blocks for p in block.parameters()), Tensor.rand(3)]
    return [value.tolist() for value in found]


@pytest.mark.parametrize("device", ["numpy", "c"])
def test_gradients_are_the_same(device: str) -> None:
    with rg.config(device=device):
        for found, expected in zip(gradients(checkpoint), gradients(plain), strict=True):
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

    def function(pair: dict[str, Tensor], scale: float, by: Tensor) -> tuple[Tensor, Any]:
        return pair["x"] * pair["y"] * scale, {"exp": [(pair["x"] + by).exp()]}

    def found(call: Call) -> list[Any]:
        x.grad = y.grad = None
        first, second = call(function, {"x": x, "y": y}, 2.0, by=y)
        (first * second["exp"][0]).sum().backward()
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


def test_without_gradients_the_function_is_called_once() -> None:
    calls = []

    def function(x: Tensor) -> Tensor:
        calls.append(1)
        return x * 2

    with rg.no_grad():
        assert checkpoint(function, Tensor([1.0], requires_grad=True)).tolist() == [2.0]
    assert len(calls) == 1


@pytest.mark.parametrize("device", ["numpy", "c"])
def test_a_captured_step(device: str) -> None:
    """The same losses and parameters, of which the second and third steps are replays."""

    def trained(call: Call) -> list[Any]:
        Tensor.manual_seed(3)
        blocks = [nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 6)) for _ in range(3)]
        optimizer = optim.SGD([p for block in blocks for p in block.parameters()], lr=0.5)

        @rg.jit
        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            for block in blocks:
                x = call(block, x) + x
            loss = x.square().mean().backward()
            optimizer.step()
            return loss

        losses = [step(Tensor(numbers(4, 6) + k)).item() for k in range(3)]
        assert step.reasons() == ["the first call"]
        return [losses, *(p.tolist() for p in blocks[0].parameters())]

    with rg.config(device=device):
        for found, expected in zip(trained(checkpoint), trained(plain), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_gradients_through_a_captured_function() -> None:
    w = Tensor(numbers(4, 4), requires_grad=True)
    model = rg.jit(lambda x: checkpoint(lambda x: (x @ w).tanh() @ w, x).square())
    for k in range(2):
        w.grad = None
        x = Tensor(numbers(2, 4) + k, requires_grad=True)
        model(x).sum().backward()
        found = [x.grad.tolist(), w.grad.tolist()]
        w.grad = x.grad = None
        ((x @ w).tanh() @ w).square().sum().backward()
        np.testing.assert_allclose(found[0], x.grad.numpy(), rtol=1e-5)
        np.testing.assert_allclose(found[1], w.grad.numpy(), rtol=1e-5)


@pytest.mark.parametrize("captured", [False, True])
def test_second_derivatives(captured: bool) -> None:
    def slope(x: Tensor) -> Tensor:
        return rg.grad(lambda x: checkpoint(lambda x: (x.sin() * x).exp(), x).sum())(x)

    def plain_slope(x: Tensor) -> Tensor:
        return rg.grad(lambda x: (x.sin() * x).exp().sum())(x)

    x = Tensor(numbers(5))
    found, expected = (rg.grad(lambda x, f=f: f(x).square().sum()) for f in (slope, plain_slope))
    np.testing.assert_allclose((rg.jit(found) if captured else found)(x).numpy(), expected(x).numpy(), rtol=1e-5)


def test_mapped_functions() -> None:
    w = Tensor(numbers(4, 4))

    def loss(x: Tensor, call: Call) -> Tensor:
        return call(lambda x: (x @ w).tanh() * x, x).square().sum()

    x = Tensor(numbers(3, 4))
    for found, expected in (
        (rg.vmap(rg.grad(lambda x: loss(x, checkpoint)))(x), rg.vmap(rg.grad(lambda x: loss(x, plain)))(x)),
        (rg.vmap(lambda x: loss(x, checkpoint))(x), rg.vmap(lambda x: loss(x, plain))(x)),
    ):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5)


def test_complex_values() -> None:
    z = Tensor(numbers(3) + 1j * numbers(3), requires_grad=True)
    checkpoint(lambda z: (z * z).exp(), z).abs().sum().backward()
    found, z.grad = z.grad.numpy(), None
    (z * z).exp().abs().sum().backward()
    np.testing.assert_allclose(found, z.grad.numpy(), rtol=1e-5)


def test_other_random_numbers_in_the_second_call_are_an_error() -> None:
    sizes = iter([3, 4])
    with pytest.raises(RulegradError, match="draws 3 random numbers .* and 4 .* in its second"):
        checkpoint(lambda x: x + Tensor.rand(next(sizes)).sum(), Tensor([1.0], requires_grad=True))


LAYER = 4096 * 32 * 4  # bytes of the result of a layer


def peak(call: Call, layers: int, captured: bool) -> float:
    """The largest moment of a forward and backward pass, beyond what there was before, in results of layers."""
    Tensor.manual_seed(1)
    parts = [[nn.Linear(32, 32), nn.Tanh()] * 5 for _ in range(layers)]
    blocks = [nn.Sequential(*part) for part in parts]
    parameters = [p for block in blocks for p in block.parameters()]

    def step(x: Tensor) -> list[Tensor]:
        for block in blocks:
            x = call(block, x)
        loss = x.square().mean().backward()
        found = [loss, *(p.grad for p in parameters)]
        for p in parameters:
            p.grad = None
        return found

    x = Tensor(numbers(4096, 32))
    Tensor.realize(x, *parameters)
    step = rg.jit(step) if captured else step
    for _ in range(2 if captured else 1):
        rg.reset_peak_memory()
        before = rg.peak_memory()
        Tensor.realize(*step(x))
    return (rg.peak_memory() - before) / LAYER


@pytest.mark.parametrize("captured", [False, True])
def test_a_deep_network_needs_less_memory(captured: bool) -> None:
    """Of 6 blocks of 5 layers the values of one, and the 6 that are between them, in the place of 30."""
    with_all, with_few = peak(plain, 6, captured), peak(checkpoint, 6, captured)
    assert with_all > 30 and with_few < 20, (with_all, with_few)
    # A further block needs the memory of its result.
    assert peak(checkpoint, 8, captured) - with_few < 2.5


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


def test_a_result_without_tensors() -> None:
    with pytest.raises(RulegradError, match="must give tensors"):
        checkpoint(lambda x: x.item(), Tensor([1.0], requires_grad=True))
