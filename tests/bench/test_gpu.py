"""The benchmark of GPUs, without one: it says what it needs, and its cases compute what NumPy computes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"


def test_without_a_gpu_it_says_what_it_needs() -> None:
    command = [sys.executable, str(BENCH / "gpu.py"), "--device", "cuda:99"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("bench/gpu.py cannot run here: there is no device 'cuda:99'")


def test_its_cases_are_right_on_another_device() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(BENCH)!r})\n"
        "import gpu\n"
        "for case in gpu.cases(32, 48):\n"
        "    result = gpu.measured(case, 'numpy', None)\n"
        "    assert not result.problem, (case.name, result.problem)\n"
        "    assert result.kernels >= 1 and result.nbytes > 0 and result.share is None\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
