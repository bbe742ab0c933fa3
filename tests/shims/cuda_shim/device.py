"""The device `cuda_shim`: CUDA kernels on the CPU."""

from __future__ import annotations

import math
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

from rulegrad.runtime.backends import backend
from rulegrad.runtime.device import Discovery
from rulegrad.runtime.kernel import Kernel, TensorMap

__all__ = ["ONE_DEVICE", "Device", "discover"]

ONE_DEVICE = True
_HERE = Path(__file__).parent

simulator = SimpleNamespace(**runpy.run_path(str(_HERE.parent / "simulator.py")))  # what all simulators share
maps = SimpleNamespace(**runpy.run_path(str(_HERE.parent / "tensor_maps.py")))


def discover() -> Discovery:
    return simulator.discovery("cuda")


class Device(simulator.Simulator):  # type: ignore[misc, name-defined]
    """One block after the other, each a loop over its threads."""

    name = "cuda_shim"
    target = "cuda"

    def __init__(self, number: int = 0) -> None:
        super().__init__()
        self._cuda = backend("cuda")

    def headers(self) -> Sequence[Path]:
        own = [_HERE / name for name in ("cuda.hpp", "group_matrices.hpp", "tensor_maps.hpp")]
        return [*own, self._cuda.folder / "halves.cuh"]

    def later_headers(self) -> Sequence[Path]:
        # what they make of instructions, which our headers have
        return [self._cuda.folder / name for name in ("warps.cuh", "wgmma.cuh", "tma.cuh")]

    def launch(self, kernel: Kernel) -> str:
        return f"launch_with_local_memory({kernel.name}, a, grid, block, seed, fibers, local_bytes)"

    def geometry(self, kernel: Kernel) -> tuple[tuple[int, ...], tuple[int, ...]]:
        launch = sys.modules[f"{self._cuda.module.__package__}.launching"]
        return launch.geometry(kernel)

    def has_barriers(self, kernel: Kernel) -> bool:
        # the threads of a warp meet in matrix instructions too, and in what they reduce together
        return any(word in kernel.source for word in ("__sync", "__shfl", "mma_m", "mbarrier", "warp_"))

    def tensor_map(self, one: TensorMap, address: int) -> bytes:
        strides = [math.prod(one.shape[-k:]) * one.itemsize for k in range(1, len(one.shape))]
        box = one.box[::-1]
        return bytes(maps.encoded(address, one.itemsize, one.sizes[::-1], strides, box, [1] * len(box)))
