"""CUDA graphs: the launches of a plan that is run again on the same buffers, as one launch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .driver import call, cuda

if TYPE_CHECKING:
    from .device import Device, Executable

_MOST_KEPT = 64
_MOST_SEEN = 1024
_WORTH_IT = 3  # launches: of fewer a graph saves nothing

_Run = tuple["Program", tuple[int, ...]]  # a program and the addresses of its buffers


class Program:
    """The launches of a plan, on numbered buffers: those given to each run, then places in an arena."""

    def __init__(
        self, device: Device, launches: Sequence[tuple[Executable, Sequence[int]]], offsets: Sequence[int]
    ) -> None:
        self._device = device
        self._launches = tuple(launches)
        self._offsets = tuple(offsets)

    def run(self, handles: Sequence[int], arena: int | None) -> None:
        """Starts the launches in their order; those of a run that comes again are one launch of a graph."""
        addresses = (*handles, *((arena or 0) + offset for offset in self._offsets))
        with self._device.entered():
            self._device.replay.run(self, addresses)

    def start(self, addresses: Sequence[int]) -> None:
        """Hands the launches to the driver one by one. The device's lock is held."""
        for executable, numbers in self._launches:
            executable.start([addresses[number] for number in numbers])

    def __len__(self) -> int:
        return len(self._launches)


class Replay:
    """The graphs of one stream. A program is captured when it comes for the second time on the same buffers."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._graphs: OrderedDict[_Run, Any] = OrderedDict()
        self._seen: OrderedDict[_Run, None] = OrderedDict()

    def run(self, program: Program, addresses: tuple[int, ...]) -> None:
        """Starts the launches in their order. The device's lock is held."""
        if len(program) < _WORTH_IT:
            program.start(addresses)
            return
        key = program, addresses
        graph = self._graphs.get(key)
        if graph is None and key not in self._seen:
            _remember(self._seen, key, None, _MOST_SEEN)
            program.start(addresses)
            return
        if graph is None:
            graph = self._capture(program, addresses)
            gone = _remember(self._graphs, key, graph, _MOST_KEPT)
            if gone is not None:
                call("cuGraphExecDestroy", gone)
            del self._seen[key]
        self._graphs.move_to_end(key)
        call("cuGraphLaunch", graph, self._stream)

    def _capture(self, program: Program, addresses: Sequence[int]) -> Any:
        """A graph of launches that can be launched as one. Nothing runs while it is captured."""
        call("cuStreamBeginCapture", self._stream, cuda().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        try:
            program.start(addresses)
        finally:
            graph = call("cuStreamEndCapture", self._stream)
        try:
            return call("cuGraphInstantiate", graph, 0)
        finally:
            call("cuGraphDestroy", graph)


def _remember(table: OrderedDict[_Run, Any], key: _Run, value: Any, most: int) -> Any:
    """Keeps a value; the one that goes for it, which was used least recently, or None."""
    table[key] = value
    return table.popitem(last=False)[1] if len(table) > most else None
