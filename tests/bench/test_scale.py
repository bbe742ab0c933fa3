"""bench/scale.py: the machine that it writes, the schedule that it makes, and a run of two ranks."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rulegrad.workbench.scale.machine import load_machine

SCRIPT = Path(__file__).parents[2] / "bench" / "scale.py"


def test_what_was_measured_is_what_is_simulated(tmp_path: Path) -> None:
    """α of the slower collective, β of a shift; what an all-reduce takes longer is the rate at which it adds."""
    import scale

    measured = {"shift": (1e-6, 1e-9), "all_reduce": (2e-6, 4e-9), "memory_bandwidth": 2e12, "shared_bandwidth": 4e12}
    (tmp_path / "here.toml").write_text(scale.machine_file(measured, 2))
    machine = load_machine(tmp_path / "here.toml")
    assert (machine.processors, machine.overlaps) == (2, False)
    assert (machine.links[0].latency, machine.links[0].bandwidth) == (2e-6, 1e9)
    assert machine.memory_bandwidth == pytest.approx(3 / 3e-9)


def test_no_message_is_faster_than_memory(tmp_path: Path) -> None:
    """A line fitted through times that other work disturbed may fall with the size: its β is 0."""
    import scale

    measured = {"shift": (1e-6, 0.0), "all_reduce": (2e-6, 0.0), "memory_bandwidth": 2e10, "shared_bandwidth": 4e10}
    (tmp_path / "here.toml").write_text(scale.machine_file(measured, 2))
    machine = load_machine(tmp_path / "here.toml")
    assert (machine.links[0].bandwidth, machine.memory_bandwidth) == (2e10, 2e10)


def test_a_traced_step_sends_what_the_textbook_says() -> None:
    import scale

    schedule, sent = scale.traced("data", 2)
    parameters = 784 * 512 + 512 * 512 + 512 * 10 + 512 + 512 + 10
    assert sent == {"all_reduce": 4 * (parameters + 2)}  # and the loss, and how many targets count
    (event, *others) = (event for event in schedule.events if not event.is_kernel)
    assert event.bytes + sum(other.bytes for other in others) == sent["all_reduce"]


@pytest.mark.long_run
@pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or shutil.which("mpiexec") is None, reason='pip install "rulegrad[mpi]"'
)
def test_two_ranks() -> None:
    command = [sys.executable, str(SCRIPT), "--quick", "--json", "--kinds", "fully sharded", "--ranks", "1,2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [(row["kind"], row["ranks"]) for row in rows] == [("fully sharded", 1), ("fully sharded", 2)]
    for row in rows:
        assert row["simulated"] == pytest.approx((1 + row["error"]) * row["measured"])
        assert (row["collectives"] > 0) == (row["bytes sent"] > 0) == (row["ranks"] > 1)
