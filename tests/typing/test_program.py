"""A user's program passes mypy's strict mode, without help from this repository's settings."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import rulegrad

PROGRAM = Path(__file__).with_name("program.py")


def run_mypy(program: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={folder}", str(program)]
    # A checkout that is not installed is found by the path; an installed package is left to mypy.
    own = Path(rulegrad.__file__).parents[1]
    environment = {**os.environ, "MYPYPATH": "" if own.name == "site-packages" else str(own)}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)


def test_strict_types(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    done = run_mypy(PROGRAM, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = tmp_path / "wrong.py"
    wrong.write_text(PROGRAM.read_text(encoding="utf-8") + "\nvalue: int = Tensor([1]).sum()\n", encoding="utf-8")
    assert 'expression has type "Tensor", variable has type "int"' in run_mypy(wrong, tmp_path).stdout


def test_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(PROGRAM), run_name="__main__")
    assert float(capsys.readouterr().out) > 0
