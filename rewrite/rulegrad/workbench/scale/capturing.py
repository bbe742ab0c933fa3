"""Capturing a training step as a schedule: the kernels that it launches, with their times and dependencies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from rulegrad.compile import plans
from rulegrad.compile.estimate import nbytes
from rulegrad.errors import ConfigError
from rulegrad.ir.dtype import as_dtype
from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.profile import KernelRecord, Profile
from rulegrad.runtime.several import count_of
from rulegrad.workbench.scale.local_schedule import collective_event
from rulegrad.workbench.scale.schedule import Event, Memory, Schedule
from rulegrad.workbench.scale.strategies import STATE

if TYPE_CHECKING:
    from rulegrad.communication import Collective
    from rulegrad.compile.memory_plan import MemoryPlan
    from rulegrad.compile.plans import Plan
    from rulegrad.optim import Optimizer
    from rulegrad.tensor.tensor import Tensor


_NO_MESH: Final[Mapping[str, int]] = MappingProxyType({})


class _Launch(NamedTuple):
    """A plan that ran: its inputs and results by the numbers of their buffers."""

    plan: Plan
    memory: MemoryPlan
    inputs: tuple[int, ...]
    results: tuple[int, ...]
    records: tuple[KernelRecord, ...]


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Bytes of parameters and state, by the number of their buffer before the step."""

    parameters: dict[int, int]
    state: dict[int, int]


def captured_step(
    step: Callable[[], object],
    optimizer: Optimizer,
    batch: float = 1,
    name: str = "a training step",
    machine: str = "",
    repeats: int = 5,
    mesh: Mapping[str, int] = _NO_MESH,
) -> Schedule:
    """The schedule of a function that does one training step, eager or captured.

    optimizer: of the parameters that it trains. batch: examples of a step. machine: the name of the machine that this
    is, whose times these are. mesh: names and sizes of the axes, where its tensors are on a mesh: the collectives of
    its plans are events then, and of parts of one device (`c*4`) a kernel has a part of the time of all. The function
    is called twice, and then `repeats` times: each kernel has the least of its times. Gradients are found by size: the
    kernel that gives a parameter its new value reads the gradient, an array as large that another kernel has made;
    where it reads none, it computes the gradient itself. The host's time is not in a schedule. Raises ConfigError where
    a step launches other kernels each time, computes no new values of parameters, or is on another mesh.

    >>> w = rg.nn.Parameter(Tensor([[1.0, 2.0], [3.0, 4.0]], device="numpy"))
    >>> x = Tensor([[1.0, 1.0]], device="numpy")
    >>> optimizer = rg.optim.SGD([w], lr=0.1)
    >>> def step():
    ...     optimizer.zero_grad()
    ...     ((x @ w) ** 2).sum().backward()
    ...     optimizer.step()
    ...     w.realize()
    >>> schedule = captured_step(step, optimizer)
    >>> sum(event.gradients for event in schedule.events)
    16
    """
    for _ in range(2):
        step()
    trained = [tensor for group in optimizer.param_groups for tensor in group["params"]]
    kept = [tensor for tensors in optimizer.state.values() for tensor in tensors.values()]
    best: list[float] = []
    for _ in range(repeats):
        before = _Sizes(_numbers(trained), _numbers(kept))
        with _watching() as seen:
            step()
        times = [record.seconds for launch in seen for record in launch.records]
        if best and len(best) != len(times):
            raise ConfigError(f"a step launches {len(best)} kernels at one call, and {len(times)} at the next")
        best = [min(pair) for pair in zip(best, times, strict=True)] if best else times
    events = _events(seen, before, set(_numbers(trained)), mesh)
    if not any(event.gradients for event in events):
        raise ConfigError("the step computes no new values of the parameters; realize them at its end")
    parts = count_of(optimizer.device)
    events = [
        replace(event, seconds=seconds / parts) if event.is_kernel else event
        for event, seconds in zip(events, best, strict=True)
    ]
    return Schedule(name, tuple(events), dict(mesh), _memory(seen, before), machine, batch)


@contextmanager
def _watching() -> Iterator[list[_Launch]]:
    """The plans that are launched inside, and the times of their kernels."""
    found: list[_Launch] = []
    done = 0

    def tell(plan: Plan, memory: MemoryPlan, inputs: Sequence[Buffer], results: Sequence[Buffer]) -> None:
        nonlocal done
        records = tuple(profile.kernels[done:])
        done = len(profile.kernels)
        read, made = (tuple(buffer.id for buffer in buffers) for buffers in (inputs, results))
        found.append(_Launch(plan, memory, read, made, records))

    with Profile() as profile:
        plans.launched.append(tell)
        try:
            yield found
        finally:
            plans.launched.remove(tell)


def _numbers(tensors: Iterable[Tensor]) -> dict[int, int]:
    """The numbers of the buffers that tensors are in, with their bytes."""
    found = {}
    for tensor in tensors:
        buffer = Buffer.of(tensor.realize().uop)
        found[buffer.id] = buffer.nbytes
        if buffer._owner is not None:  # another number of the same memory
            found[buffer._owner.id] = buffer.nbytes
    return found


def _events(seen: Sequence[_Launch], before: _Sizes, after: set[int], mesh: Mapping[str, int]) -> list[Event]:
    """The kernels and collectives of all plans in order."""
    events: list[Event] = []
    for launch in seen:
        schedule, first = launch.plan.schedule, len(events)
        new = {number for number, result in zip(schedule.outputs, launch.results, strict=True) if result in after}
        written: dict[int, int] = {}  # by the plan's buffer, the event that wrote it last
        for record, (steps, sent) in zip(launch.records, _steps(launch), strict=True):
            uses = [launch.plan.uses[step] for step in steps]
            writes = [number for use in uses for number in use.writes]
            reads = {*writes, *(number for use in uses for number in use.reads)}
            own = sum(before.parameters.get(launch.inputs[n], 0) for n in reads if n < schedule.inputs)
            needed = sorted({written[number] for number in reads if number in written} or _last(events, first))
            if sent is not None:
                events.append(replace(collective_event(sent, _names(sent.mesh, mesh), needed), phase="backward"))
                written.update(dict.fromkeys(writes, len(events) - 1))
                continue
            events.append(
                Event(
                    record.name, operations=record.flops, bytes=record.nbytes, dtype=_dtype(launch.plan, writes),
                    after=tuple(needed), phase="backward", parameters=own,
                )
            )  # fmt: skip
            for number in new.intersection(writes):
                _mark_gradient(events, launch.plan, written, reads, number)
            written.update(dict.fromkeys(writes, len(events) - 1))
    return events


def _names(sizes: Sequence[int], mesh: Mapping[str, int]) -> tuple[str, ...]:
    """The names of the axes of a mesh. Raises ConfigError where it is another one."""
    if tuple(mesh.values()) != tuple(sizes):
        shown = " x ".join(map(str, sizes))
        raise ConfigError(f"the step sends along a mesh of {shown}, and the mesh that was named is {dict(mesh)}")
    return tuple(mesh)


def _steps(launch: _Launch) -> list[tuple[list[int], Collective | None]]:
    """For each record the numbers of its steps, and the collective that these are; a copy to itself has none."""
    variant = next((one for one in launch.plan.variants() if one.memory is launch.memory), None)
    if variant is None:
        raise ConfigError("the plan of the step has been made again during the step")
    if not launch.plan.communicates:
        return [([one.step], None) for one in variant.launches]
    found: list[tuple[list[int], Collective | None]] = []
    sent: dict[int | None, tuple[list[int], Collective | None]] = {}
    for item in launch.plan.items(variant):
        steps = [one.step for one in item.launches]
        if item.start is not None:
            sent[item.number] = steps, item.start.collective
        elif item.number is not None:  # it is on record when it has been waited for
            found.append(sent[item.number])
        else:
            found.extend(([step], None) for step in steps)
    return found


def _last(events: Sequence[Event], first: int) -> set[int]:
    """The event that the first kernels of a plan wait for, by number: the last that was launched before it."""
    return {first - 1} if 0 < first <= len(events) else set()


def _mark_gradient(events: list[Event], plan: Plan, written: dict[int, int], reads: set[int], result: int) -> None:
    """The kernel that made the gradient of the parameter whose new value, a buffer of the plan, is now computed."""
    size = _made_bytes(plan, result)
    makers = [written[number] for number in reads if number in written and _made_bytes(plan, number) == size]
    place = max(makers, default=len(events) - 1)
    events[place] = replace(events[place], gradients=events[place].gradients + size)
    if makers:
        events[-1] = replace(events[-1], phase="update", follows_batch=False)


def _made_bytes(plan: Plan, number: int) -> int:
    """The bytes of a buffer that a plan makes, without what allocations are rounded to."""
    return nbytes(*plan.schedule.made[number - plan.schedule.inputs])


def _dtype(plan: Plan, writes: Sequence[int]) -> str:
    """The dtype that a kernel computes in, as far as its results tell: a float, or float32."""
    made = plan.schedule.made
    kinds = [as_dtype(made[n - plan.schedule.inputs][1]) for n in writes if n >= plan.schedule.inputs]
    return next((str(kind) for kind in kinds if kind.is_float), "float32")


def _memory(seen: Sequence[_Launch], before: _Sizes) -> tuple[Memory, ...]:
    """Parameters and state, which stay; what plans allocate at the most, and other inputs, which follow the batch."""
    known = {**before.parameters, **before.state}
    other = {
        number: launch.plan.sizes[place]
        for launch in seen
        for place, number in enumerate(launch.inputs)
        if number not in known
    }
    made = {number for launch in seen for number in launch.results}
    batch = sum(size for number, size in other.items() if number not in made)
    return (
        Memory("parameters", sum(before.parameters.values())),
        Memory(STATE, sum(before.state.values())),
        Memory("activations and gradients", max(launch.memory.nbytes for launch in seen) + batch, in_flight=True),
    )
