"""The `opencl` backend: any OpenCL 1.2 device, through pyopencl."""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rulegrad.errors import DeviceError, OutOfMemoryError
from rulegrad.runtime.kernel import Kernel
from rulegrad.runtime.selftest import add_number
from rulegrad.support import forks
from rulegrad.support.forks import ForkGuard

from .drivers import best_kind, discover, fingerprint, opencl, raw_devices, remedy
from .programs import Programs

__all__ = ["RANK", "Device", "best_kind", "discover", "fingerprint", "self_test"]

# A backend that is made for one kind of device comes first: `c` is as fast or faster on a CPU, starts sooner, and
# survives a fork. So a driver that somebody installs changes no program that does not name it.
RANK = 1

_ALIGNMENT = 64  # bytes: a line of the cache, and the widest vector
_MOST_WAITING = 16  # launches
_SHORT = 1 << 16  # operations and bytes of a launch that takes no longer than waking a thread

_fork = ForkGuard("OpenCL drivers")


class _Part(NamedTuple):
    """A part of a device, which has programs together with the others."""

    name: str
    device: Any
    programs: Programs


class Device:
    """One OpenCL device, or a part of one, with one in-order queue. Handles are `pyopencl.Buffer`s.

    On a CPU the driver's threads sleep while the queue is empty, and waking them for each launch takes longer than a
    short kernel does. So short launches wait, for others or for somebody who needs their results.
    """

    interprets = False
    has_arenas = False

    def __init__(self, number: int, part: _Part | None = None) -> None:
        cl = opencl()
        self._number = number
        self.name = f"opencl:{number}" if part is None else part.name
        self._device = raw_devices()[number] if part is None else part.device
        if part is None:
            context = cl.Context([self._device])
            self._programs = Programs(context, self._device, self.name)
        else:
            self._programs = part.programs
        self._context = self._programs.context
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        self._queue = cl.CommandQueue(self._context, self._device, properties=profiling)
        self.target = self._programs.target
        self.memory: int = self._device.global_mem_size
        is_cpu = bool(self._device.type & cl.device_type.CPU)
        self.in_host_memory = is_cpu and bool(self._device.host_unified_memory)
        self._short = _SHORT if is_cpu else 0
        self._waiting: deque[tuple[_Executable | _Program, Sequence[Any]]] = deque()
        self._released: list[Any] = []
        # Arguments are set and a launch is made in one step. A buffer may be freed by the garbage collector meanwhile.
        self._lock = forks.lock()

    def divided(self, count: int) -> list[Device] | None:
        """Devices with a share of the compute units each: parts of one context, whose programs are built once.

        None where the device cannot be divided so, or has fewer units.
        """
        cl, raw = opencl(), self._device
        shares = [raw.max_compute_units * k // count for k in range(count + 1)]
        units = [end - begin for begin, end in itertools.pairwise(shares)]
        by_counts = cl.device_partition_property.BY_COUNTS
        try:
            if min(units) < 1 or by_counts not in raw.partition_properties:
                return None
            parts = raw.create_sub_devices([by_counts, *units])
            programs = Programs(cl.Context([raw, *parts]), raw, self.name)
        except cl.Error:  # an OpenCL before 1.2, or a driver that has no more parts to give
            return None
        names = [f"{self.name}*{count} (part {k})" for k in range(count)]
        return [Device(self._number, _Part(name, part, programs)) for name, part in zip(names, parts, strict=True)]

    def flush(self) -> None:
        """Hands all that was asked for to the driver, which begins with it now."""
        _fork.check()
        self._start_waiting()
        self._queue.flush()

    def allocate(self, nbytes: int) -> Any:
        cl = opencl()
        _fork.check()
        most = self._device.max_mem_alloc_size
        problem = f"its largest buffer is {most:,} bytes"
        if nbytes <= most:
            try:
                if self.in_host_memory:
                    return self._in_large_pages(nbytes)
                return cl.Buffer(self._context, cl.mem_flags.READ_WRITE, nbytes)
            except cl.Error as error:
                problem = f"of {self.memory:,} bytes not enough are free ({error})"
        raise OutOfMemoryError(f"{self.name} cannot allocate {nbytes:,} bytes: {problem}")

    def _in_large_pages(self, nbytes: int) -> Any:
        """A buffer in NumPy's memory, for which the system has large pages: a driver's own has none."""
        cl = opencl()
        alignment = max(_ALIGNMENT, self._device.mem_base_addr_align // 8)
        array = np.empty(nbytes + alignment, np.uint8)
        start = -array.ctypes.data % alignment
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        return cl.Buffer(self._context, flags, hostbuf=array[start : start + nbytes])

    def free(self, handle: Any) -> None:
        if _fork.forked:
            return
        with self._lock:
            if self._waiting:
                self._released.append(handle)
            else:
                handle.release()

    def copy_in(self, handle: Any, array: np.ndarray[Any, Any]) -> None:
        self._copy(handle, _bytes_of(array))

    def copy_out(self, handle: Any, array: np.ndarray[Any, Any]) -> None:
        self._copy(_bytes_of(array), handle)

    def share(self, array: np.ndarray[Any, Any]) -> Any:
        """A buffer in the host's memory, where that is aligned as the device needs it."""
        cl = opencl()
        _fork.check()
        if array.ctypes.data % (self._device.mem_base_addr_align // 8):
            return None
        access = cl.mem_flags.READ_WRITE if array.flags.writeable else cl.mem_flags.READ_ONLY
        try:
            return cl.Buffer(self._context, access | cl.mem_flags.USE_HOST_PTR, hostbuf=array)
        except cl.Error:
            return None

    def memory_of(self, handle: Any, nbytes: int) -> np.ndarray[Any, Any] | None:
        """Mapped for reading, which kernels may do meanwhile; None where mapping would copy."""
        cl = opencl()
        _fork.check()
        self._start_waiting()
        try:
            array, _ = cl.enqueue_map_buffer(self._queue, handle, cl.map_flags.READ, 0, (nbytes,), np.uint8)
        except cl.Error:
            return None
        return np.asarray(array)

    def compile(self, kernels: Sequence[Kernel]) -> list[_Executable]:
        _fork.check()
        programs = self._programs.build(kernels)
        return [_Executable(self, k, p) for k, p in zip(kernels, programs, strict=True)]

    def record(
        self, launches: Sequence[tuple[_Executable, Sequence[int]]], bound: int, offsets: Sequence[int]
    ) -> _Program | None:
        """Launches on numbered buffers as one program.

        None where sizes are arguments: a program is run at one size, and making kernels of its own takes longer.
        """
        return None if any(one.takes_sizes for one, _ in launches) else _Program(self, launches, bound)

    def synchronize(self) -> None:
        cl = opencl()
        _fork.check()
        self._start_waiting()
        try:
            self._queue.finish()
        except cl.Error as error:
            raise DeviceError(f"{self.name} failed while it ran kernels: {error}") from None

    def _copy(self, target: Any, source: Any) -> None:
        cl = opencl()
        _fork.check()
        self._start_waiting()
        try:
            cl.enqueue_copy(self._queue, target, source, is_blocking=True)
        except cl.Error as error:
            raise DeviceError(f"{self.name} cannot copy: {error}") from None

    def _start_later(self, work: _Executable | _Program, handles: Sequence[Any]) -> None:
        with self._lock:
            self._waiting.append((work, handles))
            if len(self._waiting) >= _MOST_WAITING:
                self._start_waiting()

    def _start_waiting(self) -> None:
        """Starts the launches that wait, in their order. Raises the first DeviceError when all were tried."""
        failed: DeviceError | None = None
        with self._lock:
            while self._waiting:
                work, handles = self._waiting[0]
                try:
                    work.start(handles)
                except DeviceError as error:
                    failed = failed or error
                finally:
                    self._waiting.popleft()
            while self._released:
                self._released.pop().release()
        if failed is not None:
            raise failed


class _Executable:
    """A kernel of a program. Arguments that are those of the launch before are not set again."""

    __slots__ = (
        "_arguments", "_description", "_device", "_enqueue", "_error", "_grid", "_kernel", "_local", "_may_wait",
        "_program", "_queue", "_source_kernel", "is_short",
    )  # fmt: skip

    def __init__(self, device: Device, kernel: Kernel, program: Any) -> None:
        cl = opencl()
        try:
            self._kernel = cl.Kernel(program, kernel.name)
        except cl.Error as error:
            raise DeviceError(f"the source of {kernel.name!r} defines no such kernel: {error}") from None
        if self._kernel.num_args != kernel.buffers:
            raise DeviceError(
                f"kernel {kernel.name!r} has {self._kernel.num_args} parameters in its source, but {kernel.buffers} "
                "buffers"
            )
        self._program, self._source_kernel = program, kernel
        self._grid = kernel.grid or (1,)
        self._local = kernel.local or None
        self._device = device
        self._queue = device._queue
        self._enqueue = cl.enqueue_nd_range_kernel
        self._error = cl.Error
        self._description = f"kernel {kernel.name!r} on {device.name}"
        self._arguments: list[Any] = [None] * kernel.buffers
        # The first launch does not wait: one that the driver refuses is an error at its own place.
        self._may_wait = False
        self.is_short = 0 < kernel.flops + kernel.nbytes <= device._short

    def copy(self) -> _Executable:
        """The same kernel, with arguments of its own."""
        return _Executable(self._device, self._source_kernel, self._program)

    def sized(self, kernel: Kernel) -> _Executable:
        """The same for another grid, with the same arguments."""
        found = copy.copy(self)
        found._grid = kernel.grid
        return found

    @property
    def takes_sizes(self) -> bool:
        return self._source_kernel.positions is not None

    def set_argument(self, position: int, handle: Any) -> None:
        """The device's lock is held."""
        try:
            self._kernel.set_arg(position, handle)
        except self._error as error:
            raise DeviceError(f"{self._description} cannot run: {error}") from None
        self._arguments[position] = handle

    def enqueue(self) -> Any:
        """Hands a launch on the arguments to the driver, and returns its event. The device's lock is held."""
        try:
            return self._enqueue(self._queue, self._kernel, self._grid, self._local)
        except self._error as error:
            raise DeviceError(f"{self._description} cannot run: {error}") from None

    def __call__(self, handles: Sequence[Any], wait: bool = False) -> float | None:
        if _fork.forked:
            _fork.check()
        device = self._device
        if self._may_wait and not wait:
            device._start_later(self, handles)
            return None
        with device._lock:
            device._start_waiting()
            event = self.start(handles)
        self._may_wait = self.is_short
        if not wait:
            return None
        try:
            event.wait()
        except self._error as error:
            raise DeviceError(f"{self._description} cannot run: {error}") from None
        seconds: float = (event.profile.end - event.profile.start) * 1e-9
        return seconds

    def start(self, handles: Sequence[Any]) -> Any:
        """Hands a launch to the driver, and returns its event. The device's lock is held."""
        arguments = self._arguments
        for position, handle in enumerate(handles):
            if handle is not arguments[position]:
                self.set_argument(position, handle)
        return self.enqueue()


class _Program:
    """The launches of a plan. Each has a kernel of its own, whose arguments are those of the run before."""

    def __init__(self, device: Device, launches: Sequence[tuple[_Executable, Sequence[int]]], bound: int) -> None:
        self._device = device
        self._launches = [executable.copy() for executable, _ in launches]
        self._handles: list[Any] = [None] * bound
        self._uses: list[list[tuple[_Executable, int]]] = [[] for _ in range(bound)]
        for launch, (_, numbers) in zip(self._launches, launches, strict=True):
            for position, number in enumerate(numbers):
                self._uses[number].append((launch, position))
        # As of a single launch: the first run does not wait.
        self._may_wait = False
        self._is_short = len(launches) < _MOST_WAITING and all(launch.is_short for launch in self._launches)

    def run(self, handles: Sequence[Any], arena: None) -> None:
        """Hands the launches to the driver, in order; short ones wait for others."""
        if _fork.forked:
            _fork.check()
        if self._may_wait:
            self._device._start_later(self, handles)
            return
        with self._device._lock:
            self._device._start_waiting()
            self.start(handles)
        self._may_wait = self._is_short

    def start(self, handles: Sequence[Any]) -> None:
        """The device's lock is held. Raises DeviceError."""
        known = self._handles
        for number, handle in enumerate(handles):
            if handle is not known[number]:
                for launch, position in self._uses[number]:
                    launch.set_argument(position, handle)
                known[number] = handle
        for launch in self._launches:
            launch.enqueue()


def self_test(number: int) -> None:
    """Builds and runs a kernel that no cache can know. Raises DeviceError when something is wrong, with a remedy."""
    try:
        add_number(Device(number), "rulegrad_self_test", _self_test_source)
    except (DeviceError, opencl().Error) as error:
        problem = str(error).split("\nthe source:")[0]
        raise DeviceError(f"{problem}{remedy(number, problem)}") from None


def _self_test_source(number: int) -> str:
    return (
        "__kernel void rulegrad_self_test(__global int* out, __global const int* in)\n"
        f"{{ int i = get_global_id(0); out[i] = in[i] + {number}; }}"
    )


def _bytes_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The same memory as bytes: pyopencl does not know every dtype."""
    return array.reshape(-1).view(np.uint8)
