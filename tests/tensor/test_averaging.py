"""Averages of parameters: against the formulas, and what belongs to them."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from rulegrad import Tensor, nn, no_grad, optim
from rulegrad.errors import ConfigError, ShapeError
from rulegrad.optim.swa_utils import (
    SWALR,
    AveragedModel,
    get_ema_avg_fn,
    get_ema_multi_avg_fn,
    get_swa_avg_fn,
    update_bn,
)

COURSE = [np.array([[1.0, -2.0]]), np.array([[2.0, 0.5]]), np.array([[0.0, 4.0]]), np.array([[3.0, 1.0]])]


def _averages(**how):
    """The averages of a weight after each of the values that it takes."""
    model = nn.Linear(2, 1, bias=False)
    averaged, found = AveragedModel(model, **how), []
    for value in COURSE:
        with no_grad():
            model.weight.assign(Tensor(value.astype(np.float32)))
        averaged.update_parameters(model)
        found.append(averaged.module.weight.numpy())
    assert averaged.n_averaged.item() == len(COURSE)
    return found


def _exponential(decay):
    rows = [COURSE[0]]
    for value in COURSE[1:]:
        rows.append(decay * rows[-1] + (1 - decay) * value)
    return rows


MEANS = [np.mean(COURSE[: k + 1], axis=0) for k in range(len(COURSE))]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, MEANS),
        ({"avg_fn": get_swa_avg_fn()}, MEANS),
        ({"avg_fn": get_ema_avg_fn(0.9)}, _exponential(0.9)),
        ({"multi_avg_fn": get_ema_multi_avg_fn(0.5)}, _exponential(0.5)),
        ({"avg_fn": lambda average, parameter, count: average.maximum(parameter)}, list(np.maximum.accumulate(COURSE))),
    ],
)
def test_averages(device, how, expected):
    np.testing.assert_allclose(_averages(**how), expected, 1e-6)


def test_updates_have_the_same_kernels(device):
    finding, plans = (importlib.import_module(f"rulegrad.compile.{name}") for name in ("realize", "plans"))
    model = nn.Linear(3, 2)
    averaged = AveragedModel(model, avg_fn=get_ema_avg_fn(0.9))
    counts = []
    for _ in range(4):
        averaged.update_parameters(model)
        counts.append((len(finding._plans), len(plans._executables)))
    assert counts[0] == counts[-1]


def test_state_and_mode(any_device):
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    averaged = AveragedModel(model)
    assert next(iter(averaged.state_dict())) == "n_averaged"
    assert set(averaged.state_dict()) == {"n_averaged", *(f"module.{name}" for name in model.state_dict())}
    averaged.update_parameters(model)
    other = AveragedModel(model)
    other.load_state_dict(averaged.state_dict())
    assert other.n_averaged.item() == 1
    x = Tensor([[1.0, 2.0], [0.0, -1.0]])
    averaged.eval()
    model.eval()
    assert averaged(x).tolist() == model(x).tolist()
    assert averaged.module[0].weight is not model[0].weight
    with pytest.raises(ShapeError, match="other parameters or buffers"):
        averaged.update_parameters(nn.Linear(2, 3))
    with pytest.raises(ConfigError, match="avg_fn and multi_avg_fn"):
        AveragedModel(model, avg_fn=get_swa_avg_fn(), multi_avg_fn=get_ema_multi_avg_fn())
    with pytest.raises(ConfigError, match="decay=1.5"):
        get_ema_avg_fn(1.5)


def test_buffers_are_copied_or_averaged(any_device):
    model = nn.BatchNorm1d(1)
    copied, averaged = AveragedModel(model), AveragedModel(model, use_buffers=True)
    for value in (1.0, 3.0):
        model.running_mean.assign(Tensor([value]))
        for each in (copied, averaged):
            each.update_parameters(model)
    assert copied.module.running_mean.tolist() == [3.0]
    assert averaged.module.running_mean.tolist() == [2.0]


def test_running_statistics_anew(any_device):
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1)).eval()
    model[0].momentum = 0.3
    model[0].running_mean.assign(Tensor([9.0, 9.0]))
    batches = [np.array([[1.0, 2.0], [3.0, 8.0]], np.float32), np.array([[5.0, 0.0], [7.0, 4.0]], np.float32)]
    update_bn([(Tensor(batch), None) for batch in batches], model)
    np.testing.assert_allclose(model[0].running_mean.numpy(), np.mean(batches, (0, 1)), 1e-6)
    variances = [batch.var(0, ddof=1) for batch in batches]
    np.testing.assert_allclose(model[0].running_var.numpy(), np.mean(variances, 0), 1e-6)
    assert model[0].momentum == 0.3 and not model.training and not model[0].training


@pytest.mark.parametrize(
    ("epochs", "strategy", "expected"),
    [
        # The rates of torch 2.13.
        (4, "cos", [0.5, 0.4340990257669732, 0.275, 0.11590097423302682, 0.05, 0.05]),
        (3, "linear", [0.5, 0.35, 0.2, 0.05, 0.05, 0.05]),
        (0, "cos", [0.05] * 6),
        (1, "linear", [0.5, 0.05, 0.05, 0.05, 0.05, 0.05]),
    ],
)
def test_rates(any_device, epochs, strategy, expected):
    optimizer = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
    schedule, rates = SWALR(optimizer, 0.05, epochs, strategy), []
    for _ in expected:
        rates.append(optimizer.lr)
        schedule.step()
    np.testing.assert_allclose(rates, expected, 1e-9)
    with pytest.raises(ConfigError, match="anneal_strategy='sine'"):
        SWALR(optimizer, 0.05, 3, "sine")
