"""A run whose rank is killed goes on from its last checkpoint: bit for bit, where the number of ranks is the same."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from rulegrad.communication.mpi import INSTALL
from rulegrad.distributed import load_parts

PROGRAM = Path(__file__).with_name("rank_checkpoint.py")
pytestmark = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason=INSTALL)
STEPS, KILLED_IN = 5, 3  # of the program


def run(ranks: int, folder: Path | str, killed: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rulegrad", "launch", "-n", str(ranks), str(PROGRAM), str(folder), killed]
    environment = {**os.environ, "RULEGRAD_DEVICE": "numpy"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


@functools.cache
def undisturbed() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        done = run(2, folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.each_value
@pytest.mark.parametrize("killed", ["writing", "training"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_killed_run_goes_on(killed: str, ranks: int, tmp_path: Path) -> None:
    ended = run(2, tmp_path, killed)
    assert ended.returncode == 137
    assert "rulegrad: rank 1 (process" in ended.stderr, ended.stderr
    assert load_parts(tmp_path)["steps"] == KILLED_IN  # complete, whatever was being written
    again = run(ranks, tmp_path)
    assert again.returncode == 0, again.stderr
    found, expected = json.loads(again.stdout), undisturbed()
    assert found["first"] == KILLED_IN
    if ranks == 2:
        assert found["losses"] == expected["losses"][KILLED_IN:]
        assert found["weights"] == expected["weights"]
    else:
        assert found["losses"] == pytest.approx(expected["losses"][KILLED_IN:], rel=1e-5)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [str(STEPS), "current"]  # the piece of a checkpoint is gone too
