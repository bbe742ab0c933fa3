"""Use of a device's memory: its peak, and the table of an out-of-memory error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rulegrad.support.places import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rulegrad.runtime.allocator import Allocator

_MOST_ROWS = 10


def peak_memory(device: str | None = None) -> int:
    """The most bytes of a device that buffers had at one time, since the start or `reset_peak_memory`.

    device: the default one unless named. Blocks that wait for reuse do not count. Raises DeviceError.

    >>> from rulegrad import Tensor
    >>> reset_peak_memory("numpy")
    >>> before = peak_memory("numpy")
    >>> x = Tensor([0.0] * 1024, device="numpy")
    >>> peak_memory("numpy") - before
    4096
    """
    return _allocator(device).most_in_use


def reset_peak_memory(device: str | None = None) -> None:
    """Count the peak of a device (the default one unless named) from what is in use now. Raises DeviceError.

    >>> reset_peak_memory("numpy")
    >>> peak_memory("numpy") == memory_report("numpy").in_use
    True
    """
    _allocator(device).reset_peak()


@dataclass(frozen=True, slots=True)
class Stored:
    """A buffer that has memory: its dtype and shape, its bytes, and the user's line that made it ("" if small)."""

    kind: str
    nbytes: int
    made_at: str


@dataclass(frozen=True, slots=True)
class MemoryReport:
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


def memory_report(device: str | None = None) -> MemoryReport:
    """The current use of the memory of a device (the default one unless named). Raises DeviceError.

    >>> x = Tensor.full((1024,), 2.0, device="numpy").contiguous().realize()
    >>> report = rg.memory_report("numpy")
    >>> report.in_use >= 4096, any(one.kind == "float32 1024" for one in report.buffers)
    (True, True)
    >>> print(report)
        numpy: in use ... bytes  ... buffers
        peak          ... bytes
    ...
    """
    return _report(_allocator(device))


def _report(allocator: Allocator) -> MemoryReport:
    from rulegrad.runtime.buffer import live_buffers

    name = allocator.device.name
    found = sorted(live_buffers(name), key=lambda buffer: -buffer.nbytes)
    buffers = tuple(Stored(buffer.kind, buffer.nbytes, shown(buffer.made_at)) for buffer in found)
    total = allocator.device.memory or 0
    return MemoryReport(name, allocator.in_use, allocator.most_in_use, allocator.waiting, total, buffers)


def _allocator(device: str | None) -> Allocator:
    from rulegrad.runtime import devices

    return devices.allocator(devices.canonical(device) if device else devices.default())


def memory_table(allocator: Allocator, requested: int, purpose: str) -> str:
    """Bytes that are asked for, in use, and kept for reuse; the largest buffers with the lines that made them."""
    report = _report(allocator)
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
