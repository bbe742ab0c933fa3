"""Collectives among the steps of a plan: what is sent as one, and what a profile shows of it."""

from __future__ import annotations

import numpy as np
import pytest
from networks import training_step

import rulegrad as rg
from rulegrad import communication, nn, optim
from rulegrad.distributed import Mesh, data_parallel, shard


def trained(device: str, profiled: bool) -> tuple[list[float], rg.Profile | None]:
    """The losses of four steps on two parts of a device; the last one in a profile."""
    rg.manual_seed(0)
    mesh = Mesh({"data": 2}, device=device)
    model = data_parallel(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4)), mesh)
    optimizer = optim.AdamW(model.parameters(), lr=0.02)
    random = np.random.default_rng(1)
    x, y = shard(random.random((9, 6), np.float32), mesh, data=0), shard(random.integers(0, 4, 9), mesh, data=0)

    step = rg.jit(training_step(model, optimizer))
    losses = [step(x, y).item() for _ in range(3)]
    communication.reset_counters()
    if not profiled:
        return [*losses, step(x, y).item()], None
    with rg.profile() as found:
        losses.append(step(x, y).item())
    return losses, found


def test_gradients_of_a_small_network_are_sent_as_one() -> None:
    trained("c*2", profiled=False)
    counted = communication.counters()["all_reduce"]
    assert counted.calls == 2  # the loss with how many targets count, and all gradients
    assert counted.seconds > 0


@pytest.mark.parametrize("device", ["numpy*2", "c*2"])
def test_a_profile_runs_the_same_collectives(device: str) -> None:
    losses, found = trained(device, profiled=True)
    assert losses == trained(device, profiled=False)[0]
    assert found is not None
    shown = [record for record in found.kernels if record.exposed is not None]
    assert [record.name for record in shown] == ["all_reduce_sum_2_float32", "all_reduce_sum_92_float32"]
    assert all(0 <= record.busy <= record.seconds for record in shown) and 0 <= found.hidden <= 1
    assert [record.nbytes for record in shown] == [8, 92 * 4]
