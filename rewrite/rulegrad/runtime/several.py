"""Several devices as one: `c*4` and `cuda:0+cuda:1` run one program on each of their parts, on memory of its own.

A mesh of devices in one process is such a device. A handle is a tuple of handles, one for each part; what is copied in
is copied to all parts, and what is copied out is that of the first.

Parts are devices (`cuda:0+cuda:1`), or parts of one device (`c*4`). These have its cores to themselves where the device
can be divided (sub-devices of OpenCL), or where the engine runs its programs on a share of the cores each. Elsewhere
they run one after the other, and show on one machine what a program does on many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rulegrad.errors import DeviceError
from rulegrad.runtime.device import Device, Executable, Handle, Program, Replay

if TYPE_CHECKING:
    import numpy as np

    from rulegrad.runtime.kernel import Kernel


def parts_of(name: str) -> tuple[str, ...]:
    """The names of the devices that the parts of a device are on; its own where it has one part.

    >>> parts_of("c*2"), parts_of("cuda:0+cuda:1"), parts_of("opencl:0")
    (('c', 'c'), ('cuda:0', 'cuda:1'), ('opencl:0',))
    """
    if "+" in name:
        return tuple(name.split("+"))
    whole, _, count = name.partition("*")
    return (whole,) * int(count or 1)


def count_of(name: str) -> int:
    """How many parts a device of this name has.

    >>> count_of("c*4"), count_of("opencl:0")
    (4, 1)
    """
    return len(parts_of(name))


def of_device(device: Device, count: int) -> Several:
    """A device in equal parts: with the device's cores divided among them, where it can be."""
    divide = getattr(device, "divided", None)
    devices = None if divide is None else divide(count)
    return Several(f"{device.name}*{count}", devices or [device] * count)


class Several:
    """A device whose parts are on these devices, which may be one and the same.

    Raises DeviceError where kernels of one cannot run on another.
    """

    def __init__(self, name: str, devices: Sequence[Device]) -> None:
        first = devices[0]
        for one in devices:
            if (one.target, one.interprets) != (first.target, first.interprets):
                raise DeviceError(
                    f"{name}: one program runs on all devices of a mesh, but {first.name} is compiled for as "
                    f"{first.target!r}, {one.name} as {one.target!r}; name devices of one kind"
                )
        self.name = name
        self.devices = tuple(devices)
        self.target = first.target
        self.interprets = first.interprets
        #: Of each part. Devices that are one memory, divided or not, have a share of it each.
        is_one = len({one.name.partition("*")[0] for one in devices}) == 1
        self.memory = min(one.memory for one in devices) // (len(devices) if is_one else 1)
        self.has_arenas = getattr(first, "has_arenas", True)
        #: As devices have it; engine programs of parts that share a device run beside each other on its cores.
        self.record = self._recorder()

    def allocate(self, nbytes: int) -> tuple[Handle, ...]:
        """So many bytes for each part. Raises OutOfMemoryError."""
        handles: list[Handle] = []
        try:
            for one in self.devices:
                handles.append(one.allocate(nbytes))
        except BaseException:
            self.free(tuple(handles))
            raise
        return tuple(handles)

    def free(self, handle: tuple[Handle, ...]) -> None:
        """Gives the memory of all parts back."""
        for device, one in zip(self.devices, handle, strict=False):  # fewer where the last had no memory
            device.free(one)

    def copy_in(self, handle: tuple[Handle, ...], array: np.ndarray[Any, Any]) -> None:
        """Copies an array to each part."""
        for device, one in zip(self.devices, handle, strict=True):
            device.copy_in(one, array)

    def copy_out(self, handle: tuple[Handle, ...], array: np.ndarray[Any, Any]) -> None:
        """Copies what the first part has."""
        self.devices[0].copy_out(handle[0], array)

    def compile(self, kernels: Sequence[Kernel]) -> list[Executable]:
        """Builds the kernels for all parts; a device that stands for several of them builds them once."""
        built = {id(one): one.compile(kernels) for one in dict.fromkeys(self.devices)}
        return [_OnEach(each) for each in zip(*(built[id(one)] for one in self.devices), strict=True)]

    def flush(self) -> None:
        """Sees to it that all parts work on what was asked for, before somebody waits for one of them."""
        for one in self.devices:
            flush = getattr(one, "flush", None)
            if flush is not None:
                flush()

    def synchronize(self) -> None:
        """Returns when all parts have ended."""
        self.flush()
        for one in dict.fromkeys(self.devices):
            one.synchronize()

    def _recorder(self) -> Any:
        first: Any = self.devices[0]
        if all(one is first for one in self.devices):
            return self._record_beside if hasattr(first, "beside") else None
        return self._record_each if hasattr(first, "record") else None

    def _record_beside(
        self, launches: Sequence[tuple[_OnEach, Sequence[int]]], bound: int, offsets: Sequence[int]
    ) -> _Beside:
        """Launches on numbered buffers as one program."""
        device: Any = self.devices[0]
        program = device.record([(each.executables[0], numbers) for each, numbers in launches], bound, offsets)
        return _Beside(program, device.beside, len(self.devices))

    def _record_each(
        self, launches: Sequence[tuple[_OnEach, Sequence[int]]], bound: int, offsets: Sequence[int]
    ) -> _ProgramOnEach:
        """Launches on numbered buffers as one program of each part."""
        devices: Sequence[Any] = self.devices
        programs = [
            device.record([(each.executables[part], numbers) for each, numbers in launches], bound, offsets)
            for part, device in enumerate(devices)
        ]
        return _ProgramOnEach(self, programs)


class _OnEach:
    """A kernel that runs on each part."""

    def __init__(self, executables: Sequence[Executable]) -> None:
        self.executables = executables

    def __call__(self, handles: Sequence[tuple[Handle, ...]], wait: bool = False) -> float | None:
        parts = zip(*handles, strict=True)
        times = [executable(part, wait) for executable, part in zip(self.executables, parts, strict=True)]
        return sum(time or 0.0 for time in times) if wait else None


class _Beside:
    """A program of each part. They run beside each other, and all have ended when it has."""

    def __init__(self, program: Replay, beside: int, count: int) -> None:
        self._program, self._beside, self._count = program, beside, count

    def run(self, handles: Sequence[tuple[Handle, ...]], arena: tuple[Handle, ...] | None) -> None:
        """Runs it on the handles of all parts (see `Program`)."""
        self._program.run_beside(self._beside, self._count, handles, arena)


class _ProgramOnEach:
    """A program of each part, whose device runs it by itself."""

    def __init__(self, several: Several, programs: Sequence[Program]) -> None:
        self._several, self._programs = several, programs

    def run(self, handles: Sequence[tuple[Handle, ...]], arena: tuple[Handle, ...] | None) -> None:
        """Starts it on the handles of all parts (see `Program`)."""
        for part, program in enumerate(self._programs):
            program.run([handle[part] for handle in handles], None if arena is None else arena[part])
        self._several.flush()
