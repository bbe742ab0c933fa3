"""Copies to the device that need not be waited for: through memory of the host that the GPU reads by itself."""

from __future__ import annotations

import ctypes
from typing import Any

from .driver import call, cuda

_BYTES = 8 << 20  # of each of the two blocks


class Staging:
    """Two blocks of page-locked memory of one stream: one is filled while the GPU copies from the other."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._blocks: list[tuple[int, Any]] = []  # address and the event after the last copy from it
        self._next = 0

    def copy_in(self, target: int, source: int, nbytes: int) -> None:
        """Copies from host memory, which may change once this returns. The device's lock is held."""
        if not self._blocks:
            flags = cuda().CUevent_flags.CU_EVENT_DISABLE_TIMING
            self._blocks = [(int(call("cuMemAllocHost", _BYTES)), call("cuEventCreate", flags)) for _ in range(2)]
        for begin in range(0, nbytes, _BYTES):
            size = min(_BYTES, nbytes - begin)
            address, event = self._blocks[self._next]
            self._next = 1 - self._next
            call("cuEventSynchronize", event)  # an event that was never recorded is over
            ctypes.memmove(address, source + begin, size)
            call("cuMemcpyHtoDAsync", target + begin, address, size, self._stream)
            call("cuEventRecord", event, self._stream)
