"""Profiles as text: kernels, the lines that they were computed for, and memory at its peak."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rulegrad import engine
from rulegrad.runtime import devices
from rulegrad.runtime.profile import duration
from rulegrad.support.locations import Frame, shown

if TYPE_CHECKING:
    from rulegrad.runtime.profile import KernelRecord, Peak

_MOST_ROWS: Final = 12  # of the memory of a device


def kernel_table(kernels: Sequence[KernelRecord]) -> str:
    """A row for each kernel and user's line, those that took longest first, and one for all."""
    groups: dict[tuple[str, str, str], list[KernelRecord]] = {}
    for record in kernels:
        groups.setdefault((record.name, record.device, record.user_line), []).append(record)
    whole = _seconds(kernels)
    lines = [
        f"{'kernel':<40} {'device':<9} {'launches':>8} {'time':>10} {'share':>6} {'GFLOP/s':>9} {'GB/s':>8} "
        f"{'of limit':>8}  line"
    ]
    for (name, device, line), records in sorted(groups.items(), key=lambda item: -_seconds(item[1])):
        seconds = _seconds(records)
        flops, nbytes = (sum(getattr(record, what) for record in records) for what in ("flops", "nbytes"))
        share, of_limit = (100 * part / of if of else 0.0 for part, of in (
            (seconds, whole), (_least_seconds(flops, nbytes, device), seconds),
        ))  # fmt: skip
        gflops, gigabytes = (amount / seconds * 1e-9 if seconds else 0.0 for amount in (flops, nbytes))
        lines.append(
            f"{name:<40} {device:<9} {len(records):>8} {duration(seconds):>10} {share:>5.1f}% {gflops:>9.2f} "
            f"{gigabytes:>8.2f} {of_limit:>7.1f}%  {line}".rstrip()
        )
    lines.append(f"{'all':<40} {'':<9} {len(kernels):>8} {duration(whole):>10}")
    if under_way := sum(record.seconds for record in kernels if record.exposed is not None):
        hidden = under_way - _seconds(record for record in kernels if record.exposed is not None)
        lines.append(f"collectives: {duration(under_way)} under way, {hidden / under_way:.0%} of it beside kernels")
    return "\n".join(lines)


def _seconds(records: Iterable[KernelRecord]) -> float:
    return sum(record.busy for record in records)


def _least_seconds(flops: int, nbytes: int, device: str) -> float:
    """The time on a device at its limits: its target's numbers, or those that were measured on this machine."""
    limits = engine.target(devices.target_of(device)).limits
    rate, bandwidth = limits.get("rate", 0), limits.get("bandwidth", 0)  # operations and bytes of a microsecond
    return max(flops / rate if rate else 0.0, nbytes / bandwidth if bandwidth else 0.0) * 1e-6


@dataclass(slots=True)
class _Line:
    """A line of the user's program, the time in kernels below it, and the lines that it called."""

    seconds: float = 0.0
    called: dict[Frame, _Line] = field(default_factory=dict)


def flame(kernels: Sequence[KernelRecord], least: float) -> str:
    """A tree of the user's lines by their shares of the time; frames that all kernels share at the top are left out."""
    root = _Line()
    for record in kernels:
        at = root
        for frame in record.stack:
            at.seconds += record.busy
            at = at.called.setdefault(frame, _Line())
        at.seconds += record.busy
    whole = _seconds(kernels)
    while len(root.called) == 1 and next(iter(root.called.values())).called:
        (root,) = root.called.values()
    rows: list[str] = []
    _add_rows(rows, root, 0, whole, least)
    return "\n".join(rows)


def _add_rows(rows: list[str], above: _Line, depth: int, whole: float, least: float) -> None:
    for frame, line in sorted(above.called.items(), key=lambda item: -item[1].seconds):
        share = line.seconds / whole if whole else 0.0
        if share >= least:
            rows.append(f"{share:>6.1%} {duration(line.seconds):>10}  {'  ' * depth}{shown(frame)} {frame[2]}")
            _add_rows(rows, line, depth + 1, whole, least)


def collapsed(kernels: Sequence[KernelRecord]) -> str:
    """A line for each stack: its frames with `;` between them, the kernel as the last, and whole microseconds."""
    stacks: dict[str, float] = {}
    for record in kernels:
        frames = [f"{frame[2]} ({shown(frame)})" for frame in record.stack]
        stack = ";".join(part.replace(";", ",") for part in (*frames, record.name))
        stacks[stack] = stacks.get(stack, 0.0) + record.busy
    return "\n".join(f"{stack} {max(1, round(seconds * 1e6))}" for stack, seconds in stacks.items())


def memory_table(peaks: Mapping[str, Peak]) -> str:
    """For each device the buffers at its peak, those of one kind and line together, the largest first."""
    lines: list[str] = []
    for device, peak in peaks.items():
        lines.append(f"{device}: {peak.in_use:,} bytes in use at the peak")
        groups: dict[tuple[str, str], list[int]] = {}
        for one in peak.buffers:
            groups.setdefault((one.made_at, one.kind), []).append(one.nbytes)
        rows = sorted(groups.items(), key=lambda item: -sum(item[1]))
        for (made_at, kind), sizes in rows[:_MOST_ROWS]:
            count = f"{len(sizes)} of " if len(sizes) > 1 else ""
            lines.append(f"{sum(sizes):>20,} bytes  {count}{kind}  {made_at}".rstrip())
        if others := rows[_MOST_ROWS:]:
            lines.append(f"{sum(sum(sizes) for _, sizes in others):>20,} bytes  in {len(others)} other kinds or lines")
    return "\n".join(lines)
