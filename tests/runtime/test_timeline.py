"""Profiles of whole programs: the trace events that are written, the lines of kernels, and memory at its peak."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.compile import forget_kernels
from rulegrad.runtime.timeline import Span, events

REQUIRED = {"X": {"name", "cat", "ph", "pid", "tid", "ts", "dur", "args"}, "C": {"name", "cat", "ph", "pid", "tid", "ts", "args"},
            "M": {"name", "ph", "pid", "tid", "args"}}  # fmt: skip


class Net(nn.Module):
    def __init__(self, device: str) -> None:
        super().__init__()
        self.hidden = nn.Linear(160, 128)
        self.output = nn.Linear(128, 4)
        self.to(device)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.hidden(x).relu())


def line_in(function: Callable[..., Any], text: str) -> str:
    """`file.py:12`, where the function has this text."""
    lines, first = inspect.getsourcelines(function)
    return f"{Path(__file__).name}:{first + next(k for k, line in enumerate(lines) if text in line)}"


def check_events(path: Path) -> list[dict[str, Any]]:
    """The events, each as the format wants it; the spans of a row are one inside the other, or one after the other."""
    document = json.loads(path.read_text())
    found: list[dict[str, Any]] = document["traceEvents"]
    for event in found:
        assert set(event) == REQUIRED[event["ph"]], event
        assert isinstance(event["name"], str) and isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0
        if event["ph"] == "C":
            assert all(isinstance(value, int) and value >= 0 for value in event["args"].values())
    times = [event["ts"] for event in found if "ts" in event]
    assert times == sorted(times)
    rows = {event["tid"] for event in found if event["ph"] == "M" and event["name"] == "thread_name"}
    spans = [event for event in found if event["ph"] == "X"]
    assert {span["tid"] for span in spans} == rows
    for row in rows:
        ends: list[float] = []
        for span in (one for one in spans if one["tid"] == row):
            end = span["ts"] + span["dur"]
            while ends and ends[-1] <= span["ts"] + 0.01:  # microseconds: times are rounded
                ends.pop()
            assert not ends or end <= ends[-1] + 0.01, span
            ends.append(end)
    return found


def test_a_captured_training_step(device: str, tmp_path: Path) -> None:
    net = Net(device)
    optimizer = rg.optim.SGD(net.parameters(), lr=0.1)
    x = Tensor.ones(130, 160, device=device).realize()

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    captured = rg.jit(step)
    for _ in range(2):
        captured(x).item()
    path = tmp_path / "profile.json"
    with rg.profile(path) as p:
        captured(x).item()
    assert len(captured.reasons()) == 1  # a replay, which the engine does otherwise
    found = check_events(path)
    kinds = {event["cat"] for event in found if "cat" in event}
    assert kinds >= {"python", "launch", "kernel", "memory"}
    kernels = [event for event in found if event.get("cat") == "kernel"]
    assert len(kernels) == len(p.kernels) > 3
    lines = {record.user_line for record in p.kernels}
    assert lines <= {
        line_in(Net.forward, "return"), line_in(step, "net(x)"), line_in(step, "backward()"), line_in(step, ".step()"),
    }  # fmt: skip
    assert len(lines) > 1 and all(event["args"]["stack"] for event in kernels)
    assert (
        line_in(Net.forward, "return") in p.flame() and f"forward ({line_in(Net.forward, 'return')})" in p.collapsed()
    )
    peak = p.peaks[device if device in p.peaks else next(iter(p.peaks))]
    assert peak.in_use >= 130 * 160 * 4 + 128 * 160 * 4
    assert peak.in_use >= max(sample.in_use for sample in p.memory) / 1.01
    large = {one.kind: one.made_at for one in peak.buffers}
    assert large["float32 130 × 160"].startswith(Path(__file__).name) and "float32 130 × 160" in p.memory_table()


def test_a_compilation_is_in_it(device: str, tmp_path: Path) -> None:
    forget_kernels()
    path = tmp_path / "profile.json"
    with rg.profile(path):
        (Tensor.ones(7, 5, device=device).cos().sum(axis=1) * 2).tolist()
    found = check_events(path)
    names = {event["name"] for event in found if event.get("cat") in ("pass", "compile")}
    assert {"schedule", "materialize", "form_kernels", "indexing"} <= names
    assert any(name.startswith("lower") for name in names) and any(name.startswith("build") for name in names)


def test_a_plan_from_before_the_profile_gets_lines(device: str) -> None:
    def double(x: Tensor) -> Tensor:
        return (x * 2).exp()

    x = Tensor.ones(33, device=device).realize()
    double(x).tolist()
    with rg.profile() as p:
        double(x).tolist()
    assert [record.user_line for record in p.kernels] == [line_in(double, "exp")]
    assert p.kernels[0].stack[-2][2] == "test_a_plan_from_before_the_profile_gets_lines"


def test_sizes_that_vary() -> None:
    n = rg.Variable("n", 2, 64)
    scaled = rg.jit(lambda x: (x * 3).sum(), dynamic={"x": {0: n}})
    expected = [float(scaled(Tensor.ones(k)).item()) for k in (4, 9)]
    with rg.profile() as p:
        assert [float(scaled(Tensor.ones(k)).item()) for k in (4, 9)] == expected == [12.0, 27.0]
    assert all(record.user_line.startswith(Path(__file__).name) for record in p.kernels)


def test_python_calls_are_spans(tmp_path: Path) -> None:
    def slow() -> int:
        return sum(range(200_000))

    with rg.profile(python=True) as p:
        slow()
        Net("numpy")(Tensor.ones(1, 160, device="numpy")).tolist()
    names = [span.name for span in p.host if span.kind == "python"]
    assert any(name.endswith("slow") for name in names) and {"Net", "Linear"} <= set(names)
    p.save(tmp_path / "profile.json")
    check_events(tmp_path / "profile.json")
    with rg.profile() as quiet:
        slow()
    assert not [span for span in quiet.host if span.kind == "python"]


def test_rows_have_numbers_in_the_order_of_their_spans() -> None:
    spans = [
        Span("inner", "host", 2.0, 0.25, {}),
        Span("outer", "host", 2.0, 1.0, {}),
        Span("k", "c", 2.5, 0.1, {}, "kernel"),
    ]
    found = events(spans, [])
    assert [event["name"] for event in found if event["ph"] == "X"] == ["outer", "inner", "k"]
    assert [event["args"]["name"] for event in found if event["name"] == "thread_name"] == ["host", "c"]
    assert [event["ts"] for event in found if event["ph"] == "X"] == pytest.approx([0.0, 0.0, 5e5])


def test_an_empty_profile(tmp_path: Path) -> None:
    with rg.profile(tmp_path / "profile.json", python=False) as p:
        pass
    assert [event["ph"] for event in check_events(tmp_path / "profile.json")] == ["M"]
    assert p.flame() == p.collapsed() == p.memory_table() == ""
