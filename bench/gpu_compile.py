"""Every kernel of the corpus, compiled for NVIDIA GPUs without one: registers, stack, spills and shared memory of each.

    python bench/gpu_compile.py [--arch ARCH]... [--json] [--all] [NAME...]

It needs NVRTC (python -m pip install 'rulegrad[cuda]'), and no driver. The kernels are those of the programs of
`rulegrad.workbench.diagnosis.corpus` and of the graphs of bench/corpus, at their small sizes, and products of every
dtype that has matrix instructions; each for the target that a GPU of the architecture has. NAME: those whose names
contain one of these. All kernels of a program are one translation unit. Printed are the totals of each program, and
each kernel that spills or has a stack; --all prints every kernel. The exit status is 1 when a program does not compile.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

import common  # noqa: F401  (it puts a checkout's sources in front)
from corpus import GRAPHS
from corpus.with_rulegrad import Rulegrad
from rulegrad import Tensor
from rulegrad.compile import compile_graph
from rulegrad.errors import DeviceError
from rulegrad.runtime.backends import backend
from rulegrad.runtime.kernel import Kernel
from rulegrad.workbench.diagnosis.corpus import PROGRAMS

ARCHES = ("sm_80", "sm_90a")


def main() -> int:
    """Prints the table; exit status 1 when a program does not compile, 2 without NVRTC."""
    options = parsed()
    package = backend("cuda").module.__package__
    programs, usage = (importlib.import_module(f"{package}.{name}") for name in ("programs", "usage"))
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    try:
        for arch in options.arch or ARCHES:
            for name, kernels in corpus(options.names, target_of(arch, programs)):
                try:
                    rows += compiled(name, kernels, arch, programs, usage, options)
                except DeviceError as error:
                    failed.append(name)
                    print(f"{name}, {arch}: {error}", file=sys.stderr)
    except (ImportError, RuntimeError) as error:
        print(f"NVRTC is not installed ({error}): python -m pip install 'rulegrad[cuda]'", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({"kernels": rows, "failed": failed}, indent=2))
    else:
        total(rows, failed)
    return 1 if failed else 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", metavar="NAME", nargs="*")
    parser.add_argument("--arch", action="append", help=f"an architecture; {' and '.join(ARCHES)} without one")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    parser.add_argument("--all", action="store_true", help="print every kernel")
    return parser.parse_args()


def target_of(arch: str, programs: Any) -> str:
    """The target that a device of this architecture has."""
    number = int("".join(filter(str.isdigit, arch)))
    return str(programs.target_for(*divmod(number, 10)))


def corpus(names: list[str], target: str) -> Iterator[tuple[str, list[Kernel]]]:
    """The kernels of each program, each kernel once."""
    seen: set[str] = set()

    def kernels(tensors: list[Tensor]) -> list[Kernel]:
        found = [k for k in compile_graph([t.uop for t in tensors], target) if k.source not in seen]
        seen.update(k.source for k in found)
        return list({k.source: k for k in found}.values())

    def wanted(name: str) -> bool:
        return not names or any(part in name for part in names)

    for program in PROGRAMS:
        if wanted(program.__name__):
            yield program.__name__, kernels(program("numpy"))
    library = Rulegrad("numpy")
    for name, graph in GRAPHS.items():
        if wanted(name):
            inputs = [library.tensor(array) for array in graph.arrays(small=True)]
            yield name, kernels(list(graph.outputs(library, inputs)))
    for dtype in ("bfloat16", "float16", "int8", *(("float8_e4m3fn", "float8_e5m2") if target != "cuda" else ())):
        if wanted(f"products of {dtype}"):
            yield f"products of {dtype}", [one for pair in products(dtype) for one in kernels(pair)]


def products(dtype: str) -> Iterator[list[Tensor]]:
    """Whole tiles, with either operand transposed in memory, and sizes that do not fit."""
    for size in (256, 200):
        a, b = (Tensor(np.ones((size, size), np.int8), device="numpy").cast(dtype).realize() for _ in range(2))
        for left, right in ((a, b), (a.T, b), (a, b.T)):
            yield [left.cast("int32") @ right.cast("int32") if dtype == "int8" else left @ right]


def compiled(
    name: str, kernels: list[Kernel], arch: str, programs: Any, usage: Any, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """The usage of each kernel of a program. Raises DeviceError."""
    if not kernels:
        return []
    start = time.perf_counter()
    _, log = programs.compile_text("\n".join(k.source for k in kernels), arch, name)
    seconds = time.perf_counter() - start
    found = usage.usages(log)
    if len(found) != len(kernels):
        raise DeviceError(f"the compiler reports {len(found)} of {len(kernels)} kernels")
    milliseconds = seconds * 1e3 / len(found)
    asked = {kernel.name: kernel.local_bytes for kernel in kernels}
    if not options.json:
        print(
            f"{name:<48} {arch:<7} {len(found):3} kernels {milliseconds:7.1f} ms each, "
            f"registers {min(u.registers for u in found)} to {max(u.registers for u in found)}"
        )
        for one in found:
            if one.stack or one.spills or options.all:
                print(f"    {one.name:<52} {one.registers:3} registers {one.stack:5} stack {one.spills:5} spilled "
                      f"{one.shared + asked[one.name]:6} shared")  # fmt: skip
    return [{"program": name, "milliseconds": milliseconds, **asdict(one), "asked": asked[one.name]} for one in found]


def total(rows: list[dict[str, Any]], failed: list[str]) -> None:
    """One line for each architecture."""
    for arch in dict.fromkeys(row["arch"] for row in rows):
        here = [row for row in rows if row["arch"] == arch]
        registers = sorted(row["registers"] for row in here)
        print(
            f"{arch}: {len(here)} kernels, registers {registers[len(here) // 2]} (median), {registers[-1]} at most, "
            f"{sum(row['stack'] > 0 for row in here)} with a stack, {sum(row['spills'] > 0 for row in here)} spill, "
            f"{sum(row['milliseconds'] for row in here) / len(here):.1f} ms each"
        )
    if failed:
        print(f"do not compile: {', '.join(dict.fromkeys(failed))}")


if __name__ == "__main__":
    sys.exit(main())
