"""Adamax, NAdam, RAdam: they differ from Adam in how running means become a change. Formulas are PyTorch's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rulegrad.optim._adam import Adam
from rulegrad.optim._formulas import Numbers
from rulegrad.optim._optimizer import Execution, Optimizer, Parameters
from rulegrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import Unpack

_LOG_OF_RISE = math.log(0.96)  # by which NAdam's momentum rises


class Adamax(Adam):
    """Adam with the largest decayed size of the gradients in the place of the root of their mean square (section 7.1).

    >>> from rulegrad import optim
    >>> w = Tensor([1.0], requires_grad=True)
    >>> optimizer = optim.Adamax([w], lr=0.25)
    >>> _ = (w * w).sum().backward(); optimizer.step()
    >>> round(w.item(), 4)
    0.75
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **execution: Unpack[Execution],
    ) -> None:
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        Optimizer.__init__(self, params, options, **execution)

    def _direction(
        self, number: int, value: Tensor, gradient: Tensor, group: dict[str, Any], numbers: Numbers
    ) -> Tensor:
        mean, size = self._kept(number, "exp_avg", value), self._kept(number, "exp_inf", value)
        mean.assign((mean * numbers["beta1"] + gradient * numbers["rest1"]).cast(mean.dtype))
        size.assign((size * numbers["beta2"]).maximum(gradient.abs() + numbers["eps"]).cast(size.dtype))
        return mean / (size * numbers["correction1"])


class RAdam(Adam):
    """Adam that moves by the mean of the gradients alone until their squares say enough (Liu et al. 2019).

    decoupled_weight_decay: weight decay is taken off the parameter, as AdamW does it.

    >>> from rulegrad import optim
    >>> w = Tensor([1.0], requires_grad=True)
    >>> optimizer = optim.RAdam([w], lr=0.25)
    >>> _ = (w * w).sum().backward(); optimizer.step()
    >>> round(w.item(), 4)
    0.5
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **execution: Unpack[Execution],
    ) -> None:
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        Optimizer.__init__(self, params, {**options, "decoupled_weight_decay": decoupled_weight_decay}, **execution)

    def _numbers(self, group: dict[str, Any]) -> dict[str, float]:
        return {**super()._numbers(group), "longest": 2.0 / (1.0 - group["betas"][1]) - 1.0}

    def _direction(
        self, number: int, value: Tensor, gradient: Tensor, group: dict[str, Any], numbers: Numbers
    ) -> Tensor:
        mean, square = self._moments(number, value, gradient, numbers)
        longest, correction = numbers["longest"], numbers["correction2"]
        length = longest - numbers["step"] * 2.0 * (1.0 - correction) / correction  # of the mean of squares, in steps
        least = length.maximum(5.0)
        variance = (least - 4.0) * (least - 2.0) * longest / ((longest - 4.0) * (longest - 2.0) * least)
        adapted = (variance * correction).sqrt() / (square.sqrt() + numbers["eps"])
        return mean / numbers["correction1"] * (length > 5.0).where(adapted, 1.0)


class NAdam(Adam):
    """Adam with Nesterov's momentum, which rises from step to step (Dozat 2016).

    decoupled_weight_decay: weight decay is taken off the parameter, as AdamW does it.

    >>> from rulegrad import optim
    >>> w = Tensor([1.0], requires_grad=True)
    >>> optimizer = optim.NAdam([w], lr=0.25)
    >>> _ = (w * w).sum().backward(); optimizer.step()
    >>> round(w.item(), 4)
    0.7359
    """

    _shared_state = (*Adam._shared_state, "mu_product")

    def __init__(
        self,
        params: Parameters,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **execution: Unpack[Execution],
    ) -> None:
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        options |= {"momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay}
        Optimizer.__init__(self, params, options, **execution)

    def _numbers(self, group: dict[str, Any]) -> dict[str, float]:
        return {**super()._numbers(group), "rise": _LOG_OF_RISE * group["momentum_decay"]}

    def _begin_step(self, shared: dict[str, Tensor], numbers: Numbers, group: dict[str, Any]) -> None:
        super()._begin_step(shared, numbers, group)
        product = self._shared(shared, "mu_product", 1.0, group)
        product.assign(product * _momentum(shared["step"], numbers))

    def _direction(
        self, number: int, value: Tensor, gradient: Tensor, group: dict[str, Any], numbers: Numbers
    ) -> Tensor:
        mean, square = self._moments(number, value, gradient, numbers)
        now, after = _momentum(numbers["step"], numbers), _momentum(numbers["step"] + 1.0, numbers)
        product = numbers["mu_product"]
        change = gradient * ((1.0 - now) / (1.0 - product)) + mean * (after / (1.0 - product * after))
        return change / ((square / numbers["correction2"]).sqrt() + numbers["eps"])


def _momentum(step: Tensor, numbers: Numbers) -> Tensor:
    """The momentum of a step: beta1 less half of it, which falls."""
    return numbers["beta1"] * (1.0 - (step * numbers["rise"]).exp() * 0.5)
