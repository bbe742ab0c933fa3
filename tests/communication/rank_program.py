"""The program of the tests' ranks: collectives of all kinds, or a rank that does something else; its argument says what."""

from __future__ import annotations

import os
import sys
import time

import collective_cases as cases
import numpy as np

from rulegrad import communication, config
from rulegrad.communication import Collective
from rulegrad.communication.mpi import MpiWorld


def every_collective(world: MpiWorld) -> None:
    """Many at a time, each dtype; a result is the textbook's, and sums of floats those of some order."""
    for dtype in cases.DTYPES:
        works = []
        for of in cases.collectives(world.size, dtype):
            sources = [cases.values_of(dtype, of.count, rank) for rank in range(world.size)]
            result = np.zeros(of.result_count, sources[0].dtype)
            works.append((of, sources, result, world.start(of, [sources[world.rank]], [result])))
        for of, sources, result, work in works:
            work.wait()
            wanted = cases.expected(of, sources, world.rank)
            if dtype in ("float32", "float64", "complex64", "complex128") and of.operation in ("sum", "prod"):
                tolerance = 1e-5 if dtype in ("float32", "complex64") else 1e-12
                np.testing.assert_allclose(result, wanted, tolerance, tolerance * 100, err_msg=str(of))
            else:
                np.testing.assert_array_equal(result, wanted, err_msg=str(of))


def groups(world: MpiWorld) -> None:
    """Along each axis of a mesh, and in another order of its axes."""
    mesh = (2, world.size // 2)
    for axes in ((0,), (1,), (0, 1), (1, 0)):
        of = Collective("all_gather", mesh, axes, "", 1, "int32")
        result = np.zeros(of.result_count, np.int32)
        world.start(of, [np.array([world.rank], np.int32)], [result]).wait()
        assert result.tolist() in [list(group) for group in of.groups()], (axes, result)


def reduce(world: MpiWorld, count: int = 1000, dtype: str = "float32") -> None:
    values = np.ones(count, dtype)
    of = Collective("all_reduce", (world.size,), (0,), "sum", count, dtype)
    world.start(of, [values], [values]).wait()
    assert (values == world.size).all()


def large(world: MpiWorld) -> None:
    """`start` returns at once, and the values come while this rank computes."""
    values = np.ones(1 << 22, np.float32)
    of = Collective("all_reduce", (world.size,), (0,), "sum", len(values), "float32")
    work = world.start(of, [values], [values])
    until = time.monotonic() + 60
    while not work.done and time.monotonic() < until:
        time.sleep(0.01)
    assert work.done and (values == world.size).all()
    work.wait()


def main(what: str) -> None:
    if what == "rules":
        config.rules_off = ["algebra.zero"] if os.environ["PMI_RANK"] == "1" else []
    if what == "settings":
        config.default_dtype = "float64" if os.environ["PMI_RANK"] == "1" else "float32"
        config.longest_graph = 7 if os.environ["PMI_RANK"] == "1" else 8
        config.debug = int(os.environ["PMI_RANK"])  # which may differ
    if what == "device":
        config.device = "numpy" if os.environ["PMI_RANK"] == "1" else "c"
    world = communication.world()
    if what == "one":
        assert world.size == 1
        return
    assert isinstance(world, MpiWorld)
    reduce(world)
    if what in FINE:
        FINE[what](world)
    elif world.rank == 1:
        OTHERWISE[what](world)
    if what == "late":
        config.communication_timeout = 1.0
    reduce(world)
    print("fine", world.rank, os.environ["RULEGRAD_THREADS"], *sys.argv[2:], flush=True)


def fail(world: MpiWorld) -> None:
    raise ValueError("no data")


FINE = {"every": every_collective, "groups": groups, "large": large, "fine": lambda world: None}
OTHERWISE = {
    "raise": fail,
    "kill": lambda world: os.kill(os.getpid(), 9),
    "crash": lambda world: os.kill(os.getpid(), 11),
    "leave": lambda world: os._exit(7),
    "leave well": lambda world: os._exit(0),
    "exit": lambda world: sys.exit(3),
    "end": lambda world: sys.exit(),
    "count": lambda world: reduce(world, 12),
    "dtype": lambda world: reduce(world, dtype="int32"),
    "late": lambda world: time.sleep(60),
    "expected": lambda world: world.expect_same("(2, 3)"),
    "same": lambda world: world.check_same("shape", "(2, 3)"),
}

if __name__ == "__main__":
    main(sys.argv[1])
