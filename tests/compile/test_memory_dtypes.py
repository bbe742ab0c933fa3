"""Memory has one dtype in a program, whatever ops take it: those of a user's file too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

RULES = Path(__file__).with_name("staged.rules")
PROGRAM = """
import numpy as np
from rulegrad import Tensor

for dtype in ("bfloat16", "float16", "float8_e5m2", "float32"):
    x = Tensor([1.5, 2.5, -3.0, 0.125], dtype=dtype, device="c")
    y = Tensor([1.5, 2.5, -3.0, 0.125], dtype=dtype, device="numpy")
    for f in (lambda t: t * t.flip(0) + 1, lambda t: (t * 2).sum()):
        assert f(x).tolist() == f(y).tolist(), dtype
print("same values")
"""


def run(rules: Path) -> subprocess.CompletedProcess[str]:
    """A program in which everything that is read goes through the buffers of a unit that the rules declare."""
    environment = {**os.environ, "RULEGRAD_RULES": str(rules), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_ops_of_a_user_that_take_small_floats() -> None:
    done = run(RULES)
    assert done.stdout == "same values\n", done.stderr


def test_memory_with_two_dtypes_is_an_error(tmp_path: Path) -> None:
    """An op that does not say that it takes memory would have a buffer of its own."""
    rules = tmp_path / "staged.rules"
    rules.write_text(RULES.read_text(encoding="utf-8").replace("    class     Access\n", "", 1), encoding="utf-8")
    done = run(rules)
    message = done.stderr.splitlines()[-1]
    assert "with two dtypes" in message and "uint16 for FETCH and bfloat16 for STAGE_IN" in message
    assert "class Access" in message
