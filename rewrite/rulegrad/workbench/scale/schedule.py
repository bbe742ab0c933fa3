"""A captured schedule: kernels and collectives of one rank, with times, sizes and dependencies, as a JSON file.

{"format": 1, "name": "digits", "measured_on": "two-cores", "mesh": {"data": 2}, "batch": 64,
 "memory": [{"name": "parameters", "bytes": 800000, "divided": []}],
 "events": [{"name": "matmul", "kind": "kernel", "seconds": 0.001, "operations": 2000000, "bytes": 60000},
            {"name": "gradients", "kind": "all_reduce", "bytes": 400000, "axes": ["data"], "after": [0]}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from rulegrad.communication import KINDS
from rulegrad.errors import ConfigError, FileError, FileMissingError
from rulegrad.workbench.scale.fields import Fields

FORMAT: Final = 1
PHASES: Final = ("forward", "backward", "update")


@dataclass(frozen=True, slots=True)
class Event:
    """A launch of a kernel, or a collective."""

    name: str
    kind: str = "kernel"  #: or a collective: all_reduce, all_gather, reduce_scatter, all_to_all, part, shift
    seconds: float | None = None  #: of a kernel, where it was measured
    operations: float = 0  #: that a kernel computes
    bytes: float = 0  #: that a kernel reads and writes; of a collective the whole array, as `collective_cost` has it
    dtype: str = "float32"  #: by which the rate of operations is looked up
    axes: tuple[str, ...] = ()  #: of the mesh, along which a collective's ranks communicate
    after: tuple[int, ...] = ()  #: events, by their numbers, whose results it needs
    phase: str = "forward"  #: forward, backward, or update, which is done once for all micro-batches
    follows_batch: bool = True  #: whether its work grows with the batch of this rank
    divided: tuple[str, ...] = ()  #: axes of the mesh: each rank along them does a part of a kernel's work
    parameters: float = 0  #: bytes of parameters that a kernel reads, which somebody may have to gather
    gradients: float = 0  #: bytes of gradients of parameters that are ready after it

    @property
    def is_kernel(self) -> bool:
        """Whether it computes.

        >>> Event("matmul").is_kernel
        True
        """
        return self.kind == "kernel"

    def with_share(self, share: float) -> Event:
        """A part of the work; the time that a kernel takes is assumed to be less by the same factor.

        >>> Event("matmul", seconds=4.0, operations=8).with_share(0.25)
        Event(name='matmul', kind='kernel', seconds=1.0, operations=2.0, ...)
        """
        seconds = None if self.seconds is None else self.seconds * share
        return replace(self, seconds=seconds, operations=self.operations * share, bytes=self.bytes * share)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that stay in a device's memory, of the whole program; each rank has a share of what is divided."""

    name: str
    bytes: float
    divided: tuple[str, ...] = ()  #: axes of the mesh
    in_flight: bool = False  #: whether there is one for each micro-batch that a stage of a pipeline has begun


@dataclass(frozen=True, slots=True)
class Schedule:
    """The events of one rank in one step. All ranks do the same, each with its own part of the data.

    >>> schedule = Schedule("one kernel", (Event("matmul", operations=2e9, bytes=12e6),))
    >>> schedule.ranks
    1
    """

    name: str
    events: tuple[Event, ...]
    mesh: Mapping[str, int] = field(default_factory=dict)  #: sizes of axes; ranks are row-major in them
    memory: tuple[Memory, ...] = ()
    measured_on: str = ""  #: the machine, by its name, that the seconds are of
    batch: float = 1  #: examples of one micro-batch of one rank
    stages: int = 1  #: of a pipeline, whose events are one stage's; its axis of the mesh is `pipeline`
    micro_batches: int = 1  #: the forward and backward passes of one step
    boundary: float = 0  #: bytes that a stage sends to the next for a micro-batch

    def __post_init__(self) -> None:
        for number, event in enumerate(self.events):
            problem = _problem(number, event, self.mesh)
            if problem:
                raise ConfigError(f"schedule {self.name!r}: events[{number}] ({event.name}): {problem}")
        for memory in self.memory:
            for axis in memory.divided:
                if axis not in self.mesh:
                    raise ConfigError(f"schedule {self.name!r}: memory {memory.name!r}: the mesh has no axis {axis!r}")
        if self.stages > 1 and self.mesh.get("pipeline") != self.stages:
            raise ConfigError(
                f"schedule {self.name!r}: {self.stages} stages need a mesh with an axis pipeline={self.stages}"
            )

    @property
    def ranks(self) -> int:
        """How many ranks its mesh has."""
        found = 1
        for size in self.mesh.values():
            found *= size
        return found

    def with_axis(self, axis: str, size: int, strong: bool = False) -> Schedule:
        """The same on a mesh with another size of one axis.

        By default each rank has as much work as before (weak scaling); strong: all ranks together have. They have fewer
        micro-batches then, or smaller ones where these cannot be divided. Raises ConfigError for an axis that the mesh
        has not.

        >>> schedule = Schedule("s", (Event("matmul", operations=8e9),), {"data": 2})
        >>> schedule.with_axis("data", 8, strong=True).events[0].operations
        2000000000.0
        """
        if axis not in self.mesh:
            raise ConfigError(f"schedule {self.name!r} has no axis {axis!r} in its mesh {dict(self.mesh)}")
        mesh = {**self.mesh, axis: size}
        share = self.mesh[axis] / size if strong else 1.0
        fewer = self.micro_batches * share
        if fewer >= 1 and fewer == int(fewer):  # a rank has fewer micro-batches, each as it was
            return replace(self, mesh=mesh, micro_batches=int(fewer))
        events = tuple(event.with_share(share) if event.follows_batch else event for event in self.events)
        memory = tuple(replace(one, bytes=one.bytes * share) if one.in_flight else one for one in self.memory)
        return replace(
            self, events=events, mesh=mesh, memory=memory, batch=self.batch * share, boundary=self.boundary * share
        )

    def memory_of_rank(self, micro_batches: int | None = None) -> dict[str, float]:
        """Bytes on one rank by name; micro_batches: how many are in flight, by default those of the first stage.

        >>> Schedule("s", (), {"data": 4}, (Memory("state", 800, ("data",)),)).memory_of_rank()
        {'state': 200.0}
        """
        flying = min(self.stages, self.micro_batches) if micro_batches is None else micro_batches
        found: dict[str, float] = {}
        for one in self.memory:
            share = one.bytes * (flying if one.in_flight else 1)
            for axis in one.divided:
                share /= self.mesh[axis]
            found[one.name] = found.get(one.name, 0.0) + share
        return found

    def save(self, path: str | Path) -> None:
        """Writes the JSON file. Raises FileError where it cannot be written."""
        try:
            Path(path).write_text(json.dumps(self.as_object(), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise FileError(f"{path} cannot be written: {error.strerror}") from None

    def as_object(self) -> dict[str, Any]:
        """The contents of the file as plain data; values that are the default ones are left out.

        >>> Schedule("s", (Event("matmul", seconds=0.5),)).as_object()["events"]
        [{'name': 'matmul', 'seconds': 0.5}]
        """
        plain = {**asdict(self), "mesh": dict(self.mesh)}
        plain["events"] = [_without_defaults(event) for event in self.events]
        return {"format": FORMAT, **plain}


def load_schedule(path: str | Path) -> Schedule:
    """The schedule of a JSON file. Raises FileError, which names the file and the key, where it is wrong.

    >>> load_schedule("missing.json")
    Traceback (most recent call last):
        ...
    rulegrad.errors.FileMissingError: missing.json cannot be read: there is no such file
    """
    try:
        table = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileMissingError(f"{path} cannot be read: there is no such file") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read as a schedule: {error}") from None
    top = Fields(table, str(path))
    if (version := top.whole("format")) != FORMAT:
        top.fail("format", f"{version} is not {FORMAT}, which this version reads")
    try:
        found = Schedule(
            name=top.text("name"),
            events=tuple(_event(fields) for fields in top.tables("events")),
            mesh=top.counts("mesh", {}),
            memory=tuple(_memory(fields) for fields in top.tables("memory")) if top.peek("memory") else (),
            measured_on=top.text("measured_on", ""),
            batch=top.positive("batch", 1),
            stages=top.count("stages", 1),
            micro_batches=top.count("micro_batches", 1),
            boundary=top.number("boundary", 0.0),
        )
    except ConfigError as error:
        raise FileError(f"{path}: {error.problem}") from None
    top.take("memory", None)  # an empty list has not been read
    top.end()
    return found


def _problem(number: int, event: Event, mesh: Mapping[str, int]) -> str:
    """The problem with an event, or ""."""
    if not event.is_kernel and event.kind not in KINDS:
        return f"kind {event.kind!r} is neither kernel nor {', '.join(KINDS)}"
    if event.phase not in PHASES:
        return f"phase {event.phase!r} is not one of {', '.join(PHASES)}"
    late = [one for one in event.after if not 0 <= one < number]
    if late:
        return f"after: {late[0]} is not the number of an event before it"
    if not event.is_kernel and not event.axes:
        return "a collective needs axes of the mesh"
    missing = [axis for axis in (*event.axes, *event.divided) if axis not in mesh]
    return f"the mesh has no axis {missing[0]!r}" if missing else ""


def _without_defaults(event: Event) -> dict[str, Any]:
    default = Event(event.name)
    found = asdict(event)
    return {name: value for name, value in found.items() if name == "name" or value != getattr(default, name)}


def _event(fields: Fields) -> Event:
    after = fields.list("after", [])
    if not all(isinstance(one, int) and not isinstance(one, bool) for one in after):
        fields.fail("after", f"{after!r} is not a list of events' numbers")
    found = Event(
        name=fields.text("name"),
        kind=fields.text("kind", "kernel"),
        seconds=fields.take("seconds", None) if fields.peek("seconds") is None else fields.number("seconds"),
        operations=fields.number("operations", 0.0),
        bytes=fields.number("bytes", 0.0),
        dtype=fields.text("dtype", "float32"),
        axes=fields.texts("axes", []),
        after=tuple(after),
        phase=fields.text("phase", "forward"),
        follows_batch=fields.flag("follows_batch", True),
        divided=fields.texts("divided", []),
        parameters=fields.number("parameters", 0.0),
        gradients=fields.number("gradients", 0.0),
    )
    fields.end()
    return found


def _memory(fields: Fields) -> Memory:
    found = Memory(
        fields.text("name"), fields.number("bytes"), fields.texts("divided", []), fields.flag("in_flight", False)
    )
    fields.end()
    return found
