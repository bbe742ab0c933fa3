"""A user's program passes mypy's strict mode, without help from this repository's settings."""

from __future__ import annotations

import hashlib
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import rulegrad

PROGRAM = Path(__file__).with_name("program.py")


def test_strict_types(tmp_path: Path) -> None:
    """The program has no error; the same with a mistake in its last line has one, so that mypy knows our types."""
    pytest.importorskip("mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(PROGRAM.read_text(encoding="utf-8") + "\nvalue: int = Tensor([1]).sum()\n", encoding="utf-8")
    # A checkout that is not installed is found by the path; an installed package is left to mypy.
    own = Path(rulegrad.__file__).parents[1]
    environment = {**os.environ, "MYPYPATH": "" if own.name == "site-packages" else str(own)}
    cache = Path(os.environ["RULEGRAD_CACHE"]) / f"mypy-{hashlib.sha256(str(own).encode()).hexdigest()[:16]}"
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}"]
    done = subprocess.run(
        [*command, str(PROGRAM), str(wrong)], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    error, summary = done.stdout.splitlines()
    assert error.startswith("wrong.py:") and 'expression has type "Tensor", variable has type "int"' in error
    assert summary == "Found 1 error in 1 file (checked 2 source files)"


def test_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(PROGRAM), run_name="__main__")
    assert float(capsys.readouterr().out) > 0
