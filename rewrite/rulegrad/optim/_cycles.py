"""Schedules that go up and down again, with the momentum going the other way (Smith 2017; Smith and Topin 2017)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from rulegrad.errors import ConfigError
from rulegrad.optim._optimizer import Optimizer
from rulegrad.optim._schedule import LRScheduler, for_each_group


class _Cycling(LRScheduler):
    """Base of both: momenta that move too, in `momentum` or as the first of `betas`."""

    cycle_momentum: bool
    _momenta: list[tuple[float, float]]

    def _with_momenta(self, optimizer: Optimizer, cycle: bool, base: Any, top: Any) -> None:
        name = type(self).__name__
        if cycle and not any(key in group for group in optimizer.param_groups for key in ("momentum", "betas")):
            raise ConfigError(
                f"{name}: {type(optimizer).__name__} has no momentum to move; use cycle_momentum=False, or another "
                "optimizer"
            )
        self.cycle_momentum = cycle
        lows = for_each_group(base, optimizer, f"{name} base_momentum")
        self._momenta = list(zip(lows, for_each_group(top, optimizer, f"{name} max_momentum")))

    def _set(self, group: dict[str, Any], base: float, epoch: float, k: int) -> None:
        if self.cycle_momentum and "betas" in group:
            group["betas"] = (self._momentum(epoch, k), *group["betas"][1:])
        elif self.cycle_momentum:
            group["momentum"] = self._momentum(epoch, k)

    def _momentum(self, epoch: float, k: int) -> float:
        """The momentum of group k."""
        raise NotImplementedError


class OneCycleLR(_Cycling):
    """Up to `max_lr` in the share `pct_start` of all steps, and down to nearly nothing; `step` after every batch.

    From max_lr / div_factor at first to that / final_div_factor at the end. Give total_steps, or epochs and
    steps_per_epoch. three_phase: down to the first rate as fast as it went up, then on to the last. cycle_momentum:
    the momentum (Adam's first beta) goes from max_momentum down to base_momentum and back. Raises ConfigError.

    >>> from rulegrad import Tensor, optim
    >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5, momentum=0.9)
    >>> schedule = optim.lr_scheduler.OneCycleLR(sgd, max_lr=1.0, total_steps=10)
    >>> schedule.step(); schedule.step()
    >>> sgd.lr, sgd.param_groups[0]["momentum"]
    (1.0, 0.85)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ConfigError(f"OneCycleLR: unknown anneal_strategy {anneal_strategy!r}; use cos or linear")
        if not 0.0 <= pct_start <= 1.0:
            raise ConfigError(f"OneCycleLR: pct_start={pct_start}; use a share from 0 to 1")
        self.total_steps, self.anneal_strategy = _steps(total_steps, epochs, steps_per_epoch), anneal_strategy
        self._with_momenta(optimizer, cycle_momentum, base_momentum, max_momentum)
        self._tops = [float(top) for top in for_each_group(max_lr, optimizer, "OneCycleLR max_lr")]
        self._factors = div_factor, final_div_factor
        top = pct_start * self.total_steps - 1.0
        # The epochs where a phase ends. The rates of the phases' ends are in `_rates`, as many and one more.
        self._ends = [top, *([2.0 * top] if three_phase else []), self.total_steps - 1.0]
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float, epoch: float, k: int) -> float:
        top, first = self._tops[k], self._tops[k] / self._factors[0]
        between = [first] if len(self._ends) == 3 else []
        return self._at(epoch, [first, top, *between, first / self._factors[1]])

    def _momentum(self, epoch: float, k: int) -> float:
        low, high = self._momenta[k]
        return self._at(epoch, [high, low, high, high][: len(self._ends) + 1])

    def _at(self, epoch: float, values: list[float]) -> float:
        """Between the values at the ends of the phases."""
        if epoch > self.total_steps:
            raise ConfigError(f"OneCycleLR: step {epoch} of {self.total_steps}; make it with more total_steps")
        place = next((j for j, end in enumerate(self._ends) if epoch <= end), len(self._ends) - 1)
        begin = self._ends[place - 1] if place else 0.0
        length = self._ends[place] - begin
        share = (epoch - begin) / length if length else 1.0
        start, end = values[place], values[place + 1]
        if self.anneal_strategy == "linear":
            return start + (end - start) * share
        return end + (start - end) / 2.0 * (1.0 + math.cos(math.pi * share))


def _steps(total: int | None, epochs: int | None, each: int | None) -> int:
    count = epochs * each if total is None and epochs is not None and each is not None else total
    if count is None or not count > 0:
        raise ConfigError(
            f"OneCycleLR: total_steps={total}, epochs={epochs}, steps_per_epoch={each}; give total_steps, or both of "
            "the others, above 0"
        )
    return count


class CyclicLR(_Cycling):
    """Up from `base_lr` to `max_lr` in step_size_up steps, down in step_size_down, and so on; `step` after every batch.

    mode: "triangular"; "triangular2" halves the height with every cycle; "exp_range" multiplies it by gamma**steps; or
    give scale_fn, a function of the cycle (from 1) or, with scale_mode="iterations", of the step. Raises ConfigError.

    >>> from rulegrad import Tensor, optim
    >>> sgd = optim.SGD([Tensor([1.0], requires_grad=True)], lr=0.5)
    >>> schedule = optim.lr_scheduler.CyclicLR(sgd, 0.25, 1.25, step_size_up=2, cycle_momentum=False)
    >>> schedule.step(); sgd.lr
    0.75
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ConfigError(
                f"CyclicLR: unknown mode {mode!r}; use triangular, triangular2 or exp_range, or give scale_fn"
            )
        down = step_size_up if step_size_down is None else step_size_down
        if step_size_up <= 0 or down <= 0:
            raise ConfigError(f"CyclicLR: step_size_up={step_size_up}, step_size_down={down}; use numbers above 0")
        self._length, self._up = float(step_size_up + down), step_size_up / (step_size_up + down)
        self.mode, self.gamma, self._scale = mode, gamma, scale_fn
        self._by_cycle = scale_mode == "cycle" if scale_fn is not None else mode != "exp_range"
        self._with_momenta(optimizer, cycle_momentum, base_momentum, max_momentum)
        self._tops = [float(top) for top in for_each_group(max_lr, optimizer, "CyclicLR max_lr")]
        for group, first in zip(optimizer.param_groups, for_each_group(base_lr, optimizer, "CyclicLR base_lr")):
            if last_epoch == -1:
                group["initial_lr"] = float(first)
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float, epoch: float, k: int) -> float:
        return base + (self._tops[k] - base) * self._height(epoch)

    def _momentum(self, epoch: float, k: int) -> float:
        low, high = self._momenta[k]
        return high - (high - low) * self._height(epoch)

    def _height(self, epoch: float) -> float:
        """How far up, from 0 to 1, times the scale."""
        done = math.floor(epoch / self._length)
        place = epoch / self._length - done
        height = place / self._up if place <= self._up else (place - 1.0) / (self._up - 1.0)
        at = float(done + 1) if self._by_cycle else epoch
        if self._scale is not None:
            return height * self._scale(at)
        factor = {"triangular": 1.0, "triangular2": 2.0 ** (1.0 - at)}.get(self.mode)
        return height * float(self.gamma**at if factor is None else factor)
