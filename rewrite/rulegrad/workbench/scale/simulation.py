"""Replaying a schedule on a machine: when each kernel and each collective begins and ends, on the slowest rank.

A rank has two queues, one of kernels and one of collectives, each of which does one thing at a time, in order; an event
begins when its queue is free and what it needs has ended. On a machine that does not overlap there is one queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rulegrad.errors import ConfigError
from rulegrad.workbench.scale.costs import Cost, Group, collective_cost, group_of, sent_bytes
from rulegrad.workbench.scale.jitter import slowdown
from rulegrad.workbench.scale.machine import Machine
from rulegrad.workbench.scale.pipeline import one_forward_one_backward
from rulegrad.workbench.scale.schedule import Event, Schedule


@dataclass(frozen=True, slots=True)
class Timed:
    """An event with its place in time, in seconds from the beginning of the step."""

    event: Event
    start: float
    end: float
    algorithm: str = ""  #: of a collective


@dataclass(frozen=True, slots=True)
class Step:
    """The time, communication and memory of one step on the slowest rank."""

    ranks: int
    seconds: float
    computing: float  #: seconds in kernels, for all micro-batches
    communicating: float  #: seconds in collectives, whether or not kernels run meanwhile
    waiting: float  #: seconds of a pipeline in which a stage has nothing to do
    exposed: float  #: seconds in which a rank communicates or waits for it, and does not compute
    sent: float  #: bytes that a rank sends at the least, by the sizes of its collectives
    memory: float  #: bytes on the rank that has most
    events: tuple[Timed, ...]  #: one micro-batch and the update

    @property
    def exposed_share(self) -> float:
        """The share of the step in which communication is not hidden."""
        return self.exposed / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Assumptions:
    """The assumptions of a simulation beside the machine."""

    jitter: float = 0.0  #: standard deviation of ranks' times, as a share
    overlaps: bool | None = None  #: whether kernels run during collectives; None: as the machine says

    def __post_init__(self) -> None:
        if not 0 <= self.jitter < 1:
            raise ConfigError(f"jitter: {self.jitter} is not a share from 0 up to 1")


def simulate(schedule: Schedule, machine: Machine, assumptions: Assumptions = Assumptions()) -> Step:
    """The time, memory and communication of one step.

    A step is `micro_batches` forward and backward passes, in a pipeline where there are stages, and one update, whose
    collectives may run during the backward pass of the last. Raises ConfigError for a mesh larger than the machine,
    FileError for a dtype whose rate the machine does not have.

    >>> from rulegrad.workbench.scale.machine import load_machine
    >>> machine = load_machine("h100-infiniband")
    >>> step = simulate(Schedule("s", (Event("matmul", operations=4.02e12, dtype="float32"),)), machine)
    >>> round(step.seconds, 3), step.exposed
    (0.1, 0.0)
    """
    times = _Times(schedule, machine, assumptions)
    whole = times.replayed("forward", "backward", "update")
    forward, backward = times.replayed("forward"), times.replayed("backward")
    send = times.boundary()
    passes = one_forward_one_backward(
        schedule.stages, schedule.micro_batches, _end(forward), _end(backward), send
    )  # fmt: skip
    seconds = _end(whole) - _end(forward) - _end(backward) + passes
    once = _sum(whole, lambda timed: timed.event.is_kernel)
    each = _sum([*forward, *backward], lambda timed: timed.event.is_kernel)
    others = schedule.micro_batches - 1
    computing = once + others * each
    sending = _sum(whole, lambda timed: not timed.event.is_kernel)
    sending += others * _sum([*forward, *backward], lambda timed: not timed.event.is_kernel)
    waiting = passes - schedule.micro_batches * (_end(forward) + _end(backward))
    return Step(
        ranks=schedule.ranks,
        seconds=seconds,
        computing=computing,
        communicating=sending,
        waiting=max(0.0, waiting),
        exposed=max(0.0, seconds - computing - max(0.0, waiting)),
        sent=times.sent(whole) + others * times.sent([*forward, *backward]) + _sent_between(schedule),
        memory=sum(schedule.memory_of_rank().values()),
        events=tuple(whole),
    )


class _Times:
    """How long events take: groups are looked up once."""

    def __init__(self, schedule: Schedule, machine: Machine, assumptions: Assumptions) -> None:
        self.schedule, self.machine = schedule, machine
        self.overlaps = machine.overlaps if assumptions.overlaps is None else assumptions.overlaps
        self.slowdown = slowdown(assumptions.jitter, schedule.ranks)
        self.neighbours = machine.neighbours(schedule.ranks)
        self.names = tuple(schedule.mesh)
        self.sizes = tuple(schedule.mesh.values())
        self._groups: dict[tuple[str, ...], Group] = {(): group_of(self.sizes, (), machine)}

    def replayed(self, *phases: str) -> list[Timed]:
        """The events of phases in time; what they need of others is there from the beginning."""
        ends: dict[int, float] = {}
        free = {True: 0.0, False: 0.0}  # by queue: of kernels, of collectives
        found = []
        for number, event in enumerate(self.schedule.events):
            if event.phase not in phases:
                continue
            cost = self.cost(event)
            queue = event.is_kernel or not self.overlaps
            start = max([free[queue], *(ends.get(one, 0.0) for one in event.after)])
            ends[number] = free[queue] = start + cost.seconds
            found.append(Timed(event, start, start + cost.seconds, cost.algorithm))
        return found

    def cost(self, event: Event) -> Cost:
        """The time of an event."""
        machine = self.machine
        for axis in event.divided:
            event = event.with_share(1 / self.schedule.mesh[axis])
        if not event.is_kernel:
            return self._shared(collective_cost(event.kind, event.bytes, self.group(event.axes), machine))
        measured = event.seconds is not None and (
            self.schedule.measured_on == machine.name or not (event.operations or event.bytes)
        )
        if measured and event.seconds is not None:
            seconds = machine.slowed(event.seconds, event.bytes, self.neighbours)
        else:
            seconds = machine.kernel_seconds(event.operations, event.bytes, event.dtype, self.neighbours)
        return Cost("", seconds * self.slowdown)

    def _shared(self, cost: Cost) -> Cost:
        """Ranks that share processors take turns in communication too."""
        turns = max(1.0, self.neighbours / self.machine.processors)
        return Cost(cost.algorithm, cost.seconds * turns)

    def group(self, axes: tuple[str, ...]) -> Group:
        """The ranks along axes of the mesh."""
        if axes not in self._groups:
            numbers = [self.names.index(axis) for axis in axes]
            self._groups[axes] = group_of(self.sizes, numbers, self.machine)
        return self._groups[axes]

    def boundary(self) -> float:
        """The time from one stage to the next."""
        if self.schedule.stages == 1:
            return 0.0
        return collective_cost("shift", self.schedule.boundary, self.group(("pipeline",)), self.machine).seconds

    def sent(self, timed: Sequence[Timed]) -> float:
        """Bytes that one rank sends."""
        found = [one.event for one in timed if not one.event.is_kernel]
        return sum(sent_bytes(event.kind, event.bytes, self.group(event.axes).size) for event in found)


def _end(timed: Sequence[Timed]) -> float:
    return max((one.end for one in timed), default=0.0)


def _sum(timed: Sequence[Timed], chosen: Callable[[Timed], bool]) -> float:
    return sum(one.end - one.start for one in timed if chosen(one))


def _sent_between(schedule: Schedule) -> float:
    """Bytes that a stage in the middle of a pipeline sends: activations onwards, and their gradients back."""
    return 2 * schedule.boundary * schedule.micro_batches if schedule.stages > 1 else 0.0
