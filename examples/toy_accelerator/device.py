"""The runtime of the toy accelerator: memory, and programs of the toy machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from rulegrad.errors import DeviceError, OutOfMemoryError
from rulegrad.runtime.device import Discovery, Found
from rulegrad.runtime.kernel import Kernel

from .machine import AssemblyError, FaultError, Program

ONE_DEVICE = True

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def discover() -> Discovery:
    return Discovery((Found(0, "a pretend accelerator, simulated", "simulator"),))


class Device:
    """The machine. Handles are its memories, arrays of bytes."""

    name = "toy_accelerator"
    target = "toy_accelerator"
    interprets = False
    memory = 1 << 30

    def __init__(self, number: int = 0) -> None:
        self._used = 0

    def allocate(self, nbytes: int) -> Bytes:
        if self._used + nbytes > self.memory:
            raise OutOfMemoryError(
                f"the toy cannot allocate {nbytes:,} bytes: {self._used:,} of {self.memory:,} are used"
            )
        self._used += nbytes
        return np.zeros(nbytes, np.uint8)

    def free(self, handle: Bytes) -> None:
        self._used -= handle.nbytes

    def copy_in(self, handle: Bytes, array: np.ndarray[Any, Any]) -> None:
        handle[: array.nbytes] = array.reshape(-1).view(np.uint8)

    def copy_out(self, handle: Bytes, array: np.ndarray[Any, Any]) -> None:
        array.reshape(-1).view(np.uint8)[...] = handle[: array.nbytes]

    def compile(self, kernels: Sequence[Kernel]) -> list[Executable]:
        return [Executable(kernel) for kernel in kernels]

    def synchronize(self) -> None:
        """Nothing to do: a launch returns when it has ended."""


class Executable:
    """A program and the grid that it is launched on."""

    def __init__(self, kernel: Kernel) -> None:
        self._grid = kernel.grid or (1,)
        try:
            self._program = Program(kernel.source)
        except AssemblyError as error:
            raise DeviceError(f"the toy's assembler says: {error}\nthe source:\n{kernel.source}") from None

    def __call__(self, handles: Sequence[Bytes], wait: bool = False) -> float | None:
        start = time.perf_counter()
        try:
            self._program(self._grid, handles)
        except (FaultError, ZeroDivisionError) as error:
            raise DeviceError(f"the toy stopped in kernel {self._program.name}: {error}") from None
        return time.perf_counter() - start if wait else None
