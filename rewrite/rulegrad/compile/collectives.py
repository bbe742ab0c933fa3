"""Steps of a plan that communicate: they start when what they send is there, and are waited for where it is needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rulegrad.communication.meshes import check_mesh, world_of
from rulegrad.compile.sharding import collective_of
from rulegrad.ir.dtype import as_dtype
from rulegrad.runtime import devices
from rulegrad.runtime.device import Executable, Handle, Program
from rulegrad.runtime.kernel import Kernel
from rulegrad.runtime.several import Several

if TYPE_CHECKING:
    from rulegrad.communication import Collective
    from rulegrad.compile.plans import Launch
    from rulegrad.compile.schedule import Step

Recorder: TypeAlias = Callable[[Sequence[tuple[Executable, Sequence[int]]]], Program]


class Communication:
    """A collective between the devices of a mesh: an executable, from the buffer of one slot to that of another."""

    def __init__(self, collective: Collective, step: Step, device: str) -> None:
        check_mesh(collective.mesh, device)
        store = step.graph.src[0]
        self.collective = collective
        self.device = device
        self._to: int = store.src[0].attrs["slot"]
        self._from: int = store.src[1].src[0].attrs["slot"]

    def start(self, handles: Sequence[Handle]) -> Callable[[], None]:
        """Starts it on the buffers of the slots; what is returned waits for its end. Raises CommunicationError."""
        device: Any = devices.get(self.device)
        is_several = isinstance(device, Several)
        one = device.device if is_several else device
        sent = handles[self._from] if is_several else (handles[self._from],)
        got = handles[self._to] if is_several else (handles[self._to],)
        dtype = as_dtype(self.collective.dtype).numpy
        sources = [_array_of(one, handle, self.collective.count, dtype, True) for handle in sent]
        results = [_array_of(one, handle, self.collective.result_count, dtype, False) for handle in got]
        work = world_of(self.device).start(self.collective, sources, results)
        if getattr(one, "in_host_memory", False):
            return work.wait

        def finish() -> None:
            work.wait()
            for handle, array in zip(got, results, strict=True):
                one.copy_in(handle, array)

        return finish

    def __call__(self, handles: Sequence[Handle], wait: bool = False) -> float | None:
        begun = time.perf_counter()
        self.start(handles)()
        return time.perf_counter() - begun if wait else None


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
    """Kernels, or a collective that is started, or waited for."""

    program: Program | None = None
    communication: Communication | None = None
    buffers: tuple[int, ...] = ()
    number: int = 0  # of the collective


class Interleaved:
    """The launches of a plan that communicates: kernels run while collectives that they do not need are under way."""

    def __init__(self, launches: Sequence[Launch], buffers: Sequence[int], record: Recorder) -> None:
        """buffers: for each buffer of the plan the number of its memory. record: kernels as one program."""
        self._items: list[_Item] = []
        kernels: list[tuple[Executable, tuple[int, ...]]] = []
        under_way: dict[int, set[int]] = {}
        for number, launch in enumerate(launches):
            used = tuple([buffers[one] for one in launch.buffers])
            needed = [one for one, memory in under_way.items() if memory & set(used)]
            communication = launch.executable if isinstance(launch.executable, Communication) else None
            if kernels and (needed or communication):
                self._items.append(_Item(record(kernels)))
                kernels = []
            for one in needed:
                self._items.append(_Item(number=one))
                del under_way[one]
            if communication is None:
                kernels.append((launch.executable, used))
            else:
                self._items.append(_Item(None, communication, used, number))
                under_way[number] = set(used)
        if kernels:
            self._items.append(_Item(record(kernels)))
        self._items.extend(_Item(number=one) for one in under_way)

    def run(self, handles: Sequence[Handle], arena: Handle | None) -> None:
        """Runs all, in order. Raises CommunicationError where a collective fails."""
        under_way: dict[int, Callable[[], None]] = {}
        for item in self._items:
            if item.program is not None:
                item.program.run(handles, arena)
            elif item.communication is not None:
                under_way[item.number] = item.communication.start([handles[one] for one in item.buffers])
            else:
                under_way.pop(item.number)()
