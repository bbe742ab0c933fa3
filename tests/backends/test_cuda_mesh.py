"""Several GPUs in one process, on a pretend driver that refuses what belongs to another device."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn, optim
from rulegrad.config import config
from rulegrad.distributed import Mesh, data_parallel, fully_sharded, shard
from rulegrad.runtime import devices
from rulegrad.runtime.backends import backend

X = np.random.default_rng(3).normal(size=(7, 6)).astype(np.float32)
Y = np.arange(7) % 4


def losses(mesh: Mesh | None, place: Any = data_parallel, is_captured: bool = False) -> list[float]:
    """Of three steps of training on a mesh, or on the interpreter."""
    rg.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
    if mesh is None:
        model, x, y = model.to("numpy"), Tensor(X, device="numpy"), Tensor(Y, device="numpy")
    else:
        model, x, y = place(model, mesh), shard(X, mesh, data=0), shard(Y, mesh, data=0)
    optimizer = optim.SGD(model.parameters(), lr=0.5, momentum=0.9)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x).cross_entropy(y)
        loss.backward()
        optimizer.step()
        return loss

    run = rg.jit(step) if is_captured else step
    return [run(x, y).item() for _ in range(4)]


@pytest.fixture
def gpus(fake: Any) -> Any:
    """A pretend driver of three GPUs, which do nothing before somebody waits."""
    fake.driver.count, fake.driver.is_lazy = 3, True
    return fake


@pytest.mark.parametrize(
    ("place", "count", "is_captured"),
    [
        pytest.param(data_parallel, 3, False, marks=pytest.mark.long_run),
        (fully_sharded, 3, True),
        pytest.param(data_parallel, 2, True, marks=pytest.mark.long_run),
        pytest.param(fully_sharded, 2, False, marks=pytest.mark.long_run),
    ],
)
def test_training_on_several_gpus(gpus: Any, place: Any, count: int, is_captured: bool) -> None:
    mesh = Mesh({"data": count}, devices=[f"cuda:{k}" for k in range(count)])
    assert mesh.device == "+".join(f"cuda:{k}" for k in range(count))
    np.testing.assert_allclose(losses(mesh, place, is_captured), losses(None), rtol=1e-5)


def test_kernels_of_several_gpus_are_compiled_once(gpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = importlib.import_module(f"{backend('cuda').module.__package__}.programs")
    programs._recent.clear()
    without_disk = SimpleNamespace(get=lambda kind, key: None, put=lambda kind, key, value: None)
    monkeypatch.setattr(programs, "shared", lambda: without_disk)
    x = shard(X, Mesh({"data": 3}, devices=["cuda:0", "cuda:1", "cuda:2"]), data=0)
    before = gpus.compiler.compiled
    y = (x * 2.5).exp().realize()
    launched = [entry[1:] for entry in gpus.driver.order if entry[0] == "launch"][-3:]
    assert len({stream for stream, _ in launched}) == 3  # one of each device
    assert len({name for _, name in launched}) == 1
    assert gpus.compiler.compiled - before == 1
    np.testing.assert_allclose(y.numpy(), np.exp(X * 2.5), rtol=1e-5)


def test_a_mesh_takes_the_gpus_that_there_are(gpus: Any) -> None:
    with config(device="cuda:1"):
        assert Mesh({"data": 2}).device == "cuda:1+cuda:0"
        assert Mesh({"data": 3}).device == "cuda:1+cuda:0+cuda:2"
        assert Mesh({"data": 4}).device == "cuda:1*4"  # of which the first has all parts
        assert Mesh({"data": 1}).device == "cuda:1"


def test_memory_of_several_gpus(gpus: Any) -> None:
    both: Any = devices.get("cuda:0+cuda:1")
    assert both.memory == devices.get("cuda:0").memory
    assert devices.get("cuda:0*2").memory == both.memory // 2
