"""Timelines in the trace-event format, which Perfetto and Chrome's `about:tracing` open."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rulegrad.runtime.profile import MemorySample


class Span(NamedTuple):
    """Something that took time: a launch of a kernel, a pass, a call of a function.

    Spans of one row are one inside the other, or one after the other.
    """

    name: str
    row: str  #: what it is drawn in one row with: a device, its collectives, `host` or `passes`
    start: float  #: seconds, on the clock of time.perf_counter
    seconds: float
    details: dict[str, Any]  #: shown when it is chosen
    kind: str = "pass"  #: `python`, `block`, `compile`, `pass`, `launch`, `kernel` or `collective`, for viewers


def save_timeline(path: str | Path, spans: Iterable[Span], memory: Iterable[MemorySample] = ()) -> None:
    """Writes a timeline: spans in rows, and the memory of each device as a curve. Raises OSError."""
    text = json.dumps({"traceEvents": events(list(spans), list(memory)), "displayTimeUnit": "ms"})
    Path(path).write_text(text, encoding="utf-8")


def events(spans: list[Span], memory: list[MemorySample]) -> list[dict[str, Any]]:
    """The trace events, in microseconds from the first; names of rows come first.

    The format: "Trace Event Format", Chromium's documents; `X` is a span, `C` a counter, `M` a name.

    >>> events([Span("work", "host", 1.0, 0.5, {})], [])[-1]["dur"]
    500000.0
    """
    rows = {row: number for number, row in enumerate(dict.fromkeys(span.row for span in spans), 1)}
    start = min([*(span.start for span in spans), *(sample.time for sample in memory)], default=0.0)
    pid = os.getpid()
    named: list[tuple[str, int, dict[str, Any]]] = [("process_name", 0, {"name": "rulegrad"})]
    for row, number in rows.items():
        named += [("thread_name", number, {"name": row}), ("thread_sort_index", number, {"sort_index": number})]
    found: list[dict[str, Any]] = [
        {"name": name, "ph": "M", "pid": pid, "tid": number, "args": args} for name, number, args in named
    ]
    timed: list[dict[str, Any]] = [
        {
            "name": span.name, "cat": span.kind, "ph": "X", "pid": pid, "tid": rows[span.row],
            "ts": (span.start - start) * 1e6, "dur": span.seconds * 1e6, "args": span.details,
        }
        for span in spans
    ]  # fmt: skip
    timed += [
        {
            "name": f"memory of {sample.device}", "cat": "memory", "ph": "C", "pid": pid, "tid": 0,
            "ts": (sample.time - start) * 1e6, "args": {"bytes": sample.in_use},
        }
        for sample in memory
    ]  # fmt: skip
    # A span comes before those inside it: of two that begin together the longer one is the outer.
    timed.sort(key=lambda event: (event["ts"], -event.get("dur", 0.0)))
    return found + timed
