"""The program of each rank of test_ranks.py: steps of training, with the bytes that are sent and kept."""

from __future__ import annotations

import json
import sys

import numpy as np
from networks import training_step

import rulegrad
from rulegrad import Tensor, communication, nn, optim
from rulegrad.distributed import Mesh, data_parallel, fully_sharded, pipeline, shard
from rulegrad.runtime.buffer import Buffer


def network(kind: str, mesh: Mesh) -> nn.Module:
    """A perceptron; for "pipeline" one with two equal blocks, which stay in one place where there is one rank."""
    rulegrad.manual_seed(1)
    if kind == "pipeline":
        blocks = [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(2)]
        return data_parallel(nn.Sequential(pipeline(blocks, mesh, micro_batches=4), nn.Linear(6, 4)), mesh)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
    return fully_sharded(model, mesh) if kind == "fully" else data_parallel(model, mesh)


def main(kind: str, captured: bool) -> None:
    ranks = communication.world().size
    mesh = Mesh({"pipe" if kind == "pipeline" else "data": ranks})
    model = network(kind, mesh)
    optimizer = optim.AdamW(model.parameters(), lr=0.02)
    random = np.random.default_rng(2)
    axes = {} if kind == "pipeline" else {"data": 0}
    x = shard(random.random((8, 6), np.float32), mesh, **axes)
    y = shard(random.integers(0, 4, 8), mesh, **axes)
    step = training_step(model, optimizer)
    run = rulegrad.jit(step) if captured else step
    losses = [run(x, y).item() for _ in range(3)]
    communication.reset_counters()
    losses.append(run(x, y).item())
    sent = {name: count.bytes for name, count in communication.counters().items()}
    state = [t for of_one in optimizer.state.values() for t in of_one.values() if isinstance(t, Tensor) and t.ndim]
    kept = sum(Buffer.of(t.realize().uop).nbytes for t in [*model.parameters(), *state])
    whole = sum(t.nbytes for t in [*model.parameters(), *state])
    if mesh.ranks[0] == 0:
        print(json.dumps({"losses": losses, "sent": sent, "kept": kept, "whole": whole}))


main(sys.argv[1], sys.argv[2] == "captured")
