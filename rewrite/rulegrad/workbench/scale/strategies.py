"""Ways to spread the schedule of one device: the collectives that data parallel and fully sharded training put in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from rulegrad.errors import ConfigError
from rulegrad.workbench.scale.schedule import Event, Memory, Schedule

#: Bytes of gradients that are sent together, as PyTorch's DistributedDataParallel does by default (Li et al. 2020).
BUCKET: Final = 25 << 20
AXIS: Final = "data"
STATE: Final = "state"  #: the name of the optimizer's memory in a schedule


def data_parallel(schedule: Schedule, ranks: int, bucket: float = BUCKET) -> Schedule:
    """Each rank has all parameters and a part of the examples; gradients are summed over an axis `data`.

    Gradients are those that events say they make ready; they are sent once there are `bucket` bytes, and the rest with
    the last. The axis is the outermost of the mesh. Raises ConfigError where the mesh has it already, or no event makes
    gradients.

    >>> one = Schedule("s", (Event("backward", phase="backward", gradients=100), Event("update", phase="update")))
    >>> [(event.kind, event.bytes, event.after) for event in data_parallel(one, 4).events]
    [('kernel', 0, ()), ('all_reduce', 100, (0,)), ('kernel', 0, (1,))]
    """
    return _spread(schedule, ranks, bucket, "all_reduce")


def state_sharded(schedule: Schedule, ranks: int, bucket: float = BUCKET) -> Schedule:
    """Each rank has all parameters, and updates a part of them with its part of the optimizer's state.

    Gradients are summed and scattered, and new parameters gathered: as many bytes as `data_parallel` sends (Rajbhandari
    et al., "ZeRO", 2020, stage 1). State is the memory of that name. Raises ConfigError as `data_parallel` does.

    >>> one = Schedule("s", (Event("backward", phase="backward", gradients=100), Event("update", phase="update")))
    >>> [(event.kind, event.bytes) for event in state_sharded(one, 4).events]
    [('kernel', 0), ('reduce_scatter', 100), ('kernel', 0), ('all_gather', 100)]
    """
    spread = _with_divided_update(_spread(schedule, ranks, bucket, "reduce_scatter"))
    last = tuple(number for number, event in enumerate(spread.events) if event.phase == "update")
    gathered = sum(event.gradients for event in schedule.events)
    gather = Event(
        "new parameters", "all_gather", bytes=gathered, axes=(AXIS,), after=last, phase="update", follows_batch=False
    )
    memory = tuple(replace(one, divided=(*one.divided, AXIS)) if one.name == STATE else one for one in spread.memory)
    return replace(spread, events=(*spread.events, gather), memory=memory)


def fully_sharded(schedule: Schedule, ranks: int, bucket: float = BUCKET) -> Schedule:
    """Parameters, gradients and the optimizer's state are divided among the ranks of an axis `data`.

    Parameters are gathered for each kernel that reads some, one such kernel ahead; gradients are summed and scattered
    (Rajbhandari et al., "ZeRO", 2020, stage 3). An update does a part of the parameters. Raises ConfigError as
    `data_parallel` does.

    >>> one = Schedule("s", (Event("backward", phase="backward", parameters=400, gradients=100),))
    >>> [event.kind for event in fully_sharded(one, 4).events]
    ['all_gather', 'kernel', 'reduce_scatter']
    """
    spread = _with_divided_update(_spread(schedule, ranks, bucket, "reduce_scatter", gathers=True))
    gathered = Memory("gathered parameters", 2 * max(event.parameters for event in schedule.events))
    memory = tuple(one if one.in_flight else replace(one, divided=(*one.divided, AXIS)) for one in spread.memory)
    return replace(spread, memory=(*memory, gathered))


#: What `--strategy` may be.
STRATEGIES: Final[dict[str, Callable[[Schedule, int, float], Schedule]]] = {
    "data": data_parallel,
    "state-sharded": state_sharded,
    "fully-sharded": fully_sharded,
}


def bucketed(
    events: Sequence[Event], bucket: float, kinds: Sequence[str] = ("all_reduce", "reduce_scatter")
) -> list[Event]:
    """The same with collectives of one kind, along the same axes, sent together up to so many bytes.

    kinds: of the collectives that wait for others. They are sent when the last of them is ready, or before an event
    that needs one of them.

    >>> sums = [Event(name, "all_reduce", bytes=60, axes=("data",)) for name in "abc"]
    >>> [event.bytes for event in bucketed(sums, 100)]
    [120, 60]
    """
    made: list[Event] = []
    place: dict[int, int] = {}  # by an event's number, where it is now
    waiting: list[int] = []

    def send() -> None:
        if not waiting:
            return
        parts = [events[number] for number in waiting]
        after = sorted({place[one] for part in parts for one in part.after})
        place.update(dict.fromkeys(waiting, len(made)))
        name = parts[0].name if len(parts) == 1 else f"{parts[0].name} and {len(parts) - 1} more"
        made.append(replace(parts[0], name=name, bytes=sum(part.bytes for part in parts), after=tuple(after)))
        waiting.clear()

    for number, event in enumerate(events):
        key = (event.kind, event.axes, event.phase, event.dtype)
        first = events[waiting[0]] if waiting else event
        if set(event.after) & set(waiting) or (
            not event.is_kernel and key != (first.kind, first.axes, first.phase, first.dtype)
        ):
            send()
        if event.is_kernel or event.kind not in kinds:
            after = tuple(sorted({place[one] for one in event.after}))
            place[number] = len(made)
            made.append(replace(event, after=after))
            continue
        waiting.append(number)
        if sum(events[one].bytes for one in waiting) >= bucket:
            send()
    send()
    return made


def _spread(schedule: Schedule, ranks: int, bucket: float, kind: str, gathers: bool = False) -> Schedule:
    """Puts in what is done with gradients, and with parameters where they are divided."""
    if AXIS in schedule.mesh:
        raise ConfigError(f"schedule {schedule.name!r} has an axis {AXIS!r} already; --grow {AXIS} changes its size")
    if not any(event.gradients for event in schedule.events):
        raise ConfigError(f"schedule {schedule.name!r}: no event says how many bytes of gradients it makes ready")
    events: list[Event] = []
    place: dict[int, int] = {}  # by an event's number, where it is now
    sums: list[int] = []
    readers = [n for n, e in enumerate(schedule.events) if gathers and e.parameters and e.phase != "update"]
    turns = {number: turn for turn, number in enumerate(readers)}
    gathered: dict[int, int] = {}  # by a reader's number, where its parameters are gathered
    for number, event in enumerate(schedule.events):
        after = {place[one] for one in event.after}
        if number in turns:
            at = turns[number]
            for reader in readers[0 if at == 0 else at + 1 : at + 2]:
                # not before the last kernel but one, so that there is memory for two at most
                earlier = [place[readers[at - 1]]] if at else []
                gathered[reader] = len(events)
                owner = schedule.events[reader]
                events.append(_collective("all_gather", owner, owner.parameters, earlier, owner.phase))
            after.add(gathered[number])
        if event.is_kernel and event.phase == "update":
            after.update(sums)
        place[number] = len(events)
        events.append(replace(event, after=tuple(sorted(after))))
        if event.gradients:
            sums.append(len(events))
            events.append(_collective(kind, event, event.gradients, [place[number]], "update"))
    return replace(schedule, events=tuple(bucketed(events, bucket)), mesh=_outermost(schedule, ranks))


def _collective(kind: str, event: Event, nbytes: float, after: Sequence[int], phase: str) -> Event:
    what = "parameters" if kind == "all_gather" else "gradients"
    return Event(
        f"{what} of {event.name}", kind, bytes=nbytes, dtype=event.dtype, axes=(AXIS,), after=tuple(after),
        phase=phase, follows_batch=False,
    )  # fmt: skip


def _outermost(schedule: Schedule, ranks: int) -> dict[str, int]:
    """The mesh with the axis outside those that send more often, and inside of a pipeline's, which sends least."""
    before = {axis: size for axis, size in schedule.mesh.items() if axis == "pipeline"}
    return {**before, AXIS: ranks, **{axis: size for axis, size in schedule.mesh.items() if axis not in before}}


def _with_divided_update(schedule: Schedule) -> Schedule:
    """Each rank updates its part of the parameters."""
    events = tuple(
        replace(event, divided=(*event.divided, AXIS)) if event.is_kernel and event.phase == "update" else event
        for event in schedule.events
    )
    return replace(schedule, events=events)
