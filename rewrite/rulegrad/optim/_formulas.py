"""An optimizer's formulas on one group of parameters: graphs that are built in Python once for all parameters alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rulegrad.tensor.graph_functions import BuiltTogether
from rulegrad.tensor.storage import parts_of
from rulegrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from rulegrad.optim._optimizer import Optimizer

_graphs: Final = BuiltTogether()


class Numbers(dict[str, Tensor]):
    """The numbers of a group and what its parameters share, by name, as tensors without axes."""

    def __init__(self, names: Sequence[str], uploaded: Tensor, shared: Mapping[str, Tensor]) -> None:
        super().__init__(shared)
        self._names, self._uploaded = names, uploaded

    def __missing__(self, name: str) -> Tensor:
        found = self[name] = self._uploaded[self._names.index(name)]
        return found


@dataclass(frozen=True)
class Formulas:
    """The formulas of an optimizer on parameters that have made equally many steps."""

    optimizer: Optimizer
    group: dict[str, Any]
    options: str  # that decide how a step is computed
    names: tuple[str, ...]  # of the group's numbers
    uploaded: Tensor  # the numbers
    shared: dict[str, Tensor]

    def begin_step(self) -> None:
        """Advance what the parameters share."""

        def advanced(placed: list[Tensor]) -> list[Tensor] | None:
            uploaded, shared = placed[-1], dict(zip(self.shared, placed))
            self.optimizer._begin_step(shared, Numbers(self.names, uploaded, {}), self.group)
            return [*shared.values()] if len(shared) == len(self.shared) else None

        found = self._built("shared", [*self.shared.values(), self.uploaded], advanced)
        if found is None:
            self.optimizer._begin_step(self.shared, Numbers(self.names, self.uploaded, {}), self.group)
        else:
            _assign(self.shared, found)

    def moved(self, number: int, parameter: Tensor) -> Tensor:
        """The new value of a parameter; the state is advanced."""
        assert parameter.grad is not None
        value, gradient = parameter.detach(), parameter.grad.detach()
        if parameter.dtype.is_complex:
            value, gradient = pairs(value), pairs(gradient)
        state = self.optimizer.state.get(number, {})

        def changed(placed: list[Tensor]) -> list[Tensor] | None:
            value, gradient, uploaded, *others = placed[0], *placed[1 + len(state) :]
            numbers = Numbers(self.names, uploaded, dict(zip(self.shared, others)))
            with self.optimizer._with_state(number, dict(zip(state, placed[1:]))) as advanced:
                new = self._change(number, value, gradient, numbers)
                return [new, *advanced.values()] if len(advanced) == len(state) else None

        tensors = [value, *state.values(), gradient, self.uploaded, *self.shared.values()]
        found = self._built(tuple(state), tensors, changed)
        if found is None:
            value = self._change(number, value, gradient, Numbers(self.names, self.uploaded, self.shared))
        else:
            value = found[0]
            self.optimizer._remember(*state.values())
            _assign(state, found[1:])
        return joined(value) if parameter.dtype.is_complex else value

    def _change(self, number: int, value: Tensor, gradient: Tensor, numbers: Numbers) -> Tensor:
        gradient = -gradient if self.group["maximize"] else gradient
        return self.optimizer._change(number, value, gradient, self.group, numbers)

    def _built(
        self, kind: Any, tensors: list[Tensor], function: Callable[[list[Tensor]], list[Tensor] | None]
    ) -> list[Tensor] | None:
        """The results of a function for the first of the tensors; None where it has to be called each time."""
        key = type(self.optimizer), self.options, self.names, tuple(self.shared), kind
        known = _graphs.known(key, tensors)
        if known is not None:
            return known
        # What lies in parts on a mesh is assigned as it lies.
        if not self.optimizer._is_ours() or any(map(parts_of, tensors)):
            return None
        self.optimizer._on_placeholders = True
        try:
            return _graphs.of(key, tensors, function)
        finally:
            self.optimizer._on_placeholders = False


def _assign(tensors: Mapping[str, Tensor], values: Sequence[Tensor]) -> None:
    for tensor, value in zip(tensors.values(), values):
        if value is not tensor:
            tensor.assign(value)


def with_decay(value: Tensor, gradient: Tensor, group: dict[str, Any], numbers: Numbers) -> Tensor:
    """The gradient with that of the squared norm of the parameter, `weight_decay` times."""
    return gradient + value * numbers["weight_decay"] if group["weight_decay"] else gradient


def pairs(values: Tensor) -> Tensor:
    """Complex numbers as pairs of reals on a new last axis."""
    return Tensor.stack([values.real, values.imag], -1)


def joined(parts: Tensor) -> Tensor:
    """Pairs of reals on the last axis as complex numbers."""
    return Tensor.complex(parts[..., 0], parts[..., 1])
