"""What a device's memory is used for: its peak, and the table of an out-of-memory error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rulegrad.runtime.places import shown

if TYPE_CHECKING:
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
    """Count the peak of a device (the default one unless named) from what is in use now. Raises DeviceError."""
    _allocator(device).reset_peak()


def _allocator(device: str | None) -> Allocator:
    from rulegrad.runtime import devices

    return devices.allocator(devices.canonical(device) if device else devices.default())


def memory_table(allocator: Allocator, requested: int, purpose: str) -> str:
    """Bytes that are asked for, in use, and kept for reuse; the largest buffers with the lines that made them."""
    from rulegrad.runtime.buffer import live_buffers

    name = allocator.device.name
    found = sorted(live_buffers(name), key=lambda buffer: -buffer.nbytes)
    rows = [("requested", requested, purpose), ("in use", allocator.in_use, f"{len(found)} buffers")]
    rows.append(("kept for reuse", allocator.waiting, ""))
    if allocator.device.memory:
        rows.append(("of the device", allocator.device.memory, ""))
    for buffer in found[:_MOST_ROWS]:
        rows.append((f"  {buffer.kind}", buffer.nbytes, shown(buffer.made_at)))
    if found[_MOST_ROWS:]:
        rows.append(
            ("  others", sum(buffer.nbytes for buffer in found[_MOST_ROWS:]), f"{len(found) - _MOST_ROWS} buffers")
        )
    width = max(len(label) for label, _, _ in rows)
    return "\n".join(f"    {label:<{width}} {nbytes:>20,} bytes  {note}".rstrip() for label, nbytes, note in rows)
