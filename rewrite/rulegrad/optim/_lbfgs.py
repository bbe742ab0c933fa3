"""L-BFGS: steps by an estimate of the second derivatives from the last changes. Formulas are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from rulegrad.errors import ConfigError
from rulegrad.optim._formulas import joined, pairs
from rulegrad.optim._line_search import Point, strong_wolfe
from rulegrad.optim._optimizer import Optimizer, Parameters
from rulegrad.tensor import updates
from rulegrad.tensor.gradient_mode import enable_grad, no_grad
from rulegrad.tensor.history import roots_of
from rulegrad.tensor.realize import realize_all
from rulegrad.tensor.tensor import Tensor


class LBFGS(Optimizer):
    """L-BFGS: a step computes the loss several times, so it is given a function that does (Nocedal and Wright 2006).

    max_iter: changes of the parameters in a step; max_eval: how often it may compute the loss (1.25 times as often).
    tolerance_grad, tolerance_change: it ends earlier where the largest element of the gradient, or of the change of
    the parameters, or the change of the loss, is below. history_size: how many changes it remembers.
    line_search_fn: "strong_wolfe", or None for steps of size `lr`.

    >>> from rulegrad import optim
    >>> w = Tensor([3.0, -1.0], requires_grad=True)
    >>> optimizer = optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     return (w - Tensor([1.0, 2.0])).square().sum().backward()
    >>> optimizer.step(closure).item(), w.round(decimals=3).tolist()
    (13.0, [1.0, 2.0])
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        options = {"lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval}
        options |= {"tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change}
        super().__init__(params, {**options, "history_size": history_size, "line_search_fn": line_search_fn})

    def _add_group(self, group: dict[str, Any]) -> None:
        if self.param_groups:
            raise ConfigError("LBFGS: one group of parameters is all that it has; give one list of parameters")
        super()._add_group(group)

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ConfigError(f"LBFGS: line_search_fn={group['line_search_fn']!r}; use None or 'strong_wolfe'")

    def _make_step(self, others: Sequence[Tensor], left_out: Tensor | None) -> NoReturn:
        raise ConfigError("LBFGS: it computes the loss itself; call step(closure), without a scale of the loss")

    @no_grad()
    def step(self, *others: Any, closure: Any = None) -> Any:
        """Move the parameters, up to `max_iter` times, and return the loss before.

        The argument is a function that forgets the gradients, computes the loss, calls `backward`, and returns the
        loss.

        >>> from rulegrad import optim
        >>> w = Tensor([3.0], requires_grad=True)
        >>> optimizer = optim.LBFGS([w], lr=0.5)
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     return w.square().sum().backward()
        >>> optimizer.step(closure).item(), round(w.item(), 4)
        (9.0, 0.0)
        """
        others = others if closure is None else (closure, *others)
        if len(others) != 1 or isinstance(others[0], Tensor) or not callable(others[0]):
            raise ConfigError("LBFGS: step needs a function that computes the loss and the gradients: step(closure)")
        closure, (group,) = others[0], self.param_groups
        self._check(group)
        state: dict[str, Any] = self.state.setdefault(0, {})
        state["func_evals"] = state.get("func_evals", 0) + 1
        state.setdefault("n_iter", 0)
        result, loss, gradient = self._evaluated(closure)
        if not _largest(gradient) <= group["tolerance_grad"]:
            self._search(closure, loss, gradient)
        return result

    def _search(self, closure: Callable[[], Any], loss: float, gradient: Tensor) -> None:
        """Move the parameters until one of the limits is reached, from where these are the loss and the gradient."""
        (group,) = self.param_groups
        state: dict[str, Any] = self.state[0]
        made, computed = 0, 1
        while made < group["max_iter"]:
            made += 1
            state["n_iter"] += 1
            self._advance(state, gradient, group)
            state["prev_flat_grad"], state["prev_loss"], before = gradient, loss, loss
            start = Point(0.0, loss, gradient, float((gradient * state["d"]).sum().item()))
            if start.slope > -group["tolerance_change"]:
                break
            is_last = made == group["max_iter"]
            found, more = self._moved(closure, state, start, (is_last, group["max_eval"] - computed))
            loss, gradient, state["t"] = found.loss, found.gradient, found.step
            computed += more
            state["func_evals"] += more
            if is_last or computed >= group["max_eval"] or self._is_at_rest(found, before):
                break

    def _is_at_rest(self, found: Point, before: float) -> bool:
        """Whether gradient, change or gain are as small as was asked for."""
        (group,) = self.param_groups
        change = _largest(self.state[0]["d"]) * abs(found.step)
        least: float = group["tolerance_change"]
        if change <= least or abs(found.loss - before) < least:
            return True
        return bool(_largest(found.gradient) <= group["tolerance_grad"])

    def _advance(self, state: dict[str, Any], gradient: Tensor, group: dict[str, Any]) -> None:
        """The next direction, and the size of a step to begin with."""
        if state["n_iter"] == 1:
            state |= {"d": -gradient, "old_dirs": [], "old_stps": [], "ro": [], "H_diag": self._number(1.0)}
            state["t"] = min(1.0, 1.0 / float(gradient.abs().sum().item())) * group["lr"]
            realize_all([state["d"]])
            return
        change = gradient - state["prev_flat_grad"]
        moved = state["d"] * self._number(state["t"])
        product, square = (change * moved).sum(), (change * change).sum()
        inverse, scale = 1.0 / product, product / square
        realize_all([change, moved, product, inverse, scale])
        if product.item() > 1e-10:
            for name, new in (("old_dirs", change), ("old_stps", moved), ("ro", inverse)):
                kept = state[name][1:] if len(state[name]) == group["history_size"] else state[name]
                state[name] = [*kept, new]
            state["H_diag"] = scale
        state["d"], state["t"] = _direction(state, gradient), group["lr"]

    def _moved(
        self, closure: Callable[[], Any], state: dict[str, Any], start: Point, left: tuple[bool, int]
    ) -> tuple[Point, int]:
        """Where the parameters were moved to along the direction, and how often the loss was computed for that.

        left: whether this is the last change, and how often the loss may be computed.
        """
        direction, (is_last, most) = state["d"], left
        origins = [parameter.detach().clone() for parameter in self.parameters]
        realize_all([*origins])

        def evaluate(step: float) -> Point:
            self._place(origins, step, direction)
            _, loss, gradient = self._evaluated(closure)
            return Point(step, loss, gradient, float((gradient * direction).sum().item()))

        (group,) = self.param_groups
        if group["line_search_fn"] is not None:
            tolerance = group["tolerance_change"]
            found, more = strong_wolfe(evaluate, start, state["t"], _largest(direction), tolerance, most)
            self._place(origins, found.step, direction)
            return found, more
        if is_last:  # what the loss is there nobody asks for
            self._place(origins, state["t"], direction)
            return start._replace(step=state["t"]), 0
        return evaluate(state["t"]), 1

    def _evaluated(self, closure: Callable[[], Any]) -> tuple[Any, float, Tensor]:
        """The loss as it is returned, as a number, and the gradients of all parameters as one vector."""
        with enable_grad():
            result = closure()
        parts = []
        for parameter in self.parameters:
            gradient = parameter.zeros_like() if parameter.grad is None else parameter.grad
            gradient = gradient.detach()
            parts.append((pairs(gradient) if gradient.dtype.is_complex else gradient).reshape(-1))
        flat = Tensor.cat(parts).cast(self._dtype(self.param_groups[0]))
        losses = [result] if isinstance(result, Tensor) else []
        realize_all([*roots_of(self._calls()), *losses, flat, *updates.take(self.device)])
        return result, float(result), flat

    def _place(self, origins: list[Tensor], step: float, direction: Tensor) -> None:
        """Set the parameters to where they were, and a step along the direction further."""
        offset, size = 0, self._number(step)
        for parameter, origin in zip(self.parameters, origins):
            is_complex = parameter.dtype.is_complex
            parts = pairs(origin) if is_complex else origin
            change = direction[offset : offset + parts.numel()].reshape(parts.shape) * size
            offset += parts.numel()
            value = joined(parts + change) if is_complex else parts + change
            parameter.assign(value.cast(parameter.dtype))
        realize_all([*self.parameters])

    def _number(self, value: float) -> Tensor:
        """A number in memory: in the graph it would be another computation each time."""
        return Tensor(np.array(value, self._dtype(self.param_groups[0])), device=self.device)

    def _restored(
        self, number: int, parameter: Tensor, values: Mapping[str, Any]
    ) -> tuple[dict[str, float], dict[str, Any]]:
        return {}, {name: self._copied(value) for name, value in values.items() if name != "al"}

    def _copied(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._copied(one) for one in value]
        if not hasattr(value, "__array__"):
            return value
        return Tensor(np.array(value, self._dtype(self.param_groups[0])), device=self.device)


def _largest(vector: Tensor) -> float:
    return float(vector.abs().max().item())


def _direction(state: dict[str, Any], gradient: Tensor) -> Tensor:
    """The gradient times the estimate of the inverse of the second derivatives, downwards.

    Each change that is remembered is one small computation, the same for all, so none is compiled for their number.
    """
    changes, moves, inverses = state["old_dirs"], state["old_stps"], state["ro"]
    shares: list[Tensor] = []
    found: Tensor = -gradient
    realize_all([found])
    for change, move, inverse in zip(reversed(changes), reversed(moves), reversed(inverses)):
        share = (move * found).sum() * inverse
        found = found - change * share
        realize_all([share, found])
        shares.append(share)
    found = found * state["H_diag"]
    realize_all([found])
    for change, move, inverse, share in zip(changes, moves, inverses, reversed(shares)):
        found = found + move * (share - (change * found).sum() * inverse)
        realize_all([found])
    return found
