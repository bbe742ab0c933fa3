"""Schedules: their files, growing an axis, and the collectives that strategies put in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rulegrad.errors import ConfigError, FileError
from rulegrad.workbench.scale.schedule import Event, Memory, Schedule, load_schedule
from rulegrad.workbench.scale.strategies import bucketed, data_parallel, fully_sharded

STEP = Schedule(
    "step",
    (
        Event("forward", seconds=1.0, operations=100, bytes=40, parameters=400),
        Event("backward b", operations=50, parameters=300, gradients=300, after=(0,), phase="backward"),
        Event("backward a", operations=50, parameters=100, gradients=100, after=(1,), phase="backward"),
        Event("update", bytes=1000, after=(1, 2), phase="update", follows_batch=False),
    ),
    memory=(Memory("parameters", 400), Memory("activations", 80, in_flight=True)),
    batch=8,
)


def test_a_file_is_what_was_saved(tmp_path: Path) -> None:
    schedule = data_parallel(STEP, 4)
    schedule.save(tmp_path / "step.json")
    assert load_schedule(tmp_path / "step.json") == schedule


def test_the_file_of_the_documentation(tmp_path: Path) -> None:
    from rulegrad.workbench.scale import schedule as module

    text = (module.__doc__ or "").partition("\n\n")[2]
    path = tmp_path / "documented.json"
    path.write_text(text)
    found = load_schedule(path)
    assert found.events[1].kind == "all_reduce" and found.ranks == 2 and found.measured_on == "two-cores"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": 2}, "format: 2 is not 1"),
        ({"name": None}, "name: None is not a text"),
        ({"events": []}, "events is empty"),
        ({"events": [{"kind": "kernel"}]}, "events[0].name is missing"),
        ({"events": [{"name": "a", "after": [0]}]}, "events[0] (a): after: 0 is not the number of an event before it"),
        ({"events": [{"name": "a", "after": ["x"]}]}, "events[0].after: ['x'] is not a list of events' numbers"),
        ({"events": [{"name": "a", "kind": "gossip"}]}, "kind 'gossip' is neither kernel nor all_reduce"),
        ({"events": [{"name": "a", "kind": "all_reduce"}]}, "a collective needs axes"),
        ({"events": [{"name": "a", "kind": "all_reduce", "axes": ["x"]}]}, "the mesh has no axis 'x'"),
        ({"events": [{"name": "a", "divided": ["x"]}]}, "the mesh has no axis 'x'"),
        ({"events": [{"name": "a", "phase": "later"}]}, "phase 'later' is not one of forward, backward, update"),
        ({"events": [{"name": "a", "seconds": -1}]}, "events[0].seconds: -1 is not a finite number"),
        ({"events": [{"name": "a", "second": 1}]}, "events[0].second is not a key"),
        ({"mesh": {"data": 0}}, "mesh.data: 0 is less than 1"),
        ({"memory": [{"name": "w", "bytes": 1, "divided": ["x"]}]}, "memory 'w': the mesh has no axis 'x'"),
        ({"stages": 2}, "2 stages need a mesh with an axis pipeline=2"),
    ],
)
def test_errors_name_file_and_key(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"format": 1, "name": "s", "events": [{"name": "a"}], **change}))
    with pytest.raises(FileError) as found:
        load_schedule(path)
    assert problem in str(found.value) and "mine.json" in str(found.value)


def test_files_that_are_not_json(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text("[1, 2")
    with pytest.raises(FileError, match="mine.json cannot be read as a schedule"):
        load_schedule(path)
    path.write_text("[1, 2]")
    with pytest.raises(FileError, match="is not a table of keys"):
        load_schedule(path)


def test_strong_scaling_divides_what_follows_the_batch() -> None:
    grown = data_parallel(STEP, 1).with_axis("data", 4, strong=True)
    by_name = {event.name: event for event in grown.events}
    assert (by_name["forward"].operations, by_name["forward"].seconds, grown.batch) == (25, 0.25, 2)
    assert by_name["update"].bytes == 1000
    assert next(event for event in grown.events if event.kind == "all_reduce").bytes == 400
    assert grown.memory_of_rank() == {"parameters": 400, "activations": 20}
    many = Schedule("s", STEP.events, {"data": 1}, micro_batches=8).with_axis("data", 4, strong=True)
    assert many.micro_batches == 2 and many.events == STEP.events


def test_data_parallel_sums_gradients_before_the_update() -> None:
    found = data_parallel(STEP, 4, bucket=1)
    assert [(e.kind, e.bytes) for e in found.events if not e.is_kernel] == [("all_reduce", 300), ("all_reduce", 100)]
    update = found.events[-1]
    assert {found.events[number].kind for number in update.after} == {"kernel", "all_reduce"}
    assert found.mesh == {"data": 4} and found.memory_of_rank() == {"parameters": 400, "activations": 80}
    together = data_parallel(STEP, 4)
    assert [e.bytes for e in together.events if not e.is_kernel] == [400]


def test_fully_sharded_divides_parameters_and_the_update() -> None:
    found = fully_sharded(STEP, 4, bucket=1)
    kinds = [event.kind for event in found.events]
    assert kinds.count("all_gather") == 3 and kinds.count("reduce_scatter") == 2
    assert found.memory_of_rank() == {"parameters": 100, "activations": 80, "gathered parameters": 800}
    assert [event.divided for event in found.events if event.name == "update"] == [("data",)]
    # textbook: parameters twice, and gradients once, each (p - 1) / p of all (here 400 bytes, gathered in parts)
    assert sum(event.bytes for event in found.events if event.kind == "all_gather") == 800
    assert sum(event.bytes for event in found.events if event.kind == "reduce_scatter") == 400


def test_strategies_refuse_what_they_cannot_spread() -> None:
    with pytest.raises(ConfigError, match="has an axis 'data' already"):
        data_parallel(data_parallel(STEP, 2), 2)
    with pytest.raises(ConfigError, match="no event says how many bytes of gradients"):
        fully_sharded(Schedule("s", (Event("a"),)), 2)
    with pytest.raises(ConfigError, match="has no axis 'model'"):
        STEP.with_axis("model", 2)


def test_buckets_end_before_what_needs_them() -> None:
    events = [
        Event("a", "all_reduce", bytes=10, axes=("data",)),
        Event("b", "all_reduce", bytes=10, axes=("data",)),
        Event("uses a", after=(0,)),
        Event("c", "all_reduce", bytes=10, axes=("data",)),
        Event("d", "all_reduce", bytes=10, axes=("model",), after=(2,)),
    ]
    found = bucketed(events, 1000)
    assert [(event.name, event.bytes, event.after) for event in found] == [
        ("a and 1 more", 20, ()),
        ("uses a", 0, (0,)),
        ("c", 10, ()),
        ("d", 10, (1,)),
    ]
