"""The benchmark of collectives: small arrays, two ranks, and what it fits."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from rulegrad.communication.mpi import INSTALL

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason=INSTALL)
def test_it_measures_and_fits(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    command = [sys.executable, str(BENCH / "communication.py"), "--quick", "--json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    assert found["ranks"] == 2
    assert set(found["collectives"]) == {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "shift"}
    for kind in found["collectives"].values():
        assert kind["alpha"] > 0 and kind["beta"] >= 0 and len(kind["points"]) == 3
        assert all(point["rulegrad"] > 0 and point["mpi4py"] > 0 for point in kind["points"])


def test_a_line_is_fitted() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(BENCH)!r})\n"
        "import communication\n"
        "points = [{'bytes': n, 'rulegrad': 2e-6 + n * 1e-9} for n in (0, 100, 10000, 1000000)]\n"
        "alpha, beta = communication.fit(points, 'rulegrad')\n"
        "assert abs(alpha - 2e-6) < 1e-12 and abs(beta - 1e-9) < 1e-15, (alpha, beta)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
