"""A stream beside that of a GPU's kernels, on which NCCL moves values while kernels run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .driver import call, cuda

if TYPE_CHECKING:
    from .device import Device


class CommunicationStream:
    """The stream, which is ordered with that of the kernels by events: the host waits for neither."""

    def __init__(self, device: Device, number: int, identity: bytes) -> None:
        self.number, self.identity = number, identity
        self._device = device
        with device.entered():
            self._stream = call("cuStreamCreate", cuda().CUstream_flags.CU_STREAM_NON_BLOCKING)
            self._event = call("cuEventCreate", cuda().CUevent_flags.CU_EVENT_DISABLE_TIMING)
        self.handle = int(self._stream)

    def follow(self) -> None:
        """Work that is put on it from now on runs after the kernels launched so far. Its GPU is this thread's."""
        self._order(self._device.stream, self._stream)

    def join(self) -> None:
        """Kernels that are launched from now on run after what was put on it so far."""
        self._order(self._stream, self._device.stream)

    def synchronize(self) -> None:
        """Returns when all that was put on it has ended."""
        with self._device.entered():
            call("cuStreamSynchronize", self._stream)

    def _order(self, first: Any, then: Any) -> None:
        with self._device.entered():
            call("cuEventRecord", self._event, first)
            call("cuStreamWaitEvent", then, self._event, 0)
