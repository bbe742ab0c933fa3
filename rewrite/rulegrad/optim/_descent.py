"""Gradient descent, and methods that scale each element by the size of its gradients. Formulas are PyTorch's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rulegrad.errors import ConfigError
from rulegrad.optim._formulas import Numbers, with_decay
from rulegrad.optim._optimizer import Execution, Optimizer, Parameters
from rulegrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import Unpack


class SGD(Optimizer):
    """Stochastic gradient descent with momentum (Nesterov's, if asked for) and weight decay.

    >>> from rulegrad import Tensor, optim
    >>> w = Tensor([1.0], requires_grad=True)
    >>> sgd = optim.SGD([w], lr=0.25)
    >>> _ = (w * w).sum().backward(); sgd.step()
    >>> w.item()
    0.5
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        **execution: Unpack[Execution],
    ) -> None:
        options = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, {**options, "nesterov": nesterov, "maximize": maximize}, **execution)

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        if group["nesterov"] and (not group["momentum"] or group["dampening"]):
            raise ConfigError("SGD: nesterov=True needs a momentum above 0 and no dampening")

    def _numbers(self, group: dict[str, Any]) -> dict[str, float]:
        return {**super()._numbers(group), "momentum": group["momentum"], "share": 1.0 - group["dampening"]}

    def _begin_step(self, shared: dict[str, Tensor], numbers: Numbers, group: dict[str, Any]) -> None:
        if group["dampening"]:
            self._count(shared, group)

    def _change(self, number: int, value: Tensor, gradient: Tensor, group: dict[str, Any], numbers: Numbers) -> Tensor:
        gradient = with_decay(value, gradient, group, numbers)
        if group["momentum"]:
            velocity = self._kept(number, "momentum_buffer", value)
            added = gradient
            if group["dampening"]:
                # The first velocity is the whole gradient.
                added = gradient * numbers["step"].equal(1.0).where(1.0, numbers["share"])
            velocity.assign((velocity * numbers["momentum"] + added).cast(velocity.dtype))
            gradient = gradient + velocity * numbers["momentum"] if group["nesterov"] else velocity
        return value - gradient * numbers["lr"]


class RMSprop(Optimizer):
    """Gradients divided by the root of a running mean of their squares (Hinton's lecture 6e).

    >>> from rulegrad import optim
    >>> w = Tensor([1.0], requires_grad=True)
    >>> optimizer = optim.RMSprop([w], lr=0.05)
    >>> _ = (w * w).sum().backward(); optimizer.step()
    >>> round(w.item(), 4)
    0.5
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        maximize: bool = False,
        **execution: Unpack[Execution],
    ) -> None:
        options = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, {**options, "centered": centered, "maximize": maximize}, **execution)

    def _numbers(self, group: dict[str, Any]) -> dict[str, float]:
        own = {name: group[name] for name in ("alpha", "eps", "momentum")}
        return {**super()._numbers(group), **own, "rest": 1.0 - group["alpha"]}

    def _begin_step(self, shared: dict[str, Tensor], numbers: Numbers, group: dict[str, Any]) -> None:
        self._count(shared, group)

    def _change(self, number: int, value: Tensor, gradient: Tensor, group: dict[str, Any], numbers: Numbers) -> Tensor:
        gradient = with_decay(value, gradient, group, numbers)
        square = self._kept(number, "square_avg", value)
        square.assign((square * numbers["alpha"] + gradient.square() * numbers["rest"]).cast(square.dtype))
        size = square
        if group["centered"]:
            mean = self._kept(number, "grad_avg", value)
            mean.assign((mean * numbers["alpha"] + gradient * numbers["rest"]).cast(mean.dtype))
            size = size - mean.square()
        change = gradient / (size.sqrt() + numbers["eps"])
        if group["momentum"]:
            velocity = self._kept(number, "momentum_buffer", value)
            change = velocity.assign((velocity * numbers["momentum"] + change).cast(velocity.dtype))
        return value - change * numbers["lr"]


class Adagrad(Optimizer):
    """Gradients divided by the root of the sum of their squares (Duchi, Hazan and Singer 2011).

    >>> from rulegrad import optim
    >>> w = Tensor([1.0], requires_grad=True)
    >>> optimizer = optim.Adagrad([w], lr=0.25)
    >>> _ = (w * w).sum().backward(); optimizer.step()
    >>> round(w.item(), 4)
    0.75
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        **execution: Unpack[Execution],
    ) -> None:
        options = {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps}
        options["initial_accumulator_value"] = initial_accumulator_value
        super().__init__(params, {**options, "maximize": maximize}, **execution)

    def _numbers(self, group: dict[str, Any]) -> dict[str, float]:
        return {**super()._numbers(group), "eps": group["eps"], "lr_decay": group["lr_decay"]}

    def _begin_step(self, shared: dict[str, Tensor], numbers: Numbers, group: dict[str, Any]) -> None:
        self._count(shared, group)

    def _change(self, number: int, value: Tensor, gradient: Tensor, group: dict[str, Any], numbers: Numbers) -> Tensor:
        gradient = with_decay(value, gradient, group, numbers)
        total = self._kept(number, "sum", value, group["initial_accumulator_value"])
        total.assign((total + gradient.square()).cast(total.dtype))
        rate = numbers["lr"] / ((numbers["step"] - 1.0) * numbers["lr_decay"] + 1.0)
        return value - gradient / (total.sqrt() + numbers["eps"]) * rate


class Adadelta(Optimizer):
    """Gradients scaled by the roots of running means of squared changes and squared gradients (Zeiler 2012).

    >>> from rulegrad import optim
    >>> w = Tensor([1.0], requires_grad=True)
    >>> optimizer = optim.Adadelta([w])
    >>> _ = (w * w).sum().backward(); optimizer.step()
    >>> round(w.item(), 4)
    0.9968
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **execution: Unpack[Execution],
    ) -> None:
        options = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**options, "maximize": maximize}, **execution)

    def _numbers(self, group: dict[str, Any]) -> dict[str, float]:
        return {**super()._numbers(group), "eps": group["eps"], "rho": group["rho"], "rest": 1.0 - group["rho"]}

    def _begin_step(self, shared: dict[str, Tensor], numbers: Numbers, group: dict[str, Any]) -> None:
        self._count(shared, group)

    def _change(self, number: int, value: Tensor, gradient: Tensor, group: dict[str, Any], numbers: Numbers) -> Tensor:
        gradient = with_decay(value, gradient, group, numbers)
        square, changes = self._kept(number, "square_avg", value), self._kept(number, "acc_delta", value)
        square.assign((square * numbers["rho"] + gradient.square() * numbers["rest"]).cast(square.dtype))
        scale = (changes + numbers["eps"]).sqrt() / (square + numbers["eps"]).sqrt()
        change = gradient * scale
        changes.assign((changes * numbers["rho"] + change.square() * numbers["rest"]).cast(changes.dtype))
        return value - change * numbers["lr"]


class Rprop(Optimizer):
    """Steps by the signs of gradients, each element with a size of its own (Riedmiller and Braun 1993).

    The size of a step grows by the second of `etas` where the sign of the gradient is that of the step before; where
    it is the other one the size falls by the first, and the element stays. `lr` is the first size, `step_sizes` are
    the least and the largest.

    >>> from rulegrad import optim
    >>> w = Tensor([1.0], requires_grad=True)
    >>> optimizer = optim.Rprop([w], lr=0.25)
    >>> _ = (w * w).sum().backward(); optimizer.step()
    >>> round(w.item(), 4)
    0.75
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
        *,
        maximize: bool = False,
        **execution: Unpack[Execution],
    ) -> None:
        super().__init__(params, {"lr": lr, "etas": etas, "step_sizes": step_sizes, "maximize": maximize}, **execution)

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        if not 0.0 < group["etas"][0] < 1.0 < group["etas"][1]:
            raise ConfigError(f"Rprop: etas={group['etas']}; use a number between 0 and 1, and one above 1")

    def _numbers(self, group: dict[str, Any]) -> dict[str, float]:
        (fall, rise), (least, largest) = group["etas"], group["step_sizes"]
        return {"lr": group["lr"], "fall": fall, "rise": rise, "least": least, "largest": largest}

    def _begin_step(self, shared: dict[str, Tensor], numbers: Numbers, group: dict[str, Any]) -> None:
        self._count(shared, group)

    def _change(self, number: int, value: Tensor, gradient: Tensor, group: dict[str, Any], numbers: Numbers) -> Tensor:
        before = self._kept(number, "prev", value)
        size = self._kept(number, "step_size", value, group["lr"])
        agreement = gradient * before
        factor = (agreement > 0.0).where(numbers["rise"], (agreement < 0.0).where(numbers["fall"], 1.0))
        gradient = (agreement < 0.0).where(0.0, gradient)
        size.assign((size * factor).maximum(numbers["least"]).minimum(numbers["largest"]).cast(size.dtype))
        before.assign(gradient.cast(before.dtype))
        return value - gradient.sign() * size


class ASGD(Optimizer):
    """Stochastic gradient descent that also averages its parameters (Polyak and Juditsky 1992).

    The means are in the state, as "ax"; they begin at step `t0`. The rate falls as `lr / (1 + lambd lr step)**alpha`,
    and `lambd` is a decay of the parameters besides.

    >>> from rulegrad import optim
    >>> w = Tensor([1.0], requires_grad=True)
    >>> optimizer = optim.ASGD([w], lr=0.25, lambd=0.0)
    >>> _ = (w * w).sum().backward(); optimizer.step()
    >>> w.item(), optimizer.state[0]["ax"].item()
    (0.5, 0.5)
    """

    _shared_state = ("step", "eta", "mu")

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **execution: Unpack[Execution],
    ) -> None:
        options = {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay}
        super().__init__(params, {**options, "maximize": maximize}, **execution)

    def _numbers(self, group: dict[str, Any]) -> dict[str, float]:
        return {**super()._numbers(group), **{name: group[name] for name in ("lambd", "alpha", "t0")}}

    def _begin_step(self, shared: dict[str, Tensor], numbers: Numbers, group: dict[str, Any]) -> None:
        """A step has the rate and the share that the one before has left for it."""
        steps = self._count(shared, group)
        self._shared(shared, "eta", float(np.float32(group["lr"])), group)
        self._shared(shared, "mu", 1.0, group)
        rate = numbers["lr"] / (numbers["lambd"] * numbers["lr"] * steps + 1.0) ** numbers["alpha"]
        share = 1.0 / (steps - numbers["t0"]).maximum(1.0)
        for name, now, after in (("rate", "eta", rate), ("share", "mu", share)):
            # It is read in this step; a copy, because the state goes on.
            if name in shared:
                shared[name].assign(shared[now])
            else:
                shared[name] = shared[now].clone()
                self._remember(shared[name])
            shared[now].assign(after.cast("float32").cast(shared[now].dtype))  # PyTorch keeps them so

    def _change(self, number: int, value: Tensor, gradient: Tensor, group: dict[str, Any], numbers: Numbers) -> Tensor:
        gradient = with_decay(value, gradient, group, numbers)
        mean = self._kept(number, "ax", value)
        moved = value * (1.0 - numbers["lambd"] * numbers["rate"]) - gradient * numbers["rate"]
        share = numbers["share"]
        mean.assign(share.equal(1.0).where(moved, mean + (moved - mean) * share).cast(mean.dtype))
        return moved
