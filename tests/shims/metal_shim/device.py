"""The device `metal_shim`: Metal kernels on the CPU."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rulegrad.runtime.backends import backend
from rulegrad.runtime.device import Discovery
from rulegrad.runtime.kernel import Kernel

__all__ = ["ONE_DEVICE", "Device", "discover"]

ONE_DEVICE = True
_HERE = Path(__file__).parent
_THREADS = 64


def _simulator() -> Any:
    """The neighbouring folder's module, which all simulators share."""
    name = "rulegrad_shims_simulator"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, _HERE.parent / "simulator.py")
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


simulator = _simulator()


def discover() -> Discovery:
    return simulator.discovery("metal")


class Device(simulator.Simulator):  # type: ignore[misc, name-defined]
    """One group after the other, each a loop over its threads."""

    name = "metal_shim"
    target = "metal"

    def included(self) -> Sequence[Path]:
        # halves are what they are in CUDA
        return [
            simulator.CORE, _HERE / "metal.hpp", backend("cuda").folder / "halves.cuh", _HERE / "language.hpp",
        ]  # fmt: skip

    def program(self, kernels: Sequence[Kernel]) -> str:
        lines = [f'#include "{path}"' for path in self.included()[1:]]
        lines += simulator.matrix_instructions(self.target).values()
        lines += [kernel.source for kernel in kernels]
        lines += ['extern "C" {', "char shim_message[400];"]
        for kernel in kernels:
            lines.append(
                f"int launch_{kernel.name}(void** a, const unsigned* grid, const unsigned* block, unsigned seed, int fibers) "
                f"{{ return shim::run(grid, block, seed, fibers, [&] {{ {_call(kernel)} }}); }}"
            )
        return "\n".join([*lines, "}", ""])

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
        return "_barrier(" in kernel.source or any(
            name in kernel.source for name in simulator.matrix_instructions(self.target)
        )


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
