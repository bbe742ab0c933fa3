"""Captured functions of tensors on a mesh: gradients through them, files, tensors that lie otherwise than in the trace."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad
from rulegrad import Tensor, nn, optim
from rulegrad.communication.mpi import INSTALL
from rulegrad.distributed import Mesh, fully_sharded, placement, shard
from rulegrad.errors import CaptureError

_random = np.random.default_rng(3)
X = _random.random((7, 5), np.float32)
W = _random.random((5, 3), np.float32)
DEVICES = ("numpy", "c")


def layer(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).tanh().sum(1) * Tensor(np.arange(7, dtype=np.float32), device=x.device)


def gradients(function: Any, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x.requires_grad_(), w.requires_grad_()
    y = function(x, w)
    (y * y).sum().backward()
    assert x.grad is not None and w.grad is not None
    return y, x.grad, w.grad


@pytest.mark.each_value
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("axes", [{}, {"a": 0}, {"a": 1}, {"a": 1, "b": 0}])
def test_gradients_go_through_a_captured_function(device: str, axes: dict[str, int]) -> None:
    expected = gradients(layer, Tensor(X, device="numpy"), Tensor(W, device="numpy"))
    mesh = Mesh({"a": 2, "b": 2}, device=f"{device}*4")
    captured = rulegrad.jit(layer)
    for split in ({"a": 0}, {"b": 0}, {"b": 1}):
        x, w = shard(X, mesh, **split), shard(W, mesh, **axes)
        for one, other in zip(gradients(captured, x, w), expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5)
        assert x.grad is not None and placement(x.grad, mesh) == split
        assert w.grad is not None and placement(w.grad, mesh).items() >= axes.items()


def test_a_gradient_that_lies_otherwise_than_the_result() -> None:
    mesh = Mesh({"a": 2}, device="c*2")
    whole = Tensor(W, device="c", requires_grad=True)
    (whole.exp() * Tensor(W, device="c")).sum().backward()
    for result, other in (({"a": 0}, {"a": 1}), ({}, {"a": 0}), ({"a": 1}, {})):
        w = shard(W, mesh, **result).requires_grad_()
        y = rulegrad.jit(lambda w: w.exp())(w)
        y.backward(shard(W, mesh, **other))
        assert w.grad is not None and whole.grad is not None
        np.testing.assert_allclose(w.grad.numpy(), whole.grad.numpy(), rtol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_an_argument_that_lies_otherwise_is_another_trace(device: str) -> None:
    mesh = Mesh({"a": 2}, device=f"{device}*2")
    double = rulegrad.jit(lambda x: x * 2)
    for axes in ({"a": 0}, {}, {"a": 1}, {"a": 0}, {}):
        assert double(shard(X, mesh, **axes)).tolist() == (X * 2).tolist()
    assert len(double.reasons()) == 3
    assert double.reasons()[-1] == "a tensor that it reads lies on the devices of a mesh in another way now"


def test_a_state_that_lies_otherwise_is_another_trace() -> None:
    mesh = Mesh({"a": 2}, device="c*2")
    state = [shard(X, mesh, a=0)]
    double = rulegrad.jit(lambda: state[0] * 2)
    assert double().tolist() == (X * 2).tolist()
    state[0].assign(shard(X + 1, mesh, a=1))
    assert double().tolist() == ((X + 1) * 2).tolist()


def test_arrays_that_a_function_places_are_constants() -> None:
    mesh = Mesh({"a": 2}, device="c*2")
    add = rulegrad.jit(lambda x: x + shard(X, mesh, a=0))
    for k in range(3):
        assert add(shard(X + k, mesh, a=1)).tolist() == (X + k + X).tolist()
    assert len(add.reasons()) == 1


@pytest.mark.parametrize("dynamic", [True, {"x": {0: rulegrad.Variable("n", 1, 64)}}])
def test_dynamic_sizes_in_parts_are_traced_one_by_one(dynamic: Any) -> None:
    mesh = Mesh({"a": 2}, device="c*2")
    w = shard(W, mesh, a=0)
    function = rulegrad.jit(lambda x: x @ w, dynamic=dynamic)
    for count in (4, 3, 7, 4):
        x = X[:count]
        for axes in ({}, {"a": 0}):
            np.testing.assert_allclose(function(shard(x, mesh, **axes)).numpy(), x @ W, rtol=1e-5)
    assert "for these sizes only, as tensors are in parts on a mesh" in function.reasons()[0]


def test_sizes_that_vary_with_general_plans() -> None:
    mesh = Mesh({"a": 2}, device="c*2")
    w = shard(W, mesh, a=0)
    with rulegrad.config(general_plans=1):
        for count in (4, 3, 7, 5):
            x = shard(X[:count], mesh, a=0)
            np.testing.assert_allclose((x @ w).tanh().numpy(), np.tanh(X[:count] @ W), rtol=1e-5)


# ---- files ----


class Run:
    """A captured training step, fully sharded."""

    def __init__(self, device: str, **sizes: int) -> None:
        self.mesh = Mesh(sizes, device=f"{device}*{np.prod(list(sizes.values()))}")
        rulegrad.manual_seed(1)
        self.model = fully_sharded(nn.Linear(5, 3).to(self.mesh.device), self.mesh)
        self.optimizer = optim.AdamW(self.model.parameters(), lr=0.05)

        def step(x: Tensor) -> Tensor:
            self.optimizer.zero_grad()
            y = self.model(x) * shard(np.arange(7, dtype=np.float32), self.mesh, data=0).unsqueeze(1)
            loss = (y + Tensor.arange(7, device=x.device).unsqueeze(1)).square().mean()
            loss.backward()
            self.optimizer.step()
            return loss

        step(shard(X, self.mesh, data=0))  # which makes the moments
        self.step = rulegrad.jit(step)

    def losses(self) -> list[float]:
        return [self.step(shard(X + k, self.mesh, data=0)).item() for k in range(3)]


@pytest.mark.parametrize("device", DEVICES)
def test_a_captured_step_on_a_mesh_is_saved(device: str, tmp_path: Path) -> None:
    expected = Run(device, data=2).losses()
    first = Run(device, data=2)
    first.step(shard(X, first.mesh, data=0))
    first.step.save(tmp_path / "step")
    again = Run(device, data=2)
    again.step.load(tmp_path / "step")
    assert again.losses() == expected
    assert again.step.reasons() == []


def test_files_of_another_mesh_are_refused(tmp_path: Path) -> None:
    run = Run("c", data=4)
    run.losses()
    run.step.save(tmp_path / "step")
    with pytest.raises(CaptureError, match=r"another self.mesh.device: 'c\*4' there, 'c\*3' here"):
        Run("c", data=3).step.load(tmp_path / "step")
    with pytest.raises(CaptureError, match=r"is .* a mesh \(2, 2\) with parts .*, and was .*a mesh \(4,\)"):
        Run("c", data=2, model=2).step.load(tmp_path / "step")


# ---- ranks that are processes ----

PROGRAM = Path(__file__).with_name("rank_captures.py")


def on_ranks(ranks: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rulegrad", "launch", "-n", str(ranks), str(PROGRAM), *arguments]
    environment = {**os.environ, "RULEGRAD_DEVICE": "c"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason=INSTALL)
def test_two_ranks_save_a_capture_and_load_it(tmp_path: Path) -> None:
    path = str(tmp_path / "step")
    saved = on_ranks(2, "save", path)
    assert saved.returncode == 0, saved.stderr
    found = json.loads(saved.stdout)
    expected = gradients(layer, Tensor(X, device="numpy"), Tensor(W, device="numpy"))
    for name, one in zip(("result", "by x", "by w"), expected, strict=True):
        np.testing.assert_allclose(found[name], one.numpy(), rtol=1e-5)
    assert "LOG (float32 7 × 5) made the first nan at rank_captures.py" in found["nan"]
    loaded = on_ranks(2, "load", path)
    assert loaded.returncode == 0, loaded.stderr
    assert json.loads(loaded.stdout)["losses"] == found["losses"]
    alone = on_ranks(1, "load", path)
    assert alone.returncode == 1
    assert "another size of the mesh on c: 2 there, 1 here" in alone.stderr
