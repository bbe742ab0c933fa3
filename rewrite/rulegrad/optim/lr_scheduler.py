"""Schedules of learning rates, by closed formulas of the epoch. `step` sets the rates of the next steps.

Names and arguments are PyTorch's. A schedule reads the rates that the optimiser has when it is made.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, Literal

from rulegrad.errors import ConfigError
from rulegrad.nn.walking import Walked
from rulegrad.optim.optimizer import Optimizer


class LRScheduler(Walked):
    """What schedules share: the epoch, and the first rate of each group. A subclass says in `_rate` the rate."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = 0
        self._apply()

    def step(self) -> None:
        """Go on to the next epoch."""
        self.last_epoch += 1
        self._apply()

    def get_last_lr(self) -> list[float]:
        """The rate of each group."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on later."""
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another schedule of this kind was."""
        self.last_epoch, self.base_lrs = state_dict["last_epoch"], list(state_dict["base_lrs"])
        self._apply()

    def _apply(self) -> None:
        for k, (group, base) in enumerate(zip(self.optimizer.param_groups, self.base_lrs)):
            group["lr"] = self._rate(base, self.last_epoch, k)

    def _rate(self, base: float, epoch: int, k: int) -> float:
        """The rate of group k."""
        raise NotImplementedError


class LambdaLR(LRScheduler):
    """The first rate times a function of the epoch, or one function for each group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
    ) -> None:
        count = len(optimizer.param_groups)
        self._lambdas = [lr_lambda] * count if callable(lr_lambda) else list(lr_lambda)
        if len(self._lambdas) != count:
            raise ConfigError(f"LambdaLR: {len(self._lambdas)} functions for {count} groups; give one, or one for each")
        super().__init__(optimizer)

    def _rate(self, base: float, epoch: int, k: int) -> float:
        return base * self._lambdas[k](epoch)


class StepLR(LRScheduler):
    """Multiplied by `gamma` every `step_size` epochs.

    >>> from rulegrad import Tensor, optim
    >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
    >>> schedule = optim.lr_scheduler.StepLR(sgd, step_size=1, gamma=0.5)
    >>> schedule.step(); sgd.lr
    0.25
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer)

    def _rate(self, base: float, epoch: int, k: int) -> float:
        return base * self.gamma ** (epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """Multiplied by `gamma` at each of the epochs in `milestones`."""

    def __init__(self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1) -> None:
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer)

    def _rate(self, base: float, epoch: int, k: int) -> float:
        return base * self.gamma ** bisect_right(self.milestones, epoch)


class ExponentialLR(LRScheduler):
    """Multiplied by `gamma` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        self.gamma = gamma
        super().__init__(optimizer)

    def _rate(self, base: float, epoch: int, k: int) -> float:
        return base * self.gamma**epoch


class LinearLR(LRScheduler):
    """A factor that goes from `start_factor` to `end_factor` in `total_iters` epochs: a warm-up."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3.0,
        end_factor: float = 1.0,
        total_iters: int = 5,
    ) -> None:
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer)

    def _rate(self, base: float, epoch: int, k: int) -> float:
        share = min(epoch, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * share)


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first rate to `eta_min` in `T_max` epochs (Loshchilov and Hutter 2016)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:  # noqa: N803  (PyTorch's name)
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer)

    def _rate(self, base: float, epoch: int, k: int) -> float:
        return self.eta_min + (base - self.eta_min) * (1.0 + math.cos(math.pi * epoch / self.T_max)) / 2.0


class OneCycleLR(LRScheduler):
    """Up to `max_lr` and down to nearly nothing within `total_steps` (Smith and Topin 2017); the momentum stays."""

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float,
        total_steps: int,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ConfigError(f"OneCycleLR: unknown anneal_strategy {anneal_strategy!r}; use cos or linear")
        self.max_lr, self.total_steps, self.pct_start, self.anneal_strategy = (
            max_lr,
            total_steps,
            pct_start,
            anneal_strategy,
        )
        self.first, self.last = max_lr / div_factor, max_lr / div_factor / final_div_factor
        super().__init__(optimizer)

    def _rate(self, base: float, epoch: int, k: int) -> float:
        if epoch >= self.total_steps:
            raise ConfigError(f"OneCycleLR: step {epoch} of {self.total_steps}; make it with more total_steps")
        top, end = self.pct_start * self.total_steps - 1.0, self.total_steps - 1.0
        if epoch <= top:
            return self._between(self.first, self.max_lr, epoch / top if top else 1.0)
        return self._between(self.max_lr, self.last, (epoch - top) / (end - top))

    def _between(self, start: float, end: float, share: float) -> float:
        if self.anneal_strategy == "linear":
            return start + (end - start) * share
        return end + (start - end) / 2.0 * (1.0 + math.cos(math.pi * share))


class SequentialLR(LRScheduler):
    """Schedules one after the other: the next one begins, at its own epoch 0, at each of the milestones."""

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int]) -> None:
        if len(schedulers) != len(milestones) + 1:
            raise ConfigError(f"SequentialLR: {len(schedulers)} schedulers need {len(schedulers) - 1} milestones")
        self.schedulers, self.milestones = list(schedulers), list(milestones)
        super().__init__(optimizer)

    def _rate(self, base: float, epoch: int, k: int) -> float:
        place = bisect_right(self.milestones, epoch)
        begin = self.milestones[place - 1] if place else 0
        return self.schedulers[place]._rate(base, epoch - begin, k)


class ReduceLROnPlateau(Walked):
    """Multiplies the rates by `factor` when a metric got no better for more than `patience` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        min_lr: float = 0.0,
    ) -> None:
        if mode not in ("min", "max") or not factor < 1.0:
            raise ConfigError(
                f"ReduceLROnPlateau: mode={mode!r}, factor={factor}; use min or max, and a factor below 1"
            )
        self.optimizer, self.mode, self.factor = optimizer, mode, factor
        self.patience, self.threshold, self.min_lr = patience, threshold, min_lr
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = 0

    def step(self, metrics: float) -> None:
        """Take the metric of an epoch; better means by the share `threshold`."""
        value = float(metrics)
        better = (
            value < self.best * (1.0 - self.threshold)
            if self.mode == "min"
            else value > self.best * (1.0 + self.threshold)
        )
        self.num_bad_epochs = 0 if better else self.num_bad_epochs + 1
        self.best = value if better else self.best
        if self.num_bad_epochs > self.patience:
            self.num_bad_epochs = 0
            for group in self.optimizer.param_groups:
                group["lr"] = max(group["lr"] * self.factor, self.min_lr)
