"""SciPy and scikit-learn take arrays of ours where they take PyTorch's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_no_call_works_with_pytorch_only() -> None:
    for name in ("scipy", "sklearn", "torch"):
        pytest.importorskip(name)
    command = [sys.executable, "clients.py", "--only", "cluster"]
    done = subprocess.run(command, cwd=ROOT / "bench", capture_output=True, text=True, check=True, timeout=300)
    row = next(line for line in done.stdout.splitlines() if line.startswith("| cluster "))
    calls, ours, _ = (int(cell) for cell in row.strip("|").split("|")[1:])
    assert ours == calls >= 13
    assert done.stdout.strip().endswith("none")
