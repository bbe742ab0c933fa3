"""Ranks have their random numbers in common, and are told of arrays and meshes that they have not."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rulegrad.communication.mpi import INSTALL
from rulegrad.workbench.tools import launch

PROGRAM = Path(__file__).with_name("rank_agreement.py")
pytestmark = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason=INSTALL)
LAUNCHER = (sys.executable, "-m", "rulegrad", "launch", "-n", "2")


def run(what: str, *starter: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "RULEGRAD_DEVICE": "numpy"}
    line = [*(starter or LAUNCHER), str(PROGRAM), what]
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("is_launched", [True, False])
def test_random_numbers_that_nobody_seeded_are_the_same_on_all_ranks(is_launched: bool) -> None:
    done = run("fine", *(() if is_launched else (launch.mpiexec(), "-n", "2", sys.executable)))
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == second
    assert run("fine").stdout.splitlines()[0] != first  # another run has others


#: What is said of what is not the same, in lines of their own.
REFUSED = {
    "seeds": ("the parameters of a module (call manual_seed, or make the mesh, before the module; or load one file",),
    "shapes": (
        "rank 0 shard of float32 (6, 4) along {'data': 0}\n",
        "rank 1 shard of float32 (5, 4) along {'data': 0}\n",
    ),
    "tensors": (
        "rank 0 shard of float32 (6, 4) along {'data': 0}\n",
        "rank 1 shard of float32 (5, 4) along {'data': 0}\n",
    ),
    "meshes": ("rank 0 a mesh of {'a': 2, 'b': 1}\n", "rank 1 a mesh of {'a': 1, 'b': 2}\n"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_the_same_on_all_ranks(what: str) -> None:
    done = run(what)
    assert done.returncode == 1
    assert all(text in done.stderr for text in REFUSED[what]), done.stderr
    assert done.stderr.count("rulegrad: ") == 1, done.stderr
