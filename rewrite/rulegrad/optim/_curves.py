"""Schedules that follow a curve from the first rate: steps, lines, powers, cosines."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from rulegrad.errors import ConfigError
from rulegrad.optim._optimizer import Optimizer
from rulegrad.optim._schedule import LRScheduler


class StepLR(LRScheduler):
    """Multiplied by `gamma` every `step_size` epochs.

    >>> from rulegrad import Tensor, optim
    >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
    >>> schedule = optim.lr_scheduler.StepLR(sgd, step_size=1, gamma=0.5)
    >>> schedule.step(); sgd.lr
    0.25
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = _positive(step_size, "StepLR", "step_size"), gamma
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float, epoch: float, k: int) -> float:
        return base * float(self.gamma ** (epoch // self.step_size))


class MultiStepLR(LRScheduler):
    """Multiplied by `gamma` at each of the epochs in `milestones`; one that is there twice counts twice.

    >>> from rulegrad import optim
    >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
    >>> schedule = optim.lr_scheduler.MultiStepLR(sgd, milestones=[2, 4], gamma=0.5)
    >>> schedule.step(2); sgd.lr
    0.25
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Sequence[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float, epoch: float, k: int) -> float:
        return base * float(self.gamma ** bisect_right(self.milestones, epoch))


class ExponentialLR(LRScheduler):
    """Multiplied by `gamma` every epoch.

    >>> from rulegrad import optim
    >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
    >>> schedule = optim.lr_scheduler.ExponentialLR(sgd, gamma=0.5)
    >>> schedule.step(2); sgd.lr
    0.125
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float, epoch: float, k: int) -> float:
        return base * float(self.gamma**epoch)


class ConstantLR(LRScheduler):
    """Multiplied by `factor` for the first `total_iters` epochs, and as it was from then on.

    >>> from rulegrad import optim
    >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
    >>> schedule = optim.lr_scheduler.ConstantLR(sgd, factor=0.5, total_iters=2); sgd.lr
    0.25
    >>> schedule.step(2); sgd.lr
    0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0.0 <= factor <= 1.0:
            raise ConfigError(f"ConstantLR: factor={factor}; use a number from 0 to 1")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float, epoch: float, k: int) -> float:
        return base * (self.factor if epoch < self.total_iters else 1.0)


class LinearLR(LRScheduler):
    """A factor that goes from `start_factor` to `end_factor` in `total_iters` epochs: a warm-up.

    >>> from rulegrad import optim
    >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
    >>> schedule = optim.lr_scheduler.LinearLR(sgd, start_factor=0.5, total_iters=2); sgd.lr
    0.25
    >>> schedule.step(); sgd.lr
    0.375
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3.0,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0.0 < start_factor <= 1.0 or not 0.0 <= end_factor <= 1.0:
            raise ConfigError(
                f"LinearLR: start_factor={start_factor}, end_factor={end_factor}; use numbers from 0 to 1, the first "
                "above 0"
            )
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = _positive(total_iters, "LinearLR", "total_iters")
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float, epoch: float, k: int) -> float:
        share = min(epoch, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * share)


class PolynomialLR(LRScheduler):
    """Down to 0 in `total_iters` epochs, as the power `power` of the share that is left.

    >>> from rulegrad import optim
    >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
    >>> schedule = optim.lr_scheduler.PolynomialLR(sgd, total_iters=4, power=2.0)
    >>> schedule.step(2); sgd.lr
    0.125
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        self.total_iters, self.power = _positive(total_iters, "PolynomialLR", "total_iters"), power
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float, epoch: float, k: int) -> float:
        return base * float((1.0 - min(epoch, self.total_iters) / self.total_iters) ** self.power)


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first rate to `eta_min` in `T_max` epochs, and up again (Loshchilov and Hutter 2016).

    >>> from rulegrad import optim
    >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
    >>> schedule = optim.lr_scheduler.CosineAnnealingLR(sgd, T_max=4)
    >>> schedule.step(2); round(sgd.lr, 6)
    0.25
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:  # noqa: N803  (PyTorch's name)
        self.T_max, self.eta_min = _positive(T_max, "CosineAnnealingLR", "T_max"), eta_min
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float, epoch: float, k: int) -> float:
        return self.eta_min + (base - self.eta_min) * (1.0 + math.cos(math.pi * epoch / self.T_max)) / 2.0


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine in `T_0` epochs, and again from the top, each time `T_mult` times as long (the same paper's SGDR).

    >>> from rulegrad import Tensor, optim
    >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
    >>> schedule = optim.lr_scheduler.CosineAnnealingWarmRestarts(sgd, T_0=1, T_mult=2)
    >>> schedule.step(); schedule.step(); round(sgd.lr, 6)
    0.25
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,  # noqa: N803  (PyTorch's name)
        T_mult: int = 1,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        self.T_0 = _positive(T_0, "CosineAnnealingWarmRestarts", "T_0")
        self.T_mult = _positive(T_mult, "CosineAnnealingWarmRestarts", "T_mult")
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float, epoch: float, k: int) -> float:
        length, place = self.T_0, epoch
        if self.T_mult == 1:
            place = epoch % length
        while place >= length:
            place, length = place - length, length * self.T_mult
        return self.eta_min + (base - self.eta_min) * (1.0 + math.cos(math.pi * place / length)) / 2.0


def _positive(number: int, schedule: str, name: str) -> int:
    if not number >= 1:
        raise ConfigError(f"{schedule}: {name}={number}; use a whole number above 0")
    return number
