"""The program of each rank of test_resuming.py: training that goes on from its checkpoint, and a rank that is killed."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

import rulegrad
from rulegrad import communication, nn, optim
from rulegrad.distributed import Mesh, fully_sharded, load_parts, save_parts, shard
from rulegrad.errors import FileMissingError
from rulegrad.nn import state

STEPS, KILLED_IN = 5, 3
_random = np.random.default_rng(2)
X, Y = _random.random((STEPS, 9, 6), np.float32), _random.integers(0, 4, (STEPS, 9))


def end(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def cut_off(pieces: Any, path: Path) -> None:
    """A checkpoint's file that is half written when the rank is killed."""
    write(pieces, path)
    path.write_bytes(path.read_bytes()[:100])
    end()


write = state.safe_save


def main(folder: str, killed: str) -> None:
    here = communication.world()
    mesh = Mesh({"data": here.size})
    rulegrad.manual_seed(1)
    model = fully_sharded(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4)), mesh)
    optimizer = optim.AdamW(model.parameters(), lr=0.02)
    first, losses = 0, []
    try:
        found = load_parts(folder)
        model.load_state_dict(found["model"]), optimizer.load_state_dict(found["optimizer"])
        first = found["steps"]
    except FileMissingError:
        pass
    for step in range(first, STEPS):
        is_last = killed and here.local == (here.size - 1,) and step == KILLED_IN
        optimizer.zero_grad()
        loss = model(shard(X[step], mesh, data=0)).cross_entropy(shard(Y[step], mesh, data=0))
        loss.backward()
        if is_last and killed == "training":
            end()
        optimizer.step()
        losses.append(loss.item())
        if is_last and killed == "writing":
            state.safe_save = cut_off
        save_parts({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "steps": step + 1}, folder)
    weights = [parameter.numpy().tobytes().hex() for parameter in model.parameters()]
    if here.local[0] == 0:
        print(json.dumps({"first": first, "losses": losses, "weights": weights}))


main(*sys.argv[1:])
