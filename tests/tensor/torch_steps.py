"""Optimizers, schedules and limits of gradients, made once for ours and for PyTorch: names and arguments are the same.

The gradients are given numbers, so nothing but the step itself is compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from torch_functions import numbers

STEPS = 8


class Descent(NamedTuple):
    """An optimizer, and the dtype of what it moves; "late" parameters get no gradient in the first two steps."""

    make: Callable[[Any, list[Any]], Any]
    dtype: str = "float64"
    late: bool = False


class Schedule(NamedTuple):
    """A schedule (of the module with the schedules, for an optimizer), and for how many epochs it is followed."""

    make: Callable[[Any, Any], Any]
    epochs: int
    optimizer: str = "SGD"


def starts(dtype: str) -> list[np.ndarray]:
    """The first values of the parameters: a matrix and a vector."""
    return [_numbers(dtype, 3, 2), _numbers(dtype, 4, turn=0.3)]


def gradients(dtype: str, step: int) -> list[np.ndarray]:
    """The gradients of a step; they grow and shrink, and change their signs."""
    return [(1.5 - 0.4 * step) * _numbers(dtype, *shape, turn=0.1 + 0.17 * step) for shape in ((3, 2), (4,))]


def _numbers(dtype: str, *shape: int, turn: float = 0.0) -> np.ndarray:
    real = numbers(*shape, turn=turn)
    return real + 1j * numbers(*shape, turn=turn + 0.45) if dtype == "complex128" else real


def has_gradient(case: Descent, place: int, step: int) -> bool:
    """Whether the parameter at this place has a gradient in this step."""
    return not (case.late and place == 1 and step < 2)


_OPTIONS = {
    "SGD": [
        lambda o, p: o.SGD(p, 0.1),
        lambda o, p: o.SGD(p, 0.05, 0.9, nesterov=True),
        lambda o, p: o.SGD(p, 0.05, 0.9, nesterov=True, weight_decay=0.1, maximize=True),
        lambda o, p: o.SGD(p, 0.05, 0.9, 0.3, 0.1),
    ],
    "Adam": [
        lambda o, p: o.Adam(p, 0.1),
        lambda o, p: o.Adam(p, 0.1, (0.8, 0.9), 1e-3, 0.1, True),
        lambda o, p: o.Adam(p, 0.1, (0.0, 0.9), maximize=True),
    ],
    "AdamW": [
        lambda o, p: o.AdamW(p, 0.1),
        lambda o, p: o.AdamW(p, 0.1, (0.8, 0.9), 1e-3, 0.2, True),
        lambda o, p: o.AdamW(p, 0.1, weight_decay=0.0, maximize=True),
        lambda o, p: o.AdamW(p, 0.1, amsgrad=True, maximize=True),
    ],
    "Adafactor": [
        lambda o, p: o.Adafactor(p, 0.1),
        lambda o, p: o.Adafactor(p, 0.5, -0.5, (1e-5, 0.5), 1.5, 0.1, maximize=True),
    ],
    "Adamax": [lambda o, p: o.Adamax(p, 0.1), lambda o, p: o.Adamax(p, 0.1, (0.8, 0.9), 1e-3, 0.1, maximize=True)],
    "NAdam": [
        lambda o, p: o.NAdam(p, 0.1),
        lambda o, p: o.NAdam(p, 0.1, (0.8, 0.9), 1e-3, 0.1, 0.1, True),
        lambda o, p: o.NAdam(p, 0.1, (0.8, 0.9), 1e-3, 0.1, maximize=True),
    ],
    "RAdam": [
        lambda o, p: o.RAdam(p, 0.1),  # without squares until the sixth step
        lambda o, p: o.RAdam(p, 0.1, (0.8, 0.99), 1e-3, 0.1, True),
        lambda o, p: o.RAdam(p, 0.1, (0.8, 0.6), 1e-3, 0.1, maximize=True),
        lambda o, p: o.RAdam(p, 0.1, (0.8, 0.9), 1e-3, 0.1, maximize=True),
    ],
    "RMSprop": [
        lambda o, p: o.RMSprop(p),
        lambda o, p: o.RMSprop(p, 0.02, 0.9, 1e-3, 0.1, 0.5, True),
        lambda o, p: o.RMSprop(p, 0.02, momentum=0.5, maximize=True),
    ],
    "Adagrad": [lambda o, p: o.Adagrad(p, 0.1), lambda o, p: o.Adagrad(p, 0.1, 0.1, 0.1, 0.2, maximize=True)],
    "Adadelta": [lambda o, p: o.Adadelta(p), lambda o, p: o.Adadelta(p, 0.5, 0.8, 1e-3, 0.1, maximize=True)],
    "Rprop": [
        lambda o, p: o.Rprop(p, 0.1),
        lambda o, p: o.Rprop(p, 0.1, (0.3, 1.5), (0.02, 0.2), maximize=True),
    ],
    "ASGD": [
        lambda o, p: o.ASGD(p, 0.1),
        lambda o, p: o.ASGD(p, 0.1, 0.1, 0.5, 3.0, 0.1, maximize=True),
    ],
}
OPTIMIZERS = {
    **{f"{name}_{k}": Descent(make) for name, makes in _OPTIONS.items() for k, make in enumerate(makes)},
    **{f"{n}_complex": Descent(makes[-1], "complex128") for n, makes in _OPTIONS.items() if n != "Adafactor"},
    **{f"{name}_late": Descent(makes[-1], late=True) for name, makes in _OPTIONS.items()},
    "groups": Descent(
        lambda o, p: o.AdamW([{"params": p[:1], "lr": 0.2, "betas": (0.5, 0.9)}, {"params": p[1:], "weight_decay": 0.5}], 0.1)
    ),
}  # fmt: skip

#: Searches of LBFGS, by options: each step computes the loss several times.
SEARCHES: dict[str, dict[str, Any]] = {
    "fixed": {"lr": 0.02, "max_iter": 5},
    "short_history": {"lr": 0.01, "max_iter": 6, "history_size": 2},
    "wolfe": {"line_search_fn": "strong_wolfe", "max_iter": 6},
    "wolfe_few": {"line_search_fn": "strong_wolfe", "lr": 3.0, "max_eval": 5, "history_size": 3},
    "wolfe_gradient": {"line_search_fn": "strong_wolfe", "tolerance_grad": 0.5},
    "wolfe_change": {"line_search_fn": "strong_wolfe", "tolerance_change": 0.05},
    "wolfe_complex": {"line_search_fn": "strong_wolfe", "max_iter": 4},
}


def search(make: Callable[..., Any], name: str, parameters: list[Any], steps: int = 3) -> tuple[list[float], Any]:
    """The losses before the steps of a search, and the optimizer."""
    optimizer = make(parameters, **SEARCHES[name])

    def closure() -> Any:
        optimizer.zero_grad()
        matrix, line = parameters
        if "complex" in name:
            loss = sum((p * p - 0.5).abs().square().sum() for p in parameters)
        else:
            valley = 10 * (line[1:] - line[:-1] ** 2) ** 2 + (1 - line[:-1]) ** 2
            loss = (matrix - 0.3).square().sum() + 0.5 * (matrix**4).sum() + valley.sum()
        loss.backward()
        return loss

    return [optimizer.step(closure).item() for _ in range(steps)], optimizer


SCHEDULES = {
    "StepLR": Schedule(lambda s, o: s.StepLR(o, 3, 0.5), 10),
    "MultiStepLR": Schedule(lambda s, o: s.MultiStepLR(o, [6, 2, 6], 0.3), 9),
    "ExponentialLR": Schedule(lambda s, o: s.ExponentialLR(o, 0.8), 6),
    "LambdaLR": Schedule(lambda s, o: s.LambdaLR(o, lambda epoch: 1 / (1 + epoch)), 5),
    "LambdaLR_each": Schedule(lambda s, o: s.LambdaLR(o, [lambda epoch: 0.9**epoch, lambda epoch: 1 - epoch / 10]), 5),
    "MultiplicativeLR": Schedule(lambda s, o: s.MultiplicativeLR(o, lambda epoch: 1 - 1 / (1 + epoch)), 5),
    "ConstantLR": Schedule(lambda s, o: s.ConstantLR(o, 0.25, 3), 6),
    "LinearLR": Schedule(lambda s, o: s.LinearLR(o, 0.2, 0.9, 4), 7),
    "PolynomialLR": Schedule(lambda s, o: s.PolynomialLR(o, 4, 2.0), 6),
    "CosineAnnealingLR": Schedule(lambda s, o: s.CosineAnnealingLR(o, 5, 0.01), 17),
    "CosineAnnealingWarmRestarts": Schedule(lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.02), 25),
    "CosineAnnealingWarmRestarts_equal": Schedule(lambda s, o: s.CosineAnnealingWarmRestarts(o, 4), 13),
    "OneCycleLR": Schedule(lambda s, o: s.OneCycleLR(o, 0.5, 12), 12, "momentum"),
    "OneCycleLR_linear": Schedule(lambda s, o: s.OneCycleLR(o, [0.5, 0.7], epochs=3, steps_per_epoch=5, pct_start=0.2, anneal_strategy="linear", cycle_momentum=False, div_factor=10.0, final_div_factor=50.0), 15),
    "OneCycleLR_three": Schedule(lambda s, o: s.OneCycleLR(o, 0.5, 20, three_phase=True, pct_start=0.4, base_momentum=0.7, max_momentum=0.99), 20, "Adam"),
    "CyclicLR": Schedule(lambda s, o: s.CyclicLR(o, 0.1, 0.5, 3, 5), 20, "momentum"),
    "CyclicLR_halved": Schedule(lambda s, o: s.CyclicLR(o, [0.1, 0.2], 0.5, 3, mode="triangular2", base_momentum=0.6, max_momentum=0.8), 20, "Adam"),
    "CyclicLR_exponential": Schedule(lambda s, o: s.CyclicLR(o, 0.1, 0.5, 4, mode="exp_range", gamma=0.9, cycle_momentum=False), 20),
    "CyclicLR_function": Schedule(lambda s, o: s.CyclicLR(o, 0.1, 0.5, 2, scale_fn=lambda x: math.sin(x), scale_mode="cycle", cycle_momentum=False), 12),
    "SequentialLR": Schedule(lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=3), s.ExponentialLR(o, 0.9)], [3]), 8),
    "ChainedScheduler": Schedule(lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)]), 6),
}  # fmt: skip

#: Metrics, and what the schedule is told about them.
METRICS = (3.0, 2.5, 2.5, 2.49, 2.6, 2.6, 2.0, 1.99, 1.985, 1.98, 1.98, 1.98, 1.98, 1.98)
PLATEAUS = {
    "plain": {"patience": 1, "factor": 0.5},
    "max": {"mode": "max", "patience": 2, "factor": 0.3, "min_lr": [0.01, 0.2]},
    "abs": {"threshold": 0.05, "threshold_mode": "abs", "patience": 0, "cooldown": 2},
    "rel": {"threshold": 0.1, "patience": 1, "eps": 0.02},
}

#: The limits, as calls of `nn.utils`; the gradients are those of the first step, or the second where it says so.
CLIPS = {
    "norm": lambda u, p: u.clip_grad_norm_(p, 0.5),
    "norm_1": lambda u, p: u.clip_grad_norm_(p, 0.5, 1.0),
    "norm_3": lambda u, p: u.clip_grad_norm_(p, 0.5, norm_type=3),
    "norm_inf": lambda u, p: u.clip_grad_norm_(p, 0.5, math.inf),
    "norm_above": lambda u, p: u.clip_grad_norm_(p, 100.0),
    "norm_of_one": lambda u, p: u.clip_grad_norm_(p[0], 0.5),
    "norm_complex": lambda u, p: u.clip_grad_norm_(p, 0.5),
    "norm_complex_inf": lambda u, p: u.clip_grad_norm_(p, 0.5, math.inf),
    "value": lambda u, p: u.clip_grad_value_(p, 0.3),
}


def two_groups(optim: Any, kind: str, parameters: list[Any]) -> Any:
    """An optimizer with two groups of different rates, for schedules."""
    groups = [{"params": parameters[:1]}, {"params": parameters[1:], "lr": 0.4}]
    if kind == "Adam":
        return optim.Adam(groups, 0.2)
    return optim.SGD(groups, 0.2, momentum=0.9 if kind == "momentum" else 0.0)


def course(schedules: Any, optimizer: Any, case: Schedule, before: Callable[[], None]) -> list[list[float]]:
    """Rates and momenta of the groups, epoch for epoch. `before` is called before each step of the schedule."""
    schedule, rows = case.make(schedules, optimizer), []
    for epoch in range(case.epochs + 1):
        rows.append([value for group in optimizer.param_groups for value in _watched(group)])
        if epoch < case.epochs:
            before()
            schedule.step()
    return rows


def _watched(group: dict[str, Any]) -> list[float]:
    return [float(group["lr"]), float(group["betas"][0] if "betas" in group else group["momentum"])]
