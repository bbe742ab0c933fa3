"""Optimizers, schedules and limits of gradients: against PyTorch's values on file, and against the papers' formulas."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor, nn, optim, value_and_grad
from rulegrad.errors import ConfigError, DtypeError, ShapeError

HERE = Path(__file__).parent
# The cases are shared with the program that writes the file, which runs without this package.
sys.path.insert(0, str(HERE))
try:
    from torch_functions import numbers
    from torch_steps import (
        CLIPS,
        METRICS,
        OPTIMIZERS,
        PLATEAUS,
        SCHEDULES,
        SEARCHES,
        STEPS,
        course,
        gradients,
        has_gradient,
        search,
        starts,
        two_groups,
    )
finally:
    sys.path.remove(str(HERE))

VALUES: dict[str, dict[str, Any]] = json.loads((HERE / "torch_values.json").read_text(encoding="utf-8"))


def _flat(tensor: Tensor) -> np.ndarray:
    """The numbers of a tensor as the file has them: complex ones as pairs."""
    array = tensor.numpy()
    return (np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array).ravel()


def _parameters(dtype: str) -> list[Tensor]:
    return [Tensor(start, requires_grad=True) for start in starts(dtype)]


def _train(name: str, parameters: list[Tensor], reload_at: int | None = None) -> optim.Optimizer:
    case = OPTIMIZERS[name]
    optimizer = case.make(optim, parameters)
    for step in range(STEPS):
        if step == reload_at:
            # Another optimizer goes on with the state of the first.
            state = optimizer.state_dict()
            optimizer = case.make(optim, parameters)
            optimizer.load_state_dict(state)
        for place, (parameter, gradient) in enumerate(zip(parameters, gradients(case.dtype, step))):
            parameter.grad = Tensor(gradient) if has_gradient(case, place, step) else None
        optimizer.step()
    return optimizer


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(any_device, name):
    parameters = _parameters(OPTIMIZERS[name].dtype)
    optimizer = _train(name, parameters, reload_at=3)
    for parameter, expected in zip(parameters, VALUES["optimizers"][name]["parameters"], strict=True):
        np.testing.assert_allclose(_flat(parameter), expected, 1e-7, 1e-8)
    state = {f"{j}.{key}": value for j, kept in optimizer.state_dict()["state"].items() for key, value in kept.items()}
    # SGD has no count of steps in PyTorch's state; ours needs one where the velocity is dampened.
    known = VALUES["optimizers"][name]["state"]
    assert known.keys() <= state.keys() <= known.keys() | {"0.step", "1.step"}
    for key, expected in known.items():
        np.testing.assert_allclose(_flat(state[key]), expected, 1e-7, 1e-8, err_msg=key)


@pytest.mark.parametrize("name", ["SGD_3", "Adam_1", "AdamW_complex", "RMSprop_1", "Adagrad_1", "Adadelta_1", "groups"])
def test_optimizer_on_devices(device, name):
    parameters = _parameters(OPTIMIZERS[name].dtype)
    _train(name, parameters)
    for parameter, expected in zip(parameters, VALUES["optimizers"][name]["parameters"], strict=True):
        np.testing.assert_allclose(_flat(parameter), expected, 1e-7, 1e-8)


@pytest.mark.parametrize("name", ["AdamW_1", "SGD_3", "RMSprop_1", "Adagrad_complex", "NAdam_1", "Rprop_1", "ASGD_1"])
def test_the_state_of_pytorch_is_loaded(any_device, name):
    case, known = OPTIMIZERS[name], VALUES["optimizers"][name]["state"]
    parameters = _parameters(case.dtype)
    state: dict[int, dict[str, Any]] = {0: {}, 1: {}}
    for key, values in known.items():
        place, _, kind = key.partition(".")
        shared = kind in ("step", "mu_product", "eta", "mu")
        array = np.array(values[0] if shared else values)
        if not shared:
            pairs = array.reshape(-1, 2) if case.dtype == "complex128" else array
            array = (pairs[:, 0] + 1j * pairs[:, 1] if pairs.ndim == 2 else pairs).reshape(parameters[int(place)].shape)
        state[int(place)][kind] = array
    optimizer = case.make(optim, parameters)
    # Options that only PyTorch has in a group are left out, and the first rate of schedules is taken.
    group = {**optimizer.state_dict()["param_groups"][0], "lr": 0.3, "initial_lr": 0.7, "foreach": None, "fused": True}
    optimizer.load_state_dict({"state": state, "param_groups": [group]})
    found = optimizer.state_dict()
    assert optimizer.lr == 0.3 and optimizer.param_groups[0]["initial_lr"] == 0.7
    assert "fused" not in optimizer.param_groups[0]
    for key, values in known.items():
        place, _, kind = key.partition(".")
        np.testing.assert_allclose(_flat(found["state"][int(place)][kind]), values, 1e-8)


@pytest.mark.parametrize("name", SEARCHES)
def test_lbfgs(any_device, name):
    parameters = _parameters("complex128" if "complex" in name else "float64")
    losses, optimizer = search(optim.LBFGS, name, parameters)
    known = VALUES["searches"][name]
    np.testing.assert_allclose(losses, known["losses"], 1e-7, 1e-9)
    for parameter, expected in zip(parameters, known["parameters"], strict=True):
        np.testing.assert_allclose(_flat(parameter), expected, 1e-6, 1e-7)
    state = optimizer.state_dict()["state"][0]
    assert [state["n_iter"], state["func_evals"], len(state["old_dirs"])] == known["counts"]


def test_lbfgs_goes_on_with_its_state(any_device):
    losses, first = search(optim.LBFGS, "wolfe", _parameters("float64"), 1)
    # PyTorch's state has tensors of its own, which are arrays here, and room for shares.
    state = first.state_dict()
    kept = {
        name: [np.array(one) for one in value] if isinstance(value, list) else value
        for name, value in state["state"][0].items()
    }
    state["state"] = {0: {**kept, "al": [None] * 100}}

    def resumed(parameters: list[Tensor], **options: Any) -> optim.Optimizer:
        other = optim.LBFGS(parameters, **options)
        other.load_state_dict(state)
        return other

    more, _ = search(resumed, "wolfe", first.parameters, 2)
    np.testing.assert_allclose([*losses, *more], VALUES["searches"]["wolfe"]["losses"], 1e-7)


def test_lbfgs_says_what_it_cannot_do():
    one, other = Tensor([1.0], requires_grad=True), Tensor([1.0], requires_grad=True)
    with pytest.raises(ConfigError, match="one group of parameters"):
        optim.LBFGS([{"params": [one]}, {"params": [other]}])
    with pytest.raises(ConfigError, match="use None or 'strong_wolfe'"):
        optim.LBFGS([one], line_search_fn="armijo")
    search = optim.LBFGS([one])
    with pytest.raises(ConfigError, match=r"step\(closure\)"):
        search.step()
    with pytest.raises(ConfigError, match=r"step\(closure\)"):
        search.step_unless(Tensor(True))
    with pytest.raises(ConfigError, match="between 0 and 1, and one above 1"):
        optim.Rprop([one], etas=(1.2, 0.5))


def test_loading_replaces_all_of_the_state(any_device):
    parameters = _parameters("float64")
    optimizer = optim.Adam(parameters)
    first = optimizer.state_dict()
    for parameter, gradient in zip(parameters, gradients("float64", 0)):
        parameter.grad = Tensor(gradient)
    optimizer.step()
    assert first["state"] == {} and set(optimizer.state_dict()["state"]) == {0, 1}
    wrong = optimizer.state_dict()
    wrong["state"][1] = {**wrong["state"][1], "exp_avg": np.zeros(7)}
    with pytest.raises(ShapeError, match=r"exp_avg of parameter 1 is \(7,\), and it \(4,\)"):
        optim.Adam(parameters).load_state_dict(wrong)
    with pytest.raises(ConfigError, match=r"groups of \[1, 1\] parameters for an optimizer with groups of \[2\]"):
        optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0]}, {"params": [1]}]})
    assert set(optimizer.state_dict()["state"]) == {0, 1}
    optimizer.load_state_dict(first)
    assert optimizer.state_dict()["state"] == {}


# ---- formulas of papers that PyTorch has not, or computes in bfloat16 ----


def _orthogonal(matrix: np.ndarray, coefficients: tuple[float, ...], eps: float, steps: int) -> np.ndarray:
    """K. Jordan's Newton-Schulz iteration: X <- a X + (b X X' + c (X X')^2) X, on the wide one of X and X'."""
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / max(np.linalg.norm(x), eps)
    a, b, c = coefficients
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


def _adamw(w, m, v, g, t, lr, betas, eps, decay):
    m[...] = betas[0] * m + (1 - betas[0]) * g
    v[...] = betas[1] * v + (1 - betas[1]) * g * g
    direction = m / (1 - betas[0] ** t) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
    return w - lr * (direction + decay * w)


MUONS = {
    "plain": {},
    "tall": {"shape": (5, 2), "lr": 0.05},
    "wide": {"shape": (2, 5), "weight_decay": 0.3, "momentum": 0.8},
    "no_nesterov": {"nesterov": False, "maximize": True},
    "matched": {"shape": (2, 3), "adjust_lr_fn": "match_rms_adamw"},
    "iteration": {"ns_coefficients": (2.0, -1.5, 0.5), "ns_steps": 3, "eps": 1e-3},
}


@pytest.mark.parametrize("name", MUONS)
def test_muon(device, name):
    options = {"lr": 0.1, "weight_decay": 0.1, "momentum": 0.95, "nesterov": True} | MUONS[name]
    shape = options.pop("shape", (3, 3))
    w, bias = numbers(*shape), numbers(4, turn=0.3)
    parameters = [Tensor(w, requires_grad=True), Tensor(bias, requires_grad=True)]
    optimizer = optim.Muon(parameters, **options)
    factor = 0.2 * max(shape) ** 0.5 if options.get("adjust_lr_fn") else max(1.0, shape[0] / shape[1]) ** 0.5
    coefficients = options.get("ns_coefficients", (3.4445, -4.775, 2.0315))
    velocity, m, v = np.zeros(shape), np.zeros(4), np.zeros(4)
    for t in range(1, 4):
        of_w, of_bias = numbers(*shape, turn=0.2 * t), numbers(4, turn=0.1 * t)
        parameters[0].grad, parameters[1].grad = Tensor(of_w), Tensor(of_bias)
        optimizer.step()
        sign = -1.0 if options.get("maximize") else 1.0
        velocity = options["momentum"] * velocity + (1 - options["momentum"]) * sign * of_w
        mixed = (1 - options["momentum"]) * sign * of_w + options["momentum"] * velocity
        update = mixed if options["nesterov"] else velocity
        update = _orthogonal(update, coefficients, options.get("eps", 1e-7), options.get("ns_steps", 5))
        w = w * (1 - options["lr"] * options["weight_decay"]) - options["lr"] * factor * update
        decay = options["weight_decay"]
        bias = _adamw(bias, m, v, sign * of_bias, t, options["lr"], (0.9, 0.999), 1e-8, decay)
    np.testing.assert_allclose(parameters[0].numpy(), w, 1e-9, 1e-10)
    np.testing.assert_allclose(parameters[1].numpy(), bias, 1e-9, 1e-10)
    np.testing.assert_allclose(optimizer.state_dict()["state"][0]["momentum_buffer"].numpy(), velocity, 1e-10)


@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.2, "betas": (0.7, 0.9), "eps": 1e-3}, {"maximize": True}])
def test_lamb(device, options):
    w, zero = numbers(3, 2), np.zeros(2)
    parameters = [Tensor(w, requires_grad=True), Tensor(zero, requires_grad=True)]
    optimizer = optim.LAMB(parameters, 0.1, **options)
    betas, eps, decay = options.get("betas", (0.9, 0.999)), options.get("eps", 1e-6), options.get("weight_decay", 0.0)
    values, moments = [w, zero], [[np.zeros_like(a), np.zeros_like(a)] for a in (w, zero)]
    for t in range(1, 4):
        for place, parameter in enumerate(parameters):
            gradient = numbers(*parameter.shape, turn=0.3 * t)
            parameter.grad = Tensor(gradient)
            gradient = -gradient if options.get("maximize") else gradient
            m, v = moments[place]
            # AdamW's change at a rate of 1, and the trust ratio |w| / |change|: 1 where a norm is 0.
            change = values[place] - _adamw(values[place], m, v, gradient, t, 1.0, betas, eps, decay)
            norm = np.linalg.norm(values[place])
            trust = norm / np.linalg.norm(change) if norm > 0 else 1.0
            values[place] = values[place] - 0.1 * trust * change
        optimizer.step()
    for parameter, value in zip(parameters, values):
        np.testing.assert_allclose(parameter.numpy(), value, 1e-9, 1e-10)


def test_complex_parameters(any_device):
    """A step moves the parts as it would move two real parameters, but for the norms, which are of both."""
    z = Tensor(numbers(3) + 1j * numbers(3, turn=0.5), requires_grad=True)
    goal = Tensor([1 + 2j, -1j, 0.5])
    adam = optim.AdamW([z], lr=0.3)
    losses = []
    for _ in range(12):
        adam.zero_grad()
        loss = (z - goal).abs().square().sum()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]
    assert adam.state_dict()["state"][0]["exp_avg"].dtype == "complex128"
    first = z.numpy()
    z.grad = Tensor([3 + 4j, 0j, 0j])
    optim.LAMB([z], lr=0.1).step()
    assert np.linalg.norm(z.numpy() - first) == pytest.approx(0.1 * np.linalg.norm(first), rel=1e-5)
    with pytest.raises(DtypeError, match="Muon: a matrix of complex numbers"):
        optim.Muon([Tensor([[1j]], requires_grad=True)])


# ---- groups ----


def test_groups_are_added(any_device):
    first, second, third = (Tensor([1.0], requires_grad=True) for _ in range(3))
    optimizer = optim.SGD([first], lr=0.5, momentum=0.5)
    first.grad = Tensor([1.0])
    optimizer.step()
    optimizer.add_param_group({"params": second, "lr": 0.25, "momentum": 0.0})
    optimizer.add_param_group({"params": [third], "weight_decay": 1.0})
    for parameter in (first, second, third):
        parameter.grad = Tensor([1.0])
    optimizer.step()
    # 1 - 0.5 (1) - 0.5 (0.5 + 1); 1 - 0.25; 1 - 0.5 (1 + 1)
    assert [p.item() for p in (first, second, third)] == [-0.25, 0.75, 0.0]
    groups = optimizer.state_dict()["param_groups"]
    assert [group["params"] for group in groups] == [[0], [1], [2]]
    assert [group["lr"] for group in groups] == [0.5, 0.25, 0.5]
    with pytest.raises(ConfigError, match="a parameter is in two groups"):
        optimizer.add_param_group({"params": [third]})
    with pytest.raises(ConfigError, match="lr=-1"):
        optimizer.add_param_group({"params": [Tensor([1.0], requires_grad=True)], "lr": -1})
    assert len(optimizer.param_groups) == 3


def test_new_rates_compile_nothing(device):
    model = nn.Linear(3, 2)
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    schedule = optim.lr_scheduler.OneCycleLR(optimizer, 0.5, 8)
    x = Tensor(numbers(4, 3).astype(np.float32))
    compiled, rates = [], []
    for _ in range(5):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        before = _compiled()
        optimizer.step()
        compiled.append(_compiled() != before)
        rates.append((optimizer.lr, *optimizer.param_groups[0]["betas"]))
        schedule.step()
    assert len(set(rates)) == 5
    assert compiled == [True, False, False, False, False]


def test_gradients_of_a_function_find_their_plan_again(any_device):
    of = value_and_grad(lambda w, x: (x @ w).tanh().square().sum())
    x = Tensor(numbers(4, 3).astype(np.float32))
    w = Tensor(numbers(3, 2).astype(np.float32))
    plans = []
    for _ in range(3):
        value, gradient = of(w, x)
        Tensor.realize(value, gradient)
        plans.append(_compiled()[0])
    assert plans[1] == plans[2] == plans[0]


def _compiled() -> tuple[int, int]:
    """How many plans and kernels this process has made."""
    finding, plans = (importlib.import_module(f"rulegrad.compile.{name}") for name in ("realize", "plans"))
    return len(finding._plans), len(plans._executables)


# ---- schedules ----


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(any_device, name):
    parameters = [Tensor([0.0], requires_grad=True) for _ in range(2)]
    optimizer = two_groups(optim, SCHEDULES[name].optimizer, parameters)
    rows = course(optim.lr_scheduler, optimizer, SCHEDULES[name], lambda: None)
    np.testing.assert_allclose(rows, VALUES["schedules"][name], 1e-8, 1e-12)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_goes_on(any_device, name):
    """From its state, and from the epoch that a new one is told."""
    case, place = SCHEDULES[name], 2
    parameters = [Tensor([0.0], requires_grad=True) for _ in range(2)]
    first = two_groups(optim, case.optimizer, parameters)
    schedule = case.make(optim.lr_scheduler, first)
    for _ in range(place):
        schedule.step()
    other = two_groups(optim, case.optimizer, parameters)
    again = case.make(optim.lr_scheduler, other)
    again.load_state_dict(schedule.state_dict())
    again.step()
    np.testing.assert_allclose(again.get_last_lr(), VALUES["schedules"][name][place + 1][::2], 1e-8, 1e-12)


@pytest.mark.parametrize("name", PLATEAUS)
def test_plateau(any_device, name):
    optimizer = two_groups(optim, "SGD", [Tensor([0.0], requires_grad=True) for _ in range(2)])
    schedule, rows = optim.lr_scheduler.ReduceLROnPlateau(optimizer, **PLATEAUS[name]), []
    for place, metric in enumerate(METRICS):
        if place == 6:
            state = schedule.state_dict()
            schedule = optim.lr_scheduler.ReduceLROnPlateau(optimizer, **PLATEAUS[name])
            schedule.load_state_dict(state)
        schedule.step(Tensor(metric))
        rows.append(schedule.get_last_lr())
    np.testing.assert_allclose(rows, VALUES["plateaus"][name], 1e-8)


def test_epochs_are_given(any_device):
    optimizer = two_groups(optim, "SGD", [Tensor([0.0], requires_grad=True) for _ in range(2)])
    schedule = optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 4)
    schedule.step(1.5)
    assert optimizer.lr == pytest.approx(0.1 * (1 + np.cos(np.pi * 1.5 / 4)))
    state = optimizer.state_dict()
    other = two_groups(optim, "SGD", [Tensor([0.0], requires_grad=True) for _ in range(2)])
    with pytest.raises(ConfigError, match="last_epoch=2, and group 0 has no initial_lr"):
        optim.lr_scheduler.StepLR(other, 1, last_epoch=2)
    other.load_state_dict(state)
    assert optim.lr_scheduler.StepLR(other, 1, 0.5, last_epoch=2).get_last_lr() == [0.2 * 0.5**3, 0.4 * 0.5**3]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda s, o: s.StepLR(o, 0), "StepLR: step_size=0"),
        (lambda s, o: s.LambdaLR(o, [abs] * 3), "LambdaLR: 3 values for 2 groups"),
        (lambda s, o: s.LinearLR(o, 0.0), "LinearLR: start_factor=0.0"),
        (lambda s, o: s.ConstantLR(o, 2.0), "ConstantLR: factor=2.0"),
        (lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, 0), "T_mult=0"),
        (lambda s, o: s.OneCycleLR(o, 0.1), "OneCycleLR: total_steps=None, epochs=None"),
        (lambda s, o: s.OneCycleLR(o, 0.1, 5, anneal_strategy="sine"), "unknown anneal_strategy 'sine'"),
        (lambda s, o: s.OneCycleLR(o, 0.1, 5, pct_start=2.0), "pct_start=2.0"),
        (lambda s, o: [s.step() for s in [s.OneCycleLR(o, 0.1, 2)] for _ in range(3)], "OneCycleLR: step 3 of 2"),
        (lambda s, o: s.CyclicLR(o, 0.1, 0.5, mode="square"), "unknown mode 'square'"),
        (lambda s, o: s.CyclicLR(o, 0.1, 0.5, 0), "step_size_up=0"),
        (lambda s, o: s.CyclicLR(optim.Adagrad(o.parameters), 0.1, 0.5), "Adagrad has no momentum to move"),
        (lambda s, o: s.SequentialLR(o, [s.StepLR(o, 1)], [1]), "1 schedulers need 0 milestones"),
        (lambda s, o: s.ChainedScheduler([]), "at least one schedule"),
        (lambda s, o: s.ReduceLROnPlateau(o, "least"), "mode='least'"),
        (lambda s, o: s.ReduceLROnPlateau(o, min_lr=[0.1]), "min_lr: 1 values for 2 groups"),
    ],
)
def test_errors_of_schedules(any_device, make, text):
    optimizer = two_groups(optim, "SGD", [Tensor([0.0], requires_grad=True) for _ in range(2)])
    with pytest.raises(ConfigError, match=text):
        make(optim.lr_scheduler, optimizer)


# ---- limits ----


@pytest.mark.parametrize("name", CLIPS)
def test_limits_of_gradients(device, name):
    dtype = "complex128" if "complex" in name else "float64"
    parameters = _parameters(dtype)
    for parameter, gradient in zip(parameters, gradients(dtype, 0)):
        parameter.grad = Tensor(gradient)
    norm, expected = CLIPS[name](nn.utils, parameters), VALUES["clips"][name]
    assert (norm is None) == (not expected["norm"])
    if norm is not None:
        assert norm.dtype == "float64" and norm.shape == ()
        np.testing.assert_allclose(norm.numpy(), expected["norm"][0], 1e-8)
    for parameter, values in zip(parameters, expected["gradients"], strict=True):
        np.testing.assert_allclose(_flat(parameter.grad), values, 1e-8)


def test_limits_that_do_not_fit(any_device):
    x = Tensor([1.0], requires_grad=True)
    assert nn.utils.clip_grad_norm_([x], 1.0).item() == 0.0
    x.grad = Tensor([float("inf")])
    assert nn.utils.clip_grad_norm_([x], 1.0).item() == float("inf")
    x.grad = Tensor([float("nan")])
    with pytest.raises(ConfigError, match="the norm is nan"):
        nn.utils.clip_grad_norm_([x], 1.0, error_if_nonfinite=True)
    with pytest.raises(ConfigError, match="max_norm=0.0"):
        nn.utils.clip_grad_norm_([x], 0.0)
    with pytest.raises(ConfigError, match="clip_value=-1"):
        nn.utils.clip_grad_value_([x], -1.0)
    z = Tensor([1j], requires_grad=True)
    z.grad = Tensor([1j])
    with pytest.raises(DtypeError, match="clip_grad_value_: a gradient is complex64"):
        nn.utils.clip_grad_value_([z], 1.0)
