"""CUDA graphs: the launches of a schedule that is run again on the same buffers, as one launch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from .driver import call, cuda

_MOST_KEPT = 64
_MOST_SEEN = 1024
_WORTH_IT = 3  # launches: of fewer a graph saves nothing

Launches = Sequence[tuple[Any, Sequence[int]]]  # executables and the handles of their slots


class Replay:
    """The graphs of one stream. A list of launches is captured when it comes for the second time."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._graphs: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._seen: OrderedDict[tuple[Any, ...], None] = OrderedDict()

    def run(self, launches: Launches) -> None:
        """Starts the launches in their order. The device's lock is held."""
        if len(launches) < _WORTH_IT:
            for executable, handles in launches:
                executable.start(handles)
            return
        key = tuple([(executable, *handles) for executable, handles in launches])
        graph = self._graphs.get(key)
        if graph is None and key not in self._seen:
            _remember(self._seen, key, None, _MOST_SEEN)
            for executable, handles in launches:
                executable.start(handles)
            return
        if graph is None:
            graph = self._capture(launches)
            gone = _remember(self._graphs, key, graph, _MOST_KEPT)
            if gone is not None:
                call("cuGraphExecDestroy", gone)
            del self._seen[key]
        self._graphs.move_to_end(key)
        call("cuGraphLaunch", graph, self._stream)

    def _capture(self, launches: Launches) -> Any:
        """A graph of launches that can be launched as one. Nothing runs while it is captured."""
        call("cuStreamBeginCapture", self._stream, cuda().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        try:
            for executable, handles in launches:
                executable.start(handles)
        finally:
            graph = call("cuStreamEndCapture", self._stream)
        try:
            return call("cuGraphInstantiate", graph, 0)
        finally:
            call("cuGraphDestroy", graph)


def _remember(table: OrderedDict[tuple[Any, ...], Any], key: tuple[Any, ...], value: Any, most: int) -> Any:
    """Keeps a value; the one that goes for it, which was used least recently, or None."""
    table[key] = value
    return table.popitem(last=False)[1] if len(table) > most else None
