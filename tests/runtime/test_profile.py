"""Profiles: what is recorded, and the line of DEBUG=2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rulegrad.config import config
from rulegrad.ir import UOp
from rulegrad.runtime.kernel import Kernel
from rulegrad.runtime.profile import KernelRecord, launch, profile, record_launch

KERNEL = Kernel("add_8", UOp("SINK", ()), "the source", (8,), (), 2, 2_000_000, 3_000_000, "file.py:12")


class FakeExecutable:
    """Says that it took a millisecond."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, bool]] = []

    def __call__(self, handles: Any, wait: bool = False) -> float | None:
        self.calls.append((handles, wait))
        return 1e-3 if wait else None


def test_nothing_waits_without_a_profile() -> None:
    executable = FakeExecutable()
    with config(debug=0):
        launch(executable, [1, 2], KERNEL, "numpy")
    assert executable.calls == [([1, 2], False)]


def test_records() -> None:
    executable = FakeExecutable()
    with profile() as outer, profile() as inner:
        launch(executable, [], KERNEL, "numpy")
    with outer:
        launch(executable, [], KERNEL, "numpy")
    assert len(inner.kernels) == 1 and len(outer.kernels) == 2 and executable.calls[0][1]
    record = inner.kernels[0]
    assert (record.name, record.device, record.seconds, record.source) == ("add_8", "numpy", 1e-3, "the source")
    assert (record.flops, record.nbytes, record.user_line) == (2_000_000, 3_000_000, "file.py:12")
    assert record.gflops == pytest.approx(2) and record.gigabytes_per_second == pytest.approx(3)
    assert outer.seconds == pytest.approx(2e-3)
    assert outer.kernels[1].number == outer.kernels[0].number + 1


def test_the_line(capfd: pytest.CaptureFixture[str]) -> None:
    with config(debug=2):
        launch(FakeExecutable(), [], KERNEL, "opencl:0")
    (line,) = capfd.readouterr().err.splitlines()
    for part in ("add_8", "opencl:0", "1.00 ms", "2.00 GFLOP/s", "3.00 GB/s", "file.py:12"):
        assert part in line


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.50 s"), (0.0123, "12.30 ms"), (45e-6, "45.00 us"), (7e-9, "7 ns"), (0, "0 ns")]
)
def test_durations(seconds: float, text: str) -> None:
    record = KernelRecord(1, "k", "numpy", 0.0, seconds, 10, 10, "", "")
    assert f" {text} " in str(record)


def kernels_in(path: Path) -> list[dict[str, Any]]:
    return [event for event in json.loads(path.read_text())["traceEvents"] if event.get("cat") == "kernel"]


def test_the_timeline(tmp_path: Path) -> None:
    with profile() as p:
        launch(FakeExecutable(), [], KERNEL, "numpy")
    p.save(tmp_path / "trace.json")
    (event,) = kernels_in(tmp_path / "trace.json")
    assert event["name"] == "add_8" and event["dur"] == pytest.approx(1000) and event["ph"] == "X"
    assert event["args"]["user_line"] == "file.py:12"


def test_collectives_have_a_row_of_their_own_and_count_while_nothing_else_runs() -> None:
    with profile() as p:
        launch(FakeExecutable(), [], KERNEL, "numpy")
        record_launch(KERNEL, "numpy", 1.0, 0.004, exposed=0.001)
    assert [span.row for span in p.spans() if span.kind in ("kernel", "collective")] == [
        "numpy", "collectives of numpy",
    ]  # fmt: skip
    assert p.hidden == pytest.approx(0.75) and p.seconds == pytest.approx(p.kernels[0].seconds + 0.001)
    assert str(p).splitlines()[-1] == "collectives: 4.00 ms under way, 75% of it beside kernels"
