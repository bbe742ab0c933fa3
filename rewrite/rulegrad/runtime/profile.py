"""Times of kernels: the records of a profile, and the line a kernel of DEBUG=2.

>>> from rulegrad.runtime.profile import profile
>>> with profile() as p:
...     pass
>>> p.kernels
[]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rulegrad.config import config
from rulegrad.support import forks

if TYPE_CHECKING:
    from rulegrad.runtime.device import Executable, Handle
    from rulegrad.runtime.kernel import Kernel
    from rulegrad.runtime.timeline import Span


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """One launch of a kernel.

    >>> from rulegrad.runtime.profile import KernelRecord
    >>> record = KernelRecord(1, "E_4", "numpy", 0.0, 0.5, 2_000_000_000, 4_000_000_000, "", "main.py:3")
    >>> print(record)
    ***     1  E_4                                      numpy     500.00 ms     4.00 GFLOP/s    8.00 GB/s  main.py:3
    """

    number: int  #: counts the launches of this process that were timed, from 1
    name: str
    device: str
    start: float  #: seconds, on the clock of time.perf_counter
    seconds: float
    flops: int  #: operations that a launch computes
    nbytes: int  #: bytes that it reads and writes
    source: str
    user_line: str  #: where the user asked for it: "file.py:12"
    schedule: str = ""  #: the tactic that its loops run by, and the steps: "rows: bind i0 to thread; split k0 by 64"

    @property
    def gflops(self) -> float:
        """Operations a nanosecond: GFLOP/s.

        >>> from rulegrad.runtime.profile import KernelRecord
        >>> record = KernelRecord(1, "E_4", "numpy", 0.0, 0.5, 2_000_000_000, 4_000_000_000, "", "main.py:3")
        >>> record.gflops
        4.0
        """
        return self.flops / self.seconds * 1e-9 if self.seconds else 0.0

    @property
    def gigabytes_per_second(self) -> float:
        """Bytes read and written a nanosecond: GB/s.

        >>> from rulegrad.runtime.profile import KernelRecord
        >>> KernelRecord(1, "E_4", "numpy", 0.0, 0.5, 0, 4_000_000_000, "", "").gigabytes_per_second
        8.0
        """
        return self.nbytes / self.seconds * 1e-9 if self.seconds else 0.0

    def __str__(self) -> str:
        """The line of DEBUG=2."""
        place = "".join(f"  {text}" for text in (self.user_line, self.schedule) if text)
        return (
            f"*** {self.number:5d}  {self.name:<40s} {self.device:<9s} {_duration(self.seconds):>9s} "
            f"{self.gflops:8.2f} GFLOP/s {self.gigabytes_per_second:7.2f} GB/s{place}"
        )


class Profile:
    """The kernels that were launched while it was active, in order.

    >>> with rg.profile() as p:
    ...     _ = (Tensor([1.0, 2.0]) * 3).realize()
    >>> len(p.kernels), len(p.spans())
    (1, 1)
    """

    def __init__(self) -> None:
        self.kernels: list[KernelRecord] = []

    @property
    def seconds(self) -> float:
        """Time in kernels.

        >>> with rg.profile() as p:
        ...     _ = (Tensor([1.0, 2.0]) * 3).realize()
        >>> p.seconds == sum(record.seconds for record in p.kernels)
        True
        """
        return sum(record.seconds for record in self.kernels)

    def __str__(self) -> str:
        """A table: a row for each kernel, those that took longest first, and one for all.

        >>> with rg.profile() as p:
        ...     _ = (Tensor([1.0, 2.0], device="numpy") * 3).realize()
        >>> print(p)
        kernel     device    launches       time  share   GFLOP/s     GB/s
        ...        numpy            1  ...        100.0% ...
        all                         1 ...
        """
        groups: dict[tuple[str, str], list[KernelRecord]] = {}
        for record in self.kernels:
            groups.setdefault((record.name, record.device), []).append(record)
        rows = [_row(name, device, records) for (name, device), records in groups.items()]
        rows.sort(key=lambda row: -row[2])
        whole = self.seconds
        lines = [f"{'kernel':<40} {'device':<9} {'launches':>8} {'time':>10} {'share':>6} {'GFLOP/s':>9} {'GB/s':>8}"]
        for name, device, seconds, count, gflops, rate in rows:
            share = 100 * seconds / whole if whole else 0.0
            lines.append(
                f"{name:<40} {device:<9} {count:>8} {_duration(seconds):>10} {share:>5.1f}% {gflops:>9.2f} {rate:>8.2f}"
            )
        lines.append(f"{'all':<40} {'':<9} {len(self.kernels):>8} {_duration(whole):>10}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Profile of {len(self.kernels)} launches, {_duration(self.seconds)}>"

    def save(self, path: str | Path) -> None:
        """Writes a timeline that Chrome's `about:tracing` and Perfetto open. Raises OSError.

        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "timeline.json")
        >>> with rg.profile() as p:
        ...     _ = (Tensor([1.0, 2.0]) * 3).realize()
        >>> p.save(path); path.read_text()[:15]
        '{"traceEvents":'
        """
        from rulegrad.runtime.timeline import save_timeline  # late: few programs look at a timeline

        save_timeline(path, self.spans())

    def spans(self) -> list[Span]:
        """The launches, as a timeline shows them.

        >>> with rg.profile() as p:
        ...     _ = (Tensor([1.0, 2.0]) * 3).realize()
        >>> len(p.spans()) == len(p.kernels)
        True
        """
        from rulegrad.runtime.timeline import Span  # late: as above

        return [Span(r.name, r.device, r.start, r.seconds, asdict(r)) for r in self.kernels]

    def __enter__(self) -> Profile:
        _active.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _active.remove(self)


def profile() -> Profile:
    """A profile to use with `with`; its `kernels` are those that any thread launches inside the block.

    >>> with rg.profile() as p:
    ...     _ = (Tensor([1.0, 2.0]) * 3).realize()
    >>> len(p.kernels)
    1
    """
    return Profile()


_active: list[Profile] = []
_count = 0
_lock = forks.lock()


def is_timing() -> bool:
    """Whether each launch is timed now.

    >>> from rulegrad.runtime.profile import is_timing
    >>> with rg.profile():
    ...     is_timing()
    True
    """
    return bool(_active) or config.debug >= 2


def launch(executable: Executable, handles: Sequence[Handle], kernel: Kernel, device: str) -> None:
    """Launches a kernel; timed, recorded and printed if a profile is active or DEBUG is 2 or more."""
    if not is_timing():
        executable(handles)
        return
    start = time.perf_counter()
    seconds = executable(handles, wait=True)
    record_launch(kernel, device, start, time.perf_counter() - start if seconds is None else seconds)


def record_launch(kernel: Kernel, device: str, start: float, seconds: float) -> None:
    """Adds a launch to the active profiles, and prints its line if DEBUG is 2 or more."""
    global _count
    with _lock:
        _count += 1
        record = KernelRecord(
            _count, kernel.name, device, start, seconds, kernel.flops, kernel.nbytes,
            kernel.source, kernel.user_line, kernel.schedule,
        )  # fmt: skip
        for one in _active:
            one.kernels.append(record)
    if config.debug >= 2:
        print(record, file=sys.stderr)


def _row(name: str, device: str, records: Sequence[KernelRecord]) -> tuple[str, str, float, int, float, float]:
    """The total time of the launches of one kernel, and their rates."""
    seconds = sum(record.seconds for record in records)
    rates = (sum(getattr(record, field) for record in records) / seconds * 1e-9 if seconds else 0.0
             for field in ("flops", "nbytes"))  # fmt: skip
    gflops, gigabytes = rates
    return name, device, seconds, len(records), gflops, gigabytes


def _duration(seconds: float) -> str:
    """`1.23 ms`: three digits and a unit."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds * 1e9:.0f} ns"
