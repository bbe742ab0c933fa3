"""Adam and its relatives: AdamW, LAMB, and Muon, whose other parameters are moved by AdamW."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from rulegrad.errors import ConfigError, DtypeError
from rulegrad.optim._formulas import Numbers, with_decay
from rulegrad.optim._optimizer import Execution, Optimizer, Parameters
from rulegrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Adam(Optimizer):
    """Adam (Kingma and Ba 2014): `weight_decay` is added to the gradient. AdamW takes it off the parameter.

    amsgrad: divide by the largest running mean of squares so far (Reddi, Kale and Kumar 2018).

    >>> from rulegrad import optim
    >>> w = Tensor([1.0], requires_grad=True)
    >>> optimizer = optim.Adam([w], lr=0.25)
    >>> _ = (w * w).sum().backward(); optimizer.step()
    >>> round(w.item(), 4)
    0.75
    """

    _decoupled = False

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **execution: Unpack[Execution],
    ) -> None:
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**options, "amsgrad": amsgrad, "maximize": maximize}, **execution)

    def _numbers(self, group: dict[str, Any]) -> dict[str, float]:
        first, second = group["betas"]
        parts = {"beta1": first, "beta2": second, "rest1": 1.0 - first, "rest2": 1.0 - second, "eps": group["eps"]}
        logarithms = {"log1": _logarithm(first), "log2": _logarithm(second)}
        return {**super()._numbers(group), **parts, **logarithms}

    def _begin_step(self, shared: dict[str, Tensor], numbers: Numbers, group: dict[str, Any]) -> None:
        steps = self._count(shared, group)
        for name in ("1", "2"):
            # 1 - beta**steps. In this form it has all its digits for beta near 1.
            correction = self._shared(shared, "correction" + name, 0.0, group)
            correction.assign(-(steps * numbers["log" + name]).expm1())

    def _change(self, number: int, value: Tensor, gradient: Tensor, group: dict[str, Any], numbers: Numbers) -> Tensor:
        decoupled = group.get("decoupled_weight_decay", self._decoupled)
        if not decoupled:
            gradient = with_decay(value, gradient, group, numbers)
        change = self._direction(number, value, gradient, group, numbers)
        if decoupled:
            change = with_decay(value, change, group, numbers)
        return value - change * numbers["lr"]

    def _direction(
        self, number: int, value: Tensor, gradient: Tensor, group: dict[str, Any], numbers: Numbers
    ) -> Tensor:
        """The mean of the gradients over the root of that of their squares, both corrected for their start at 0."""
        mean, square = self._moments(number, value, gradient, numbers)
        if group.get("amsgrad"):
            largest = self._kept(number, "max_exp_avg_sq", value)
            square = largest.assign(largest.maximum(square))
        deviation = (square / numbers["correction2"]).sqrt() + numbers["eps"]
        return mean / (deviation * numbers["correction1"])

    def _moments(self, number: int, value: Tensor, gradient: Tensor, numbers: Numbers) -> tuple[Tensor, Tensor]:
        """The running means of the gradients and of their squares, with this step's."""
        mean, square = self._kept(number, "exp_avg", value), self._kept(number, "exp_avg_sq", value)
        mean.assign((mean * numbers["beta1"] + gradient * numbers["rest1"]).cast(mean.dtype))
        square.assign((square * numbers["beta2"] + gradient * gradient * numbers["rest2"]).cast(square.dtype))
        return mean, square


def _logarithm(beta: float) -> float:
    return math.log(beta) if beta else -math.inf


class AdamW(Adam):
    """Adam whose weight decay is taken off the parameter, and not part of the gradient (Loshchilov and Hutter 2017).

    >>> from rulegrad import optim
    >>> w = Tensor([1.0], requires_grad=True)
    >>> optimizer = optim.AdamW([w], lr=0.25, weight_decay=0.5)
    >>> _ = (w * w).sum().backward(); optimizer.step()
    >>> round(w.item(), 4)
    0.625
    """

    _decoupled = True

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **execution: Unpack[Execution],
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, **execution)


class LAMB(Adam):
    """AdamW's change scaled such that each parameter moves in proportion to its norm (You et al. 2019).

    >>> from rulegrad import optim
    >>> w = Tensor([2.0], requires_grad=True)
    >>> optimizer = optim.LAMB([w], lr=0.25)
    >>> _ = (w * w).sum().backward(); optimizer.step()
    >>> round(w.item(), 4)
    1.5
    """

    _decoupled = True

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, maximize=maximize)

    def _change(self, number: int, value: Tensor, gradient: Tensor, group: dict[str, Any], numbers: Numbers) -> Tensor:
        change = with_decay(value, self._direction(number, value, gradient, group, numbers), group, numbers)
        size, reach = value.cast(change.dtype).square().sum().sqrt(), change.square().sum().sqrt()
        both = (size > 0.0) & (reach > 0.0)
        trust = both.where(size / both.where(reach, 1.0), 1.0)
        return value - change * (trust * numbers["lr"])


class Muon(AdamW):
    """Momentum made orthogonal, for matrices (K. Jordan 2024); AdamW with `betas` and `adam_eps` for other parameters.

    The momentum is brought near the orthogonal matrix next to it by `ns_steps` steps of a Newton-Schulz iteration with
    the polynomial a X + b X X' X + c (X X')**2 X, in float32, or float64 for parameters of that. adjust_lr_fn:
    "original" multiplies the learning rate of a matrix by sqrt(max(1, rows / columns)), "match_rms_adamw" by
    0.2 sqrt(max(rows, columns)). Raises DtypeError for matrices of complex numbers.

    >>> from rulegrad import optim
    >>> w = Tensor([[4.0, 0.0], [0.0, 2.0]], requires_grad=True)
    >>> muon = optim.Muon([w], lr=0.5, weight_decay=0.0)
    >>> _ = (w * w).sum().backward(); muon.step()
    >>> [[round(v, 1) for v in row] for row in w.tolist()]
    [[3.7, 0.0], [0.0, 1.4]]
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: Literal["original", "match_rms_adamw"] | None = None,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        adam_eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ConfigError(f"Muon: unknown adjust_lr_fn {adjust_lr_fn!r}; use original or match_rms_adamw")
        options = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov, "eps": adam_eps}
        iteration = {
            "ns_coefficients": ns_coefficients,
            "ns_eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        Optimizer.__init__(self, params, {**options, **iteration, "betas": betas, "maximize": maximize})

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        if any(p.ndim == 2 and p.dtype.is_complex for p in group["params"]):
            raise DtypeError(
                "Muon: a matrix of complex numbers, for which it is not defined; give such parameters to another "
                "optimizer, such as AdamW"
            )

    def _numbers(self, group: dict[str, Any]) -> dict[str, float]:
        return {**super()._numbers(group), "momentum": group["momentum"], "rest": 1.0 - group["momentum"]}

    def _change(self, number: int, value: Tensor, gradient: Tensor, group: dict[str, Any], numbers: Numbers) -> Tensor:
        if value.ndim != 2:
            return super()._change(number, value, gradient, group, numbers)
        velocity = self._kept(number, "momentum_buffer", value)
        velocity.assign((velocity * numbers["momentum"] + gradient * numbers["rest"]).cast(velocity.dtype))
        update = gradient * numbers["rest"] + velocity * numbers["momentum"] if group["nesterov"] else velocity
        rows, columns = value.shape
        scale = math.sqrt(max(1.0, rows / columns))
        if group["adjust_lr_fn"] == "match_rms_adamw":
            scale = 0.2 * math.sqrt(max(rows, columns))
        update = _orthogonal(update, group["ns_coefficients"], group["ns_eps"], group["ns_steps"])
        return value * (1.0 - numbers["lr"] * numbers["weight_decay"]) - update * (numbers["lr"] * scale)


def _orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], eps: float, steps: int) -> Tensor:
    """The matrix with its singular values brought near 1."""
    a, b, c = coefficients
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / x.square().sum().sqrt().maximum(eps)
    for _ in range(steps):
        # Kept in memory: each product reads the one before several times.
        gram = (x @ x.T).contiguous()
        x = (x * a + (gram * b + (gram @ gram) * c).contiguous() @ x).contiguous()
    return x.T if tall else x
