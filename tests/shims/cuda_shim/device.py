"""The device `cuda_shim`: CUDA kernels on the CPU."""

from __future__ import annotations

import importlib.util
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
    return simulator.discovery("cuda")


class Device(simulator.Simulator):  # type: ignore[misc, name-defined]
    """One block after the other, each a loop over its threads."""

    name = "cuda_shim"
    target = "cuda"

    def __init__(self, number: int = 0) -> None:
        super().__init__()
        self._cuda = backend("cuda")

    def included(self) -> Sequence[Path]:
        return [simulator.CORE, _HERE / "cuda.hpp", self._cuda.folder / "halves.cuh"]

    def program(self, kernels: Sequence[Kernel]) -> str:
        lines = [f'#include "{path}"' for path in self.included()[1:]]
        lines += simulator.matrix_instructions(self.target).values()
        lines.append(f'#include "{self._cuda.folder / "wgmma.cuh"}"')  # by mma instructions, as there is no Hopper
        lines += [kernel.source for kernel in kernels]
        lines += ['extern "C" {', "char shim_message[400];"]
        for kernel in kernels:
            lines.append(
                f"int launch_{kernel.name}(void** a, const unsigned* grid, const unsigned* block, unsigned seed, int fibers) "
                f"{{ return shim::launch({kernel.name}, a, grid, block, seed, fibers); }}"
            )
        return "\n".join([*lines, "}", ""])

    def geometry(self, kernel: Kernel) -> tuple[tuple[int, ...], tuple[int, ...]]:
        launch = sys.modules[f"{self._cuda.module.__package__}.launching"]
        return launch.geometry(kernel)

    def has_barriers(self, kernel: Kernel) -> bool:
        # the threads of a warp meet in matrix instructions too
        return "__sync" in kernel.source or "mma_m" in kernel.source
