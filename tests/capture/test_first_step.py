"""The first step of an optimizer in a captured function: it makes the state that later ones find, and is not kept."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from capture_contract import Run, batches, check, network, state, training_step

import rulegrad as rg
from rulegrad import Tensor, nn, optim
from rulegrad.compile import kernels
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


Resets = Callable[[nn.Module, SimpleNamespace], Any]


@pytest.mark.parametrize(
    "begin",
    [
        lambda _, own: setattr(own, "scale", min(own.scale * 2.0, 4.0)),
        lambda _, own: setattr(own, "scale", 1.0 if own.optimizer.state else 10.0),
        lambda _, own: setattr(own, "scale", 1.0 + len(own.optimizer.state_dict()["state"])),
        lambda model, own: setattr(own, "optimizer", optim.Adam(model.parameters(), lr=0.05)),
        lambda _, own: own.optimizer.load_state_dict(own.empty),
        lambda _, own: own.optimizer.state.clear(),
    ],
)
def test_functions_that_look_at_the_state_or_reset_it(begin: Resets) -> None:
    def program(run: Run) -> None:
        model = network()
        own = SimpleNamespace(scale=1.0, optimizer=optim.Adam(model.parameters(), lr=0.05))
        own.empty = own.optimizer.state_dict()

        def step(x: Tensor, y: Tensor) -> Tensor:
            begin(model, own)
            own.optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y) * own.scale
            loss.backward()
            own.optimizer.step()
            return loss

        call = run.jit(step)
        run.see([call(x, y).detach() for x, y in batches(5)], state(model))

    check(program, traces=None)


def test_an_optimizer_that_a_call_makes_and_drops() -> None:
    def program(run: Run) -> None:
        model = network()

        def step(x: Tensor, y: Tensor) -> Tensor:
            optimizer = optim.Adam(model.parameters(), lr=0.05)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        call = run.jit(step)
        run.see([call(x, y).detach() for x, y in batches(4)], state(model))

    check(program, traces=4)


def test_the_second_step_has_the_kernels_of_the_first() -> None:
    model = network(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, 3))
    step = rg.jit(training_step(model, optim.AdamW(model.parameters(), lr=0.05)))
    made = []
    for x, y in batches(3):
        step(x, y)
        made.append(len(kernels._kernels))
    assert made[0] == made[1] == made[2]


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

    check(program, traces=2)


def test_the_order_of_the_state_is_that_of_the_parameters() -> None:
    """Also where the formula of a shape is built for the first time in a later step."""
    model = network(nn.Linear(4, 9), nn.Tanh(), nn.Linear(9, 3))
    optimizer = optim.AdamW(model.parameters(), lr=0.05)
    for x, y in batches(2):
        training_step(model, optimizer)(x, y)
        assert list(optimizer.state) == [0, 1, 2, 3]
