"""Mixed precision: which dtypes there are inside `autocast`, gradients, captured steps, and the scaling of losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, amp, nn, optim
from rulegrad.errors import ConfigError, RulegradError
from rulegrad.tensor.autocasting import IN_FEWER_BITS, IN_FLOAT32, autocast_dtype

LOW = ["bfloat16", "float16"]


def numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_the_table_names_methods() -> None:
    assert all(hasattr(Tensor, name) for name in IN_FEWER_BITS | IN_FLOAT32)
    assert not IN_FEWER_BITS & IN_FLOAT32


@pytest.mark.parametrize("dtype", LOW)
def test_dtypes_inside(dtype: str) -> None:
    x, w = Tensor(numbers(4, 6)), Tensor(numbers(3, 6), requires_grad=True)
    with rg.autocast("cpu", dtype=dtype):
        y = x.linear(w)
        assert y.dtype == dtype and (x @ x.T).dtype == dtype and Tensor.einsum("ij,kj->ik", x, w).dtype == dtype
        assert y.relu().dtype == dtype and (y + y).dtype == dtype and (y + x.sum()).dtype == "float32"
        assert y.exp().dtype == y.sum().dtype == y.softmax(-1).dtype == (y**2).dtype == "float32"
        assert y.cross_entropy(Tensor([0, 1, 2, 0])).dtype == "float32"
        assert x.double().matmul(x.double().T).dtype == "float64" and (Tensor([[1]]) @ Tensor([[2]])).dtype == "int64"
        with rg.autocast(enabled=False):
            assert (x @ x.T).dtype == "float32"
    assert (x @ x.T).dtype == "float32" and autocast_dtype() is None


@pytest.mark.parametrize("dtype", LOW)
def test_values_are_those_of_rounded_operands(dtype: str, device: str) -> None:
    x, w = (Tensor(numbers(*shape, seed=k), device=device) for k, shape in enumerate([(5, 8), (7, 8)]))
    with rg.autocast(dtype=dtype):
        found = x.linear(w)
    expected = (x.cast(dtype).float() @ w.cast(dtype).float().T).cast(dtype)
    np.testing.assert_array_equal(found.float().numpy(), expected.float().numpy())


def test_a_decorator_restores_the_mode_after_an_error() -> None:
    @rg.autocast()
    def fails(x: Tensor) -> Tensor:
        assert (x @ x).dtype == "bfloat16"
        raise LookupError("on purpose")

    with pytest.raises(LookupError):
        fails(Tensor(numbers(2, 2)))
    assert autocast_dtype() is None


def test_gradients_have_the_dtypes_of_what_they_are_of() -> None:
    layer, x = nn.Linear(6, 3), Tensor(numbers(4, 6), requires_grad=True)
    exact = layer(x).square().sum().backward()
    of_weight, of_x = layer.weight.grad.numpy(), x.grad.numpy()
    layer.weight.grad = x.grad = None
    with rg.autocast():
        loss = layer(x).square().sum()
    loss.backward()
    assert layer.weight.grad.dtype == x.grad.dtype == "float32"
    np.testing.assert_allclose(loss.item(), exact.item(), rtol=0.02)
    for found, expected in ((layer.weight.grad, of_weight), (x.grad, of_x)):
        np.testing.assert_allclose(found.numpy(), expected, atol=0.03 * np.abs(expected).max())


LAYERS = {
    "LSTM": lambda: nn.LSTM(4, 5),
    "GRU": lambda: nn.GRU(4, 5),
    "Conv1d": lambda: nn.Conv1d(7, 3, 3),
    "Transformer": lambda: nn.TransformerEncoderLayer(4, 2, 8),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_run_and_are_near_float32(name: str) -> None:
    Tensor.manual_seed(1)
    layer, x = LAYERS[name](), Tensor(numbers(6, 7, 4))
    layer.eval()

    def output() -> Any:
        found = layer(x)
        return found[0] if isinstance(found, tuple) else found

    exact = output().numpy()
    with rg.autocast():
        found = output().float().numpy()
    np.testing.assert_allclose(found, exact, atol=0.05)
    assert not np.array_equal(found, exact)


def test_a_captured_function_is_traced_for_each_mode() -> None:
    x = Tensor(numbers(3, 3))
    product = rg.jit(lambda x: x @ x)
    found = []
    for _ in range(2):
        found.append(product(x).dtype)
        with rg.autocast():
            found.append(product(x).dtype)
    assert found == ["float32", "bfloat16"] * 2 and len(product.reasons()) == 2


def test_against_torch() -> None:
    torch = pytest.importorskip("torch")
    x, w, b = numbers(5, 8), numbers(7, 8, seed=1), numbers(7, seed=2)
    ours = [Tensor(value, requires_grad=True) for value in (x, w, b)]
    theirs = [torch.tensor(value, requires_grad=True) for value in (x, w, b)]
    with rg.autocast():
        loss = ours[0].linear(ours[1], ours[2]).relu().softmax(-1).square().sum()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = torch.nn.functional.linear(*theirs).relu().softmax(-1).square().sum()
    loss.backward()
    expected.backward()
    np.testing.assert_allclose(loss.item(), expected.item(), rtol=0.01)
    for mine, other in zip(ours, theirs):
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), atol=0.02)


# ---- the scaler ----


OPTIMIZERS = [
    lambda w: optim.SGD(w, lr=0.1, momentum=0.9),
    lambda w: optim.AdamW(w, lr=0.1),
    lambda w: optim.RMSprop(w, lr=0.1, momentum=0.5),
    lambda w: optim.Muon(w, lr=0.1),
]


@pytest.mark.parametrize("make", OPTIMIZERS)
@pytest.mark.parametrize("captured", [False, True])
def test_steps_are_those_of_an_optimizer_that_was_not_called_for_the_bad_ones(make: Any, captured: bool) -> None:
    """Scales are powers of 2, so dividing by them is exact."""

    def trained(with_scaler: bool) -> tuple[list[Any], list[float]]:
        w = Tensor(numbers(3, 2), requires_grad=True)
        optimizer, scaler = make([w]), amp.GradScaler(init_scale=8.0, growth_interval=2, enabled=with_scaler)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = (x @ w).square().sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss

        run = rg.jit(step) if captured else step
        scales = []
        for k, factor in enumerate([np.inf, 1.0, 1.0, np.nan, 1.0, 1.0, 1.0]):
            if with_scaler or np.isfinite(factor):
                run(Tensor(numbers(4, 3, seed=k) * np.float32(factor)))
            scales.append(scaler.get_scale())
        state = [value.tolist() for value in optimizer.state[0].values()]
        return [w.tolist(), state], scales

    found, scales = trained(True)
    expected, _ = trained(False)
    np.testing.assert_allclose(found[0], expected[0], rtol=2e-6)
    assert len(found[1]) == len(expected[1])
    for mine, other in zip(found[1], expected[1]):
        np.testing.assert_allclose(mine, other, rtol=1e-5)
    assert scales == [4.0, 4.0, 8.0, 4.0, 4.0, 8.0, 8.0]


def test_gradients_are_clipped_after_they_are_divided() -> None:
    w = Tensor([3.0, 4.0], requires_grad=True)
    optimizer, scaler = optim.SGD([w], lr=1.0), amp.GradScaler(init_scale=1024.0)
    scaler.scale(w.square().sum()).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_([w], 1.0)
    scaler.step(optimizer)
    scaler.update()
    assert norm.item() == pytest.approx(10.0)
    np.testing.assert_allclose(w.numpy(), [2.4, 3.2], rtol=1e-5)


def test_the_state_goes_over_to_another_scaler() -> None:
    w = Tensor([1.0], requires_grad=True)
    optimizer, scaler = optim.SGD([w], lr=0.1), amp.GradScaler(init_scale=4.0, growth_interval=3)
    other = amp.GradScaler()
    for _ in range(4):
        optimizer.zero_grad()
        scaler.scale(w.square().sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    assert scaler.state_dict()["scale"] == 8.0 and scaler.state_dict()["_growth_tracker"] == 1
    scaler.update(2.0)
    assert scaler.get_scale() == 2.0
    off = amp.GradScaler(enabled=False)
    assert off.state_dict() == {} and off.get_scale() == 1.0
    with pytest.raises(ConfigError, match="enabled=False"):
        scaler.load_state_dict({})


def test_mistakes() -> None:
    w = Tensor([1.0], requires_grad=True)
    optimizer, scaler = optim.SGD([w], lr=0.1), amp.GradScaler()
    with pytest.raises(ConfigError, match="use bfloat16 or float16"):
        rg.autocast(dtype="float32")
    with pytest.raises(ConfigError, match="growth_factor=0.5"):
        amp.GradScaler(growth_factor=0.5)
    with pytest.raises(RulegradError, match="no step was made"):
        scaler.update()
    with pytest.raises(ConfigError, match="has a gradient"):
        scaler.step(optimizer)
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RulegradError, match="divided already"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RulegradError, match="has made its step"):
        scaler.step(optimizer)
