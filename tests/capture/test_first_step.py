"""The first step of an optimizer in a captured function: it makes the state that later ones find."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from capture_contract import Run, batches, check, network, state, training_step

from rulegrad import Tensor, optim
from rulegrad.nn import functional as F


class Signs(optim.Optimizer):
    """Its first step is another one than those with a state."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.1, "weight_decay": 0.0, "maximize": False})

    def _change(self, number: int, value: Tensor, gradient: Tensor, group: Any, numbers: Any) -> Tensor:
        is_first = "mean" not in self.state.get(number, {})
        mean = self._kept(number, "mean", value)
        mean.assign(gradient if is_first else mean * 0.5 + gradient)
        return value - mean.sign() * numbers["lr"] * (2.0 if is_first else 1.0)


def test_an_optimizer_of_ones_own() -> None:
    def program(run: Run) -> None:
        model = network()
        optimizer = Signs(model.parameters())
        call = run.jit(training_step(model, optimizer))
        run.see([call(x, y).detach() for x, y in batches(4)], state(model))

    check(program, traces=2)


def test_a_first_step_that_changes_a_number() -> None:
    """What the state is made by stays as it is found, and another number that the function changes is not overlooked."""

    def program(run: Run) -> None:
        model = network()
        optimizer = optim.Adam(model.parameters(), lr=0.05)
        counts = SimpleNamespace(scale=1.0)

        def step(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y) * counts.scale
            loss.backward()
            optimizer.step()
            counts.scale = min(counts.scale * 2.0, 4.0)
            return loss

        call = run.jit(step)
        run.see([call(x, y).detach() for x, y in batches(6)], state(model))

    check(program, traces=3)


def test_a_first_step_that_is_left_out() -> None:
    def program(run: Run) -> None:
        weight = Tensor([1.0, 2.0], requires_grad=True)
        optimizer = optim.Adam([weight], lr=0.1)

        def step(left_out: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = weight.square().sum().backward()
            optimizer.step_unless(left_out)
            return loss.detach()

        call = run.jit(step)
        for left_out in (True, False, True, False):
            run.see(call(Tensor(left_out)), weight.detach().clone(), [t.clone() for t in optimizer.state[0].values()])

    check(program, traces=1)
