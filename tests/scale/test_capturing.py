"""Steps as schedules: every gradient is found once, with the sizes, times and dependencies of the kernels."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn, optim
from rulegrad.communication import counters, reset_counters
from rulegrad.compile import plans
from rulegrad.distributed import Mesh, shard, shard_parameters
from rulegrad.errors import ConfigError
from rulegrad.ir import UOp
from rulegrad.workbench.scale.capturing import captured_step
from rulegrad.workbench.scale.local_schedule import Estimates, events_of
from rulegrad.workbench.scale.machine import load_machine
from rulegrad.workbench.scale.schedule import Schedule
from rulegrad.workbench.scale.simulation import simulate
from rulegrad.workbench.scale.strategies import STRATEGIES
from rulegrad.workbench.scale.traced_step import traced_step

BYTES = 4 * (5 * 6 + 6 + 6 * 3 + 3)


def training(adam: bool, captured: bool) -> tuple[Callable[[], object], optim.Optimizer]:
    rng = np.random.default_rng(0)
    x, y = (Tensor(rng.normal(size=(7, n)).astype("float32"), device="c") for n in (5, 3))
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)).to("c")
    parameters = list(model.parameters())
    optimizer = optim.Adam(parameters) if adam else optim.SGD(parameters)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return (rg.jit(step) if captured else lambda: step().realize()), optimizer


@pytest.mark.parametrize(("adam", "captured"), list(itertools.product([False, True], repeat=2)))
def test_gradients_of_all_parameters(adam: bool, captured: bool) -> None:
    step, optimizer = training(adam, captured)
    schedule = captured_step(step, optimizer, batch=7, machine="two-cores")
    assert sum(event.gradients for event in schedule.events) == BYTES
    memory = schedule.memory_of_rank()
    assert memory["parameters"] == BYTES and memory["state"] == (2 * BYTES if adam else 0)
    assert all(event.seconds and event.bytes for event in schedule.events)
    machine = load_machine("two-cores")
    alone = simulate(schedule, machine)
    assert alone.seconds == pytest.approx(sum(event.seconds or 0 for event in schedule.events))
    for name, spread in STRATEGIES.items():
        found = simulate(spread(schedule, 2, 0), machine)
        parts = 2 if name == "fully-sharded" else 1
        assert found.sent >= BYTES and found.exposed > 0 and found.memory >= BYTES / parts
    assert not plans.launched


def test_kernels_need_those_that_made_what_they_read() -> None:
    w = nn.Parameter(Tensor(np.eye(4, dtype="float32"), device="c"))

    def step() -> None:
        ((w @ w).sum(axis=0).softmax(0) @ w).sum().backward()
        with rg.no_grad():
            w.sub_(0.1 * w.grad)
        w.grad = None
        w.realize()

    events = captured_step(step, optim.SGD([w])).events
    assert len(events) > 2
    assert all(max(event.after, default=-1) < number for number, event in enumerate(events))
    assert any(event.after for event in events) and events[0].parameters == 64
    assert max(number for number, event in enumerate(events) if event.gradients) >= len(events) - 2


def test_steps_that_are_no_steps() -> None:
    w = nn.Parameter(Tensor([1.0, 2.0], device="c"))
    with pytest.raises(ConfigError, match="computes no new values of the parameters"):
        captured_step(lambda: (w * 2).realize(), optim.SGD([w]))
    calls = iter(range(100))

    def changing() -> None:
        for _ in range(next(calls)):
            (w * 2).realize()

    with pytest.raises(ConfigError, match="launches 2 kernels at one call, and 3 at the next"):
        captured_step(changing, optim.SGD([w]))
    assert not plans.launched


def on_a_mesh(axes: dict[str, int], inputs: int | None = 0) -> tuple[Callable[[], Tensor], optim.Optimizer]:
    """A step whose examples are split along the first axis of a mesh of parts of one device."""
    mesh = Mesh(axes, device=f"numpy*{np.prod(list(axes.values()))}")
    rng = np.random.default_rng(0)
    model = shard_parameters(nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)), mesh, {})
    x, y = (shard(rng.normal(size=(8, n)).astype("float32"), mesh, **{next(iter(axes)): inputs}) for n in (5, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return rg.jit(step), optimizer


def test_a_step_on_a_mesh_has_the_collectives_of_its_plan() -> None:
    step, optimizer = on_a_mesh({"data": 4})
    schedule = captured_step(step, optimizer, mesh={"data": 4})
    reset_counters()
    step()
    sums = [event for event in schedule.events if event.kind == "all_reduce"]
    assert sum(event.bytes for event in sums) == BYTES + 4  # and the loss
    assert {event.axes for event in sums} == {("data",)} and {event.seconds for event in sums} == {None}
    told = simulate(schedule, load_machine("h100-infiniband"))
    assert told.ranks == 4 and told.sent == sum(count.bytes for count in counters().values())
    assert told.exposed > 0 and told.computing > 0


def test_a_mesh_that_is_another() -> None:
    step, optimizer = on_a_mesh({"data": 2})
    with pytest.raises(ConfigError, match="sends along a mesh of 2, and the mesh that was named is {}"):
        captured_step(step, optimizer)


def test_shifts_of_a_plan_are_replayed() -> None:
    x = Tensor(np.ones((3, 4), "float32"), device="numpy")
    ring = {"mesh": (4,), "axes": (0,), "by": 1}

    def ticks() -> Tensor:
        y = x
        for _ in range(3):
            y = y._result(UOp("MATERIALIZE", (UOp("SHIFT", (y.uop,), **ring),))) * 2
            y = y._result(UOp("MATERIALIZE", (y.uop,)))
        return y

    traced = traced_step(ticks, (4,), {})
    events = events_of(traced.plan, traced.collectives(), ("pipeline",), Estimates("numpy"))
    assert [event.kind for event in events] == ["shift", "kernel"] * 3
    machine = load_machine("h100-infiniband")
    told = simulate(Schedule("ticks", events, {"pipeline": 4}), machine)
    assert told.sent == 3 * x.nbytes == sum(one.bytes_sent for one in traced.collectives() if one)
    assert told.seconds == pytest.approx(told.computing + 3 * machine.links[0].seconds(x.nbytes))
