"""Collectives between ranks of this machine: latency and bandwidth of each, beside the same calls of mpi4py.

    python bench/communication.py               2 ranks, a table
    python bench/communication.py -n 4 --json FILE

A time is the least of many, of the slowest rank, with all ranks at one place before it. A kind's α (latency) and β (a
byte's share of the bandwidth) are fitted to α + β n by least squares of relative errors, n being the bytes that a rank
sends by the textbook (`Collective.bytes_sent`); they are what the cost model of docs/scale.md takes.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import common  # noqa: F401  # finds a checkout

COUNTS = (1, 64, 1024, 16384, 262144, 2097152)  # float32 in the source of an all-reduce
QUICK = (1, 1024, 65536)


def times(size: int, counts: tuple[int, ...]) -> dict[str, list[dict[str, float]]]:
    """Of each kind: bytes sent, and the seconds of rulegrad and of mpi4py, at each count. All ranks call it."""
    from mpi4py import MPI

    from rulegrad.communication import Collective, world

    here, everyone = world(), MPI.COMM_WORLD
    found: dict[str, list[dict[str, float]]] = {}
    for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "shift"):
        for count in counts:
            whole = -(-count // size) * size
            operation = "sum" if "reduce" in kind else ""
            given = whole // size if kind == "all_gather" else whole
            of = Collective(kind, (size,), (0,), operation, given, "float32", by=int(kind == "shift"))
            source, result = np.ones(of.count, np.float32), np.zeros(of.result_count, np.float32)
            peer = peer_of(everyone, kind, source, result)
            repeat = 200 if whole < 1 << 16 else 12
            ours = least(everyone, lambda: here.start(of, [source], [result]).wait(), repeat)  # noqa: B023
            theirs = least(everyone, peer, repeat)
            found.setdefault(kind, []).append({"bytes": of.bytes_sent, "rulegrad": ours, "mpi4py": theirs})
    return found


def peer_of(everyone: Any, kind: str, source: np.ndarray, result: np.ndarray) -> Callable[[], None]:
    """The blocking call of MPI that does the same."""
    after, before = (everyone.rank + 1) % everyone.size, (everyone.rank - 1) % everyone.size
    return {
        "all_reduce": lambda: everyone.Allreduce(source, result),
        "all_gather": lambda: everyone.Allgather(source, result),
        "reduce_scatter": lambda: everyone.Reduce_scatter_block(source, result),
        "all_to_all": lambda: everyone.Alltoall(source, result),
        "shift": lambda: everyone.Sendrecv(source, after, 0, result, before, 0),
    }[kind]


def least(everyone: Any, call: Callable[[], None], repeat: int) -> float:
    """The least time of a call, of the slowest rank."""
    seconds = []
    for _ in range(repeat):
        everyone.Barrier()
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return float(np.min(np.max(everyone.allgather(seconds), axis=0)))


def fit(points: list[dict[str, float]], who: str) -> tuple[float, float]:
    """α in seconds and β in seconds a byte, neither below 0."""
    sent = np.array([point["bytes"] for point in points])
    taken = np.array([point[who] for point in points])
    alpha, beta = np.linalg.lstsq(np.stack([1 / taken, sent / taken], 1), np.ones(len(points)), rcond=None)[0]
    return max(float(alpha), 0.0), max(float(beta), 0.0)


def report(found: dict[str, Any], ranks: int) -> dict[str, Any]:
    """Prints the tables; what is written as JSON."""
    print(f"{ranks} ranks on this machine; microseconds, least of many\n")
    print(f"{'kind':<15} {'bytes sent':>11} {'rulegrad':>10} {'mpi4py':>10}")
    for kind, points in found.items():
        for point in points:
            print(f"{kind:<15} {point['bytes']:>11} {point['rulegrad'] * 1e6:>10.1f} {point['mpi4py'] * 1e6:>10.1f}")
    print(f"\n{'kind':<15} {'α (µs)':>8} {'1/β (GB/s)':>11} {'of mpi4py':>10} {'':>11}")
    fitted: dict[str, Any] = {}
    for kind, points in found.items():
        (alpha, beta), peer = fit(points, "rulegrad"), fit(points, "mpi4py")
        fitted[kind] = {"alpha": alpha, "beta": beta, "points": points, "mpi4py": dict(zip(("alpha", "beta"), peer))}
        rates = [1e-9 / found if found else float("inf") for found in (beta, peer[1])]
        print(f"{kind:<15} {alpha * 1e6:>8.1f} {rates[0]:>11.2f} {peer[0] * 1e6:>10.1f} {rates[1]:>11.2f}")
    return {"ranks": ranks, "machine": platform.node(), "processor": platform.machine(), "collectives": fitted}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", dest="ranks", type=int, default=2, help="ranks (2)")
    parser.add_argument("--quick", action="store_true", help="few and small arrays")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write α, β and the times of each kind")
    parser.add_argument("--rank", metavar="FILE", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank is not None:
        from rulegrad.communication import world

        here = world()
        found = times(here.size, QUICK if given.quick else COUNTS)
        if 0 in here.local:
            given.rank.write_text(json.dumps(found), encoding="utf-8")
        return 0
    from rulegrad.workbench.tools import launch

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "times.json"
        line = ["-n", str(given.ranks), __file__, "--rank", str(file), *(["--quick"] if given.quick else [])]
        status = launch.main(line)
        if status:
            return status
        written = report(json.loads(file.read_text(encoding="utf-8")), given.ranks)
    if given.json is not None:
        given.json.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
        print(f"\nwritten to {given.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
