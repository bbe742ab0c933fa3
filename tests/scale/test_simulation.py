"""Replays: one device is as measured, communication hides behind kernels, pipelines have the textbook's bubble."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulegrad.errors import ConfigError
from rulegrad.workbench.scale.jitter import expected_maximum, slowdown
from rulegrad.workbench.scale.machine import machine_of
from rulegrad.workbench.scale.pipeline import one_forward_one_backward
from rulegrad.workbench.scale.scaling import scaled
from rulegrad.workbench.scale.schedule import Event, Memory, Schedule
from rulegrad.workbench.scale.simulation import Assumptions, simulate
from rulegrad.workbench.scale.strategies import data_parallel, fully_sharded
from rulegrad.workbench.scale.transformer import Transformer

DEVICE = {"rates": {"float32": 100.0, "bfloat16": 100.0}, "memory_bandwidth": 1e30, "memory": 1e3}
LINKS = [{"name": "link", "devices": 1 << 16, "latency": 0.0, "bandwidth": 10.0}]
MACHINE = machine_of({"doc": "", "device": DEVICE, "links": LINKS}, "unit", "unit")


def step(*events: Event, **others: object) -> Schedule:
    return Schedule("s", events, **others)  # type: ignore[arg-type]


TRAINING = step(
    Event("forward", operations=100),
    Event("backward b", operations=100, gradients=10, after=(0,), phase="backward"),
    Event("backward a", operations=100, gradients=10, after=(1,), phase="backward"),
    Event("update", operations=10, after=(2,), phase="update", follows_batch=False),
)


def test_one_device_takes_what_was_measured() -> None:
    measured = step(Event("a", seconds=0.25, operations=1), Event("b", seconds=0.5), measured_on="unit")
    found = simulate(measured, MACHINE)
    assert (found.seconds, found.computing, found.exposed, found.sent) == (0.75, 0.75, 0, 0)
    # elsewhere the roofline is taken, but for an event that is nothing but time
    assert simulate(replace(measured, measured_on="other"), MACHINE).seconds == 0.01 + 0.5


def test_equal_events_are_events_of_their_own() -> None:
    """The second needs the first's sum: 1 s of arithmetic, 1 s of sending, and again."""
    work, total = Event("work", operations=100), Event("sum", "all_reduce", bytes=10, axes=("data",), after=(0,))
    found = simulate(
        step(work, total, replace(work, after=(1,)), replace(total, after=(2,)), mesh={"data": 2}), MACHINE
    )
    assert found.seconds == pytest.approx(4) and found.exposed == pytest.approx(2)
    assert simulate(step(*[work] * 3), MACHINE).seconds == pytest.approx(3)


def test_gradients_are_sent_behind_kernels() -> None:
    """2 ranks send 10 bytes in 1 s: the first while a is computed, the second before the update."""
    found = simulate(data_parallel(TRAINING, 2, bucket=1), MACHINE)
    assert found.seconds == pytest.approx(3 + 1 + 0.1)
    assert found.communicating == pytest.approx(2) and found.exposed == pytest.approx(1)
    assert found.sent == 20
    together = simulate(data_parallel(TRAINING, 2), MACHINE)
    assert together.seconds == pytest.approx(3 + 2 + 0.1)  # one bucket is sent when the last is ready
    apart = simulate(data_parallel(TRAINING, 2, bucket=1), MACHINE, Assumptions(overlaps=False))
    assert apart.seconds == pytest.approx(3 + 2 + 0.1) and apart.exposed == pytest.approx(2)


def test_parameters_are_gathered_one_kernel_ahead() -> None:
    reading = [replace(event, parameters=10 if event.phase != "update" else 0) for event in TRAINING.events]
    found = simulate(fully_sharded(step(*reading), 2, bucket=1), MACHINE)
    # each gathering takes 0.5 s; only the first, and the scattering of the last gradients, keep kernels waiting
    assert found.seconds == pytest.approx(0.5 + 3 + 0.5 + 0.05)
    assert found.sent == 3 * 5 + 2 * 5


def test_divided_work_is_less_the_more_ranks_there_are() -> None:
    update = Event("update", operations=800, phase="update", divided=("data",))
    rows = scaled(step(update, mesh={"data": 1}), MACHINE, [1, 2, 8])
    assert [row.step.seconds for row in rows] == [8, 4, 1]
    grown = scaled(fully_sharded(TRAINING, 1, bucket=1), MACHINE, [2])[0].step
    assert grown.computing == simulate(fully_sharded(TRAINING, 2, bucket=1), MACHINE).computing == pytest.approx(3.05)


def test_micro_batches_send_gradients_once() -> None:
    found = simulate(data_parallel(replace(TRAINING, micro_batches=4), 2, bucket=1), MACHINE)
    assert found.seconds == pytest.approx(4 * 3 + 1 + 0.1) and found.sent == 20


def test_pipelines_have_a_bubble() -> None:
    staged = replace(TRAINING, mesh={"pipeline": 4}, stages=4, micro_batches=8)
    found = simulate(staged, MACHINE)
    assert found.seconds == pytest.approx((8 + 4 - 1) * 3 + 0.1)
    assert found.waiting == pytest.approx(3 * 3) and found.exposed == pytest.approx(0)


@given(st.integers(1, 12), st.integers(1, 24), st.floats(0.1, 10), st.floats(0.1, 10))
def test_bubbles_by_the_formula(stages: int, micro_batches: int, forward: float, backward: float) -> None:
    found = one_forward_one_backward(stages, micro_batches, forward, backward, 0.0)
    assert found == pytest.approx((micro_batches + stages - 1) * (forward + backward))


@given(st.integers(2, 8), st.integers(1, 16), st.floats(0, 5))
def test_sending_between_stages_costs_at_least_one_way_through(stages: int, micro_batches: int, send: float) -> None:
    free = one_forward_one_backward(stages, micro_batches, 1.0, 2.0, 0.0)
    found = one_forward_one_backward(stages, micro_batches, 1.0, 2.0, send)
    assert free + 2 * (stages - 1) * send - 1e-9 <= found <= free + 2 * (stages + micro_batches) * send + 1e-9


def test_stragglers_against_samples() -> None:
    """The expected maximum is what many samples have on average."""
    samples = np.random.default_rng(0).normal(size=(20_000, 16)).max(axis=1).mean()
    assert expected_maximum(16) == pytest.approx(samples, abs=0.02)
    assert slowdown(0.1, 1) == 1.0
    late = simulate(data_parallel(TRAINING, 16, bucket=1), MACHINE, Assumptions(jitter=0.1))
    assert late.computing == pytest.approx(3.1 * slowdown(0.1, 16))
    with pytest.raises(ConfigError, match=r"jitter: 1\.5 is not a share"):
        Assumptions(jitter=1.5)


@given(st.integers(0, 12), st.integers(0, 12), st.floats(0, 0.2), st.booleans())
def test_more_ranks_never_make_weak_scaling_faster(a: int, b: int, jitter: float, overlaps: bool) -> None:
    few, many = sorted((1 << a, 1 << b))
    assumptions = Assumptions(jitter, overlaps)
    rows = scaled(data_parallel(TRAINING, 1), MACHINE, [few, many], assumptions=assumptions)
    assert rows[0].step.seconds <= rows[1].step.seconds * (1 + 1e-9)
    assert all(row.efficiency <= 1 + 1e-9 for row in rows)
    assert all(row.step.exposed <= row.step.communicating + 1e-9 for row in rows)
    assert all(row.step.seconds >= row.step.computing - 1e-9 for row in rows)


@given(st.integers(1, 10))
def test_strong_scaling_approaches_communication(power: int) -> None:
    ranks = 1 << power
    (row,) = scaled(data_parallel(TRAINING, 1, bucket=1), MACHINE, [ranks], strong=True)
    assert row.step.computing == pytest.approx(3 / ranks + 0.1)
    assert row.step.seconds >= 2 * 2 * (ranks - 1) / ranks * 10 / 10 / 2
    assert row.examples == pytest.approx(1 / row.step.seconds)


def test_memory_is_divided_along_axes() -> None:
    schedule = step(
        Event("a"), mesh={"data": 4, "model": 2},
        memory=(Memory("state", 800, ("data", "model")), Memory("batch", 10, in_flight=True)),
    )  # fmt: skip
    assert simulate(schedule, MACHINE).memory == 110
    staged = replace(schedule, mesh={"data": 4, "model": 2, "pipeline": 4}, stages=4, micro_batches=8)
    assert simulate(staged, MACHINE).memory == 100 + 4 * 10


def test_numbers_that_do_not_fit_the_mesh() -> None:
    schedule = step(Event("a"), mesh={"data": 1, "model": 8})
    with pytest.raises(ConfigError, match="12 devices are not a multiple of the 8 of the mesh's other axes"):
        scaled(schedule, MACHINE, [12])
    with pytest.raises(ConfigError, match="has no axis 'pipeline' in its mesh"):
        scaled(schedule, MACHINE, [8], "pipeline")
    with pytest.raises(ConfigError, match="131072 devices are more than the 65536"):
        scaled(schedule, MACHINE, [1 << 17])


def test_kernels_of_a_transformer_add_up_to_the_formula() -> None:
    """All ranks together compute what the formula of Narayanan et al. says, but for the update."""
    network = Transformer(layers=8, width=512, heads=8, sequence=256, vocabulary=1000)
    for model, stages in ((1, 1), (4, 2)):
        schedule = network.schedule(micro_batch=2, model=model, stages=stages, micro_batches=3)
        done = sum(event.operations for event in schedule.events if event.phase != "update")
        assert done * model * stages == pytest.approx(network.operations(2))
    with pytest.raises(ConfigError, match="8 heads do not divide among 3 ranks"):
        network.schedule(model=3)


def test_ticks_of_a_pipeline() -> None:
    """All stages run one program: in each tick a kernel, whose result is shifted to the next stage."""
    stages, micro_batches, kernel, nbytes = 4, 6, 2e-3, 1e6
    events: list[Event] = []
    for _ in range(ticks := micro_batches + stages - 1):
        after = (len(events) - 1,) if events else ()
        events.append(Event("stage", seconds=kernel, after=after))
        events.append(Event("shift", "shift", bytes=nbytes, axes=("pipeline",), after=(len(events) - 1,)))
    schedule = Schedule("ticks", tuple(events), {"pipeline": stages})
    found = simulate(schedule, MACHINE)
    link = MACHINE.links[0]
    assert found.seconds == pytest.approx(ticks * (kernel + link.latency + nbytes / link.bandwidth))
    assert found.sent == ticks * nbytes and found.computing == pytest.approx(ticks * kernel)


#: Heads, width, layers, ranks of a tensor, stages, GPUs, batch, and 10^12 operations a second of a GPU, as published:
#: the last rate is that of the paper's abstract, the others were not checked (docs/scale.md).
PUBLISHED = [
    (24, 2304, 24, 1, 1, 32, 512, 137),
    (32, 3072, 30, 2, 1, 64, 512, 138),
    (32, 4096, 36, 4, 1, 128, 512, 142),
    (48, 6144, 40, 8, 1, 256, 1024, 135),
    (64, 8192, 48, 8, 2, 512, 1536, 138),
    (80, 10240, 60, 8, 4, 1024, 1792, 140),
    (96, 12288, 80, 8, 8, 1536, 2304, 148),
    (128, 16384, 96, 8, 16, 1920, 2160, 155),
    (128, 20480, 105, 8, 35, 2520, 2520, 163),
    (160, 25600, 128, 8, 64, 3072, 3072, 163),
]


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row[5]} GPUs")
def test_against_published_runs(row: tuple[int, ...]) -> None:
    """Table 1 of Narayanan et al. (2021) on A100s, with micro-batches of one: docs/scale.md states the errors."""
    from rulegrad.workbench.scale.machine import load_machine

    heads, width, layers, model, stages, devices, batch, published = row
    data = devices // model // stages
    network = Transformer(layers, width, heads, 2048, 51200)
    schedule = data_parallel(network.schedule(1, model, stages, batch // data), data)
    found = simulate(schedule, load_machine("a100-infiniband"))
    rate = network.operations(batch) / found.seconds / devices / 1e12
    assert 0.85 * published < rate < 1.4 * published
    assert found.memory < 80e9
    assert math.isclose(found.seconds, found.computing + found.exposed + found.waiting, rel_tol=1e-9)
