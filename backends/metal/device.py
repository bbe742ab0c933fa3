"""The `metal` backend: Apple's GPUs (`pip install 'rulegrad[metal]'`, on macOS)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rulegrad.errors import DeviceError, OutOfMemoryError
from rulegrad.runtime.kernel import Kernel, sources_of
from rulegrad.runtime.selftest import add_number
from rulegrad.support import forks

from . import api
from .api import discover

__all__ = ["Device", "discover", "fingerprint", "group_size", "self_test"]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Place = tuple[Any, int]  # a buffer, and bytes from its start
_THREADS = 256  # of a group, where the kernel leaves their number open
_MOST_WAITING = 64  # command buffers: a queue has a limit, beyond which it waits by itself


def fingerprint() -> str | None:
    """Changes with the system; None where Metal cannot be, when there is nothing to try."""
    import platform

    return f"macOS {platform.mac_ver()[0]}" if api.is_here() else None


class Device:
    """One GPU with one queue. Handles are `MTLBuffer`s in memory that the GPU and the processor share."""

    target = "metal"
    interprets = False
    in_host_memory = True

    def __init__(self, number: int) -> None:
        self.name = f"metal:{number}"
        self.raw = api.raw_devices()[number]
        self.memory: int = int(self.raw.recommendedMaxWorkingSetSize())
        self._queue = self.raw.newCommandQueue()
        self._started: list[Any] = []  # command buffers that nobody waited for yet
        self._lock = forks.lock()

    def allocate(self, nbytes: int) -> Any:
        found = None
        if nbytes <= self.raw.maxBufferLength():
            found = self.raw.newBufferWithLength_options_(nbytes, api.metal().MTLResourceStorageModeShared)
        if found is None:
            raise OutOfMemoryError(
                f"{self.name} cannot allocate {nbytes:,} bytes: its largest buffer is {self.raw.maxBufferLength():,} "
                f"bytes, and it should use no more than {self.memory:,} in all"
            )
        return found

    def free(self, handle: Any) -> None:
        """Nothing to do: commands keep their buffers, and the last one who holds a buffer lets it go."""

    def copy_in(self, handle: Any, array: np.ndarray[Any, Any]) -> None:
        self.memory_of(handle, array.nbytes)[...] = array.reshape(-1).view(np.uint8)

    def copy_out(self, handle: Any, array: np.ndarray[Any, Any]) -> None:
        array.reshape(-1).view(np.uint8)[...] = self.memory_of(handle, array.nbytes)

    def share(self, array: Bytes) -> Any:
        """Nothing: memory that Metal takes over must be whole pages, which arrays are not."""
        return None

    def memory_of(self, handle: Any, nbytes: int) -> Bytes:
        """The buffer's own memory, after all launches."""
        self.synchronize()
        return np.frombuffer(handle.contents().as_buffer(nbytes), np.uint8)

    def compile(self, kernels: Sequence[Kernel]) -> list[Executable]:
        library = api.build(self.raw, self.name, "\n".join(sources_of(kernels)))
        return [Executable(self, kernel, api.pipeline(self.raw, library, kernel.name)) for kernel in kernels]

    def record(
        self, launches: Sequence[tuple[Executable, Sequence[int]]], bound: int, offsets: Sequence[int]
    ) -> Program:
        """Launches on numbered buffers as one program, which is run as one command buffer."""
        return Program(self, launches, offsets)

    def start(self, launches: Sequence[tuple[Executable, Sequence[Place]]]) -> Any:
        """Starts launches in their order, in one command buffer, which is returned."""
        with self._lock:
            buffer = self._queue.commandBuffer()
            encoder = buffer.computeCommandEncoder()  # serial: each launch sees what those before it wrote
            for executable, places in launches:
                executable.encode(encoder, places)
            encoder.endEncoding()
            buffer.commit()
            self._started.append(buffer)
            if len(self._started) >= _MOST_WAITING:
                self.synchronize()
            return buffer

    def synchronize(self) -> None:
        with self._lock:
            if not self._started:
                return
            self._started[-1].waitUntilCompleted()  # a queue is in order
            problems = [text for buffer in self._started if (text := api.failure(buffer))]
            self._started.clear()
        if problems:
            raise DeviceError(f"{self.name} failed while it ran kernels: {problems[0]}")


class Program:
    """The launches of a plan, on numbered buffers: those given to each run, then places in an arena."""

    def __init__(
        self, device: Device, launches: Sequence[tuple[Executable, Sequence[int]]], offsets: Sequence[int]
    ) -> None:
        self._device = device
        self._launches = tuple(launches)
        self._offsets = tuple(offsets)

    def run(self, handles: Sequence[Any], arena: Any) -> None:
        """Starts the launches in their order, in one command buffer."""
        places = [*((handle, 0) for handle in handles), *((arena, offset) for offset in self._offsets)]
        self._device.start(
            [(executable, [places[number] for number in numbers]) for executable, numbers in self._launches]
        )


class Executable:
    """A kernel as a compute pipeline."""

    def __init__(self, device: Device, kernel: Kernel, pipeline: Any) -> None:
        self._device = device
        self._pipeline = pipeline
        most = int(pipeline.maxTotalThreadsPerThreadgroup())
        size = api.metal().MTLSizeMake
        self._grid = size(*(*kernel.grid, 1, 1, 1)[:3])
        self._group = size(*group_size(kernel, most))

    def sized(self, kernel: Kernel) -> Executable:
        """The same for another grid."""
        return Executable(self._device, kernel, self._pipeline)

    def __call__(self, handles: Sequence[Any], wait: bool = False) -> float | None:
        buffer = self._device.start([(self, [(handle, 0) for handle in handles])])
        if not wait:
            return None
        self._device.synchronize()
        return float(buffer.GPUEndTime() - buffer.GPUStartTime())

    def encode(self, encoder: Any, places: Sequence[Place]) -> None:
        """Adds a launch to commands. The device's lock is held."""
        encoder.setComputePipelineState_(self._pipeline)
        for slot, (buffer, offset) in enumerate(places):
            encoder.setBuffer_offset_atIndex_(buffer, offset, slot)
        encoder.dispatchThreads_threadsPerThreadgroup_(self._grid, self._group)


def group_size(kernel: Kernel, most: int) -> tuple[int, int, int]:
    """Threads of a group along each axis; `most`: in all. Groups at the edges of a grid are smaller by themselves.

    Raises DeviceError when the kernel asks for more.

    >>> from rulegrad.runtime.backends import backend
    >>> from rulegrad.runtime.kernel import Kernel
    >>> backend("metal").module.group_size(Kernel("f", None, "", (6, 500), (), 1), 1024)
    (6, 42, 1)
    """
    if kernel.local:
        first, second, third = (*kernel.local, 1, 1, 1)[:3]
        if first * second * third > most:
            raise DeviceError(
                f"kernel {kernel.name!r} needs groups of {first * second * third} threads; at most {most} fit"
            )
        return first, second, third
    left, sizes = min(_THREADS, most), []
    for items in (*kernel.grid, 1, 1, 1)[:3]:
        sizes.append(min(items, left))
        left //= sizes[-1]
    return sizes[0], sizes[1], sizes[2]


def self_test(number: int) -> None:
    """Builds and runs a kernel that no cache can know. Raises DeviceError when something is wrong."""
    add_number(Device(number), "rulegrad_self_test", _self_test_source)


def _self_test_source(number: int) -> str:
    return (
        "kernel void rulegrad_self_test(device int* out [[buffer(0)]], device int* in [[buffer(1)]], "
        f"uint3 i [[thread_position_in_grid]]) {{ out[i.x] = in[i.x] + {number}; }}"
    )
