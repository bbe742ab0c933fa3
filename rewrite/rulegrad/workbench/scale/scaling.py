"""A schedule on more and more devices: time, efficiency and memory for each number, as data and as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rulegrad.errors import ConfigError
from rulegrad.runtime.profile import duration
from rulegrad.workbench.scale.machine import Machine
from rulegrad.workbench.scale.schedule import Schedule
from rulegrad.workbench.scale.simulation import Assumptions, Step, simulate


@dataclass(frozen=True, slots=True)
class Row:
    """A number of devices."""

    step: Step
    efficiency: float  #: the time of a step where the axis that grows has one rank, over what it would be by that
    examples: float  #: a second, on all devices


def scaled(
    schedule: Schedule,
    machine: Machine,
    devices: Sequence[int],
    axis: str = "data",
    strong: bool = False,
    assumptions: Assumptions = Assumptions(),  # noqa: B008
) -> list[Row]:
    """A schedule on these numbers of devices, by growing one axis of its mesh.

    Efficiency compares with the same schedule where that axis has one rank: with weak scaling a step should take as
    long as there, with strong scaling the nth part. Raises ConfigError where a number is not a multiple of the other
    axes.

    >>> from rulegrad.workbench.scale.machine import load_machine
    >>> from rulegrad.workbench.scale.schedule import Event
    >>> one = Schedule("s", (Event("matmul", operations=1e12),), {"data": 1})
    >>> [row.efficiency for row in scaled(one, load_machine("h100-infiniband"), [1, 8, 64])]
    [1.0, 1.0, 1.0]
    """
    if axis not in schedule.mesh:
        raise ConfigError(f"schedule {schedule.name!r} has no axis {axis!r} in its mesh {dict(schedule.mesh)}")
    others = schedule.ranks // schedule.mesh[axis]
    base = simulate(schedule.with_axis(axis, 1, strong), machine, assumptions)
    rows = []
    for number in devices:
        size = number // others
        if size < 1 or number % others:
            raise ConfigError(f"{number} devices are not a multiple of the {others} of the mesh's other axes")
        grown = schedule.with_axis(axis, size, strong)
        step = simulate(grown, machine, assumptions)
        ideal = base.seconds / size if strong else base.seconds
        done = grown.batch * grown.micro_batches * size
        rows.append(
            Row(step, ideal / step.seconds if step.seconds else 1.0, done / step.seconds if step.seconds else math.inf)
        )
    return rows


def as_objects(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows as plain data: what `--json` prints. Times are seconds."""
    return [
        {
            "devices": row.step.ranks,
            "seconds": row.step.seconds,
            "efficiency": row.efficiency,
            "examples_per_second": row.examples,
            "computing": row.step.computing,
            "communicating": row.step.communicating,
            "exposed": row.step.exposed,
            "waiting": row.step.waiting,
            "bytes_sent": row.step.sent,
            "bytes_of_memory": row.step.memory,
            "collectives": collectives(row.step),
        }
        for row in rows
    ]


def collectives(step: Step) -> list[dict[str, Any]]:
    """The collectives by kind, axes and algorithm: how often each runs, and how long in all."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for timed in step.events:
        if not timed.event.is_kernel:
            key = (timed.event.kind, ",".join(timed.event.axes), timed.algorithm)
            found.setdefault(key, []).append(timed.end - timed.start)
    return [
        {"kind": kind, "axes": axes, "algorithm": algorithm, "times": len(times), "seconds": sum(times)}
        for (kind, axes, algorithm), times in found.items()
    ]


def as_table(rows: Sequence[Row], machine: Machine) -> str:
    """The rows for people: percentages are of the step, memory in GB (10^9 bytes)."""
    lines = [
        f"{'devices':>8}{'step':>12}{'efficiency':>12}{'examples/s':>12}{'exposed':>9}{'bubble':>8}"
        f"{'sent':>11}{'memory':>11}"
    ]
    for row in rows:
        step = row.step
        waiting = step.waiting / step.seconds if step.seconds else 0.0
        full = " !" if step.memory > machine.memory else ""
        lines.append(
            f"{step.ranks:>8,}{duration(step.seconds):>12}{row.efficiency:>12.1%}{row.examples:>12,.4g}"
            f"{step.exposed_share:>9.1%}{waiting:>8.1%}{bytes_text(step.sent):>11}{bytes_text(step.memory):>11}{full}"
        )
    if any(row.step.memory > machine.memory for row in rows):
        lines.append(f"! more than the {bytes_text(machine.memory)} of a device of {machine.name}")
    lines.append("")
    for one in collectives(rows[-1].step):
        lines.append(
            f"{one['times']:>4} x {one['kind']} along {one['axes']}: {duration(one['seconds'])} by {one['algorithm']}"
        )
    return "\n".join(lines).rstrip()


def bytes_text(count: float) -> str:
    """Bytes with three digits and a unit, powers of 1,000.

    >>> bytes_text(80e9), bytes_text(12)
    ('80 GB', '12 B')
    """
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"
