"""What a device's memory is used for: the table of an out-of-memory error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rulegrad.runtime.places import shown

if TYPE_CHECKING:
    from rulegrad.runtime.allocator import Allocator

_MOST_ROWS = 10


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
