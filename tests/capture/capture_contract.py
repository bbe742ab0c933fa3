"""Common parts of the tests of `jit`: a program is run eagerly and captured, its values looked at now and at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import rulegrad as rg
from rulegrad import Tensor, nn, optim
from rulegrad.nn import functional as F


def array(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    """Random values, the same for the same seed."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


class Run:
    """One way to run a program: it wraps functions with `jit`, counts the runs of their bodies, and collects values."""

    def __init__(self, captured: bool, at_the_end: bool) -> None:
        self.captured, self.at_the_end = captured, at_the_end
        self.bodies = 0
        self.functions: list[Any] = []
        self._seen: list[Any] = []

    def jit(self, function: Callable[..., Any]) -> Any:
        """The function captured, or as it is."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            counts[0] += 1
            return function(*args, **kwargs)

        counts = self._counts = [0]
        if not self.captured:
            return function
        wrapped = rg.jit(counted)
        self.functions.append((wrapped, counts))
        return wrapped

    def see(self, *values: Any) -> None:
        """Values that have to be the same: tensors, trees of them, numbers."""
        self._seen += values if self.at_the_end else [plain(value) for value in values]

    def found(self) -> list[Any]:
        """The values, as arrays."""
        return [plain(value) for value in self._seen]


def plain(value: Any) -> Any:
    """Tensors as arrays, in any nesting."""
    if isinstance(value, Tensor):
        return value.numpy()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value


def equal(first: Any, second: Any, tolerance: float) -> None:
    """Two values, of `plain`, are the same."""
    assert type(first) is type(second)
    if isinstance(first, dict):
        assert list(first) == list(second)
        first, second = list(first.values()), list(second.values())
    if isinstance(first, list):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            equal(one, other, tolerance)
    elif isinstance(first, np.ndarray):
        assert first.shape == second.shape and first.dtype == second.dtype
        np.testing.assert_allclose(first, second, tolerance, tolerance)
    else:
        assert first == second


def check(program: Callable[[Run], None], traces: int | None, tolerance: float = 2e-6) -> Any:
    """`program` sees the same values eagerly and captured; its first captured body runs `traces` times (None: any)."""
    for at_the_end in (False, True):
        found = []
        for captured in (False, True):
            Tensor.manual_seed(3)
            run = Run(captured, at_the_end)
            program(run)
            found.append(run.found())
        equal(*found, tolerance)
        function, counts = run.functions[0]
        assert counts[0] == len(function.reasons()) and traces in (None, counts[0]), function.reasons()
    return function


def network(*layers: Any) -> nn.Sequential:
    Tensor.manual_seed(0)
    return nn.Sequential(*layers) if layers else nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def batches(count: int, inputs: int = 4) -> list[tuple[Tensor, Tensor]]:
    random = np.random.default_rng(1)
    return [
        (Tensor(random.standard_normal((8, inputs)).astype("float32")), Tensor(random.integers(0, 3, 8)))
        for _ in range(count)
    ]


def state(model: nn.Module) -> list[Tensor]:
    return [tensor.detach().clone() for tensor in model.state_dict().values()]


def training_step(model: nn.Module, optimizer: optim.Optimizer) -> Callable[[Tensor, Tensor], Tensor]:
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step
