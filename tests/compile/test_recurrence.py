"""Schedules that are made of those of steps: loops that a captured function, or a plan of a whole loop, has in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.compile import partition, realize, schedule
from rulegrad.config import config
from rulegrad.runtime.profile import profile


@pytest.fixture(autouse=True)
def without_a_compiler() -> Iterator[None]:
    """The ends of loops have many kernels of their own, which a compiler of C takes half a minute for."""
    with config(device="numpy"):
        yield


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of kernels of the schedules that passes have made."""
    found: list[int] = []
    make = schedule._scheduled

    def counted(*arguments: Any) -> Any:
        made = make(*arguments)
        found.append(len(made.steps))
        return made

    monkeypatch.setattr(schedule, "_scheduled", counted)
    yield found


def trained(steps: int, captured: bool = True, width: int = 4) -> list[Any]:
    """The loss of a recurrent layer and the gradients of its weights and input, computed twice."""
    rg.manual_seed(1)
    layer, x = nn.LSTM(3, width), rg.randn(steps, 2, 3).realize().requires_grad_()
    leaves = [*layer.parameters(), x]

    def step(x: Tensor) -> tuple[Any, ...]:
        outputs, _ = layer(x)
        loss = outputs.pow(2).mean()
        return (loss, *rg.autograd.grad(loss, leaves))

    run = rg.jit(step) if captured else step
    for _ in range(2):
        found = run(x)
        found[0].realize(*found[1:])
    return [one.numpy() for one in found]


def alike(found: list[Any], wanted: list[Any]) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("device", ["c", "numpy"])
def test_a_captured_loop_has_the_kernels_of_few_steps(
    device: str, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with config(device=device):
        found = trained(90)
        made, kernels = len(sizes), sum(sizes)
        sizes.clear()
        monkeypatch.setattr(partition, "_FEWEST_SCHEDULED", 1 << 30)
        realize._forget()
        alike(found, trained(90))
    assert kernels < sum(sizes) * 2 / 3
    assert made > len(sizes)


def test_twice_as_long_a_loop_needs_about_as_many_schedules(sizes: list[int]) -> None:
    counts = []
    for steps in (90, 180):
        sizes.clear()
        trained(steps, width=5)  # not known from other tests
        counts.append(len(sizes))
    assert counts[1] <= counts[0] + 6


def test_a_loop_that_is_computed_often_gets_a_plan_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    by_subgraphs: list[int] = []
    realize_subgraphs = partition.realize_subgraphs

    def counted(found: Any, *rest: Any) -> Any:
        by_subgraphs.append(len(found))
        return realize_subgraphs(found, *rest)

    monkeypatch.setattr(realize, "realize_subgraphs", counted)
    with config(longest_graph=2_000):
        rounds = [trained(90, captured=False) for _ in range(3)]
    assert len(by_subgraphs) == partition._OFTEN
    for found in rounds[1:]:
        alike(found, rounds[0])


def test_kernels_of_each_step_have_the_line_of_the_user() -> None:
    rg.manual_seed(1)
    cell, x = nn.GRUCell(3, 4), rg.randn(100, 2, 3).realize()

    @rg.jit
    def loop(x: Tensor) -> Tensor:
        state = Tensor.zeros(2, 4)
        for one in x.unbind():
            state = cell(one, state)
        return state

    with profile() as found:
        loop(x).realize()
    inside = [launch for launch in found.kernels if "test_recurrence" in (launch.user_line or "")]
    assert len(inside) > 60
    assert len({launch.user_line for launch in inside}) <= 3
