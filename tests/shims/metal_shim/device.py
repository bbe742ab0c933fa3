"""The device `metal_shim`: Metal kernels on the CPU."""

from __future__ import annotations

import re
import runpy
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

from rulegrad.runtime.backends import backend
from rulegrad.runtime.device import Discovery
from rulegrad.runtime.kernel import Kernel

__all__ = ["ONE_DEVICE", "Device", "discover"]

ONE_DEVICE = True
_HERE = Path(__file__).parent

simulator = SimpleNamespace(**runpy.run_path(str(_HERE.parent / "simulator.py")))  # what all simulators share
_THREADS = 64


def discover() -> Discovery:
    return simulator.discovery("metal")


class Device(simulator.Simulator):  # type: ignore[misc, name-defined]
    """One group after the other, each a loop over its threads."""

    name = "metal_shim"
    target = "metal"

    def headers(self) -> Sequence[Path]:
        return [backend("cuda").folder / "halves.cuh", _HERE / "language.hpp"]

    def launch(self, kernel: Kernel) -> str:
        return f"shim::run(grid, block, seed, fibers, [&] {{ {_call(kernel)} }})"

    def geometry(self, kernel: Kernel) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Groups that divide the grid: Metal makes those at its edges smaller."""
        grid = (*kernel.grid, 1, 1, 1)[:3]
        sizes = [*(*kernel.local, 1, 1, 1)[:3]] if kernel.local else []
        left = _THREADS
        while len(sizes) < 3:
            items = grid[len(sizes)]
            sizes.append(max(size for size in range(1, left + 1) if items % size == 0))
            left //= sizes[-1]
        return tuple(items // size for items, size in zip(grid, sizes, strict=True)), tuple(sizes)

    def has_barriers(self, kernel: Kernel) -> bool:
        names = ("_barrier(", "simd_", *simulator.matrix_instructions(self.target))
        return any(name in kernel.source for name in names)


def _call(kernel: Kernel) -> str:
    """The call of a kernel for one thread: its buffers, and what its other parameters' attributes name."""
    found = re.search(rf"kernel void {kernel.name}\((.*)\) {{", kernel.source)
    assert found is not None, kernel.source
    arguments = []
    for parameter in found.group(1).split(", "):
        kind, attribute = re.fullmatch(r"(.*?) \w+ \[\[(.*)\]\]", parameter).groups()  # type: ignore[union-attr]
        buffer = re.fullmatch(r"buffer\((\d+)\)", attribute)
        arguments.append(f"({kind})a[{buffer.group(1)}]" if buffer else f"shim::{attribute}()")
    return f"{kernel.name}({', '.join(arguments)});"
