"""Steps of a plan that communicate: they start when what they send is there, and are waited for where it is needed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from rulegrad.compile.sharding import collective_of
from rulegrad.ir.dtype import as_dtype
from rulegrad.runtime import profile
from rulegrad.runtime.buffer import memory_of_parts
from rulegrad.runtime.device import Device, Executable, Handle, Program, Replay
from rulegrad.runtime.kernel import Kernel

if TYPE_CHECKING:
    from rulegrad._core import Exchange
    from rulegrad.communication import Collective, DeviceArray, World
    from rulegrad.communication.carriers import Carrier
    from rulegrad.compile.memory_plan import Use
    from rulegrad.compile.plans import Launch
    from rulegrad.compile.schedule import Step
    from rulegrad.support.locations import Stack

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
        self.to: int = store.src[0].attrs["slot"]
        self.origin: int = store.src[1].src[0].attrs["slot"]

    def arrays(self, handles: Sequence[Handle]) -> Arrays:
        """The memory of the buffers of the slots, as flat arrays, one for each device of this process."""
        sent = memory_of_parts(self.device, handles[self.origin])
        got = memory_of_parts(self.device, handles[self.to])
        dtype = as_dtype(self.collective.dtype).numpy
        sources = [_array_of(device, handle, self.collective.count, dtype, True)[0] for device, handle in sent]
        results = [_array_of(device, handle, self.collective.result_count, dtype, False) for device, handle in got]
        places = [place if is_copy else None for place, (_, is_copy) in zip(got, results, strict=True)]
        return Arrays(sources, [array for array, _ in results], places)

    def on_gpu(self, handles: Sequence[Handle]) -> tuple[DeviceArray, DeviceArray]:
        """The same of this rank's GPU, without the host."""
        from rulegrad.communication import DeviceArray  # late: few programs have tensors on a mesh

        of = self.collective
        source = DeviceArray(handles[self.origin], of.count, of.dtype)
        return source, DeviceArray(handles[self.to], of.result_count, of.dtype)

    def __call__(self, handles: Sequence[Handle], wait: bool = False) -> float | None:
        begun = time.perf_counter()
        Joined([self]).start([handles])()
        return time.perf_counter() - begun if wait else None


def _world(device: str) -> World:
    from rulegrad.communication.meshes import world_of  # late: few programs have tensors on a mesh

    return world_of(device)


def _carrier(members: Sequence[Communication]) -> Carrier | None:
    """The carrier of collectives between the memories of GPUs; None where they go through the host."""
    from rulegrad.communication.carriers import carrier_of  # late: few programs have tensors on a mesh
    from rulegrad.communication.nccl import is_carried  # late: few programs have tensors on a mesh

    carrier = carrier_of(members[0].device)
    return carrier if carrier and all(is_carried(member.collective) for member in members) else None


class Arrays(NamedTuple):
    """The arrays that a collective sends and receives, and the memory that results are copied to, with its device."""

    sources: list[np.ndarray[Any, Any]]
    results: list[np.ndarray[Any, Any]]
    places: Sequence[tuple[Device, Handle] | None]  # None where the result is that memory

    def store(self) -> None:
        """Copies the results to the devices, where the host does not see their memory."""
        for place, array in zip(self.places, self.results, strict=True):
            if place is not None:
                device, handle = place
                device.copy_in(handle, array)


class Joined:
    """A collective, or several small reductions that are sent as one: the latency of a message is paid once."""

    def __init__(self, members: Sequence[Communication]) -> None:
        from rulegrad.communication.counting import tally_of  # late: few programs have tensors on a mesh

        self.members = members
        counts = [member.collective.count for member in members]
        self.collective = replace(members[0].collective, count=sum(counts))
        self._ends = np.cumsum(counts)[:-1]
        self._tally = tally_of(self.collective)

    def start(self, handles: Sequence[Sequence[Handle]]) -> Callable[[], float]:
        """Starts it, on the buffers of the slots of each member. Raises CommunicationError.

        What is returned waits for its end, and says for how many seconds the caller has waited in all.
        """
        carrier = _carrier(self.members)
        if carrier is not None:
            return self._put_on(carrier, handles)
        begun = time.perf_counter_ns()
        arrays = [member.arrays(given) for member, given in zip(self.members, handles, strict=True)]
        sources, results = arrays[0].sources, arrays[0].results
        if len(arrays) > 1:
            sources = [np.concatenate(parts) for parts in zip(*(one.sources for one in arrays), strict=True)]
            results = [np.empty_like(source) for source in sources]
        work = _world(self.members[0].device).start(self.collective, sources, results)
        started = time.perf_counter_ns() - begun

        def finish() -> float:
            begun = time.perf_counter_ns()
            work.wait()
            if len(arrays) > 1:
                for rank, result in enumerate(results):
                    for one, part in zip(arrays, np.split(result, self._ends), strict=True):
                        one.results[rank][:] = part
            for one in arrays:
                one.store()
            waited = started + time.perf_counter_ns() - begun
            self._tally.wait(waited)
            return waited * 1e-9

        return finish

    def _put_on(self, carrier: Carrier, handles: Sequence[Sequence[Handle]]) -> Callable[[], float]:
        """Starts it on the GPU's memory, beside the kernels that do not need it. The host waits in profiles only."""
        begun = time.perf_counter_ns()
        carrier.stream.follow()
        works = []
        with carrier.world.together([member.collective for member in self.members]):
            for member, given in zip(self.members, handles, strict=True):
                source, result = member.on_gpu(given)
                works.append(carrier.world.start(member.collective, [source], [result]))
        started = time.perf_counter_ns() - begun

        def finish() -> float:
            begun = time.perf_counter_ns()
            for work in works:
                work.wait()
            carrier.stream.join()
            if profile.is_timing():
                carrier.stream.synchronize()
            waited = started + time.perf_counter_ns() - begun
            self._tally.wait(waited)
            return waited * 1e-9

        return finish

    def exchange(self, turn: int, used: Sequence[Sequence[int]]) -> Exchange | None:
        """The same for a program of the engine, on buffers by number; None where the world's ranks have no such.

        turn: how many like it are in the program before it.
        """
        make = getattr(_world(self.members[0].device), "exchange", None)
        if make is None:
            return None
        size = as_dtype(self.collective.dtype).itemsize
        pairs = list(zip(self.members, used, strict=True))
        sent = [(numbers[one.origin], one.collective.count * size) for one, numbers in pairs]
        received = [(numbers[one.to], one.collective.result_count * size) for one, numbers in pairs]
        found: Exchange | None = make(self.collective, turn, sent, received)
        return found


def _array_of(
    device: Any, handle: Handle, count: int, dtype: np.dtype[Any], filled: bool
) -> tuple[np.ndarray[Any, Any], bool]:
    """The memory of a handle as a flat array, and whether it is a copy, because the host cannot see the memory."""
    if getattr(device, "in_host_memory", False):
        memory: np.ndarray[Any, Any] | None = device.memory_of(handle, count * dtype.itemsize)
        if memory is not None:
            return memory.view(dtype), False
    array = np.empty(count, dtype)
    if filled:
        device.copy_out(handle, array)
    return array, True


def kernel_of(collective: Collective, step: Step) -> Kernel:
    """How profiles and traces name a collective, with the bytes that it sends."""
    return Kernel(_name_of(collective), step.graph, "", (1,), (), len(step.buffers), 0, collective.bytes_sent)


def _name_of(collective: Collective) -> str:
    return f"{collective.kind}_{collective.operation or 'of'}_{collective.count}_{collective.dtype}"


def is_communication(step: Step) -> bool:
    """Whether a step is a collective, and no kernel."""
    return collective_of(step.graph) is not None


def keeping_sources(steps: Sequence[Step], uses: Sequence[Use]) -> list[Use]:
    """The uses of each step, where the source of a collective is in use until its result is: it is under way meanwhile.

    Otherwise a kernel in between, whose result had the memory of the source, would have to wait for the collective.
    """
    found = list(uses)
    for place, (step, use) in enumerate(zip(steps, uses, strict=True)):
        if is_communication(step):
            results = set(use.writes)
            after = range(place + 1, len(steps))
            user = next((k for k in after if results & {*uses[k].reads, *uses[k].writes}), len(steps) - 1)
            found[user] = found[user]._replace(reads=(*found[user].reads, *use.reads))
    return found


def with_communication(
    steps: Sequence[Step], kernels: Sequence[Kernel], executables: Sequence[Executable], device: str
) -> tuple[list[Kernel], list[Executable]]:
    """The kernel and the executable of each step, where those that communicate are not kernels of the device."""
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


class Item(NamedTuple):
    """Launches of kernels, or a collective that is started, or waited for."""

    launches: tuple[Launch, ...] = ()  # where something is started, the collective's members
    start: Joined | None = None
    buffers: tuple[tuple[int, ...], ...] = ()  # the memory that each launch uses
    number: int | None = None  # of what is started, or waited for; None for kernels

    def joined_kernel(self) -> Kernel:
        """How profiles name what is started."""
        kernel, collective = self.launches[0].kernel, self.start.collective if self.start else None
        if collective is None or len(self.launches) == 1:
            return kernel
        return kernel._replace(name=_name_of(collective), nbytes=collective.bytes_sent)


class _Order:
    """Makes items of the launches of a plan: each collective starts soon, and is waited for late.

    All-reduces of few bytes wait for others, until there are enough of them or a kernel needs one.
    """

    def __init__(self, launches: Sequence[Launch], buffers: Sequence[int]) -> None:
        self.items: list[Item] = []
        self._kernels: list[tuple[Launch, tuple[int, ...]]] = []
        self._bucket: list[tuple[Launch, tuple[int, ...]]] = []
        self._under_way: dict[int, set[int]] = {}
        for launch in launches:
            used = tuple([buffers[one] for one in launch.buffers])
            self._wait_for(set(used))
            if isinstance(launch.executable, Communication):
                self._add(launch, used, launch.executable.collective)
            else:
                self._kernels.append((launch, used))
        self._wait_for(None)
        self._end_kernels()

    def _members(self) -> list[Communication]:
        return [one.executable for one, _ in self._bucket if isinstance(one.executable, Communication)]

    def _add(self, launch: Launch, used: tuple[int, ...], found: Collective) -> None:
        if self._bucket and not _may_share(self._members()[0].collective, found):
            self._send()
        self._bucket.append((launch, used))
        if not _is_small(found) or sum(_bytes(one.collective) for one in self._members()) > BUCKET:
            self._send()

    def _send(self) -> None:
        """Starts what waits."""
        if self._bucket:
            self._end_kernels()
            launches, used = zip(*self._bucket, strict=True)
            number = len(self.items)
            self.items.append(Item(launches, Joined(self._members()), used, number))
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
            self.items.append(Item(number=number))
            del self._under_way[number]

    def _end_kernels(self) -> None:
        if self._kernels:
            launches, used = zip(*self._kernels, strict=True)
            self.items.append(Item(launches, None, used))
            self._kernels = []


def in_order(launches: Sequence[Launch], buffers: Sequence[int]) -> list[Item]:
    """Kernels, starts and waits of collectives, in order. buffers: for each of the plan's the number of its memory."""
    return _Order(launches, buffers).items


class Interleaved:
    """The launches of a plan that communicates: kernels run while collectives that they do not need are under way."""

    def __init__(self, items: Sequence[Item], record: Recorder) -> None:
        """record: kernels as one program."""
        self._items = [(item, record(_functions(item)) if item.number is None else None) for item in items]

    def run(self, handles: Sequence[Handle], arena: Handle | None) -> None:
        """Runs all, in order. Raises CommunicationError where a collective fails."""
        under_way: dict[int | None, Callable[[], float]] = {}
        for item, program in self._items:
            if program is not None:
                program.run(handles, arena)
            elif item.start is not None:
                given = [[handles[one] for one in memory] for memory in item.buffers]
                under_way[item.number] = item.start.start(given)
            else:
                under_way.pop(item.number)()


def run_timed(
    items: Sequence[Item], handles: Sequence[Handle], device: str, stack_of: Callable[[Launch], Stack]
) -> None:
    """Runs the items for a profile: kernels one by one, collectives beside them, as the program of the items does.

    handles: by the number of the memory. stack_of: the user's frames that a launch is for.
    """
    under_way: dict[int | None, tuple[Item, float, Callable[[], float]]] = {}
    before = 0.0  # when the last collective has ended: the next one has the wire from then on
    for item in items:
        given: list[list[Handle]] = [[handles[one] for one in memory] for memory in item.buffers]
        if item.start is not None:
            begun = time.perf_counter()
            under_way[item.number] = item, begun, item.start.start(given)
        elif item.number is not None:
            started, begun, finish = under_way.pop(item.number)
            exposed, end = finish(), time.perf_counter()
            begun, before = max(begun, before), end
            kernel = started.joined_kernel()
            stack = stack_of(started.launches[0])
            profile.record_launch(kernel, device, begun, end - begun, stack, min(exposed, end - begun))
        else:
            for launch, own in zip(item.launches, given, strict=True):
                profile.launch(launch.executable, own, launch.kernel, device, stack_of(launch))


def program_of(items: Sequence[Item], record: Recorder) -> Program:
    """The items as one program: of the engine where their collectives are small, as they wait for nothing then."""
    return _in_engine(items, record) or Interleaved(items, record)


def _in_engine(items: Sequence[Item], record: Recorder) -> Replay | None:
    """The program as one of the engine; None where the device or what carries the collectives has none.

    What is large is looked after by a thread, while kernels run; an exchange goes on between kernels only.
    """
    if sum(_bytes(item.start.collective) for item in items if item.start is not None) > BUCKET:
        return None
    steps: list[Replay | tuple[Exchange, bool]] = []
    exchanges: dict[int | None, Exchange] = {}
    turns: Counter[Collective] = Counter()
    for item in (Item(), *items):  # the first: what a program with no kernel is on
        if item.start is not None:
            turn = turns[item.start.collective]
            exchange = item.start.exchange(turn, item.buffers)
            if exchange is None:
                return None
            exchanges[item.number] = exchange
            turns[item.start.collective] += 1
            steps.append((exchange, True))
        elif item.number is not None:
            steps.append((exchanges[item.number], False))
        else:
            program = record(_functions(item))
            if not isinstance(program, Replay) or not program.is_of_functions:
                return None
            steps.append(program)
    return Replay(steps)


def _functions(item: Item) -> list[tuple[Executable, Sequence[int]]]:
    return [(launch.executable, used) for launch, used in zip(item.launches, item.buffers, strict=True)]


def _bytes(collective: Collective) -> int:
    return collective.count * as_dtype(collective.dtype).itemsize


def _is_small(collective: Collective) -> bool:
    return collective.kind == "all_reduce" and _bytes(collective) < BUCKET


def _may_share(one: Collective, other: Collective) -> bool:
    """Whether two collectives may be sent as one."""
    return replace(one, count=0) == replace(other, count=0) and _is_small(one) and _is_small(other)
