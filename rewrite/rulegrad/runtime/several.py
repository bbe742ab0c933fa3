"""Several devices as one: `c*4` is four parts that run the same program, each on memory of its own.

A mesh of devices in one process is such a device. A handle is a tuple of handles, one for each part; what is copied in
is copied to all parts, and what is copied out is that of the first. The parts share the device that they are named
after. Where its programs are the engine's, each part runs on its share of the cores, beside the others; elsewhere they
run one after the other, and show on one machine what a program does on many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rulegrad.runtime.device import Device, Executable, Handle, Replay

if TYPE_CHECKING:
    import numpy as np

    from rulegrad.runtime.kernel import Kernel


def count_of(name: str) -> int:
    """How many parts a device of this name has.

    >>> count_of("c*4"), count_of("opencl:0")
    (4, 1)
    """
    return int(name.partition("*")[2] or 1)


class Several:
    """A device of `count` parts, all on one other device."""

    def __init__(self, device: Device, count: int) -> None:
        self.device = device
        self.count = count
        self.name = f"{device.name}*{count}"
        self.target = device.target
        self.interprets = device.interprets
        self.memory = device.memory // count
        #: As devices have it, where the parts can run beside each other.
        self.record = self._record if hasattr(device, "beside") else None

    def allocate(self, nbytes: int) -> tuple[Handle, ...]:
        """So many bytes for each part. Raises OutOfMemoryError."""
        return tuple(self.device.allocate(nbytes) for _ in range(self.count))

    def free(self, handle: tuple[Handle, ...]) -> None:
        """Gives the memory of all parts back."""
        for one in handle:
            self.device.free(one)

    def copy_in(self, handle: tuple[Handle, ...], array: np.ndarray[Any, Any]) -> None:
        """Copies an array to each part."""
        for one in handle:
            self.device.copy_in(one, array)

    def copy_out(self, handle: tuple[Handle, ...], array: np.ndarray[Any, Any]) -> None:
        """Copies what the first part has."""
        self.device.copy_out(handle[0], array)

    def compile(self, kernels: Sequence[Kernel]) -> list[Executable]:
        """Builds the kernels once, for all parts."""
        return [_OnEach(executable) for executable in self.device.compile(kernels)]

    def _record(self, launches: Sequence[tuple[_OnEach, Sequence[int]]], bound: int, offsets: Sequence[int]) -> _Beside:
        """Launches on numbered buffers as one program."""
        device: Any = self.device
        program = device.record([(each.executable, numbers) for each, numbers in launches], bound, offsets)
        return _Beside(program, device.beside, self.count)

    def synchronize(self) -> None:
        """Returns when all parts have ended."""
        self.device.synchronize()


class _OnEach:
    """A kernel that runs on each part."""

    def __init__(self, executable: Executable) -> None:
        self.executable = executable

    def __call__(self, handles: Sequence[tuple[Handle, ...]], wait: bool = False) -> float | None:
        times = [self.executable(part, wait) for part in zip(*handles, strict=True)]
        return sum(time or 0.0 for time in times) if wait else None


class _Beside:
    """A program of each part. They run beside each other, and all have ended when it has."""

    def __init__(self, program: Replay, beside: int, count: int) -> None:
        self._program, self._beside, self._count = program, beside, count

    def run(self, handles: Sequence[tuple[Handle, ...]], arena: tuple[Handle, ...] | None) -> None:
        """Runs it on the handles of all parts (see `Program`)."""
        self._program.run_beside(self._beside, self._count, handles, arena)
