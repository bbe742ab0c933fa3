"""Runs that are killed and go on end with the same weights, bit for bit."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn, optim, training
from rulegrad.errors import ConfigError, FileError

RUN = Path(__file__).with_name("resumed_run.py")


def started(folder: Path, workers: int, captured: str) -> subprocess.Popen[str]:
    arguments = [str(folder / "run.checkpoint"), str(folder / "weights.safetensors"), str(workers), captured]
    return subprocess.Popen(
        [sys.executable, str(RUN), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RULEGRAD_DEVICE": "numpy"},
    )


def finished(program: subprocess.Popen[str]) -> None:
    _, errors = program.communicate(timeout=240)
    assert program.returncode == 0, errors[-3000:]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize(
    ("workers", "captured"), [pytest.param(0, "eager", marks=pytest.mark.long_run), (2, "captured")]
)
def test_a_run_that_is_killed_ends_with_the_same_weights(tmp_path: Path, workers: int, captured: str) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    finished(started(whole, workers, captured))
    # At random steps of random lengths: in the middle of a step, of a save, or of the loader's work.
    chance = random.Random(workers)
    steps_seen = 0
    for _ in range(3):
        program = started(killed, workers, captured)
        assert program.stdout is not None
        for _ in range(chance.randint(2, 6)):
            steps_seen += bool(program.stdout.readline())
        try:
            program.wait(chance.random() * 0.1)
        except subprocess.TimeoutExpired:
            program.send_signal(signal.SIGKILL)
        program.communicate(timeout=60)
        assert program.returncode == -signal.SIGKILL
    assert steps_seen >= 6
    finished(started(killed, workers, captured))
    first, second = (nn.state.safe_load(folder / "weights.safetensors") for folder in (whole, killed))
    assert first.keys() == second.keys() and len(first) > 15
    for name, tensor in first.items():
        assert tensor.numpy().tobytes() == second[name].numpy().tobytes(), name
    assert not list(killed.glob("weights*.part"))


def test_a_file_that_cannot_take_its_place_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.checkpoint"
    rg.save({"x": Tensor([1.0])}, path)

    def fails(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fails)
        with pytest.raises(FileError, match="the disk is full"):
            rg.save({"x": Tensor([2.0])}, path)
    assert rg.load(path)["x"].tolist() == [1.0]
    assert [found.name for found in tmp_path.iterdir()] == ["run.checkpoint"]


def test_random_numbers_of_python_and_numpy_go_on(tmp_path: Path) -> None:
    checkpoint = training.Checkpoint(tmp_path / "run.checkpoint", stopping=training.EarlyStopping())
    random.gauss(0.0, 1.0), np.random.standard_normal()
    checkpoint.save(step=1)
    drawn = [random.gauss(0.0, 1.0), np.random.standard_normal(3).tolist(), Tensor.rand(2).tolist()]
    assert checkpoint.load() == {"step": 1}
    assert [random.gauss(0.0, 1.0), np.random.standard_normal(3).tolist(), Tensor.rand(2).tolist()] == drawn


def test_mistakes(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    path = tmp_path / "run.checkpoint"
    with pytest.raises(ConfigError, match="step is a int, which has no state_dict"):
        training.Checkpoint(path, step=3)
    training.Checkpoint(path, model=model).save()
    with pytest.raises(FileError, match="has the parts model, and the checkpoint model, optimizer"):
        training.Checkpoint(path, model=model, optimizer=optim.SGD(model.parameters(), lr=0.1)).load()
    rg.save({"weight": Tensor([1.0])}, path)
    with pytest.raises(FileError, match="is not the checkpoint of a run"):
        training.Checkpoint(path, model=model).load()
