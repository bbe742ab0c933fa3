"""The interface of a backend's `device.py`: the contract that accelerator authors write to.

A backend is a folder with `NAME.rules` (the target) and `device.py`. The module has

- `class Device`, made with the number of the device among those of this backend: `Device(0)`;
- `def discover() -> Discovery`, which says what there is without compiling anything.

It may have `ONE_DEVICE = True`, where its device is called by the backend's name alone, and `RANK`, a number: of
devices of one kind, those of the backend with the least rank (0 when it says none) are chosen first.

The choice of the default device asks a backend only where that could have a better device than those that work. So it
may say, without loading a driver,

- `def best_kind() -> str`: the best of `KINDS` that a device of it could be; without this function it is asked first.

A driver that may end the process (an abort, a crash) is tried out in a child process first. For that the
module also has

- `def fingerprint() -> str | None`: changes when the driver, or what it needs, changes; None: there is nothing to try;
- `def self_test(number: int) -> None`: compiles and runs a small kernel; raises DeviceError when it is wrong.

With `ENDS_NO_PROCESS = True` it says that both are as safe in this process, because they start processes of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rulegrad._core import CudaKernel, CudaQueue, Replay

__all__ = [
    "KINDS", "CudaKernel", "CudaQueue", "Device", "Discovery", "Executable", "Found", "Handle", "Program", "Replay",
]  # fmt: skip

if TYPE_CHECKING:
    import numpy as np

    from rulegrad.runtime.kernel import Kernel

#: Kinds of device, the best first. The default device is the first usable one of the best kind; a
#: simulator is never chosen without being named.
KINDS = ("gpu", "accelerator", "cpu", "interpreter", "simulator")

Handle = Any  #: Memory of a device, as the device itself names it.


class Found(NamedTuple):
    """One device: its number within the backend, what it is, and why it cannot be used, if so."""

    number: int
    description: str
    kind: str
    problem: str = ""


class Discovery(NamedTuple):
    """The devices that a backend found, where it looked, and the remedy when one is missing."""

    devices: tuple[Found, ...]
    looked: tuple[str, ...] = ()
    advice: str = ""


class Executable(Protocol):
    """A compiled kernel."""

    def __call__(self, handles: Sequence[Handle], wait: bool = False) -> float | None:
        """Launches on the buffers of the kernel's slots; with `wait`, returns seconds once it has ended."""
        ...


class SizedExecutable(Executable, Protocol):
    """A kernel of a target with a template `sizes`: its grid depends on the sizes that it is given."""

    def sized(self, kernel: Kernel) -> Executable:
        """The same for another grid. A launch's last buffer has the sizes."""
        ...


class Program(Protocol):
    """The launches of a plan, which may be run again and again, on other buffers each time."""

    def run(self, handles: Sequence[Handle], arena: Handle | None) -> None:
        """Launches all, in order. handles: of the bound buffers. arena: memory that no other launch uses meanwhile."""
        ...


class CommunicationStream(Protocol):
    """A stream of CUDA on which NCCL moves values beside a GPU's kernels."""

    handle: int  #: as CUDA's driver gives it
    number: int  #: of the GPU in this process
    identity: bytes  #: of the GPU: 16 bytes, no other GPU's

    def follow(self) -> None:
        """Work that is put on it from now on runs after the kernels launched so far. Its GPU is this thread's."""
        ...

    def join(self) -> None:
        """Kernels that are launched from now on run after what was put on it so far."""
        ...

    def synchronize(self) -> None:
        """Returns when all that was put on it has ended."""
        ...


class Device(Protocol):
    """One device. `nbytes` is never 0. Launches happen in the order in which they are asked for."""

    name: str  #: "opencl:0", or just the backend's name when it has one device
    target: str  #: the name of its target in the rules
    interprets: bool  #: True: runs Kernel.graph; False: builds Kernel.source
    memory: int  #: bytes that the device has; 0 when it does not say

    def allocate(self, nbytes: int) -> Handle:
        """Memory with unspecified contents. Raises OutOfMemoryError with the size when there is not enough."""
        ...

    def free(self, handle: Handle) -> None:
        """Gives memory back; launches that were asked for before may still use it."""
        ...

    def copy_in(self, handle: Handle, array: np.ndarray[Any, Any]) -> None:
        """Copies a contiguous array to the start of the memory; the array may change once this returns."""
        ...

    def copy_out(self, handle: Handle, array: np.ndarray[Any, Any]) -> None:
        """Fills a contiguous array from the start of the memory, after all earlier launches."""
        ...

    # A device may also have `in_host_memory: bool`. Where it is True it has `share(array) -> Handle | None`, the memory
    # of an array of bytes as a handle that keeps the array, and `memory_of(handle, nbytes) -> array | None`, the memory
    # as bytes, after all earlier launches. None says that just this memory cannot be shared; it is copied then.

    # A device may also have `identity: str`, of its compiler, which files of captured functions name, and
    # `kept_programs(kernels)`, entries of the cache on disk (kind, key, bytes) from which another process has them.

    # A device may also have `compute_units: int`, how many of its units run work-groups: a GPU's multiprocessors.
    # `devices --measure` keeps it where the target has that limit.

    # A device may also have `launches_wait: bool`. Where it is True, a launch returns when it has ended.

    # A device may also have `record(launches, bound, offsets) -> Program | None`: launches, each an executable and the
    # numbers of the buffers behind its slots, as one program; None where launches are better made one by one. The first
    # `bound` buffers are given to each run of it; the one after them begins `offsets[0]` bytes after the arena's start,
    # and so on. Where kernels are functions in memory, `Replay` is such a program, which the engine runs. With
    # `has_arenas = False` all buffers are bound: there handles are used from their start only.

    # A device whose programs are the engine's may also have `beside: int`, the address of a function that calls another
    # one for each of its parts, on a share of the cores each (`Replay.run_beside`).

    # A GPU whose memory NCCL knows has `communication_stream() -> CommunicationStream`; its handles are addresses.

    # A device that can be divided has `divided(count) -> list[Device] | None`, devices with a share of its cores each.
    # One whose launches wait to be started has `flush()`, which starts them.

    def compile(self, kernels: Sequence[Kernel]) -> list[Executable]:
        """Builds all the kernels, in one program where that is cheaper. Raises DeviceError with the
        compiler's message and the source.
        """
        ...

    def synchronize(self) -> None:
        """Returns when all launches have ended."""
        ...
