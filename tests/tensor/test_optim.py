"""Optimisers against the formulas, and a regression that they solve."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import Tensor, nn, optim
from rulegrad.errors import ConfigError, RulegradError
from rulegrad.optim._formulas import Formulas
from rulegrad.tensor.realize import needs_buffer

START = np.array([[0.5, -1.0], [2.0, 0.1]], np.float32)


def _gradient(w: np.ndarray) -> np.ndarray:
    """Of sum(w**4 / 4)."""
    return w**3


def _run(make, steps: int = 4) -> np.ndarray:
    weight = Tensor(START, requires_grad=True)
    optimizer = make([weight])
    for _ in range(steps):
        optimizer.zero_grad()
        ((weight * weight).square().sum() * 0.25).backward()
        optimizer.step()
    return weight.numpy()


def _sgd(lr, momentum=0.0, decay=0.0, nesterov=False, steps=4):
    w, velocity = START.astype(np.float64), np.zeros_like(START, np.float64)
    for _ in range(steps):
        g = _gradient(w) + decay * w
        velocity = momentum * velocity + g
        w = w - lr * (g + momentum * velocity if nesterov else velocity)
    return w


def _adam(lr, decay=0.0, decoupled=False, betas=(0.9, 0.999), steps=4):
    w = START.astype(np.float64)
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t in range(1, steps + 1):
        g = _gradient(w) + (0.0 if decoupled else decay * w)
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        change = m / (1 - betas[0] ** t) / (np.sqrt(v / (1 - betas[1] ** t)) + 1e-8)
        w = w - lr * (change + (decay * w if decoupled else 0.0))
    return w


def test_sgd(device):
    expected = [
        (lambda p: optim.SGD(p, lr=0.1), _sgd(0.1)),
        (
            lambda p: optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1, nesterov=True),
            _sgd(0.05, 0.9, 0.1, True),
        ),
    ]
    for make, values in expected:
        np.testing.assert_allclose(_run(make), values, 1e-5)


def test_momentum(any_device):
    np.testing.assert_allclose(_run(lambda p: optim.SGD(p, lr=0.05, momentum=0.9)), _sgd(0.05, 0.9), 1e-5)


def test_adam(device):
    np.testing.assert_allclose(_run(lambda p: optim.Adam(p, lr=0.1)), _adam(0.1), 1e-5)
    np.testing.assert_allclose(_run(lambda p: optim.AdamW(p, lr=0.1, weight_decay=0.2)), _adam(0.1, 0.2, True), 1e-5)


def test_adam_with_decay_in_the_gradient(any_device):
    np.testing.assert_allclose(_run(lambda p: optim.Adam(p, lr=0.1, weight_decay=0.2)), _adam(0.1, 0.2), 1e-5)


def test_small_floats_train(any_device):
    weight = Tensor([1.0, 2.0], dtype="bfloat16", requires_grad=True)
    optimizer = optim.Adam([weight], lr=0.5)
    (weight * weight).sum().backward()
    optimizer.step()
    assert weight.dtype == "bfloat16"
    assert weight.tolist() == [0.5, 1.5]


def test_a_step_computes_the_loss_too(any_device):
    weight = Tensor(START, requires_grad=True)
    optimizer = optim.SGD([weight], lr=0.1)
    loss = (weight * weight).sum()
    accuracy = (weight > 0).mean()
    loss.backward()
    optimizer.step(accuracy)
    assert not needs_buffer(loss)
    assert not needs_buffer(accuracy)
    assert loss.item() == pytest.approx((START**2).sum())


def test_steps_are_one_graph_apart_from_the_buffers(any_device):
    weight = Tensor(START, requires_grad=True)
    optimizer = optim.Adam([weight])
    described = []
    for _ in range(2):
        optimizer.zero_grad()
        (weight * weight).sum().backward()
        optimizer.lr *= 0.5
        group = optimizer.param_groups[0]
        (cohort,) = optimizer._moving(0, {0})
        names, uploaded = tuple(optimizer._numbers(group)), optimizer._upload(0)
        formulas = Formulas(optimizer, group, "", names, uploaded, cohort.shared)
        formulas.begin_step()
        value = formulas.moved(0, weight)
        described.append([(n.op, "" if n.op == "BUFFER" else str(n.attrs)) for n in value.uop.toposort()])
        weight.assign(value)
        Tensor.realize(weight, *optimizer.state[0].values(), *cohort.shared.values())
    assert described[0] == described[1]


def test_a_regression_converges(device):
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((64, 3)).astype(np.float32)
    truth = np.array([[1.0], [-2.0], [0.5]], np.float32)
    x, y = Tensor(inputs), Tensor(inputs @ truth + 0.25)
    Tensor.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = optim.Adam(nn.state.get_parameters(model), lr=0.1)
    losses = []
    for _ in range(120):
        optimizer.zero_grad()
        loss = model(x).mse_loss(y).backward()
        optimizer.step()
        losses.append(loss)
    assert losses[-1].item() < 1e-3 < losses[0].item()
    np.testing.assert_allclose(model.weight.numpy().T, truth, atol=0.03)
    assert model.bias.item() == pytest.approx(0.25, abs=0.03)


def test_learning_rate(any_device):
    weight = Tensor([1.0], requires_grad=True)
    optimizer = optim.SGD([weight], lr=0.5)
    for expected in (0.5, 0.45):
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()
        assert weight.item() == pytest.approx(expected)
        optimizer.lr = 0.05
    assert optimizer.lr == 0.05


def test_parameters_with_their_names(any_device):
    layer, twin = nn.Linear(2, 1), nn.Linear(2, 1)
    twin.load_state_dict(layer.state_dict())
    groups = [{"params": [("bias", twin.bias)], "lr": 0.5}, {"params": [("weight", twin.weight)]}]
    for model, given in ((layer, layer.named_parameters()), (twin, groups)):
        optimizer = optim.SGD(given, lr=0.5)
        model(Tensor.ones(1, 2)).sum().backward()
        optimizer.step()
    assert layer.weight.tolist() == twin.weight.tolist() and layer.bias.tolist() == twin.bias.tolist()
    assert layer.weight.grad.tolist() == [[1.0, 1.0]]


def test_errors(any_device):
    weight = Tensor([1.0], requires_grad=True)
    with pytest.raises(RulegradError, match="no parameter requires a gradient"):
        optim.SGD([Tensor([1.0])])
    with pytest.raises(ConfigError, match="lr=-1"):
        optim.SGD([weight], lr=-1)
    with pytest.raises(ConfigError, match="momentum above 0"):
        optim.SGD([weight], nesterov=True)
    with pytest.raises(ConfigError, match="betas"):
        optim.Adam([weight], betas=(0.9, 1.0))


def test_lamb_moves_by_the_norm(any_device):
    weight = Tensor(START, requires_grad=True)
    (weight * weight).sum().backward()
    optim.LAMB([weight], lr=0.1).step()
    moved = np.linalg.norm(weight.numpy() - START)
    assert moved == pytest.approx(0.1 * np.linalg.norm(START), rel=1e-4)


def test_muon_is_orthogonal(any_device):
    weight, bias = Tensor(START, requires_grad=True), Tensor([1.0], requires_grad=True)
    ((weight * weight).sum() + (bias * bias).sum()).backward()
    optim.Muon([weight, bias], lr=0.1, weight_decay=0.0).step()
    values = np.linalg.svd((START - weight.numpy()) / 0.1)[1]
    # Jordan's coefficients bring singular values between about 0.7 and 1.2.
    assert 0.6 < values.min() <= values.max() < 1.3
    assert bias.item() == pytest.approx(0.9, rel=1e-5)


def test_groups_and_schedules(any_device):
    first, second = Tensor([1.0], requires_grad=True), Tensor([1.0], requires_grad=True)
    optimizer = optim.SGD([{"params": [first]}, {"params": [second], "lr": 0.5}], lr=0.1)
    (first + second).sum().backward()
    optimizer.step()
    assert (first.item(), second.item()) == (pytest.approx(0.9), 0.5)
    schedules = optim.lr_scheduler
    warm, cosine = schedules.LinearLR(optimizer, 0.5, total_iters=2), schedules.CosineAnnealingLR(optimizer, 4)
    schedule = schedules.SequentialLR(optimizer, [warm, cosine], [2])
    rates = [optimizer.param_groups[1]["lr"]]
    for _ in range(4):
        schedule.step()
        rates.append(optimizer.param_groups[1]["lr"])
    np.testing.assert_allclose(rates, [0.25, 0.375, 0.5, 0.25 * (1 + 0.5**0.5), 0.25])
    plateau = schedules.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    plateau.step(1.0)
    plateau.step(1.0)
    assert optimizer.param_groups[1]["lr"] == pytest.approx(0.125)


def test_a_step_without_gradients_changes_nothing(any_device: str) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    adam = optim.Adam([w], lr=0.5)
    adam.step()
    assert w.tolist() == [1.0, 2.0] and not adam.state
    w.square().sum().backward()
    adam.step()
    adam.zero_grad()
    before = w.tolist()
    adam.step()
    assert w.tolist() == before


def test_formulas_are_built_in_python_once_but_those_of_a_user_each_time(on_the_interpreter, monkeypatch):
    class Mine(optim.SGD):
        pass

    called = []
    change = optim.SGD._change
    monkeypatch.setattr(optim.SGD, "_change", lambda self, *given: called.append(type(self)) or change(self, *given))
    weights = [Tensor(np.full((7, 3), k, np.float32), requires_grad=True) for k in range(4)]
    for make in (optim.SGD, Mine):
        optimizer = make(weights[:2], momentum=0.5)
        for _ in range(4):
            sum((w * w).sum() for w in weights).backward()
            optimizer.step()
    # in the first step, which makes the momentum, it is tried; in the second it is built, once for both
    assert called.count(optim.SGD) == 1 + 2 + 1 and called.count(Mine) == 4 * 2
    optimizer = optim.SGD(weights[2:], momentum=0.5, nesterov=True)  # another option: another formula
    for _ in range(2):
        optimizer.step()
    assert called.count(optim.SGD) == 4 + 1 + 2 + 1


@pytest.mark.parametrize("kind", ["SGD", "LBFGS"])
def test_a_closure_may_have_its_name(kind):
    w = Tensor([3.0], requires_grad=True)
    optimizer = getattr(optim, kind)([w], lr=0.25)

    def closure():
        optimizer.zero_grad()
        return w.square().sum().backward()

    assert optimizer.step(closure=closure).item() == 9 and w.item() < 2


def test_repr_has_the_options_of_each_group():
    w, b = Tensor([1.0], requires_grad=True), Tensor([1.0], requires_grad=True)
    shown = repr(optim.SGD([{"params": [w]}, {"params": [b], "lr": 0.5}], lr=0.1, momentum=0.9))
    assert shown.startswith("SGD (\nParameter Group 0\n    dampening: 0.0\n    lr: 0.1\n")
    assert "Parameter Group 1\n" in shown and "    lr: 0.5\n" in shown and "params" not in shown
