"""Training on ranks that are processes: losses of one, the bytes that the textbook says, and no more memory than that."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rulegrad.communication.mpi import INSTALL

PROGRAM = Path(__file__).with_name("rank_training.py")
pytestmark = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason=INSTALL)
PARAMETERS = 4 * (6 * 8 + 8 + 8 * 4 + 4)  # bytes


@functools.cache
def trained(ranks: int, kind: str, how: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "rulegrad", "launch", "-n", str(ranks), str(PROGRAM), kind, how]
    environment = {**os.environ, "RULEGRAD_DEVICE": "c" if how == "captured" else "numpy"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.each_value
@pytest.mark.parametrize("how", ["eager", "captured"])
@pytest.mark.parametrize("kind", ["data", "fully"])
def test_losses_and_bytes_of_two_ranks(kind: str, how: str) -> None:
    one, two = trained(1, "data", how), trained(2, kind, how)
    assert two["losses"] == pytest.approx(one["losses"], rel=1e-5)
    assert two["losses"][-1] < two["losses"][0]
    of_numbers = two["sent"].get("all_reduce", 0)
    if kind == "data":  # 2 (p - 1) / p of the gradients, and two numbers: the loss, and how many targets count
        assert PARAMETERS <= of_numbers <= PARAMETERS + 16
        assert set(two["sent"]) == {"all_reduce"}
    else:  # (p - 1) / p of the parameters, and of the gradients
        assert two["sent"]["all_gather"] == PARAMETERS / 2
        assert two["sent"]["reduce_scatter"] == PARAMETERS / 2
        assert of_numbers <= 16


@pytest.mark.parametrize("how", [pytest.param("eager", marks=pytest.mark.long_run), "captured"])
def test_stages_on_two_ranks(how: str) -> None:
    one, two = trained(1, "pipeline", how), trained(2, "pipeline", how)
    assert two["losses"] == pytest.approx(one["losses"], rel=2e-5)
    assert two["losses"][-1] < two["losses"][0]
    micro_batch, ticks = 4 * 2 * 6, 4 + 2 - 1
    assert two["sent"]["shift"] == 2 * (ticks - 1) * micro_batch
    assert two["sent"]["all_reduce"] == 4 * 8 * 6  # what the last stage made, summed over two ranks
    assert not any(count for kind, count in two["sent"].items() if kind not in ("shift", "all_reduce"))
    of_blocks, of_head = 4 * 2 * (6 * 6 + 6), 4 * (6 * 4 + 4)
    assert two["whole"] == 3 * (of_blocks + of_head)
    assert two["kept"] == 3 * (of_blocks / 2 + of_head)


def test_fully_sharded_ranks_keep_their_parts_only() -> None:
    two = trained(2, "fully", "eager")
    assert two["whole"] == 3 * PARAMETERS
    assert two["kept"] == two["whole"] / 2
