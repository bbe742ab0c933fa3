"""Early stopping, the progress bar, files of metrics, accumulated gradients, and the same losses on every device."""

from __future__ import annotations

import csv
import io
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, config, data, nn, optim, training
from rulegrad.errors import ConfigError, FileError


def test_early_stopping() -> None:
    stopping = training.EarlyStopping(patience=2, min_delta=0.5, mode="max")
    found = [(stopping.step(value), stopping.is_best) for value in (1.0, Tensor(1.4), 1.6, math.nan, 1.7)]
    assert found == [(False, True), (False, False), (False, True), (False, False), (True, False)]
    other = training.EarlyStopping(patience=2, min_delta=0.5, mode="max")
    other.load_state_dict(stopping.state_dict())
    assert other.best == 1.6 and other.step(0.0)
    with pytest.raises(ConfigError, match="patience=0"):
        training.EarlyStopping(patience=0)


def test_the_bar_shows_steps_values_and_memory() -> None:
    pytest.importorskip("tqdm")
    written = io.StringIO()
    bar = training.Progress(range(3), "epoch 1", interval=0.0, file=written)
    for k in bar:
        bar.show(loss=Tensor(0.5) / (k + 1), step=k)
    text = written.getvalue()
    assert "epoch 1: 100%" in text and "3/3" in text and "step/s" in text
    assert "loss=0.1667, step=2, peak" in text and "MiB" in text


def test_the_bar_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ConfigError, match="pip install tqdm"):
        training.Progress(range(3))
    assert list(training.Progress(range(3), disable=True)) == [0, 1, 2]


def test_a_table_goes_on_from_a_step(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    with training.Metrics(path) as metrics:
        for step in range(4):
            metrics.add(step, loss=Tensor(1.0 / (step + 1)), rate=0.5)
        with pytest.raises(ConfigError, match="accuracy, and the table has loss, rate"):
            metrics.add(4, accuracy=1.0)
    with path.open("a", encoding="utf-8") as file:
        file.write("4,0.")  # killed while it wrote
    with training.Metrics(path, from_step=2) as metrics:
        metrics.add(2, rate=0.25, loss=7.0)
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows == [["step", "loss", "rate"], ["0", "1.0", "0.5"], ["1", "0.5", "0.5"], ["2", "7.0", "0.25"]]
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FileError, match="not a table of metrics"):
        training.Metrics(tmp_path / "other.csv", from_step=1)
    with pytest.raises(ConfigError, match="a CSV file, a folder for tensorboard, or both"):
        training.Metrics()


def test_files_for_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    with training.Metrics(tensorboard=tmp_path / "board") as metrics:
        metrics.add(1, loss=0.5)
    (file,) = (tmp_path / "board").iterdir()
    assert "tfevents" in file.name and b"loss" in file.read_bytes()


def test_tensorboard_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ConfigError, match="pip install tensorboardX"):
        training.Metrics(tensorboard=tmp_path)


POINTS = np.random.default_rng(0).standard_normal((24, 5)).astype(np.float32)
LABELS = (POINTS[:, 0] > 0).astype(np.int64)


def small_model() -> nn.Sequential:
    Tensor.manual_seed(2)
    return nn.Sequential(nn.Linear(5, 16), nn.GELU(), nn.Linear(16, 2))


@pytest.mark.parametrize("captured", [False, True])
def test_gradients_that_are_accumulated_are_those_of_the_whole_batch(captured: bool) -> None:
    def trained(parts: int) -> list[Any]:
        model = small_model()
        optimizer = optim.SGD(model.parameters(), lr=0.5, momentum=0.9)

        def add(x: Tensor, y: Tensor) -> Tensor:
            return (nn.functional.cross_entropy(model(x), y) / parts).backward()

        run = rg.jit(add) if captured else add
        for _ in range(3):
            optimizer.zero_grad()
            for k in range(parts):
                run(Tensor(POINTS[k::parts]), Tensor(LABELS[k::parts]))
            optimizer.step()
        return [p.numpy() for p in model.parameters()]

    for found, expected in zip(trained(3), trained(1)):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def losses(device: str) -> list[float]:
    with config(device=device):
        model = nn.Sequential(small_model(), nn.Dropout(0.1))
        optimizer = optim.AdamW(model.parameters(), lr=0.02)
        loader = data.DataLoader(data.TensorDataset(POINTS, LABELS), batch_size=8, shuffle=True)
        found = []
        for _ in range(3):
            for x, y in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                found.append(loss.item())
        return found


def test_the_same_seed_gives_the_same_losses(device: str) -> None:
    """Bit for bit on one device, and to rounding on all."""
    found = losses(device)
    assert losses(device) == found and len(set(found)) == 9
    np.testing.assert_allclose(found, losses("numpy"), rtol=1e-5)


def test_on_c_too() -> None:
    try:
        found = losses("c")
    except rg.errors.DeviceError as error:
        pytest.skip(str(error))
    assert losses("c") == found
    np.testing.assert_allclose(found, losses("numpy"), rtol=1e-5)
