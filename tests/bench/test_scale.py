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
from rulegrad.workbench.scale.simulation import simulate

SCRIPT = Path(__file__).parents[2] / "bench" / "scale.py"


def test_what_was_measured_is_what_is_simulated(tmp_path: Path) -> None:
    import scale

    links = {"latency": 1e-6, "bandwidth": 1e9, "memory_bandwidth": 2e12, "shared_bandwidth": 4e12}
    (tmp_path / "here.toml").write_text(scale.machine_file(links, 2))
    machine = load_machine(tmp_path / "here.toml")
    assert (machine.processors, machine.overlaps, machine.links[0].bandwidth) == (2, False, 1e9)
    schedule = scale.schedule_of({"gradients": 0.5, "pack": 0.25, "update": 0.125})
    assert simulate(schedule, machine).seconds == pytest.approx(0.875)
    (event,) = (event for event in schedule.events if not event.is_kernel)
    assert event.bytes == 4 * (784 * 512 + 512 * 512 + 512 * 10)


@pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or shutil.which("mpiexec") is None, reason='pip install "rulegrad[mpi]"'
)
def test_two_ranks() -> None:
    command = [sys.executable, str(SCRIPT), "--quick", "--json", "--ranks", "1,2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["ranks"] for row in rows] == [1, 2]
    for row in rows:
        assert row["simulated"] == pytest.approx((1 + row["error"]) * row["measured"])
    assert rows[0]["simulated all-reduce"] == 0 < rows[1]["simulated all-reduce"]
