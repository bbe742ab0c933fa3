"""Profiles: kernels, compile passes, launches and memory while a program runs, and the line a kernel of DEBUG=2.

Nothing here costs more than a test of an empty list where no profile is active.

>>> from rulegrad.runtime.profile import profile
>>> with profile() as p:
...     pass
>>> p.kernels
[]
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rulegrad.config import config
from rulegrad.engine import watching
from rulegrad.support import forks
from rulegrad.support.locations import Stack, shown

if TYPE_CHECKING:
    from rulegrad.runtime.allocator import Allocator
    from rulegrad.runtime.device import Executable, Handle
    from rulegrad.runtime.kernel import Kernel
    from rulegrad.runtime.memory_table import Stored
    from rulegrad.runtime.python_calls import PythonCalls
    from rulegrad.runtime.timeline import Span

_NOTHING: Final = nullcontext()
#: What is in memory is listed again once there is more than it by this factor, not at each byte more.
_NEW_PEAK: Final = 1.01


class KernelRecord(NamedTuple):
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
    stack: Stack = ()  #: the user's frames behind that line: file, line and function, the outermost first
    exposed: float | None = None  #: of a collective, the seconds in which nothing else ran

    @property
    def busy(self) -> float:
        """Seconds that the program took for it: of a collective those that no kernel has hidden.

        >>> from rulegrad.runtime.profile import KernelRecord
        >>> KernelRecord(1, "all_reduce", "c", 0.0, 0.5, 0, 4, "", "", exposed=0.125).busy
        0.125
        """
        return self.seconds if self.exposed is None else self.exposed

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
            f"*** {self.number:5d}  {self.name:<40s} {self.device:<9s} {duration(self.seconds):>9s} "
            f"{self.gflops:8.2f} GFLOP/s {self.gigabytes_per_second:7.2f} GB/s{place}"
        )


class MemorySample(NamedTuple):
    """The bytes of a device that were in use at a time, in seconds on the clock of time.perf_counter."""

    device: str
    time: float
    in_use: int


class Peak(NamedTuple):
    """The buffers that a device had when most bytes were in use, to 1 %; those without a line were there before."""

    in_use: int
    buffers: tuple[Stored, ...]


class Profile:
    """The kernels that ran while it was active, in order, and what the host did around them.

    >>> with rg.profile() as p:
    ...     _ = (Tensor([1.0, 2.0]) * 3).realize()
    >>> len(p.kernels), {span.row for span in p.spans()} >= {"host", p.kernels[0].device}
    (1, True)
    """

    def __init__(self, path: str | Path | None = None, python: bool = False) -> None:
        self.kernels: list[KernelRecord] = []
        self.host: list[Span] = []  #: calls of Python functions, passes, builds and launches, as they ended
        self.memory: list[MemorySample] = []
        self.peaks: dict[str, Peak] = {}  #: by device
        self._path, self._python = path, python
        self._calls: PythonCalls | None = None

    @property
    def seconds(self) -> float:
        """Time in kernels, and in collectives while no kernel ran.

        >>> with rg.profile() as p:
        ...     _ = (Tensor([1.0, 2.0]) * 3).realize()
        >>> p.seconds == sum(record.seconds for record in p.kernels)
        True
        """
        return sum(record.busy for record in self.kernels)

    @property
    def hidden(self) -> float:
        """The share of the time that collectives were under way in which kernels ran; 0 where there were none.

        >>> with rg.profile() as p:
        ...     _ = (Tensor([1.0, 2.0]) * 3).realize()
        >>> p.hidden
        0.0
        """
        of = [record for record in self.kernels if record.exposed is not None]
        whole = sum(record.seconds for record in of)
        return 1.0 - sum(record.busy for record in of) / whole if whole else 0.0

    def __str__(self) -> str:
        """A table: a row for each kernel and user's line, those that took longest first, and one for all.

        "of limit" is the time that the device would need at its best rate of arithmetic, or at its bandwidth if that
        is longer, as a share of the time that it took. `python -m rulegrad devices --measure` measures both.

        >>> with rg.profile() as p:
        ...     _ = (Tensor([1.0, 2.0], device="numpy") * 3).realize()
        >>> print(p)
        kernel     device    launches       time  share   GFLOP/s     GB/s of limit  line
        ...        numpy            1  ...        100.0% ...
        all                         1 ...
        """
        from rulegrad.runtime import profile_tables  # late: few programs print a profile

        return profile_tables.kernel_table(self.kernels)

    def flame(self, least: float = 0.01) -> str:
        """The time in kernels as a tree of the user's lines: a line's share holds those of the lines that it called.

        least: the smallest share that has a row.

        >>> def triple(x):
        ...     return (x * 3).realize()
        >>> with rg.profile() as p:
        ...     _ = triple(Tensor([1.0, 2.0]))
        >>> print(p.flame())
        100.0%  ...
        """
        from rulegrad.runtime import profile_tables  # late: few programs print a profile

        return profile_tables.flame(self.kernels, least)

    def collapsed(self) -> str:
        """The same as collapsed stacks, `outer;inner MICROSECONDS`: what flamegraph.pl, inferno and speedscope read.

        >>> with rg.profile() as p:
        ...     _ = (Tensor([1.0, 2.0]) * 3).realize()
        >>> p.collapsed().rpartition(" ")[0].endswith(f";{p.kernels[0].name}")
        True
        """
        from rulegrad.runtime import profile_tables  # late: few programs print a profile

        return profile_tables.collapsed(self.kernels)

    def memory_table(self) -> str:
        """The buffers at the peak of each device, the largest first, with the lines that made them.

        >>> with rg.profile() as p:
        ...     x = (Tensor.arange(40000, device="numpy") * 3).realize()
        >>> print(p.memory_table())
        numpy: ... bytes in use at the peak
        ...
        """
        from rulegrad.runtime import profile_tables  # late: few programs print a profile

        return profile_tables.memory_table(self.peaks)

    def __repr__(self) -> str:
        return f"<Profile of {len(self.kernels)} launches, {duration(self.seconds)}>"

    def save(self, path: str | Path) -> None:
        """Writes a timeline that Perfetto and Chrome's `about:tracing` open. Raises OSError.

        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "timeline.json")
        >>> with rg.profile() as p:
        ...     _ = (Tensor([1.0, 2.0]) * 3).realize()
        >>> p.save(path); path.read_text()[:15]
        '{"traceEvents":'
        """
        from rulegrad.runtime.timeline import save_timeline  # late: few programs look at a timeline

        save_timeline(path, self.spans(), self.memory)

    def spans(self) -> list[Span]:
        """The work of the host, and the kernels of each device, as a timeline shows them.

        >>> with rg.profile() as p:
        ...     _ = (Tensor([1.0, 2.0]) * 3).realize()
        >>> [span.name for span in p.spans()][-1] == p.kernels[0].name
        True
        """
        from rulegrad.runtime.timeline import Span  # late: few programs look at a timeline

        kernels = [
            Span(r.name, r.device, r.start, r.seconds, _details(r), "kernel")
            if r.exposed is None
            else Span(r.name, f"collectives of {r.device}", r.start, r.seconds, _details(r), "collective")
            for r in self.kernels
        ]
        return [*self.host, *kernels]

    def note_memory(self, allocator: Allocator) -> None:
        """Notes the memory of a device that is in use now, and what is in it where it is more than before."""
        from rulegrad.runtime.memory_table import report_of  # late: it needs buffers, which need devices

        name, in_use = allocator.device.name, allocator.in_use
        self.memory.append(MemorySample(name, time.perf_counter(), in_use))
        known = self.peaks.get(name)
        if known is None or in_use > known.in_use * _NEW_PEAK:
            self.peaks[name] = Peak(in_use, report_of(allocator).buffers)

    def __enter__(self) -> Profile:
        with _lock:
            if not _active:
                watching.clocks.append(_passed)
            _active.append(self)
        if self._python:
            from rulegrad.runtime.python_calls import PythonCalls  # late: few profiles have them

            self._calls = PythonCalls(self.host)
            self._calls.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._calls is not None:
            self._calls.stop()
            self._calls = None
        with _lock:
            _active.remove(self)
            if not _active:
                watching.clocks.remove(_passed)
        if self._path is not None:
            self.save(self._path)


def profile(path: str | Path | None = None, python: bool | None = None) -> Profile:
    """A profile to use with `with`: of the kernels that any thread launches inside the block, and the work around them.

    path: where the timeline is written at the end of the block, which Perfetto and Chrome's `about:tracing` open;
    `save` writes it later. It shows calls of the user's Python functions and of modules, compile passes, launches,
    kernels with the user's lines, and memory. python: whether calls of Python functions in this thread are in it, which
    takes the place of another profiler of `sys.setprofile` meanwhile; by default where there is a path. Kernels are
    launched one by one in a profile, and each is waited for. Raises OSError where the file cannot be written.

    >>> with rg.profile() as p:
    ...     _ = (Tensor([1.0, 2.0]) * 3).realize()
    >>> len(p.kernels)
    1
    """
    return Profile(path, path is not None if python is None else python)


_active: list[Profile] = []  # the engine reads it: while there is one, each launch goes through Python
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


def span(name: str, kind: str) -> AbstractContextManager[None]:
    """A block that is a span of this name in the active profiles; kind: `compile` or `launch`.

    >>> with rg.profile() as p, span("my work", "compile"):
    ...     pass
    >>> [(one.name, one.kind) for one in p.host]
    [('my work', 'compile')]
    """
    return _span(name, kind) if _active else _NOTHING


@contextmanager
def _span(name: str, kind: str) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        _add(name, kind, start, time.perf_counter() - start)


def _passed(name: str, start: float, seconds: float) -> None:
    """A pass has run."""
    _add(name, "pass", start, seconds)


def _add(name: str, kind: str, start: float, seconds: float) -> None:
    from rulegrad.runtime.timeline import Span  # late: few programs are profiled

    with _lock:
        for one in _active:
            one.host.append(Span(name, host_row(), start, seconds, {}, kind))


def host_row() -> str:
    """The row of a timeline for what this thread does: `host` for the main thread.

    >>> host_row()
    'host'
    """
    thread = threading.current_thread()
    return "host" if thread is threading.main_thread() else f"host, {thread.name}"


def note_memory(allocator: Allocator) -> None:
    """Notes the memory in use in the active profiles."""
    with _lock:
        for one in _active:
            one.note_memory(allocator)


def launch(executable: Executable, handles: Sequence[Handle], kernel: Kernel, device: str, stack: Stack = ()) -> None:
    """Launches a kernel; timed, recorded and printed if a profile is active or DEBUG is 2 or more.

    stack: the user's frames that it is computed for.
    """
    if not is_timing():
        executable(handles)
        return
    start = time.perf_counter()
    seconds = executable(handles, wait=True)
    record_launch(kernel, device, start, time.perf_counter() - start if seconds is None else seconds, stack)


def record_launch(
    kernel: Kernel, device: str, start: float, seconds: float, stack: Stack = (), exposed: float | None = None
) -> None:
    """Adds a launch to the active profiles, and prints its line if DEBUG is 2 or more.

    exposed: of a collective, the seconds in which nothing else ran.
    """
    global _count
    with _lock:
        _count += 1
        record = KernelRecord(
            _count, kernel.name, device, start, seconds, kernel.flops, kernel.nbytes,
            kernel.source, shown(stack[-1]) if stack else kernel.user_line, kernel.schedule, stack, exposed,
        )  # fmt: skip
        for one in _active:
            one.kernels.append(record)
    if config.debug >= 2:
        print(record, file=sys.stderr)


def _details(record: KernelRecord) -> dict[str, Any]:
    """The properties that a timeline shows of a launch that is chosen."""
    found = record._asdict()
    found["stack"] = [f"{shown(frame)} {frame[2]}" for frame in record.stack]
    return {**found, "GFLOP/s": round(record.gflops, 3), "GB/s": round(record.gigabytes_per_second, 3)}


def duration(seconds: float) -> str:
    """`1.23 ms`: three digits and a unit."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds * 1e9:.0f} ns"
