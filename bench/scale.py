"""The simulator of many devices beside real runs: training steps on meshes of 1 to 8 ranks of this machine, by MPI.

    python bench/scale.py [--quick] [--json] [--kinds "data,fully sharded,tensor"] [--ranks 1,2,4,8] [--machine FILE]

A step of a network of 784-512-512-10 (device `c`, one thread) runs data parallel, fully sharded and tensor parallel, as
`rulegrad.distributed` does it. What is simulated is the plan of that step on a mesh of so many ranks, with the
collectives that the rules put there: it is traced in one process (`rulegrad.workbench.scale.traced_step`), its kernels
are timed one by one on this machine, alone, and its collectives take what the fit of `bench/communication.py` between
two ranks says. Nothing is taken from the runs that it is compared with. --machine FILE keeps the machine. Needs
`rulegrad[mpi]`.
"""

from __future__ import annotations

import argparse
import fnmatch
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
_ARRAY = 64 << 20  # bytes of the array that is read for the memory's bandwidth: more than the caches

#: By kind: placements of parameters and inputs, and whether each rank has a batch of its own.
KINDS: dict[str, tuple[dict[str, dict[str, int]], dict[str, int]]] = {
    "data": ({}, {"ranks": 0}),
    "fully sharded": (
        {"0.weight": {"ranks": 0}, "2.weight": {"ranks": 0}, "4.weight": {"ranks": 1}},
        {"ranks": 0},
    ),
    "tensor": ({"0.*": {"ranks": 0}, "2.weight": {"ranks": 1}}, {}),
}


def program(kind: str, ranks: int, place: Callable[[Any, Any, Any], tuple[Any, Any]]) -> dict[str, Any]:
    """A training step; place: what is done with the model and the inputs before the optimizer is made."""
    import rulegrad as rg
    from rulegrad import nn, optim

    rg.manual_seed(0)
    rng = np.random.default_rng(0)
    examples = BATCH * ranks if KINDS[kind][1] else BATCH
    layers: list[Any] = []
    for a, b in itertools.pairwise(SIZES):
        layers += [nn.Linear(a, b), nn.ReLU()]
    model = nn.Sequential(*layers[:-1]).to("c")
    images = rng.normal(size=(examples, SIZES[0])).astype(np.float32)
    x, y = place(model, images, rng.integers(0, SIZES[-1], examples))
    optimizer = optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    @rg.jit
    def step() -> Any:
        optimizer.zero_grad()
        loss = model(x).cross_entropy(y)
        loss.backward()
        optimizer.step()
        return loss

    return {"step": step, "model": model, "optimizer": optimizer, "inputs": (x, y)}


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


def measured_links(calls: int) -> dict[str, Any]:
    """α and β of a shift and of an all-reduce between two ranks; how fast one, and both, read a large array."""
    from mpi4py import MPI

    from communication import COUNTS, QUICK, fit, times

    points = times(2, COUNTS if calls > 100 else QUICK)
    array = np.ones(_ARRAY // 8)
    both = slowest(lambda: array.max(), 50)
    one = slowest(lambda: array.max() if MPI.COMM_WORLD.rank == 0 else None, 50)
    found: dict[str, Any] = {kind: fit(points[kind], "rulegrad") for kind in ("shift", "all_reduce")}
    return {**found, "memory_bandwidth": _ARRAY / one, "shared_bandwidth": 2 * _ARRAY / both}


def measured_step(kind: str, calls: int) -> dict[str, Any]:
    """Seconds of a step on a mesh of all ranks, and the bytes that a rank sends in one."""
    from rulegrad.communication import counters, reset_counters, world
    from rulegrad.distributed import Mesh, shard, shard_parameters

    mesh = Mesh({"ranks": world().size}, device="c")
    parameters, inputs = KINDS[kind]

    def place(model: Any, images: Any, labels: Any) -> tuple[Any, Any]:
        shard_parameters(model, mesh, parameters)
        return shard(images, mesh, **inputs), shard(labels, mesh, **inputs)

    step = program(kind, mesh.size, place)["step"]
    for _ in range(3):
        step()
    reset_counters()
    step()
    sent = {name: count.bytes for name, count in counters().items()}
    return {"step": slowest(step, calls), "sent": sent}


def child(words: list[str]) -> None:
    """Does what the words say on all ranks; the first prints what was measured."""
    from mpi4py import MPI

    found = measured_links(int(words[1])) if words[0] == "links" else measured_step(words[0], int(words[1]))
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(found))


# ---- the parent ----


def on_ranks(ranks: int, what: str, calls: int) -> dict[str, Any]:
    """The measurements that so many ranks make; the benchmark ends where they fail."""
    command = ["mpiexec", "-n", str(ranks), sys.executable, __file__, "child", what, str(calls)]
    path = os.pathsep.join([*DEVELOPED, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "RULEGRAD_THREADS": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    except FileNotFoundError:
        raise SystemExit('mpiexec was not found: pip install "rulegrad[mpi]"') from None
    if done.returncode:
        raise SystemExit(f"{ranks} ranks failed:\n{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def machine_file(links: dict[str, Any], processors: int) -> str:
    """A machine of what was measured: ranks that share processors and memory.

    An all-reduce between two ranks is one message and an addition of what came: γ is what its bytes take longer than
    those of a shift, three accesses to memory by the simulator's formula. A message is read from memory at least once,
    so β has a floor: where few sizes were measured beside other work, the fitted line can fall.
    """
    latency = max(links["shift"][0], links["all_reduce"][0])
    beta = max(links["shift"][1], 1 / links["memory_bandwidth"])
    gamma = max(links["all_reduce"][1] - beta, 3 / links["memory_bandwidth"])
    return f"""\
doc = "{processors} processors that share their memory, MPI between processes: measured by bench/scale.py"

[device]
# Not measured: kernels of schedules from here have times. The rate is a bound that no kernel reaches.
rates = {{ float32 = 1e11, float64 = 5e10 }}
# What an all-reduce reaches when it adds.
memory_bandwidth = {3 / gamma:.4g}
shared_bandwidth = {links["shared_bandwidth"]:.4g}
memory = 8e9
processors = {processors}
# Collectives are done by the processors that compute.
overlaps = false

[[links]]
# α and β of bench/communication.py between two ranks: the larger α of a shift and an all-reduce, β of a shift.
name = "shared memory"
devices = {8 * processors}
latency = {latency:.4g}
bandwidth = {1 / beta:.4g}
"""


def traced(kind: str, ranks: int) -> tuple[Any, dict[str, int]]:
    """The schedule of one rank of a mesh, with the times of its kernels on this machine; and the bytes it sends."""
    from rulegrad import Tensor
    from rulegrad.workbench.scale.local_schedule import Estimates, events_of
    from rulegrad.workbench.scale.schedule import Schedule
    from rulegrad.workbench.scale.timing import kernel_seconds
    from rulegrad.workbench.scale.traced_step import traced_step

    found = program(kind, ranks, lambda _, *inputs: tuple(Tensor(one, device="c") for one in inputs))
    found["step"]()  # makes the optimizer's state
    parameters, inputs = KINDS[kind]
    placed = {id(one): (inputs.get("ranks", -1) if ranks > 1 else -1,) for one in found["inputs"]}
    order = found["optimizer"].parameters
    for name, parameter in found["model"].named_parameters():
        axes = next((axes for pattern, axes in parameters.items() if fnmatch.fnmatchcase(name, pattern)), {})
        state = found["optimizer"].state[[p is parameter for p in order].index(True)].values()
        for one in (parameter, *state):
            placed[id(one)] = (axes.get("ranks", -1) if ranks > 1 else -1,)
    step = traced_step(found["step"], (ranks,), placed)
    collectives = step.collectives()
    sent: dict[str, int] = {}
    for one in collectives:
        if one is not None:
            sent[one.kind] = sent.get(one.kind, 0) + one.bytes_sent
    events = events_of(step.plan, collectives, ("ranks",), Estimates("c"), kernel_seconds(step.plan, "c", 400))
    return Schedule(f"a {kind} step", events, {"ranks": ranks}, measured_on="here", batch=BATCH), sent


def rows_of(machine: Any, kinds: list[str], ranks: list[int], calls: int) -> list[dict[str, Any]]:
    """For each kind and number of ranks the time of a step, measured and simulated."""
    from rulegrad.workbench.scale.simulation import simulate

    rows = []
    for kind in kinds:
        for count in ranks:
            note(f"{kind}: measuring {count} ranks")
            schedule, sent = traced(kind, count)
            found = on_ranks(count, kind, calls)
            if found["sent"] != sent:
                raise SystemExit(f"{kind} on {count} ranks: the plan sends {sent}, the run {found['sent']}")
            told = simulate(schedule, machine)
            rows.append(
                {
                    "kind": kind,
                    "ranks": count,
                    "measured": found["step"],
                    "simulated": told.seconds,
                    "error": told.seconds / found["step"] - 1,
                    "kernels": told.computing,
                    "collectives": told.communicating,
                    "bytes sent": sum(sent.values()),
                    "load": os.getloadavg()[0],
                }
            )
    return rows


def kinds_of(text: str) -> list[str]:
    kinds = text.split(",")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise argparse.ArgumentTypeError(f"no kind is called {unknown[0]!r}; there are: {', '.join(KINDS)}")
    return kinds


def main(options: argparse.Namespace) -> None:
    calls = 50 if options.quick else 2000
    from rulegrad.workbench.scale.machine import load_machine

    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    note("measuring the machine")
    text = machine_file(on_ranks(2, "links", calls), processors)
    with tempfile.TemporaryDirectory() as folder:
        file = options.machine or Path(folder) / "here.toml"
        file.write_text(text, encoding="utf-8")
        machine = replace(load_machine(file), name="here")
    rows = rows_of(machine, options.kinds, options.ranks, calls)
    if options.json:
        print(json.dumps({"machine": text, "rows": rows}, indent=1))
        return
    print(text)
    print("| step | ranks | measured, ms | simulated, ms | error | kernels | collectives | MB sent | load |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        times = " | ".join(f"{1e3 * row[key]:.2f}" for key in ("measured", "simulated"))
        parts = " | ".join(f"{1e3 * row[key]:.2f}" for key in ("kernels", "collectives"))
        sent = f"{1e-6 * row['bytes sent']:.2f} | {row['load']:.1f}"
        print(f"| {row['kind']} | {row['ranks']} | {times} | {row['error']:+.0%} | {parts} | {sent} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(sys.argv[2:])
    else:
        parser = arguments(__doc__)
        parser.add_argument("--kinds", type=kinds_of, default=[*KINDS], help="what is shared among the ranks")
        parser.add_argument("--ranks", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2, 4, 8])
        parser.add_argument("--machine", metavar="FILE", type=Path, help="where the machine is written")
        os.environ["RULEGRAD_THREADS"] = "1"  # kernels are timed as ranks run them
        main(parser.parse_args())
