"""Captured functions as files: another process replays them without a trace, a pass or a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.errors import CaptureError, FileError, FileMissingError

PROGRAM = """
import sys
import numpy as np
import rulegrad as rg
from rulegrad import Tensor, nn, optim
from rulegrad.nn import functional as F

rg.config.device = sys.argv[2]
Tensor.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.3), nn.Linear(6, 3))
optimizer = optim.Adam(model.parameters(), lr=0.05)
masks = [Tensor(np.array([1.0, 0.0, 2.0], "float32"))]
runs = [0]

def step(x, y, scale=2.0):
    runs[0] += 1
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x) * masks[0] * scale + Tensor(np.arange(3.0, dtype="float32")), y)
    loss.backward()
    optimizer.step()
    return {"loss": loss, "step": (scale, x)}

def values(count):
    random = np.random.default_rng(1)
    return [step(Tensor(random.standard_normal((8, 4)).astype("float32")), Tensor(random.integers(0, 3, 8)))["loss"].item() for _ in range(count)]

random = np.random.default_rng(2)
x, y = Tensor(random.standard_normal((8, 4)).astype("float32")), Tensor(random.integers(0, 3, 8))
step(x, y)  # which makes the moments
step = rg.jit(step)
"""

SAVING = """
first = values(1)
step.save(sys.argv[1])
print(first + values(3))
"""

LOADING = """
import rulegrad.engine, rulegrad.compile.schedule
def refuse(*_, **__):
    raise AssertionError("a pass runs")
step.load(sys.argv[1])
from rulegrad.runtime import devices
device = devices.get(sys.argv[2])
if hasattr(device, "_programs"):
    device._programs._make = refuse
rulegrad.engine.run_all = refuse
before = runs[0]
first = values(1)
print(first + values(3))
assert runs[0] == before and step.reasons() == [], step.reasons()
"""


def in_a_process(text: str, folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "RULEGRAD_CACHE": str(folder)}
    script = folder / "program.py"
    script.write_text(PROGRAM + text, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("device", ["numpy", "c"])
def test_a_training_step_in_another_process(device: str, tmp_path: Path) -> None:
    path, folders = tmp_path / "step.captured", [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir(mode=0o700)
    saved = in_a_process(SAVING, folders[0], str(path), device)
    loaded = in_a_process(LOADING, folders[1], str(path), device)
    np.testing.assert_allclose(eval(saved), eval(loaded), 1e-5)


def scaled(x: Tensor, factor: float = 2.0) -> Any:
    return {"x": x * factor, "same": [x, factor]}


def test_a_function_without_state(tmp_path: Path) -> None:
    path = tmp_path / "scaled"
    f = rg.jit(scaled)
    f(Tensor([1.0, 2.0])), f(Tensor([1.0]), 3.0)
    f.save(path)
    g = rg.jit(scaled)
    g.load(path)
    x = Tensor([5.0, 6.0])
    found = g(x)
    assert found["x"].tolist() == [10, 12] and found["same"][0] is x and found["same"][1] == 2.0
    assert g(Tensor([1.0]), 3.0)["x"].tolist() == [3] and g.reasons() == []
    assert g(Tensor([1.0]), 4.0)["x"].tolist() == [4] and len(g.reasons()) == 1


def test_gradients_flow_through_what_was_loaded(tmp_path: Path) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    f = rg.jit(lambda x: (x * w).square())
    f(Tensor([1.0, 1.0]))
    f.save(tmp_path / "f")
    f._captured.clear()
    f.load(tmp_path / "f")
    f(Tensor([1.0, 3.0])).sum().backward()
    assert w.grad.tolist() == [2, 36] and len(f.reasons()) == 1


def test_differences_are_errors_that_name_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, box = tmp_path / "f", {"w": Tensor([1.0, 2.0])}
    factor = 2.0

    def body(x: Tensor) -> Tensor:
        return x * box["w"] * factor

    f = rg.jit(body)
    with pytest.raises(CaptureError, match="has no captures; call it first"):
        f.save(path)
    f(Tensor([1.0, 1.0]))
    f.save(path)
    box["w"] = Tensor([1.0, 2.0, 3.0])
    with pytest.raises(CaptureError, match=r"box\['w'\] is \(\(3,\)"):
        f.load(path)
    held = box.pop("w")
    with pytest.raises(CaptureError, match=r"needs the tensor box\['w'\], which is not there"):
        f.load(path)
    box["w"] = held[:2].clone()
    factor = 3.0
    with pytest.raises(CaptureError, match=r"another factor: 2.0 there, 3.0 here"):
        f.load(path)
    factor = 2.0
    monkeypatch.setattr("rulegrad.capture.files.__version__", "9.9")
    with pytest.raises(CaptureError, match="another version: '0.1.0' there, '9.9' here; capture and save it again"):
        f.load(path)
    monkeypatch.undo()
    with pytest.raises(CaptureError, match="another code of the function"):
        rg.jit(lambda x: x * box["w"]).load(path)
    f.load(path)
    assert f(Tensor([1.0, 1.0])).tolist() == [2, 4] and len(f.reasons()) == 1


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    f = rg.jit(scaled)
    with pytest.raises(FileMissingError, match="there is no file"):
        f.load(tmp_path / "none")
    (tmp_path / "text").write_text("text")
    with pytest.raises(FileError, match="is not a captured function"):
        f.load(tmp_path / "text")
    f(Tensor([1.0]))
    f.save(tmp_path / "f")
    data = (tmp_path / "f").read_bytes()
    (tmp_path / "cut").write_bytes(data[: len(data) // 2])
    with pytest.raises(FileError, match="is damaged"):
        f.load(tmp_path / "cut")
    with pytest.raises(FileError, match="cannot be written"):
        f.save(tmp_path / "none" / "f")


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    f = rg.jit(lambda x: x * rg.each_call(lambda: Tensor([1.0])))
    f(Tensor([1.0]))
    with pytest.raises(CaptureError, match="each_call with a function of its own"):
        f.save(tmp_path / "f")
    g = rg.jit(lambda model, x: model(x))
    model = nn.Linear(2, 2)
    g(model, Tensor([[1.0, 2.0]]))
    with pytest.raises(CaptureError, match="told apart by identity"):
        g.save(tmp_path / "g")
    h = rg.jit(lambda x: (x, lambda: 1))
    h(Tensor([1.0]))
    with pytest.raises(CaptureError, match="cannot be written to a file"):
        h.save(tmp_path / "h")
