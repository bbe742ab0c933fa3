"""The program of each rank of test_captures.py: gradients through a captured function, and a captured step as a file."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

import rulegrad
import rulegrad.engine
from rulegrad import Tensor, communication, nn, optim
from rulegrad.distributed import Mesh, fully_sharded, shard
from rulegrad.errors import NanError
from rulegrad.runtime import devices

_random = np.random.default_rng(3)
X, W = _random.random((7, 5), np.float32), _random.random((5, 3), np.float32)

mesh = Mesh({"data": communication.world().size})
rulegrad.manual_seed(1)
model = fully_sharded(nn.Linear(5, 3), mesh)
optimizer = optim.AdamW(model.parameters(), lr=0.05)


def step(x: Tensor) -> Tensor:
    optimizer.zero_grad()
    y = model(x) * shard(np.arange(7, dtype=np.float32), mesh, data=0).unsqueeze(1)
    loss = (y + Tensor.arange(7, device=x.device).unsqueeze(1)).square().mean()
    loss.backward()
    optimizer.step()
    return loss


@rulegrad.jit
def layer(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).tanh().sum(1) * Tensor(np.arange(7, dtype=np.float32), device=x.device)


def gradients() -> dict[str, Any]:
    x, w = shard(X, mesh, data=0).requires_grad_(), shard(W, mesh, data=1).requires_grad_()
    y = layer(x, w)
    (y * y).sum().backward()
    assert x.grad is not None and w.grad is not None
    return {"result": y.tolist(), "by x": x.grad.tolist(), "by w": w.grad.tolist()}


def nan_of_one_rank() -> str:
    values = X.copy()
    values[6] = -1  # of the last rank
    try:
        with rulegrad.config(detect_nan=1):
            shard(values, mesh, data=0).log().realize()
    except NanError as error:
        return str(error)
    return ""


def refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("a pass runs, or the compiler does")


def main(how: str, path: str) -> None:
    told = {**gradients(), "nan": nan_of_one_rank()} if how == "save" else {}
    step(shard(X, mesh, data=0))  # which makes the moments
    captured = rulegrad.jit(step)
    if how == "save":
        captured(shard(X, mesh, data=0))
        captured.save(path)
    else:
        step(shard(X, mesh, data=0))
        captured.load(path)
        device: Any = devices.get("c")
        device._programs._make = refuse
        rulegrad.engine.run_all = refuse
    x = [shard(X + k, mesh, data=0) for k in range(3)]
    losses = [captured(one) for one in x]
    if how == "load":
        assert captured.reasons() == [], captured.reasons()
    told["losses"] = [loss.numpy().item() for loss in losses]
    if mesh.ranks[0] == 0:
        print(json.dumps(told))


main(*sys.argv[1:])
