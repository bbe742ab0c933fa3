"""The simulator of many devices beside real runs: a data-parallel training step by MPI on 1 to 8 ranks of this machine.

    python bench/scale.py [--quick] [--json] [--ranks 1,2,4,8] [--machine FILE]

A step computes gradients of a network of 784-512-512-10 for a batch of each rank (device `c`, one thread), copies them
into one array, sums that by MPI's all-reduce, and updates the parameters. A machine is measured first: a message
between two ranks (both send at once), and how fast one and two ranks read memory. The schedule is what one rank takes
alone; what the simulator makes of both is printed beside the time that more ranks take. --machine FILE keeps the
machine. Needs `rulegrad[mpi]`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from common import DEVELOPED, arguments, note

SIZES = (784, 512, 512, 10)
BATCH = 64
WEIGHTS = tuple(itertools.pairwise(SIZES))
GRADIENTS = 4 * sum(a * b for a, b in WEIGHTS)  # bytes
_LARGE = 4 << 20  # bytes of the message that the bandwidth is measured with
_SMALL = 8
_ARRAY = 64 << 20  # bytes of the array that is read for the memory's bandwidth: more than the caches


# ---- what ranks do: `bench/scale.py child …` under mpiexec ----


def slowest(work: Callable[[], object], calls: int) -> float:
    """Seconds of the fastest call, as the slowest rank has it: other programs on the machine disturb most calls."""
    from mpi4py import MPI

    taken, most = np.empty(calls), np.empty(calls)
    for number in range(calls):
        MPI.COMM_WORLD.Barrier()
        start = time.perf_counter()
        work()
        taken[number] = time.perf_counter() - start
    MPI.COMM_WORLD.Allreduce(taken, most, MPI.MAX)
    return float(most.min())


def measured_links(calls: int) -> dict[str, float]:
    """Two ranks send each other a small and a large message at once; one, and both, read a large array."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    other = 1 - world.rank

    def message(nbytes: int) -> float:
        sent, received = np.zeros(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
        return slowest(lambda: world.Sendrecv(sent, other, 0, received, other, 0), calls)

    latency = message(_SMALL)
    large = message(_LARGE)
    array = np.ones(_ARRAY // 8)
    both = slowest(lambda: array.max(), calls // 8)
    one = slowest(lambda: array.max() if world.rank == 0 else None, calls // 8)
    return {
        "latency": latency,
        "bandwidth": (_LARGE - _SMALL) / (large - latency),
        "memory_bandwidth": _ARRAY / one,
        "shared_bandwidth": 2 * _ARRAY / both,
    }


def training_step() -> dict[str, Callable[[], object]]:
    """The parts of a step on this rank, each of which waits until it is done; `send` is what ranks do together."""
    from mpi4py import MPI

    import rulegrad as rg

    rng = np.random.default_rng(MPI.COMM_WORLD.rank)

    def on_device(values: Any) -> Any:
        return rg.Tensor(np.asarray(values, np.float32), device="c")

    weights = [on_device(rng.normal(size=shape) / shape[0] ** 0.5).requires_grad_() for shape in WEIGHTS]
    images = on_device(rng.normal(size=(BATCH, SIZES[0])))
    labels = on_device(np.eye(SIZES[-1])[rng.integers(0, SIZES[-1], BATCH)])
    flat, total = np.zeros(GRADIENTS // 4, np.float32), np.zeros(GRADIENTS // 4, np.float32)
    found: list[Any] = []

    @rg.jit
    def gradients() -> Any:
        for weight in weights:
            weight.grad = None
        z = images
        for weight in weights[:-1]:
            z = (z @ weight).relu()
        loss = -((z @ weights[-1]).log_softmax(1) * labels).sum() / BATCH
        loss.backward()
        return [weight.grad for weight in weights]

    @rg.jit
    def updated(sums: Any) -> None:
        with rg.no_grad():
            for weight, part in zip(weights, sums):
                weight -= 1e-3 * part
                weight.realize()

    def compute() -> None:
        found[:] = gradients()

    def pack() -> None:
        at = 0
        for part in found:
            values = part.numpy().reshape(-1)
            flat[at : at + values.size] = values
            at += values.size

    def update() -> None:
        at, sums = 0, []
        for a, b in WEIGHTS:
            sums.append(on_device(total[at : at + a * b].reshape(a, b)))
            at += a * b
        updated(sums)

    return {
        "gradients": compute,
        "pack": pack,
        "send": lambda: MPI.COMM_WORLD.Allreduce(flat, total),
        "update": update,
    }


def measured_step(calls: int) -> dict[str, float]:
    """Seconds of a whole step, and of each part where all ranks do only that."""
    parts = training_step()

    def whole() -> None:
        for part in parts.values():
            part()

    whole()
    found = {"step": slowest(whole, calls)}
    return found | {name: slowest(part, calls) for name, part in parts.items()}


def child(words: list[str]) -> None:
    """Does what the words say on all ranks; the first prints what was measured."""
    from mpi4py import MPI

    what, calls = words[0], int(words[1])
    found = measured_links(calls) if what == "links" else measured_step(calls)
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(found))


# ---- the parent ----


def on_ranks(ranks: int, what: str, calls: int) -> dict[str, float]:
    """What the ranks measure; the benchmark ends where they fail."""
    command = ["mpiexec", "-n", str(ranks), sys.executable, __file__, "child", what, str(calls)]
    path = os.pathsep.join([*DEVELOPED, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "RULEGRAD_THREADS": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    except FileNotFoundError:
        raise SystemExit('mpiexec was not found: pip install "rulegrad[mpi]"') from None
    if done.returncode:
        raise SystemExit(f"{ranks} ranks failed:\n{done.stderr}")
    answer: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def machine_file(links: dict[str, float], processors: int) -> str:
    """A machine of what was measured: ranks that share processors and memory."""
    return f"""\
doc = "{processors} processors that share their memory, MPI between processes: measured by bench/scale.py"

[device]
# Not measured: kernels of schedules from here have times. The rate is a bound that no kernel reaches.
rates = {{ float32 = 1e11, float64 = 5e10 }}
memory_bandwidth = {links["memory_bandwidth"]:.4g}
shared_bandwidth = {links["shared_bandwidth"]:.4g}
memory = 8e9
processors = {processors}
# Collectives are done by the processors that compute.
overlaps = false

[[links]]
# Two processes that send each other {_SMALL} bytes, and {_LARGE >> 20} MiB, at once.
name = "shared memory"
devices = {8 * processors}
latency = {links["latency"]:.4g}
bandwidth = {links["bandwidth"]:.4g}
"""


def schedule_of(alone: dict[str, float]) -> Any:
    """The step of one rank: the time of each part, and what it reads and writes."""
    from rulegrad.workbench.scale.schedule import Event, Schedule

    inputs = 4 * BATCH * sum(SIZES)
    return Schedule(
        "a step of data-parallel training",
        (
            Event("gradients", seconds=alone["gradients"], bytes=3 * GRADIENTS + 3 * inputs),
            Event("pack", seconds=alone["pack"], bytes=2 * GRADIENTS, after=(0,), phase="backward"),
            Event("send", "all_reduce", bytes=GRADIENTS, axes=("data",), after=(1,), phase="update"),
            Event("update", seconds=alone["update"], bytes=5 * GRADIENTS, after=(2,), phase="update"),
        ),
        {"data": 1},
        measured_on="here",
        batch=BATCH,
    )


def main(options: argparse.Namespace) -> None:
    calls = 50 if options.quick else 500
    from rulegrad.workbench.scale.machine import load_machine
    from rulegrad.workbench.scale.simulation import simulate

    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    note("measuring the machine, then one rank")
    text = machine_file(on_ranks(2, "links", calls), processors)
    with tempfile.TemporaryDirectory() as folder:
        file = options.machine or Path(folder) / "here.toml"
        file.write_text(text, encoding="utf-8")
        machine = replace(load_machine(file), name="here")
    rows = []
    alone = on_ranks(1, "step", calls)
    schedule = schedule_of(alone)
    for ranks in options.ranks:
        note(f"measuring {ranks} ranks")
        found = alone if ranks == 1 else on_ranks(ranks, "step", calls)
        told = simulate(schedule.with_axis("data", ranks), machine)
        sending = sum(one.end - one.start for one in told.events if not one.event.is_kernel)
        rows.append(
            {
                "ranks": ranks,
                "measured": found["step"],
                "simulated": told.seconds,
                "error": told.seconds / found["step"] - 1,
                "measured all-reduce": found["send"],
                "simulated all-reduce": sending,
                "parts": found,
            }
        )
    if options.json:
        print(json.dumps({"machine": text, "rows": rows}, indent=1))
        return
    print(text)
    print("| ranks | measured, ms | simulated, ms | error | all-reduce measured | simulated |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        times = [f"{1e3 * float(row[key]):.2f}" for key in ("measured", "simulated")]  # type: ignore[arg-type]
        sums = [f"{1e3 * float(row[f'{key} all-reduce']):.2f}" for key in ("measured", "simulated")]  # type: ignore[arg-type]
        print(f"| {row['ranks']} | {times[0]} | {times[1]} | {row['error']:+.0%} | {sums[0]} | {sums[1]} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(sys.argv[2:])
    else:
        parser = arguments(__doc__)
        parser.add_argument("--ranks", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2, 4, 8])
        parser.add_argument("--machine", metavar="FILE", type=Path, help="where the machine is written")
        main(parser.parse_args())
