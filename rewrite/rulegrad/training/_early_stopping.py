"""Stopping when a value no longer gets better."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from rulegrad.errors import ConfigError


class EarlyStopping:
    """Says when to stop: after `patience` values in a row none of which was better than the best by `min_delta`.

    mode: "min" for losses, "max" for accuracies. A value that is nan is not better. Raises ConfigError.

    >>> from rulegrad.training import EarlyStopping
    >>> stopping = EarlyStopping(patience=2)
    >>> [stopping.step(loss) for loss in (3.0, 2.0, 2.5, 2.0)], stopping.best
    ([False, False, False, True], 2.0)
    """

    def __init__(self, patience: int = 5, min_delta: float = 0.0, mode: Literal["min", "max"] = "min") -> None:
        if patience < 1 or not min_delta >= 0.0 or mode not in ("min", "max"):
            raise ConfigError(
                f"EarlyStopping: patience={patience}, min_delta={min_delta}, mode={mode!r}; use a patience of 1 or "
                "more, a min_delta of 0 or more, and min or max"
            )
        self.patience, self.min_delta, self.mode = patience, min_delta, mode
        self.best = math.inf if mode == "min" else -math.inf
        self.bad_steps = 0

    @property
    def is_best(self) -> bool:
        """Whether the last value was the best, so that its model is worth saving."""
        return self.bad_steps == 0

    def step(self, value: Any) -> bool:
        """Take a value, a number or a tensor of one; True when it is time to stop."""
        number = float(value.item() if hasattr(value, "item") else value)
        gain = self.best - number if self.mode == "min" else number - self.best
        if gain > self.min_delta:
            self.best, self.bad_steps = number, 0
        else:
            self.bad_steps += 1
        return self.bad_steps >= self.patience

    def state_dict(self) -> dict[str, Any]:
        """The best value, and how many were not better since."""
        return {"best": self.best, "bad_steps": self.bad_steps}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        self.best, self.bad_steps = float(state_dict["best"]), int(state_dict["bad_steps"])
