"""The time that a program takes to start: the import, and the first operation with an empty and with a warm cache.

    python bench/start.py [--runs 15]

Each run is a process of its own. Figures are the least of all runs, in milliseconds: of processor time of the process,
and in brackets that of its children (the device c runs a compiler); after the stroke, elapsed time. The import is
beside that of NumPy, which comes first in the same process. Whether compiled rules came with the package is said first:
in a checkout whose engine was built by `cmake` they do not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import json, os, resource, sys, time
marks = []
def mark():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    marks.append((time.process_time(), children.ru_utime + children.ru_stime, time.perf_counter()))
mark()
import numpy
mark()
from rulegrad import Tensor
mark()
if len(sys.argv) > 1:
    x = Tensor([1.0, 2.0, 3.0], device=sys.argv[1])
    assert (x + x).tolist() == [2.0, 4.0, 6.0]
    mark()
print(json.dumps([[b - a for a, b in zip(*two)] for two in zip(marks, marks[1:])]))
"""
Cost = tuple[float, float, float]  # seconds of the process, of its children, elapsed


def run(cache: Path, *arguments: str) -> list[Cost]:
    """The cost of each part of the program: NumPy, the import, the first operation."""
    environment = {**os.environ, "RULEGRAD_CACHE": str(cache)}
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [tuple(part) for part in json.loads(done.stdout)]


def least(runs: list[list[Cost]], part: int) -> Cost:
    """Of each kind of cost the least of all runs."""
    own, children, elapsed = (min(costs) for costs in zip(*(found[part] for found in runs)))
    return own, children, elapsed


def text(cost: Cost) -> str:
    """The cost as a cell of the table."""
    own, children, elapsed = (1e3 * seconds for seconds in cost)
    return f"{own:.0f}{f' (+{children:.0f})' if children >= 0.5 else ''} / {elapsed:.0f}"


def main() -> None:
    """Measures and prints a table."""
    from rulegrad.engine import shipped

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    print("compiled rules", "came with the package" if shipped.file().is_file() else "did not come with the package")
    print("| start | NumPy | import | first operation | in all |\n|---|---|---|---|---|")
    for device in ("numpy", "c"):
        with tempfile.TemporaryDirectory() as warm:
            run(Path(warm), device)
            found: dict[str, list[list[Cost]]] = {"empty cache": [], "warm cache": []}
            for _ in range(runs):
                found["warm cache"].append(run(Path(warm), device))
                with tempfile.TemporaryDirectory() as empty:
                    found["empty cache"].append(run(Path(empty), device))
        for name, measured in found.items():
            parts = [least(measured, part) for part in range(3)]
            whole = [[tuple(map(sum, zip(*one)))] for one in measured]
            print(f"| {device}, {name} |", " | ".join(map(text, (*parts, least(whole, 0)))), "|")


if __name__ == "__main__":
    main()
