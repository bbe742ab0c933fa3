"""Training on two ranks beside one, a core each: samples a second, bytes sent, time to compile.

    python bench/distributed.py [--json]

Each row is a captured training step. *One rank* is the program without a mesh; *mesh of one* the same on a mesh of one
device, which shows what the sharded path costs. On two ranks each has the batch of the row ("weak"), or half of it
("strong").
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "nanogpt"))

# By network: samples in a batch of one rank, and steps that are timed.
ROWS = {"digits": (1024, 400), "nanogpt": (16, 25)}


def network(name: str) -> Any:
    import rulegrad
    from rulegrad import nn

    rulegrad.manual_seed(0)
    if name == "digits":
        return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    from model import GPT

    return GPT(characters=65, block_size=128, width=192, heads=6, layers=4, dropout=0.0)


def batch(name: str, samples: int) -> tuple[Any, Any]:
    import numpy as np

    random = np.random.default_rng(0)
    if name == "digits":
        return random.random((samples, 64), np.float32), random.integers(0, 10, samples)
    return random.integers(0, 65, (samples, 128)), random.integers(0, 65, (samples, 128))


def measure(name: str, samples: int, on_mesh: bool, kind: str, steps: int) -> None:
    """On a rank: prints the time of a step, the bytes sent, and the time of the first step."""
    import rulegrad
    from rulegrad import Tensor, communication, optim
    from rulegrad.distributed import Mesh, data_parallel, fully_sharded, shard

    model, (x, y) = network(name), batch(name, samples)
    if on_mesh:
        mesh = Mesh({"data": communication.world().size})
        model = fully_sharded(model, mesh) if kind == "full" else data_parallel(model, mesh)
        inputs, targets = shard(x, mesh, data=0), shard(y, mesh, data=0)
    else:
        inputs, targets = Tensor(x), Tensor(y)
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
    communication.reset_counters()
    times: list[float] = []
    for _ in range(steps):
        begun = time.perf_counter()
        step(inputs, targets).realize()
        times.append(time.perf_counter() - begun)
    sent = sum(one.bytes for one in communication.counters().values()) / len(times)
    if communication.world().local[0] == 0:
        times.sort()
        shown = {"ms": times[len(times) // 4] * 1e3, "sent": sent, "first": first, "parameters": sum(
            p.size * 4 for p in model.parameters())}  # fmt: skip
        print(json.dumps(shown), flush=True)


def run(ranks: int, *arguments: str) -> dict[str, float]:
    """What a launched run prints; each rank has one core."""
    command = [sys.executable, "-m", "rulegrad", "launch", "-n", str(ranks), __file__, "--rank", *arguments]
    environment = {**os.environ, "RULEGRAD_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--rank", nargs=5, metavar=("NETWORK", "SAMPLES", "MESH", "KIND", "STEPS"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.rank:
        name, samples, on_mesh, kind, steps = options.rank
        return measure(name, int(samples), on_mesh == "mesh", kind, int(steps))
    rows: dict[str, dict[str, float]] = {}
    for name, (samples, steps) in ROWS.items():
        tries = {
            "one rank": (1, samples, "none", "data"), "mesh of one": (1, samples, "mesh", "data"),
            "two, weak": (2, 2 * samples, "mesh", "data"), "two, strong": (2, samples, "mesh", "data"),
            "two, fully sharded, weak": (2, 2 * samples, "mesh", "full"),
        }  # fmt: skip
        for label, (ranks, all_samples, mesh, kind) in tries.items():
            found = run(ranks, name, str(all_samples), mesh, kind, str(steps))
            found["samples a second"] = all_samples / found["ms"] * 1e3
            rows[f"{name}, {label}"] = found
            base = rows[f"{name}, one rank"]["samples a second"]
            if not options.json:
                print(
                    f"{name:8s} {label:26s} {found['ms']:8.2f} ms  {found['samples a second']:10,.0f} samples/s  "
                    f"{found['samples a second'] / base:5.2f} x  sent {found['sent']:12,.0f} bytes of "
                    f"{found['parameters']:,.0f}  first step {found['first']:.2f} s"
                )  # fmt: skip
    if options.json:
        print(json.dumps(rows, indent=1))
    return None


if __name__ == "__main__":
    main()
