"""Checkpoints in parts: written on one number of devices, read on another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from networks import training_step

import rulegrad
from rulegrad import Tensor, nn, optim
from rulegrad.distributed import Mesh, fully_sharded, load_parts, placement, save_parts, shard

X = np.random.default_rng(1).random((12, 5), np.float32)
Y = np.random.default_rng(2).integers(0, 3, 12)


def training(devices: int) -> tuple[Mesh, nn.Module, optim.AdamW]:
    mesh = Mesh({"data": devices}, device=f"numpy*{devices}")
    rulegrad.manual_seed(devices)  # so that what is loaded is not what is there already
    model = fully_sharded(nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)), mesh)
    return mesh, model, optim.AdamW(model.parameters(), lr=0.05)


def steps(mesh: Mesh, model: nn.Module, optimizer: optim.AdamW, count: int) -> list[float]:
    x, y = shard(X, mesh, data=0), shard(Y, mesh, data=0)
    step = training_step(model, optimizer)
    return [step(x, y).item() for _ in range(count)]


@pytest.mark.parametrize("devices", [1, 2, 3, 4])
def test_a_run_goes_on_with_other_devices(devices: int, tmp_path: Path) -> None:
    mesh, model, optimizer = training(2)
    steps(mesh, model, optimizer, 2)
    save_parts({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "steps": 2}, tmp_path)
    expected = steps(mesh, model, optimizer, 3)

    mesh, model, optimizer = training(devices)
    found = load_parts(tmp_path)
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    assert found["steps"] == 2
    if devices > 1:
        for name, parameter in model.named_parameters():
            assert placement(parameter, mesh) != {}, name
    np.testing.assert_allclose(steps(mesh, model, optimizer, 3), expected, rtol=1e-5)


def test_a_second_checkpoint_takes_the_place_of_the_first(tmp_path: Path) -> None:
    x = shard([1.0, 2.0, 3.0], Mesh({"data": 2}, device="numpy*2"), data=0)
    save_parts({"x": x}, tmp_path)
    save_parts({"x": x * 2, "y": [Tensor([True]), None]}, tmp_path)
    found = load_parts(tmp_path)
    assert Tensor(found["x"]).tolist() == [2, 4, 6]
    assert Tensor(found["y"][0]).tolist() == [True]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "current"]


def test_an_unfinished_checkpoint_leaves_the_one_before(tmp_path: Path) -> None:
    save_parts({"x": Tensor([1.0])}, tmp_path)
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "rank-0.safetensors").write_bytes(b"cut off")
    assert Tensor(load_parts(tmp_path)["x"]).tolist() == [1]
    save_parts({"x": Tensor([5.0])}, tmp_path)
    assert Tensor(load_parts(tmp_path)["x"]).tolist() == [5]


def test_a_folder_without_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(rulegrad.errors.FileMissingError, match="has no checkpoint in parts"):
        load_parts(tmp_path)
