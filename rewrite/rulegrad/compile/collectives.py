"""Steps of a plan that communicate: they start when what they send is there, and are waited for where it is needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from rulegrad.compile.sharding import collective_of
from rulegrad.ir.dtype import as_dtype
from rulegrad.runtime import devices
from rulegrad.runtime.device import Executable, Handle, Program
from rulegrad.runtime.kernel import Kernel
from rulegrad.runtime.several import Several

if TYPE_CHECKING:
    from rulegrad.communication import Collective, World
    from rulegrad.compile.plans import Launch
    from rulegrad.compile.schedule import Step

#: Bytes that small all-reduces wait for, so that they are sent as one.
BUCKET: Final = 1 << 20
Recorder: TypeAlias = Callable[[Sequence[tuple[Executable, Sequence[int]]]], Program]


class Communication:
    """A collective between the devices of a mesh: an executable, from the buffer of one slot to that of another."""

    def __init__(self, collective: Collective, step: Step, device: str) -> None:
        from rulegrad.communication.meshes import check_mesh  # late: few programs have tensors on a mesh

        check_mesh(collective.mesh, device)
        store = step.graph.src[0]
        self.collective = collective
        self.device = device
        self._to: int = store.src[0].attrs["slot"]
        self._from: int = store.src[1].src[0].attrs["slot"]

    def arrays(self, handles: Sequence[Handle]) -> Arrays:
        """The memory of the buffers of the slots, as flat arrays, one for each device of this process."""
        device: Any = devices.get(self.device)
        is_several = isinstance(device, Several)
        one = device.device if is_several else device
        sent = handles[self._from] if is_several else (handles[self._from],)
        got = handles[self._to] if is_several else (handles[self._to],)
        dtype = as_dtype(self.collective.dtype).numpy
        sources = [_array_of(one, handle, self.collective.count, dtype, True) for handle in sent]
        results = [_array_of(one, handle, self.collective.result_count, dtype, False) for handle in got]
        return Arrays(one, sources, results, got)

    def start(self, handles: Sequence[Handle]) -> Callable[[], None]:
        """Starts it on the buffers of the slots; what is returned waits for its end. Raises CommunicationError."""
        arrays = self.arrays(handles)
        work = _world(self.device).start(self.collective, arrays.sources, arrays.results)

        def finish() -> None:
            work.wait()
            arrays.store()

        return finish

    def __call__(self, handles: Sequence[Handle], wait: bool = False) -> float | None:
        begun = time.perf_counter()
        self.start(handles)()
        return time.perf_counter() - begun if wait else None


def _world(device: str) -> World:
    from rulegrad.communication.meshes import world_of  # late: few programs have tensors on a mesh

    return world_of(device)


class Arrays(NamedTuple):
    """What a collective sends and receives: arrays, and the memory of the device where the results belong."""

    device: Any
    sources: list[np.ndarray[Any, Any]]
    results: list[np.ndarray[Any, Any]]
    handles: Sequence[Handle]

    def store(self) -> None:
        """Copies the results to the device, where the host does not see its memory."""
        if not getattr(self.device, "in_host_memory", False):
            for handle, array in zip(self.handles, self.results, strict=True):
                self.device.copy_in(handle, array)


class Bucket:
    """Several small reductions that are sent as one: the latency of a message is paid once."""

    def __init__(self, members: Sequence[Communication]) -> None:
        self._members = members
        counts = [member.collective.count for member in members]
        self._collective = replace(members[0].collective, count=sum(counts))
        self._ends = np.cumsum(counts)[:-1]

    def start(self, handles: Sequence[Sequence[Handle]]) -> Callable[[], None]:
        """Starts it, on the buffers of the slots of each member; what is returned waits for its end."""
        arrays = [member.arrays(given) for member, given in zip(self._members, handles, strict=True)]
        sources = [np.concatenate(parts) for parts in zip(*(one.sources for one in arrays), strict=True)]
        results = [np.empty_like(source) for source in sources]
        work = _world(self._members[0].device).start(self._collective, sources, results)

        def finish() -> None:
            work.wait()
            for rank, result in enumerate(results):
                for one, part in zip(arrays, np.split(result, self._ends), strict=True):
                    one.results[rank][:] = part
            for one in arrays:
                one.store()

        return finish


def _array_of(device: Any, handle: Handle, count: int, dtype: np.dtype[Any], filled: bool) -> np.ndarray[Any, Any]:
    """The memory of a handle as a flat array; a copy where the host cannot see it."""
    if getattr(device, "in_host_memory", False):
        memory: np.ndarray[Any, Any] | None = device.memory_of(handle, count * dtype.itemsize)
        if memory is not None:
            return memory.view(dtype)
    array = np.empty(count, dtype)
    if filled:
        device.copy_out(handle, array)
    return array


def kernel_of(collective: Collective, step: Step) -> Kernel:
    """How profiles and traces name a collective, with the bytes that it sends."""
    name = f"{collective.kind}_{collective.operation or 'of'}_{collective.count}_{collective.dtype}"
    return Kernel(name, step.graph, "", (1,), (), len(step.buffers), 0, collective.bytes_sent)


def is_communication(step: Step) -> bool:
    """Whether a step is a collective, and no kernel."""
    return collective_of(step.graph) is not None


def with_communication(
    steps: Sequence[Step], kernels: Sequence[Kernel], executables: Sequence[Executable], device: str
) -> tuple[list[Kernel], list[Executable]]:
    """What each step launches, where those that communicate are no kernels of the device."""
    waiting = iter(zip(kernels, executables, strict=True))
    found: list[Kernel] = []
    launched: list[Executable] = []
    for step in steps:
        collective = collective_of(step.graph)
        if collective is None:
            kernel, executable = next(waiting)
        else:
            kernel, executable = kernel_of(collective, step), Communication(collective, step, device)
        found.append(kernel)
        launched.append(executable)
    return found, launched


@dataclass(frozen=True, slots=True)
class _Item:
    """Kernels, or collectives that are started together, or waited for."""

    program: Program | None = None
    start: Communication | Bucket | None = None
    buffers: tuple[tuple[int, ...], ...] = ()  # of each collective
    number: int = 0  # of what is started


class Interleaved:
    """The launches of a plan that communicates: kernels run while collectives that they do not need are under way.

    All-reduces of few bytes wait for others, until there are enough of them or a kernel needs one.
    """

    def __init__(self, launches: Sequence[Launch], buffers: Sequence[int], record: Recorder) -> None:
        """buffers: for each buffer of the plan the number of its memory. record: kernels as one program."""
        self._items: list[_Item] = []
        self._record = record
        self._kernels: list[tuple[Executable, tuple[int, ...]]] = []
        self._bucket: list[tuple[Communication, tuple[int, ...]]] = []
        self._under_way: dict[int, set[int]] = {}
        for launch in launches:
            used = tuple([buffers[one] for one in launch.buffers])
            self._wait_for(set(used))
            if isinstance(launch.executable, Communication):
                self._add(launch.executable, used)
            else:
                self._kernels.append((launch.executable, used))
        self._wait_for(None)
        self._end_kernels()

    def _add(self, communication: Communication, used: tuple[int, ...]) -> None:
        if self._bucket and not _may_share(self._bucket[0][0].collective, communication.collective):
            self._send()
        self._bucket.append((communication, used))
        if not _is_small(communication.collective) or sum(_bytes(one.collective) for one, _ in self._bucket) > BUCKET:
            self._send()

    def _send(self) -> None:
        """Starts what waits."""
        if self._bucket:
            self._end_kernels()
            members = [communication for communication, _ in self._bucket]
            used = tuple(memory for _, memory in self._bucket)
            number = len(self._items)
            start = members[0] if len(members) == 1 else Bucket(members)
            self._items.append(_Item(None, start, used, number))
            self._under_way[number] = {one for memory in used for one in memory}
            self._bucket = []

    def _wait_for(self, memory: set[int] | None) -> None:
        """Waits for the collectives that use some memory, or for all."""
        if memory is None or any(memory & set(used) for _, used in self._bucket):
            self._send()
        needed = [number for number, used in self._under_way.items() if memory is None or used & memory]
        if needed:
            self._end_kernels()
        for number in needed:
            self._items.append(_Item(number=number))
            del self._under_way[number]

    def _end_kernels(self) -> None:
        if self._kernels:
            self._items.append(_Item(self._record(self._kernels)))
            self._kernels = []

    def run(self, handles: Sequence[Handle], arena: Handle | None) -> None:
        """Runs all, in order. Raises CommunicationError where a collective fails."""
        under_way: dict[int, Callable[[], None]] = {}
        for item in self._items:
            if item.program is not None:
                item.program.run(handles, arena)
            elif item.start is not None:
                given = [[handles[one] for one in memory] for memory in item.buffers]
                under_way[item.number] = (
                    item.start.start(given) if isinstance(item.start, Bucket) else item.start.start(given[0])
                )
            else:
                under_way.pop(item.number)()


def _bytes(collective: Collective) -> int:
    return collective.count * as_dtype(collective.dtype).itemsize


def _is_small(collective: Collective) -> bool:
    return collective.kind == "all_reduce" and _bytes(collective) < BUCKET


def _may_share(one: Collective, other: Collective) -> bool:
    """Whether two collectives may be sent as one."""
    return replace(one, count=0) == replace(other, count=0) and _is_small(one) and _is_small(other)
