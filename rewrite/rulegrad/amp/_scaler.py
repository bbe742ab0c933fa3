"""Scaling of losses, so that gradients of float16 keep their digits. Steps are left out by the device, not the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rulegrad.errors import ConfigError, RulegradError
from rulegrad.optim import Optimizer
from rulegrad.tensor import updates
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.tensor import Tensor


class GradScaler:
    """Multiplies the loss by a number that adapts, and leaves out steps whose gradients are infinite or nan.

    Where a gradient is not finite, `step` leaves parameters and state as they were, and `update` multiplies the scale
    by `backoff_factor`; after `growth_interval` steps without that it multiplies it by `growth_factor`. Whether a step
    was left out is a value on the device, which the host does not wait for, so a whole step can be captured by
    `rulegrad.jit`. device: of the scale; that of the loss. With `enabled=False` nothing is scaled. Raises ConfigError
    for factors on the wrong side of 1.

    >>> from rulegrad import amp, optim
    >>> w = Tensor([1.0], requires_grad=True)
    >>> sgd, scaler = optim.SGD([w], lr=0.25), amp.GradScaler(init_scale=4.0)
    >>> _ = scaler.scale((w * float("inf")).sum()).backward()
    >>> scaler.step(sgd); scaler.update()
    >>> w.item(), scaler.get_scale()
    (1.0, 2.0)
    """

    def __init__(
        self,
        device: str | None = None,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if not init_scale > 0.0 or not growth_factor > 1.0 or not 0.0 < backoff_factor < 1.0 or growth_interval < 1:
            raise ConfigError(
                f"GradScaler: init_scale={init_scale}, growth_factor={growth_factor}, backoff_factor={backoff_factor}, "
                f"growth_interval={growth_interval}; use a scale above 0, a growth above 1, a backoff between 0 and 1, "
                "and an interval of 1 or more"
            )
        self.growth_factor, self.backoff_factor, self.growth_interval = growth_factor, backoff_factor, growth_interval
        self._enabled = enabled
        self._scale = Tensor(np.array(init_scale, np.float32), device=device)
        self._steps_since = Tensor(np.zeros((), np.int32), device=device)  # since the scale changed
        # Whether a gradient of an optimizer is not finite, from `unscale_` to `update`; by the optimizer's id.
        self._found: dict[int, Tensor] = {}
        self._stepped: set[int] = set()

    def is_enabled(self) -> bool:
        """Whether losses are scaled at all.

        >>> rg.amp.GradScaler(enabled=False).is_enabled()
        False
        """
        return self._enabled

    def get_scale(self) -> float:
        """The scale now, for which the host waits; 1.0 where nothing is scaled.

        >>> rg.amp.GradScaler(init_scale=8.0).get_scale()
        8.0
        """
        return float(self._scale.item()) if self._enabled else 1.0

    def scale(self, outputs: Any) -> Any:
        """A loss, or a list or tuple of losses, times the scale, in float32.

        >>> rg.amp.GradScaler(init_scale=8.0).scale(Tensor(0.5)).item()
        4.0
        """
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(output) for output in outputs)
        return outputs.cast("float32") * self._scale.to(device=outputs.device) if self._enabled else outputs

    @no_grad()
    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of the optimizer by the scale now, to clip them before `step`, which does it otherwise.

        Raises RulegradError when that was done since the last `update`, and ConfigError where there are no gradients.
        """
        if not self._enabled:
            return
        if id(optimizer) in self._found:
            raise RulegradError("unscale_: these gradients have been divided already; call update() after the step")
        found: Tensor | None = None
        for parameter in optimizer.parameters:
            if (before := parameter.grad) is None:
                continue
            scale = self._scale.to(device=before.device)
            after = (before.cast("float32") / scale).cast(before.dtype)
            wrong = after.isfinite().logical_not().any().to(device=self._scale.device)
            found = wrong if found is None else found | wrong
            updates.replace_gradient(parameter, before, after)
        if found is None:
            raise ConfigError("GradScaler: no parameter of the optimizer has a gradient; call backward() before")
        self._found[id(optimizer)] = found

    def step(self, optimizer: Optimizer, *others: Tensor) -> None:
        """The optimizer's step with gradients that are divided by the scale, left out where one is not finite.

        others: as for `Optimizer.step`. Raises RulegradError for a second step before `update`.
        """
        if not self._enabled:
            optimizer.step(*others)
            return
        if id(optimizer) in self._stepped:
            raise RulegradError("GradScaler.step: this optimizer has made its step; call update() before the next")
        if id(optimizer) not in self._found:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        optimizer.step_unless(self._found[id(optimizer)], *others)

    @no_grad()
    def update(self, new_scale: float | None = None) -> None:
        """Adapt the scale after the steps of all optimizers, or set it.

        Raises RulegradError when no step was made, and ConfigError for a scale that is not above 0.
        """
        if not self._enabled:
            return
        if new_scale is not None:
            if not 0.0 < new_scale < float("inf"):
                raise ConfigError(f"GradScaler.update: new_scale={new_scale}; use a finite number above 0")
            self._scale.assign(self._scale.full_like(new_scale))
        elif not self._found:
            raise RulegradError("GradScaler.update: no step was made; call scale(loss).backward() and step(optimizer)")
        else:
            found = next(iter(self._found.values()))
            for other in list(self._found.values())[1:]:
                found = found | other
            steps = self._steps_since + 1
            grows = steps.greater_equal(self.growth_interval)
            grown = grows.where(self._scale * self.growth_factor, self._scale)
            # A scale that would be infinite stays.
            grown = grown.isfinite().where(grown, self._scale)
            self._scale.assign(found.where(self._scale * self.backoff_factor, grown))
            self._steps_since.assign((found | grows).where(0, steps))
        self._found.clear()
        self._stepped.clear()
        Tensor.realize(self._scale, self._steps_since)

    def state_dict(self) -> dict[str, Any]:
        """The scale, its options and the steps since it changed, in PyTorch's form; {} where nothing is scaled.

        >>> rg.amp.GradScaler(init_scale=8.0).state_dict()["scale"]
        8.0
        """
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "_growth_tracker": int(self._steps_since.item()),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the state of another scaler, ours or PyTorch's. Raises ConfigError where that one scales nothing."""
        if not self._enabled:
            return
        if not state_dict:
            raise ConfigError("GradScaler.load_state_dict: the state is of a scaler with enabled=False")
        self.growth_factor, self.backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self.growth_interval = state_dict["growth_interval"]
        self._scale.assign(self._scale.full_like(float(state_dict["scale"])))
        self._steps_since.assign(self._steps_since.full_like(int(state_dict["_growth_tracker"])))
        Tensor.realize(self._scale, self._steps_since)
