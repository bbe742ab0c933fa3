"""The table of a device's memory: the buffers that there are, and what an error says when memory runs out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rulegrad import _core
from rulegrad.support.locations import shown

if TYPE_CHECKING:
    import weakref

    from rulegrad.runtime.allocator import Allocator
    from rulegrad.runtime.buffer import Buffer

_MOST_ROWS = 10

#: All buffers, by number. A buffer that nobody holds any more takes itself out.
live: dict[int, weakref.ref[Buffer]] = _core.live_buffers


def live_buffers(device: str) -> list[Buffer]:
    """The buffers on a device that have memory of their own."""
    found = [reference() for reference in list(live.values())]
    return [b for b in found if b is not None and b.device == device and b.is_allocated and not b._borrowed]


class Stored(NamedTuple):
    """A buffer that has memory: its dtype and shape, its bytes, and the user's line that made it ("" if small)."""

    kind: str
    nbytes: int
    made_at: str


class MemoryReport(NamedTuple):
    """The use of a device's memory; printed, it is a table."""

    device: str
    in_use: int  #: bytes of buffers
    peak: int  #: the most that were in use since the start, or `reset_peak_memory`
    waiting: int  #: bytes that are kept for reuse
    total: int  #: bytes of the device; 0 where it does not say
    buffers: tuple[Stored, ...]  #: those that have memory of their own, the largest first

    def __str__(self) -> str:
        rows = [(f"{self.device}: in use", self.in_use, f"{len(self.buffers)} buffers"), ("peak", self.peak, "")]
        return _table([*rows, *_rest(self)])


def report_of(allocator: Allocator) -> MemoryReport:
    """The current use of an allocator's memory."""
    name = allocator.device.name
    found = sorted(live_buffers(name), key=lambda buffer: -buffer.nbytes)
    buffers = tuple(Stored(buffer.kind, buffer.nbytes, shown(buffer.made_at)) for buffer in found)
    total = allocator.device.memory or 0
    return MemoryReport(name, allocator.in_use, allocator.most_in_use, allocator.waiting, total, buffers)


def memory_table(allocator: Allocator, requested: int, purpose: str) -> str:
    """Bytes that are asked for, in use, and kept for reuse; the largest buffers with the lines that made them."""
    report = report_of(allocator)
    rows = [("requested", requested, purpose), ("in use", report.in_use, f"{len(report.buffers)} buffers")]
    return _table([*rows, *_rest(report)])


def _rest(report: MemoryReport) -> list[tuple[str, int, str]]:
    """The rows that a report and an error share."""
    rows = [("kept for reuse", report.waiting, "")]
    if report.total:
        rows.append(("of the device", report.total, ""))
    rows += [(f"  {one.kind}", one.nbytes, one.made_at) for one in report.buffers[:_MOST_ROWS]]
    if others := report.buffers[_MOST_ROWS:]:
        rows.append(("  others", sum(one.nbytes for one in others), f"{len(others)} buffers"))
    return rows


def _table(rows: Sequence[tuple[str, int, str]]) -> str:
    width = max(len(label) for label, _, _ in rows)
    return "\n".join(f"    {label:<{width}} {nbytes:>20,} bytes  {note}".rstrip() for label, nbytes, note in rows)
