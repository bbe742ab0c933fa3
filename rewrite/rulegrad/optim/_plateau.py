"""The schedule that looks at how well it goes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from rulegrad.errors import ConfigError
from rulegrad.nn._walking import Walked
from rulegrad.optim._optimizer import Optimizer
from rulegrad.optim._schedule import for_each_group

_STATE = ("best", "num_bad_epochs", "cooldown_counter", "last_epoch")


class ReduceLROnPlateau(Walked):
    """Multiplies the rates by `factor` when a metric got no better for more than `patience` epochs.

    threshold: how much better counts, as a share ("rel") or as a difference ("abs"). cooldown: epochs after a change
    in which none is counted. Changes up to `eps` are left out. Raises ConfigError.

    >>> from rulegrad import Tensor, optim
    >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
    >>> schedule = optim.lr_scheduler.ReduceLROnPlateau(sgd, factor=0.5, patience=0)
    >>> schedule.step(1.0); schedule.step(1.0); sgd.lr
    0.25
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs") or not factor < 1.0:
            raise ConfigError(
                f"ReduceLROnPlateau: mode={mode!r}, threshold_mode={threshold_mode!r}, factor={factor}; use min or "
                "max, rel or abs, and a factor below 1"
            )
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = threshold, threshold_mode, cooldown, eps
        self.min_lrs = for_each_group(min_lr, optimizer, "ReduceLROnPlateau min_lr")
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0

    def step(self, metrics: float) -> None:
        """Take the metric of an epoch: a number, or a tensor of one element."""
        value = float(metrics)
        self.last_epoch += 1
        better = self._is_better(value)
        self.best = value if better else self.best
        self.num_bad_epochs = 0 if better else self.num_bad_epochs + 1
        if self.cooldown_counter:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self.num_bad_epochs, self.cooldown_counter = 0, self.cooldown
            for group, least in zip(self.optimizer.param_groups, self.min_lrs):
                rate = max(group["lr"] * self.factor, least)
                group["lr"] = rate if group["lr"] - rate > self.eps else group["lr"]

    def _is_better(self, value: float) -> bool:
        sign = 1.0 if self.mode == "max" else -1.0
        if self.threshold_mode == "abs":
            return value * sign > self.best * sign + self.threshold
        return value * sign > self.best * sign * (1.0 + sign * self.threshold)

    def get_last_lr(self) -> list[float]:
        """The rate of each group."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """The state, to continue later; the rates are part of the optimizer's state."""
        return {name: getattr(self, name) for name in _STATE}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another schedule was, ours or PyTorch's."""
        for name in _STATE:
            setattr(self, name, state_dict[name])
