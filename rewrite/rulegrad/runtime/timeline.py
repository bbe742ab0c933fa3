"""Timelines in the trace-event format, which Perfetto and Chrome's `about:tracing` open."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple


class Span(NamedTuple):
    """Something that took time: a launch of a kernel, or a pass."""

    name: str
    row: str  #: what it is drawn in one row with: a device, or `passes`
    start: float  #: seconds, on the clock of time.perf_counter
    seconds: float
    details: dict[str, Any]  #: shown when it is chosen


def save_timeline(path: str | Path, spans: Iterable[Span]) -> None:
    """Writes a timeline. Raises OSError."""
    events = [
        {
            "name": span.name, "ph": "X", "pid": os.getpid(), "tid": span.row,
            "ts": span.start * 1e6, "dur": span.seconds * 1e6, "args": span.details,
        }
        for span in spans
    ]  # fmt: skip
    import json  # late: few programs save a timeline

    Path(path).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
