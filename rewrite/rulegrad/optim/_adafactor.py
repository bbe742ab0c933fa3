"""Adafactor: the running mean of squared gradients of a matrix is kept as that of its rows and of its columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rulegrad.errors import ConfigError, DtypeError
from rulegrad.ir.limits import finfo
from rulegrad.optim._formulas import Numbers
from rulegrad.optim._optimizer import Execution, Optimizer, Parameters
from rulegrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Adafactor(Optimizer):
    """Adam's scaling with a state of one number for each row and column of matrices (Shazeer and Stern 2018).

    Steps are `lr`, or one over the root of their number where that is less, times the root mean square of a parameter
    (at least `eps[1]`); no change has a root mean square above `d`. beta2_decay: the share of new squares in a step is
    its number to this power. eps[0]: the least root of a mean square, by default the epsilon of the parameter's dtype.
    Raises ConfigError, and DtypeError for parameters of complex numbers.

    >>> from rulegrad import optim
    >>> w = Tensor([1.0], requires_grad=True)
    >>> optimizer = optim.Adafactor([w], lr=0.25)
    >>> _ = (w * w).sum().backward(); optimizer.step()
    >>> w.item()
    0.75
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **execution: Unpack[Execution],
    ) -> None:
        options = {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay}
        super().__init__(params, {**options, "maximize": maximize}, **execution)

    def _check(self, group: dict[str, Any]) -> None:
        least, of_parameter = group["eps"]
        super()._check({**group, "eps": min(least or 0.0, of_parameter)})
        if not group["beta2_decay"] <= 0.0 or not group["d"] >= 1.0:
            raise ConfigError(
                f"Adafactor: beta2_decay={group['beta2_decay']}, d={group['d']}; use a number of 0 or less, and one of "
                "1 or more"
            )
        if any(parameter.dtype.is_complex for parameter in group["params"]):
            raise DtypeError("Adafactor: a parameter of complex numbers; give it to another optimizer, such as AdamW")

    def _numbers(self, group: dict[str, Any]) -> dict[str, float]:
        own = {name: group[name] for name in ("beta2_decay", "d")}
        return {**super()._numbers(group), **own, "least_size": group["eps"][1]}

    def _begin_step(self, shared: dict[str, Tensor], numbers: Numbers, group: dict[str, Any]) -> None:
        self._count(shared, group)

    def _change(self, number: int, value: Tensor, gradient: Tensor, group: dict[str, Any], numbers: Numbers) -> Tensor:
        wide = gradient.cast(_state_dtype(value))
        least = finfo(value.dtype).eps if group["eps"][0] is None else group["eps"][0]
        square = self._mean_square(number, wide, least, numbers["step"] ** numbers["beta2_decay"])
        change = wide * square.maximum(least * least).rsqrt()
        lr, root = numbers["lr"], math.sqrt(value.numel() or 1)
        pace = lr.minimum(numbers["step"].rsqrt()) * numbers["least_size"].maximum(_norm(value) / root)
        kept = value * (1.0 - lr * numbers["weight_decay"]) if group["weight_decay"] else value
        return kept - change * (pace / (_norm(change) / (numbers["d"] * root)).maximum(1.0))

    def _mean_square(self, number: int, gradient: Tensor, least: float, share: Tensor) -> Tensor:
        """The running mean of the squares, of a matrix by rows and columns; it is advanced by a share of new ones."""
        squares = gradient.square()
        if gradient.ndim < 2:
            return self._advanced(number, "variance", squares, share)
        rows = self._advanced(number, "row_var", squares.mean(-1, keepdims=True), share)
        columns = self._advanced(number, "col_var", squares.mean(-2, keepdims=True), share)
        return rows @ columns / rows.mean(-2, keepdims=True).maximum(least)

    def _advanced(self, number: int, name: str, new: Tensor, share: Tensor) -> Tensor:
        mean = self._kept(number, name, new)
        return mean.assign((mean + (new - mean) * share).cast(mean.dtype))

    def _state_shape(self, name: str, parameter: Tensor) -> tuple[int, ...]:
        shape = list(parameter.shape)
        if name in ("row_var", "col_var"):
            shape[-1 if name == "row_var" else -2] = 1
        return tuple(shape)


def _state_dtype(parameter: Tensor) -> str:
    return "float64" if parameter.dtype == "float64" else "float32"


def _norm(values: Tensor) -> Tensor:
    return values.cast(_state_dtype(values)).square().sum().sqrt()
