"""Common parts of the benchmarks: arguments, timing, child processes, peers, and one way to report."""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")
BENCH = Path(__file__).resolve().parent
SOURCES = BENCH.parent / "rewrite"
# A checkout with a developer build is measured without an install; one without is not in the way of what is installed.
BUILT = any(path.suffix in (".so", ".pyd") for path in (SOURCES / "rulegrad").glob("_core*"))
DEVELOPED = [str(SOURCES)] if BUILT else []
sys.path[:0] = DEVELOPED


@dataclass
class Row:
    """One figure: lower is better, for rulegrad and for each peer that was found."""

    name: str
    unit: str
    rulegrad: float | None = None
    peers: dict[str, float | None] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """The best peer's figure over rulegrad's: above 1, rulegrad is better."""
        found = [value for value in self.peers.values() if value is not None]
        if not found or not self.rulegrad:
            return None
        return min(found) / self.rulegrad

    def put(self, name: str, value: float | None) -> None:
        """File a figure under rulegrad or under a peer."""
        if name == "rulegrad":
            self.rulegrad = value
        else:
            self.peers[name] = value

    def as_object(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "unit": self.unit,
            "rulegrad": self.rulegrad,
            "peers": self.peers,
            "ratio": self.ratio,
        }


def arguments(description: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print a list of objects instead of a table")
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer repeats: under a minute")
    return parser


def note(message: str) -> None:
    """Say something beside the results: standard output stays a table or JSON."""
    print(message, file=sys.stderr, flush=True)


def find(name: str) -> ModuleType | None:
    """Import a package to be measured, or say that it is not there and return None."""
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        note(f"{name} was not found ({error}): its figures are left out")
        return None
    if module.__file__ is None:
        note(f"{name} was not found (there is only a folder of that name): its figures are left out")
        return None
    return module


def best_of(repeats: int, work: Callable[[T], object], prepare: Callable[[], T]) -> float:
    """Seconds of the fastest of some calls of `work`, each on what `prepare` has just made.

    Dropping what a call returns is not in the time. The garbage collector is on, as for users, but what
    was there before the call is hidden from it: a benchmark's own data must not slow down the library
    that makes more objects.
    """
    best = float("inf")
    for _ in range(repeats):
        subject = prepare()
        gc.collect()
        gc.freeze()
        start = time.perf_counter()
        result = work(subject)
        best = min(best, time.perf_counter() - start)
        gc.unfreeze()
        del result, subject
    return best


def repeated(seconds: float, work: Callable[[T], object], prepare: Callable[[], T]) -> float:
    """Seconds of the fastest call of `work`, after one that warms up; 3 to 1,000 calls, until they took `seconds`."""
    work(prepare())
    best, spent, calls = float("inf"), 0.0, 0
    while calls < 3 or (spent < seconds and calls < 1000):
        subject = prepare()
        start = time.perf_counter()
        result = work(subject)
        taken = time.perf_counter() - start
        best, spent, calls = min(best, taken), spent + taken, calls + 1
        del result, subject
    return best


def resident_bytes() -> int:
    """Memory of this process that is in RAM now (Linux), or the most there was (elsewhere)."""
    status = Path("/proc/self/statm")
    if status.exists():
        import resource

        return int(status.read_text().split()[1]) * resource.getpagesize()
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def in_child(script: str, words: Sequence[object], timeout: float) -> dict[str, Any]:
    """Run `script child WORDS…` in a process of its own and return the object that it prints.

    A fresh process has cold caches, and a crash there is a result: `{"error": why}`.
    """
    command = [sys.executable, script, "child", *map(str, words)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"not finished after {timeout:.0f} s"}
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return {"error": last[0][:200]}
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def fresh_process(script: str, **settings: str) -> dict[str, float]:
    """The object that Python code prints at its end, run in a process of its own; the code has `clock` and `json`.

    settings: environment variables. The benchmark ends where the code fails.
    """
    path = os.pathsep.join([*DEVELOPED, *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", "import json, time\nclock = time.perf_counter\n" + script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **settings, "PYTHONPATH": path},
    )
    if done.returncode:
        note(done.stderr)
        raise SystemExit(1)
    answer: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def report(rows: Sequence[Row], options: argparse.Namespace) -> None:
    """Print the rows as one table, or as JSON."""
    if options.json:
        print(json.dumps([row.as_object() for row in rows], indent=1))
        return
    peers = sorted({name for row in rows for name in row.peers})
    lines = [["", "unit", "rulegrad", *peers, "ratio"]]
    for row in rows:
        figures = [shown(row.rulegrad), *(shown(row.peers.get(name)) for name in peers)]
        lines.append([row.name, row.unit, *figures, "–" if row.ratio is None else f"{row.ratio:.3g}×"])
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    for number, line in enumerate(lines):
        cells = [cell.ljust(w) if k < 2 else cell.rjust(w) for k, (cell, w) in enumerate(zip(line, widths))]
        print("| " + " | ".join(cells) + " |")
        if number == 0:
            print("|" + "|".join("-" * (w + 2) for w in widths) + "|")


def shown(value: float | None) -> str:
    """A figure with as many digits as mean something."""
    if value is None:
        return "–"
    if float(value).is_integer() and abs(value) < 1e12:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
