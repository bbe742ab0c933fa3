"""Optimisers. `step` computes all new values, and the losses they came from, in one call.

What changes from step to step (the learning rate, the bias corrections) is in buffers, so every step has the
same graph and is compiled once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from rulegrad.errors import ConfigError, RulegradError
from rulegrad.tensor import updates
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.realize import needs_buffer
from rulegrad.tensor.tensor import Tensor


class Optimizer:
    """What optimisers share: the parameters, the learning rate, and the step.

    A subclass says in `_update` what is taken off each parameter, before the learning rate.
    """

    def __init__(self, parameters: Iterable[Tensor], lr: float) -> None:
        unique = {id(tensor): tensor for tensor in parameters}
        self.parameters = [tensor for tensor in unique.values() if tensor.requires_grad]
        if not self.parameters:
            raise RulegradError("optimizer: no parameter requires a gradient; pass nn.state.get_parameters(model)")
        self.device = self.parameters[0].device
        self.lr = lr

    @property
    def lr(self) -> float:
        """The learning rate; assign to it between steps for a schedule."""
        return self._lr

    @lr.setter
    def lr(self, value: float) -> None:
        self._lr = _checked("lr", value)
        self._lr_tensor = self._host_scalars(value)[0]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @no_grad()
    def step(self, *others: Tensor) -> None:
        """Move the parameters that have gradients, and compute what `backward` was called on along with them.

        others: further tensors that are worth computing in the same call, such as an accuracy.
        Raises RulegradError when no parameter has a gradient.
        """
        moved = [(k, p) for k, p in enumerate(self.parameters) if p.grad is not None]
        if not moved:
            raise RulegradError("optimizer.step: no parameter has a gradient; call loss.backward() first")
        results = [*self._roots(), *others, *self._begin_step()]
        changes = [(p, self._change(k, p, p.grad, results)) for k, p in moved if p.grad is not None]
        for parameter, value in changes:
            parameter.assign(value.cast(parameter.dtype))
        Tensor.realize(*(parameter for parameter, _ in changes), *results, *updates.take(self.device))

    def _roots(self) -> list[Tensor]:
        """The tensors whose gradients these are, where they still wait to be computed."""
        found: dict[int, Any] = {}
        for parameter in self.parameters:
            for reference in parameter.grad._gradient_of if parameter.grad is not None else ():
                root = reference()
                if root is not None and needs_buffer(root):
                    found[id(root)] = root
        return list(found.values())

    def _host_scalars(self, *values: float) -> Tensor:
        return Tensor(np.array(values, dtype=np.float32), device=self.device)

    def _begin_step(self) -> list[Tensor]:
        """Advance what all parameters share; returns the tensors to compute."""
        return []

    def _change(self, k: int, parameter: Tensor, gradient: Tensor, results: list[Tensor]) -> Tensor:
        """The new value of parameter number k; tensors of the optimiser's state are added to `results`."""
        raise NotImplementedError


class SGD(Optimizer):
    """Stochastic gradient descent with momentum (Nesterov's, if asked for) and weight decay, as in PyTorch.

    >>> from rulegrad import Tensor, optim
    >>> w = Tensor([1.0], requires_grad=True)
    >>> sgd = optim.SGD([w], lr=0.25)
    >>> _ = (w * w).sum().backward(); sgd.step()
    >>> w.item()
    0.5
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(parameters, lr)
        self.momentum = _checked("momentum", momentum)
        self.weight_decay = _checked("weight_decay", weight_decay)
        if nesterov and not momentum:
            raise ConfigError("SGD: nesterov=True needs a momentum above 0")
        self.nesterov = nesterov
        self.velocities = [_zeros_like(p) for p in self.parameters] if momentum else []

    def _change(self, k: int, parameter: Tensor, gradient: Tensor, results: list[Tensor]) -> Tensor:
        if self.weight_decay:
            gradient = gradient + parameter.detach() * self.weight_decay
        if self.momentum:
            # The velocity starts at 0, so the first one is the gradient.
            velocity = self.velocities[k] * self.momentum + gradient
            self.velocities[k].assign(velocity)
            results.append(self.velocities[k])
            gradient = gradient + velocity * self.momentum if self.nesterov else velocity
        return parameter.detach() - gradient * self._lr_tensor


class Adam(Optimizer):
    """Adam, as in PyTorch: `weight_decay` is added to the gradient. AdamW takes it off the parameter."""

    decoupled = False

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr)
        if not all(0.0 <= beta < 1.0 for beta in betas):
            raise ConfigError(f"Adam: betas={betas}; use numbers from 0 up to, not including, 1")
        self.betas = betas
        self.epsilon = _checked("epsilon", epsilon)
        self.weight_decay = _checked("weight_decay", weight_decay)
        self.means = [_zeros_like(p) for p in self.parameters]
        self.squares = [_zeros_like(p) for p in self.parameters]
        # 1 - beta**steps, for both betas. Kept in this form it is exact for beta near 1.
        self._corrections = self._host_scalars(0.0, 0.0)
        self._beta_tensor = self._host_scalars(*betas)
        self._rest_tensor = self._host_scalars(*(1.0 - beta for beta in betas))

    def _begin_step(self) -> list[Tensor]:
        self._corrections.assign(self._corrections * self._beta_tensor + self._rest_tensor)
        return [self._corrections]

    def _change(self, k: int, parameter: Tensor, gradient: Tensor, results: list[Tensor]) -> Tensor:
        value = parameter.detach()
        if self.weight_decay and not self.decoupled:
            gradient = gradient + value * self.weight_decay
        first, second = self.betas
        mean, square = self.means[k], self.squares[k]
        mean.assign(mean * first + gradient * (1.0 - first))
        square.assign(square * second + gradient * gradient * (1.0 - second))
        results += [mean, square]
        deviation = (square / self._corrections[1]).sqrt() + self.epsilon
        change = mean / (deviation * self._corrections[0])
        if self.weight_decay and self.decoupled:
            change = change + value * self.weight_decay
        return value - change * self._lr_tensor


class AdamW(Adam):
    """Adam whose weight decay is taken off the parameter, and not part of the gradient."""

    decoupled = True

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(parameters, lr, betas, epsilon, weight_decay)


def _zeros_like(parameter: Tensor) -> Tensor:
    """The optimiser's state: of float32 for small floats, and in memory from the start."""
    dtype = np.float64 if parameter.dtype == "float64" else np.float32
    return Tensor(np.zeros(parameter.shape, dtype), device=parameter.device)


def _checked(name: str, value: float) -> float:
    if not value >= 0.0:
        raise ConfigError(f"optimizer: {name}={value}; use a number of 0 or more")
    return value
