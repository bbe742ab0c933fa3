"""`rulegrad.profiler`: PyTorch's names of profiles; schedules are compared with PyTorch's."""

from __future__ import annotations

import gzip
import json

import pytest

import rulegrad as torch
from rulegrad import Tensor
from rulegrad.errors import ConfigError
from rulegrad.profiler import (
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)


def steps(module, **options):
    """The actions of a schedule of either library in twenty steps."""
    found = module.schedule(**options)
    return [found(step).name for step in range(20)]


@pytest.mark.parametrize("options", [
    {"wait": 1, "warmup": 1, "active": 2}, {"wait": 0, "warmup": 0, "active": 1, "repeat": 3},
    {"wait": 2, "warmup": 1, "active": 3, "repeat": 2, "skip_first": 3},
    {"wait": 2, "warmup": 1, "active": 3, "repeat": 2, "skip_first": 3, "skip_first_wait": 1},
])  # fmt: skip
def test_schedules(options):
    other = pytest.importorskip("torch.profiler")
    assert steps(torch.profiler, **options) == steps(other, **options)


def test_steps_of_a_schedule_are_handed_over(tmp_path):
    found = []

    def ready(p):
        tensorboard_trace_handler(str(tmp_path), "worker")(p)
        found.append((p.step_num, {one.key: one.count for one in p.key_averages()}))

    with profile(
        activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=2), on_trace_ready=ready
    ) as p:
        for _ in range(7):
            with record_function("work"):
                (Tensor([1.0, 2.0]) * 3.125).realize()
            p.step()
    assert [step for step, _ in found] == [4, 7] and len(list(tmp_path.iterdir())) == 2
    assert [(counts["work"], counts["ProfilerStep*"]) for _, counts in found] == [(2, 2), (1, 2)]
    files = [json.loads(file.read_text())["traceEvents"] for file in tmp_path.iterdir()]
    assert {"work", "ProfilerStep#2", "ProfilerStep#6"} <= {event["name"] for events in files for event in events}


def test_tables_and_files(tmp_path):
    @record_function("outer")
    def outer(n):
        with record_function("inner"):
            (Tensor.ones(n) * 3.125).realize()

    with profile(record_shapes=True, profile_memory=True) as p:
        outer(5)
        outer(6)
    averages = {one.key: one for one in p.key_averages()}
    assert averages["outer"].count == 2 and averages["outer"].cpu_time_total >= averages["inner"].cpu_time_total
    assert averages["outer"].self_cpu_time_total < averages["outer"].cpu_time_total
    assert sum(one.count for one in averages.values() if one.is_kernel) == 2
    assert p.total_average().count == len(p.events()) and "outer" in str(p.key_averages())
    assert p.key_averages().table(sort_by="self_cpu_time_total", row_limit=1).count("\n") == 2
    p.add_metadata_json("about", '{"a": 1}')
    p.export_chrome_trace(str(tmp_path / "t.json.gz"))
    assert json.loads(gzip.decompress((tmp_path / "t.json.gz").read_bytes()))["about"] == {"a": 1}
    p.export_stacks(str(tmp_path / "stacks"))
    assert "test_torch_profiler.py" in (tmp_path / "stacks").read_text()


def test_what_cannot_be(tmp_path):
    with torch.autograd.profiler.profile(enabled=False) as p:
        (Tensor([1.0]) * 2).realize()
    for wrong in (
        p.key_averages,
        lambda: profile(colour=1),
        lambda: schedule(wait=1, warmup=0, active=0),
        lambda: torch.autograd.profiler.emit_nvtx().__enter__(),
        lambda: torch.autograd.profiler.EventList().table(sort_by="beauty"),
    ):
        with pytest.raises(ConfigError):
            wrong()
    assert ProfilerActivity.CPU in supported_activities() and torch.profiler.kineto_available()
