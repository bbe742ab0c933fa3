"""The `numpy` backend: the reference interpreter as a device. It always works."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rulegrad.errors import OutOfMemoryError
from rulegrad.runtime.device import Discovery, Found
from rulegrad.runtime.hardware import host_memory
from rulegrad.runtime.kernel import Kernel

if TYPE_CHECKING:
    from rulegrad.ir import UOp

__all__ = ["ONE_DEVICE", "Device", "best_kind", "discover"]

ONE_DEVICE = True

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def best_kind() -> str:
    return "interpreter"


def discover() -> Discovery:
    return Discovery((Found(0, f"the reference interpreter, NumPy {np.__version__}", "interpreter"),))


class Device:
    """The host. Handles are arrays of bytes."""

    name = "numpy"
    target = "numpy"
    interprets = True
    in_host_memory = True
    launches_wait = True

    def __init__(self, number: int = 0) -> None:
        self.memory = host_memory()

    def allocate(self, nbytes: int) -> Bytes:
        try:
            return np.empty(nbytes, np.uint8)
        except MemoryError:
            raise OutOfMemoryError(f"numpy cannot allocate {nbytes:,} bytes") from None

    def free(self, handle: Bytes) -> None:
        """Nothing to do: the last one who holds the array lets it go."""

    def copy_in(self, handle: Bytes, array: np.ndarray[Any, Any]) -> None:
        handle[: array.nbytes] = array.reshape(-1).view(np.uint8)

    def copy_out(self, handle: Bytes, array: np.ndarray[Any, Any]) -> None:
        array.reshape(-1).view(np.uint8)[...] = handle[: array.nbytes]

    def share(self, array: Bytes) -> Bytes:
        return array

    def memory_of(self, handle: Bytes, nbytes: int) -> Bytes:
        return handle[:nbytes]

    def compile(self, kernels: Sequence[Kernel]) -> list[_Executable]:
        return [_Executable(kernel) for kernel in kernels]

    def synchronize(self) -> None:
        """Nothing to do: a launch returns when it has ended."""


class _Executable:
    """A kernel's graph, planned."""

    def __init__(self, kernel: Kernel) -> None:
        # Not at the top: saying what devices there are needs no engine.
        from rulegrad.interpreter.evaluation import KernelProgram

        self._program = KernelProgram(kernel.graph, kernel.name)
        self._layouts: dict[UOp, _Layout] = {}

    def __call__(self, handles: Sequence[Bytes], wait: bool = False) -> float | None:
        start = time.perf_counter()
        try:
            self._program.run(lambda node: self._array(handles, node))
        except MemoryError as error:
            raise OutOfMemoryError(f"numpy has not enough memory for the values inside a kernel ({error})") from None
        return time.perf_counter() - start if wait else None

    def _array(self, handles: Sequence[Bytes], node: UOp) -> np.ndarray[Any, Any]:
        """The memory as the array that a PARAM stands for."""
        layout = self._layouts.get(node)
        if layout is None:
            layout = self._layouts[node] = _layout(node)
        slot, nbytes, dtype, shape = layout
        return handles[slot][:nbytes].view(dtype).reshape(shape)


_Layout = tuple[int, int, "np.dtype[Any]", tuple[int, ...]]  # slot, bytes, dtype, shape


def _layout(node: UOp) -> _Layout:
    from rulegrad.ir.dtype import as_dtype

    dtype = as_dtype(node.dtype).numpy
    return node.attrs["slot"], math.prod(node.shape) * dtype.itemsize, dtype, node.shape
