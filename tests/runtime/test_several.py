"""Parts of one device: those of the processor run beside each other, each on its share of the threads."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad._core import Replay
from rulegrad.distributed import Mesh, shard
from rulegrad.errors import GraphError
from rulegrad.runtime import devices

PART = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_longlong, ctypes.c_longlong)
SECONDS = 30.0


def pool() -> Any:
    device: Any = devices.get("c")
    return device._pool


def test_parts_have_the_threads_between_them() -> None:
    """Two parts, on four threads, share loops of two items each: all four are at work at one time."""
    together, met = threading.Barrier(4), []

    @PART
    def item(_: Any, first: int, last: int) -> None:
        together.wait(SECONDS)
        met.append((first, last))

    @PART
    def part(_: Any, first: int, last: int) -> None:
        pool().rulegrad_run(item, None, ctypes.c_longlong(2), ctypes.c_longlong(2))

    with rg.config(device="c", threads=4):
        pool().rulegrad_beside(part, None, ctypes.c_longlong(2))
    assert sorted(met) == [(0, 1), (0, 1), (1, 2), (1, 2)]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("parts", [2, 3, 5])
def test_values_are_those_of_one_device(parts: int, threads: int) -> None:
    values = np.random.default_rng(0).random((30, 64), np.float32)
    with rg.config(device="c", threads=threads):
        mesh = Mesh({"data": parts}, device=f"c*{parts}")
        x = shard(values, mesh, data=0)
        found = rg.jit(lambda x: ((x - x.mean(0)).exp() @ Tensor(values.T, device=mesh.device)).sum(1))
        for _ in range(3):
            result = found(x).numpy()
    wanted = (np.exp(values - values.mean(0)) @ values.T).sum(1)
    np.testing.assert_allclose(result, wanted, 1e-4)


def test_handles_that_do_not_fit_are_refused() -> None:
    beside, program = devices.get("c").beside, Replay([], 1, [], False)  # type: ignore[attr-defined]
    program.run_beside(beside, 2, [(64, 128)], None)
    with pytest.raises(GraphError, match="an address for each part"):
        program.run_beside(beside, 2, [(64,)], None)
    with pytest.raises(GraphError, match="was given 2"):
        program.run_beside(beside, 2, [(64, 128), (64, 128)], None)
