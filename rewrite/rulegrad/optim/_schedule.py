"""Base of schedules, and schedules made of functions or of other schedules."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from rulegrad.errors import ConfigError
from rulegrad.nn._walking import Walked
from rulegrad.optim._optimizer import Optimizer

#: A factor by the epoch, or one such function for each group.
Factors = Callable[[int], float] | Sequence[Callable[[int], float]]


class LRScheduler(Walked):
    """Base of schedules: the epoch, and the first rate of each group. A subclass says in `get_lr` the rates.

    last_epoch: -1 to begin; to go on after an earlier run its last epoch, with an optimizer whose state was loaded.

    >>> from rulegrad import optim
    >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
    >>> class Harmonic(optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [base / (1 + self.last_epoch) for base in self.base_lrs]
    >>> schedule = Harmonic(sgd); schedule.step(); sgd.lr
    0.25
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        for k, group in enumerate(optimizer.param_groups):
            if last_epoch >= 0 and "initial_lr" not in group:
                raise ConfigError(
                    f"{type(self).__name__}: last_epoch={last_epoch}, and group {k} has no initial_lr to go on from; "
                    "load the optimizer's state first, or begin with last_epoch=-1"
                )
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch: float = last_epoch + 1
        self._step_count = 1
        self._apply()

    def step(self, epoch: float | None = None) -> None:
        """Go on to the next epoch, or to the given one, which may be a fraction.

        >>> from rulegrad import optim
        >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
        >>> schedule = optim.lr_scheduler.ExponentialLR(sgd, gamma=0.5)
        >>> schedule.step(); sgd.lr
        0.25
        >>> schedule.step(3); sgd.lr
        0.0625
        """
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._step_count += 1
        self._apply()

    def get_lr(self) -> list[float]:
        """The rate that each group has in this epoch.

        >>> from rulegrad import optim
        >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
        >>> optim.lr_scheduler.ExponentialLR(sgd, gamma=0.5).get_lr()
        [0.5]
        """
        return [self._rate(base, self.last_epoch, k) for k, base in enumerate(self.base_lrs)]

    def _is_closed(self) -> bool:
        """Whether rates follow from the epoch alone: not where a subclass says otherwise, perhaps from those before."""
        return type(self).get_lr is LRScheduler.get_lr

    def _rates_at(self, epoch: float) -> list[float]:
        """What `get_lr` gives in an epoch."""
        before, self.last_epoch = self.last_epoch, epoch
        try:
            return self.get_lr()
        finally:
            self.last_epoch = before

    @property
    def _last_lr(self) -> list[float]:
        """PyTorch's name, which subclasses read."""
        return self.get_last_lr()

    def get_last_lr(self) -> list[float]:
        """The rate of each group.

        >>> from rulegrad import optim
        >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
        >>> optim.lr_scheduler.ExponentialLR(sgd, gamma=0.5).get_last_lr()
        [0.5]
        """
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """The state, to continue later.

        >>> from rulegrad import optim
        >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
        >>> optim.lr_scheduler.ExponentialLR(sgd, gamma=0.5).state_dict()
        {'last_epoch': 0, 'base_lrs': [0.5]}
        """
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another schedule of this kind was, ours or PyTorch's.

        >>> from rulegrad import optim
        >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
        >>> schedule = optim.lr_scheduler.ExponentialLR(sgd, gamma=0.5)
        >>> schedule.load_state_dict({"last_epoch": 2, "base_lrs": [0.5]}); sgd.lr
        0.125
        """
        self.last_epoch = state_dict["last_epoch"]
        self.base_lrs = list(state_dict.get("base_lrs", self.base_lrs))
        if self._is_closed():  # another one may go on from the rates, which the optimizer's state has
            self._apply()

    def _apply(self) -> None:
        rates = self.get_lr()
        groups = self.optimizer.param_groups
        if len(rates) != len(groups):
            raise ConfigError(f"{type(self).__name__}.get_lr: {len(rates)} rates for {len(groups)} groups")
        for k, (group, base) in enumerate(zip(groups, self.base_lrs)):
            group["lr"] = rates[k]
            self._set(group, base, self.last_epoch, k)

    def _set(self, group: dict[str, Any], base: float, epoch: float, k: int) -> None:
        """Give group k what else it has in this epoch."""

    def _rate(self, base: float, epoch: float, k: int) -> float:
        """The rate of group k, of a schedule that has no `get_lr` of its own."""
        raise NotImplementedError(f"{type(self).__name__} says no rates: give it a method get_lr(self)")


def for_each_group(value: Any, optimizer: Optimizer, what: str) -> list[Any]:
    """A value for each group: the given one for all of them, or one from a list. Raises ConfigError."""
    count = len(optimizer.param_groups)
    listed = list(value) if isinstance(value, Sequence) else [value] * count
    if len(listed) != count:
        raise ConfigError(f"{what}: {len(listed)} values for {count} groups of parameters; give one, or one for each")
    return listed


class LambdaLR(LRScheduler):
    """The first rate times a function of the epoch, or one function for each group. Raises ConfigError.

    >>> from rulegrad import Tensor, optim
    >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
    >>> schedule = optim.lr_scheduler.LambdaLR(sgd, lambda epoch: 1 / (1 + epoch))
    >>> schedule.step(); sgd.lr
    0.25
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Factors, last_epoch: int = -1) -> None:
        self._lambdas = for_each_group(lr_lambda, optimizer, type(self).__name__)
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float, epoch: float, k: int) -> float:
        return base * float(self._lambdas[k](epoch))


class MultiplicativeLR(LambdaLR):
    """The first rate times the product of a function of each epoch so far, from 1.

    >>> from rulegrad import optim
    >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
    >>> schedule = optim.lr_scheduler.MultiplicativeLR(sgd, lambda epoch: 1 / epoch)
    >>> schedule.step(2); sgd.lr
    0.25
    """

    def _rate(self, base: float, epoch: float, k: int) -> float:
        return base * math.prod(float(self._lambdas[k](j)) for j in range(1, int(epoch) + 1))


class _OfSchedules(LRScheduler):
    """Base of schedules that are made of others."""

    schedulers: list[LRScheduler]

    def _is_closed(self) -> bool:
        return all(schedule._is_closed() for schedule in self.schedulers)


class SequentialLR(_OfSchedules):
    """Schedules one after the other: the next one begins, at its own epoch 0, at each of the milestones.

    Raises ConfigError where the numbers of schedules and milestones do not fit.

    >>> from rulegrad import optim
    >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
    >>> first = optim.lr_scheduler.ConstantLR(sgd, factor=0.5)
    >>> then = optim.lr_scheduler.ExponentialLR(sgd, gamma=0.5)
    >>> schedule = optim.lr_scheduler.SequentialLR(sgd, [first, then], milestones=[2]); sgd.lr
    0.25
    >>> schedule.step(2); sgd.lr
    0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        if len(schedulers) != len(milestones) + 1:
            raise ConfigError(f"SequentialLR: {len(schedulers)} schedulers need {len(schedulers) - 1} milestones")
        self.schedulers, self.milestones = list(schedulers), list(milestones)
        super().__init__(optimizer, last_epoch)

    def _now(self, epoch: float) -> tuple[LRScheduler, float]:
        """The schedule of an epoch, and the epoch of its own."""
        place = bisect_right(self.milestones, epoch)
        return self.schedulers[place], epoch - (self.milestones[place - 1] if place else 0)

    def get_lr(self) -> list[float]:
        schedule, epoch = self._now(self.last_epoch)
        return schedule._rates_at(epoch)

    def _set(self, group: dict[str, Any], base: float, epoch: float, k: int) -> None:
        schedule, own = self._now(epoch)
        schedule._set(group, base, own, k)


class ChainedScheduler(_OfSchedules):
    """Schedules at the same time: their factors of the first rate are multiplied.

    >>> from rulegrad import optim
    >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
    >>> warm = optim.lr_scheduler.ConstantLR(sgd, factor=0.5)
    >>> fall = optim.lr_scheduler.ExponentialLR(sgd, gamma=0.5)
    >>> schedule = optim.lr_scheduler.ChainedScheduler([warm, fall])
    >>> schedule.step(); sgd.lr
    0.125
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self.schedulers = list(schedulers)
        if not self.schedulers or any(s.optimizer is not self.schedulers[0].optimizer for s in self.schedulers):
            raise ConfigError("ChainedScheduler: give at least one schedule, all of one optimizer")
        self._grown: dict[int, list[float]] = {}  # of schedules that go on from rates before, their factors so far
        super().__init__(optimizer or self.schedulers[0].optimizer)

    def get_lr(self) -> list[float]:
        rates = [1.0] * len(self.base_lrs)
        for number, schedule in enumerate(self.schedulers):
            factors = self._factors_of(schedule, number)
            rates = [rate * factor for rate, factor in zip(rates, factors, strict=True)]
        return [base * rate for base, rate in zip(self.base_lrs, rates, strict=True)]

    def _factors_of(self, schedule: LRScheduler, number: int) -> list[float]:
        """What a schedule multiplies the first rates by; one that goes on from rates before, the rates as they are."""
        before = self.base_lrs if schedule._is_closed() else self.get_last_lr()
        rates = schedule._rates_at(self.last_epoch)
        found = [rate / one if one else 0.0 for rate, one in zip(rates, before, strict=True)]
        if not schedule._is_closed():
            known = self._grown.get(number, [1.0] * len(found))
            found = self._grown[number] = [one * other for one, other in zip(known, found, strict=True)]
        return found
