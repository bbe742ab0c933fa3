"""Training on two ranks beside one, a core each: samples a second, bytes sent, time to compile.

    python bench/distributed.py [--json] [--only NAME]

Each row is a captured training step. *One rank* is the program without a mesh; *mesh of one* the same on a mesh of one
device, which shows what the sharded path costs. On two ranks each has the batch of the row ("weak"), or half of it
("strong"). *Two cores* is one device with two cores, *two parts* a mesh of two parts of it (`c*2`) with a core each, on
the batch of the row. *image* is one image, whose lines are split: its convolutions exchange borders. "exposed" is the
time of a step in which a rank waits for collectives, beside the time that they take one after the other with nothing
else. The last table is the processor time of the first step, with all kernels in the cache on disk, on meshes of more
and more parts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rulegrad
from rulegrad import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "nanogpt"))

# By network: samples in a batch of one rank, of the one image its lines, and steps that are timed.
ROWS = {"digits": (1024, 400), "nanogpt": (16, 25), "image": (128, 25)}


def network(name: str) -> Any:
    rulegrad.manual_seed(0)
    if name == "digits":
        return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    if name == "image":
        layers = [nn.Conv2d(8, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 10, 3, padding=1)]
        return ClassesOfPixels(
            *(part for layer in layers for part in (layer, nn.BatchNorm2d(layer.out_channels), nn.ReLU()))
        )
    from model import GPT

    return GPT(characters=65, block_size=128, width=192, heads=6, layers=4, dropout=0.0)


class ClassesOfPixels(nn.Sequential):
    """Convolutions whose channels are the scores of each pixel."""

    def forward(self, x: Any) -> Any:
        return super().forward(x).permute(0, 2, 3, 1)


def batch(name: str, samples: int) -> tuple[Any, Any]:
    import numpy as np

    random = np.random.default_rng(0)
    if name == "digits":
        return random.random((samples, 64), np.float32), random.integers(0, 10, samples)
    if name == "image":
        return random.random((1, 8, samples, 256), np.float32), random.integers(0, 10, (1, samples, 256))
    return random.integers(0, 65, (samples, 128)), random.integers(0, 65, (samples, 128))


def alone(collectives: dict[Any, int]) -> float:
    """The seconds that collectives take one after the other with nothing else, each as often as it is given.

    Small ones by the engine, as programs start them; each is the best of several runs.
    """
    import numpy as np

    from rulegrad import communication
    from rulegrad._core import Replay
    from rulegrad.compile.collectives import BUCKET

    world, seconds = communication.world(), 0.0
    for of, times in collectives.items():
        source, result = np.zeros(of.count, of.dtype), np.zeros(of.result_count, of.dtype)
        make = getattr(world, "exchange", None) if source.nbytes < BUCKET else None
        exchange = make(of, 0, [(0, source.nbytes)], [(1, result.nbytes)]) if make else None
        program = exchange and Replay([Replay([], 2, [], True), (exchange, True), (exchange, False)])
        took = []
        for _ in range(30):
            begun = time.perf_counter()
            if program:
                program.run([source.ctypes.data, result.ctypes.data], None)
            else:
                world.start(of, [source], [result]).wait()
            took.append(time.perf_counter() - begun)
        seconds += times * min(took)
    return seconds


def placed(name: str, samples: int, on_mesh: str, kind: str) -> tuple[Any, Any, Any]:
    """A network, inputs and targets, as they lie on the mesh."""
    from rulegrad import Tensor, communication
    from rulegrad.distributed import Mesh, data_parallel, fully_sharded, shard

    model, (x, y) = network(name), batch(name, samples)
    if on_mesh == "none":
        return model, Tensor(x), Tensor(y)
    parts = int(on_mesh.partition("*")[2] or communication.world().size)
    mesh = Mesh({"data": parts}, device=None if on_mesh == "mesh" else on_mesh)
    model = fully_sharded(model, mesh) if kind == "full" else data_parallel(model, mesh)
    lines = name == "image"
    return model, shard(x, mesh, data=2 if lines else 0), shard(y, mesh, data=1 if lines else 0)


def timed(step: Callable[[], Any], steps: int) -> list[tuple[float, float]]:
    """Of each step its seconds, and those of them in which it waited."""
    from rulegrad import communication

    communication.reset_counters()
    times, waited = [], 0.0
    for _ in range(steps):
        begun, before = time.perf_counter(), waited
        step()
        took = time.perf_counter() - begun
        waited = sum(one.seconds for one in communication.counters().values())
        times.append((took, waited - before))
    return times


def measure(name: str, samples: int, on_mesh: str, kind: str, steps: int) -> None:
    """On a rank: prints the time of a step, the bytes sent, the waits, and the processor time of the first step.

    on_mesh: "none", "mesh" of the ranks, or the device whose parts are the mesh.
    """
    from rulegrad import communication, optim
    from rulegrad.communication.counting import started

    model, inputs, targets = placed(name, samples, on_mesh, kind)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)

    @rulegrad.jit
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        scores = model(x)
        loss = scores.reshape(-1, scores.shape[-1]).cross_entropy(y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    begun = time.process_time()
    step(inputs, targets).realize()
    first = time.process_time() - begun
    for _ in range(3):
        step(inputs, targets)
    times = timed(lambda: step(inputs, targets).realize(), steps)
    sent = sum(one.bytes for one in communication.counters().values()) / max(steps, 1)
    by_step = {of: calls // max(steps, 1) for of, calls in started().items()}
    all_alone = alone(by_step) if on_mesh == "mesh" else 0.0
    if communication.world().local[0] == 0:
        quickest = sorted(times)[: len(times) // 4 + 1]  # other programs on the machine have the least part in these
        shown = {
            "ms": quickest[-1][0] * 1e3 if times else 0.0,
            "exposed": sum(exposed for _, exposed in quickest) / max(len(quickest), 1) * 1e3,
            "alone": all_alone * 1e3,
            "sent": sent,
            "first": first,
            "parameters": sum(p.size * 4 for p in model.parameters()),
        }
        print(json.dumps(shown), flush=True)


def run(ranks: int, threads: int, *arguments: str) -> dict[str, float]:
    """The figures that a launched run prints as JSON; each rank has so many cores."""
    command = [sys.executable, "-m", "rulegrad", "launch", "-n", str(ranks), __file__, "--rank", *arguments]
    environment = {**os.environ, "RULEGRAD_THREADS": str(threads), "RULEGRAD_DEVICE": "c"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def rows_of(name: str, samples: int, steps: int, shown: bool) -> dict[str, dict[str, float]]:
    """The rows of a network; each is printed when it is known."""
    rows: dict[str, dict[str, float]] = {}
    tries = {
        "one rank": (1, 1, samples, "none", "data"), "mesh of one": (1, 1, samples, "mesh", "data"),
        "two, weak": (2, 1, 2 * samples, "mesh", "data"), "two, strong": (2, 1, samples, "mesh", "data"),
        "two, fully sharded, weak": (2, 1, 2 * samples, "mesh", "full"),
        "two cores": (1, 2, samples, "none", "data"), "two parts": (1, 2, samples, "c*2", "data"),
    }  # fmt: skip
    for label, (ranks, threads, all_samples, mesh, kind) in tries.items():
        found = run(ranks, threads, name, str(all_samples), mesh, kind, str(steps))
        found["samples a second"] = all_samples / found["ms"] * 1e3
        rows[label] = found
        times = found["samples a second"] / rows["one rank"]["samples a second"]
        if shown:
            print(
                f"{name:8s} {label:26s} {found['ms']:8.3f} ms  {found['samples a second']:10,.0f} samples/s  "
                f"{times:5.2f} x  sent {found['sent']:12,.0f} bytes of {found['parameters']:,.0f}  "
                f"exposed {found['exposed']:.3f} ms of {found['alone']:.3f}  first step {found['first']:.2f} s",
                flush=True,
            )
    return rows


def first_steps(name: str, samples: int) -> dict[str, float]:
    """The processor time of the first step on meshes of parts, in seconds; each the best of three, from the disk."""
    found = {}
    for parts in (1, 2, 4, 8):
        mesh = f"c*{parts}" if parts > 1 else "none"
        tries = [run(1, 1, name, str(samples), mesh, "data", "0")["first"] for _ in range(4)]
        found[str(parts)] = min(tries[1:])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=ROWS, help="this network only")
    parser.add_argument(
        "--rank", nargs=5, metavar=("NETWORK", "SAMPLES", "MESH", "KIND", "STEPS"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.rank:
        name, samples, on_mesh, kind, steps = options.rank
        return measure(name, int(samples), on_mesh, kind, int(steps))
    chosen = {name: row for name, row in ROWS.items() if options.only in (None, name)}
    rows = {name: rows_of(name, *row, shown=not options.json) for name, row in chosen.items()}
    first = {name: first_steps(name, row[0]) for name, row in chosen.items()}
    if options.json:
        print(json.dumps({"rows": rows, "first steps": first}, indent=1))
    else:
        for name, of in first.items():
            print(f"{name:8s} first step  " + "  ".join(f"{parts} parts {s:.3f} s" for parts, s in of.items()))
    return None


if __name__ == "__main__":
    main()
