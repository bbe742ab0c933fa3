"""Ranks with a GPU each: collectives of plans are NCCL's, on the GPUs' memory, and nothing goes through the host."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks import training_step

import rulegrad
from rulegrad import Tensor, nn, optim
from rulegrad.communication.mpi import INSTALL

PROGRAM = Path(__file__).with_name("rank_nccl.py")
pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason=INSTALL),
    pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="the pretend GPU needs a compiler"),
]


@functools.cache
def trained(kind: str, how: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "rulegrad", "launch", "-n", "2", str(PROGRAM), kind, how]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@functools.cache
def alone() -> list[float]:
    """The losses of the same steps on the interpreter."""
    rulegrad.manual_seed(1)
    with rulegrad.config(device="numpy"):
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
        optimizer = optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
        random = np.random.default_rng(2)
        x, y = Tensor(random.random((8, 6), np.float32)), Tensor(random.integers(0, 4, 8))
        step = training_step(model, optimizer)
        losses = [step(x, y).item() for _ in range(4)]
    return losses


@pytest.mark.parametrize(
    ("kind", "how"), [("data", "captured"), pytest.param("fully", "eager", marks=pytest.mark.long_run)]
)
def test_training(kind: str, how: str) -> None:
    found = trained(kind, how)
    assert found["losses"] == pytest.approx(alone(), rel=1e-5)
    assert found["host"] == [] and found["copies"] == 2  # the loss that is read, and the flags of its index check
    # the loss with how many targets count, and each parameter's gradient: put on the stream as one
    reduced = {"allreduce": 2} if kind == "fully" else {"allreduce": 6}
    parts = {"allgather": 4, "reduce_scatter": 4} if kind == "fully" else {}
    assert Counter(found["calls"]) == {**reduced, **parts}
    gradients = 4 * (6 * 8 + 8 + 8 * 4 + 4)
    halves = {"all_gather": gradients / 2, "reduce_scatter": gradients / 2, "all_reduce": 8}
    assert found["sent"] == (halves if kind == "fully" else {"all_reduce": gradients + 8})


def test_a_shift() -> None:
    assert trained("data", "captured")["rolled"] == [4, 5, 6, 7, 0, 1, 2, 3]
