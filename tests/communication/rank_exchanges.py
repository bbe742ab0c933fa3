"""The program of the ranks of test_exchanges.py: programs of the engine with collectives, or a rank that does something else."""

from __future__ import annotations

import functools
import os
import sys
import time

import collective_cases as cases
import numpy as np

import rulegrad
from rulegrad import Tensor, communication, config
from rulegrad._core import Replay
from rulegrad.capture.captured import Captured
from rulegrad.communication import Collective
from rulegrad.communication.mpi import MpiWorld
from rulegrad.distributed import Mesh, shard
from rulegrad.errors import CommunicationError
from rulegrad.optim import SGD


def every_collective(world: MpiWorld) -> None:
    """Each kind and dtype, twice: the requests are the same, the buffers are not."""
    made = 0
    for dtype in cases.DTYPES:
        for of in cases.collectives(world.size, dtype):
            size = np.dtype(cases.values_of(dtype, 1, 0).dtype).itemsize
            exchange = world.exchange(of, 0, [(0, of.count * size)], [(1, of.result_count * size)])
            if exchange is None:
                assert of.operation, of
                continue
            program = Replay([Replay([], 2, [], True), (exchange, True), (exchange, False)])
            made += 1
            for turn in range(2):
                sources = [cases.values_of(dtype, of.count, rank + turn) for rank in range(world.size)]
                result = np.zeros(of.result_count, sources[0].dtype)
                program.run([sources[world.rank].ctypes.data, result.ctypes.data], None)
                np.testing.assert_allclose(result, cases.expected(of, sources, world.rank), 1e-5, 1e-3, err_msg=str(of))
    assert made > 50


def in_order(world: MpiWorld) -> None:
    """Exchanges under way at one time are not mixed up, though ranks hear of each other at different times."""
    of, count = Collective("shift", (world.size,), (0,), "", 4, "float32", by=1), 6
    made = [world.exchange(of, turn, [(turn, 16)], [(count + turn, 16)]) for turn in range(count)]
    exchanges = [one for one in made if one is not None]
    ends = [*exchanges[1::2], *exchanges[::2]]
    program = Replay(
        [Replay([], 2 * count, [], True), *((one, True) for one in exchanges), *((one, False) for one in ends)]
    )
    for step in range(100):
        sent = [np.full(4, 100 * step + 10 * turn + world.rank, np.float32) for turn in range(count)]
        received = [np.zeros(4, np.float32) for _ in range(count)]
        if (step + world.rank) % 2:
            time.sleep(1e-4)
        program.run([array.ctypes.data for array in (*sent, *received)], None)
        before = (world.rank - 1) % world.size
        assert [array[0] for array in received] == [100 * step + 10 * turn + before for turn in range(count)]


@functools.cache
def ones() -> Tensor:
    return shard(np.ones((6, 4), np.float32), Mesh({"data": communication.world().size}), data=0)


def total() -> float:
    """A sum over all ranks, by a program of the engine."""
    return float(ones().sum().item())


def once(world: MpiWorld) -> None:
    """A collective outside the programs of the engine."""
    of = Collective("all_reduce", (world.size,), (0,), "sum", 1, "float32")
    values = np.ones(1, np.float32)
    world.start(of, [values], [values]).wait()


def another(world: MpiWorld) -> None:
    """A rank that goes on after an error is told of it again."""
    for _ in range(2):
        try:
            ones().sum(0).numpy()
        except CommunicationError as error:
            print("told", error, file=sys.stderr)
    raise ValueError("no more")


def captured() -> None:
    """A step of training needs no Python once it has been replayed, and gives what one device gives."""
    mesh = Mesh({"data": communication.world().size})
    values = np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4)
    weights = [Tensor(np.ones(4, np.float32), requires_grad=True) for _ in range(2)]
    inputs = [Tensor(values), shard(values, mesh, data=0)]
    replays: list[Captured] = []
    replay = Captured.replay
    for weight, x in zip(weights, inputs, strict=True):
        optimizer = SGD([weight], lr=0.1, momentum=0.9)

        def step(x: Tensor, weight: Tensor = weight, optimizer: SGD = optimizer) -> Tensor:
            optimizer.zero_grad()
            loss = (x * weight).tanh().square().sum()
            loss.backward()
            optimizer.step()
            return loss

        run = rulegrad.jit(step)
        for _ in range(4):
            run(x)
        Captured.replay = lambda self, *given: (replays.append(self), replay(self, *given))[1]  # type: ignore[method-assign, func-returns-value]
        for _ in range(3):
            run(x)
        Captured.replay = replay  # type: ignore[method-assign]
    assert not replays
    np.testing.assert_allclose(weights[1].numpy(), weights[0].numpy(), 1e-5)


def fork(world: MpiWorld) -> None:
    child = os.fork()
    if not child:
        try:
            total()
        except Exception as error:
            os._exit(0 if "do not survive a fork" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def main(what: str) -> None:
    world = communication.world()
    assert isinstance(world, MpiWorld)
    if what == "every":
        return every_collective(world)
    if what == "order":
        return in_order(world)
    assert [total() for _ in range(3)] == [24.0] * 3
    once(world)
    before = communication.counters()["all_reduce"].calls
    assert total() == 24.0 and communication.counters()["all_reduce"].calls == before + 1
    if what == "fine":
        captured()
    if what == "late":
        config.communication_timeout = 1.0
    if world.rank == 1 and what in OTHERWISE:
        OTHERWISE[what](world)
    total()
    Tensor([1.0]).item()
    return print("fine", world.rank, flush=True)


def fail(world: MpiWorld) -> None:
    raise ValueError("no data")


OTHERWISE = {
    "raise": fail,
    "kill": lambda world: os.kill(os.getpid(), 9),
    "end": lambda world: sys.exit(),
    "once": once,
    "shape": another,
    "late": lambda world: time.sleep(60),
    "fork": fork,
}

if __name__ == "__main__":
    main(sys.argv[1])
