"""Events of PyTorch's profiles: each op that ran, alone or summed by name, with times in microseconds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rulegrad.errors import ConfigError

if TYPE_CHECKING:
    from rulegrad.runtime.timeline import Span

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "averages", "events_of"]

#: Devices whose kernels a processor's thread runs, in which they are a part of the time of what launched them.
_PROCESSORS: Final = ("c", "numpy")


@dataclass
class FunctionEvent:
    """Something that ran, or with `count` above one all of a name. Times are in microseconds."""

    name: str
    count: int
    start: float
    cpu_time_total: float = 0.0  #: with what ran inside it
    self_cpu_time_total: float = 0.0  #: without it
    device_time_total: float = 0.0  #: in kernels of other devices than processors
    flops: int = 0
    is_kernel: bool = False
    cpu_memory_usage: int = 0
    input_shapes: str = ""
    is_async: bool = False

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def self_device_time_total(self) -> float:
        """A kernel has no other inside it."""
        return self.device_time_total

    @property
    def cpu_time(self) -> float:
        """A mean."""
        return self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        """A mean."""
        return self.device_time_total / self.count

    cuda_time, cuda_time_total, self_cuda_time_total = device_time, device_time_total, self_device_time_total

    def add(self, other: FunctionEvent) -> None:
        """`other` is counted with this."""
        for name in ("count", "cpu_time_total", "self_cpu_time_total", "device_time_total", "flops"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


FunctionEventAvg = FunctionEvent


class EventList(list[FunctionEvent]):
    """A list of what ran, with PyTorch's methods."""

    @property
    def self_cpu_time_total(self) -> float:
        """The time of processors in all."""
        return sum(one.self_cpu_time_total for one in self)

    def key_averages(self, *_: Any, **__: Any) -> EventList:
        """All of one name together."""
        return averages(self)

    def total_average(self) -> FunctionEvent:
        """All together, under the name `Total`."""
        total = FunctionEvent("Total", 0, 0.0)
        for one in self:
            total.add(one)
        return total

    def table(self, sort_by: str | None = None, row_limit: int = 100, **_: Any) -> str:
        """A row for each, and the sums; sort_by: such as `cpu_time_total` or `self_cpu_time_total`, largest first.

        Raises ConfigError where there is no such column.
        """
        rows: list[FunctionEvent] = list(self)
        if sort_by:
            column = sort_by.replace("cuda", "device")
            if not hasattr(FunctionEvent("", 1, 0.0), column):
                raise ConfigError(f"table: there is no column {sort_by!r}; cpu_time_total is one")
            rows.sort(key=lambda one: -float(getattr(one, column)))
        whole = self.self_cpu_time_total + sum(one.device_time_total for one in self)
        lines = [f"{'Name':<50} {'Self':>12} {'Self %':>7} {'Total':>12} {'Average':>12} {'Device':>12} {'Calls':>7}"]
        lines += [_row(one, whole) for one in (rows[:row_limit] if row_limit >= 0 else rows)]
        lines.append(f"Self CPU time total: {_duration(self.self_cpu_time_total)}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()


def _row(one: FunctionEvent, whole: float) -> str:
    own = one.self_cpu_time_total + one.device_time_total
    times = (one.cpu_time_total, one.cpu_time, one.device_time_total)
    return (
        f"{one.name[:50]:<50} {_duration(own):>12} {100 * own / whole if whole else 0.0:>6.2f}% "
        f"{' '.join(f'{_duration(each):>12}' for each in times)} {one.count:>7}"
    )


def _duration(microseconds: float) -> str:
    return f"{microseconds / 1e3:.3f}ms" if microseconds >= 1e3 else f"{microseconds:.3f}us"


def averages(events: Iterable[FunctionEvent]) -> EventList:
    """All of one name together, in the order in which the names began; steps of a schedule are `ProfilerStep*`.

    >>> [(one.key, one.count) for one in averages([FunctionEvent("a", 1, 0.0), FunctionEvent("a", 1, 1.0)])]
    [('a', 2)]
    """
    found: dict[str, FunctionEvent] = {}
    for one in events:
        name = "ProfilerStep*" if one.name.startswith("ProfilerStep#") else one.name
        if name not in found:
            found[name] = FunctionEvent(name, 0, one.start, is_kernel=one.is_kernel)
        found[name].add(one)
    return EventList(found.values())


def events_of(spans: Iterable[Span]) -> EventList:
    """Spans of a profile as events; a span's own time is without those of its row that ran inside it."""
    found = EventList()
    open_ones: dict[str, list[tuple[float, FunctionEvent]]] = {}
    for one in sorted(spans, key=lambda span: (span.start, -span.seconds)):
        duration, is_kernel = one.seconds * 1e6, one.kind in ("kernel", "collective")
        event = FunctionEvent(one.name, 1, one.start * 1e6, flops=one.details.get("flops", 0), is_kernel=is_kernel)
        found.append(event)
        if is_kernel and one.row.partition(":")[0] not in _PROCESSORS:
            event.device_time_total = duration
            continue
        event.cpu_time_total = event.self_cpu_time_total = duration
        around = open_ones.setdefault("host" if is_kernel else one.row, [])
        while around and around[-1][0] <= event.start:
            around.pop()
        if around:
            outer = around[-1][1]
            outer.self_cpu_time_total = max(0.0, outer.self_cpu_time_total - duration)
        around.append((event.start + duration, event))
    return found
