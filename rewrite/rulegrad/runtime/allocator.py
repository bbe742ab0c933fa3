"""Device memory that is reused: freed blocks wait, by size, for the next request of that size."""

from __future__ import annotations

from collections.abc import Callable

from rulegrad._core import Blocks
from rulegrad.errors import OutOfMemoryError
from rulegrad.runtime.device import Device, Handle
from rulegrad.runtime.memory_table import memory_table
from rulegrad.support import forks

_GRAIN = 128  # bytes; sizes are rounded up to it, so that nearly equal ones share blocks
_DEFAULT_KEPT = 1 << 30


class Allocator(Blocks):
    """Gives out blocks of one device. Safe to use from several threads.

    At most a quarter of the device's memory is kept for reuse; the block that has waited longest is given
    back first. When the device has no memory left, all waiting blocks are given back and it is asked again. The engine
    has the blocks: `in_use` are bytes that are given out, `most_in_use` the most since the last `reset_peak`, `waiting`
    bytes that wait for reuse.
    """

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.device = device
        self.most_kept = device.memory // 4 or _DEFAULT_KEPT
        # A buffer may be freed by the garbage collector while this thread asks the device.
        self._lock = forks.lock()

    def allocate(self, nbytes: int, purpose: Callable[[], str] = str) -> Handle:
        """A block of at least `nbytes` bytes. Raises OutOfMemoryError when there is none.

        purpose: what the block is for, asked only for the error.
        """
        handle = self.take(nbytes)
        if handle is None:
            with self._lock:
                handle = self._fresh(rounded(nbytes), purpose)
                self.count(nbytes)
        return handle

    def free(self, handle: Handle, nbytes: int) -> None:
        """Takes back a block that was asked for with this size."""
        self.give(handle, nbytes)
        if self.waiting > self.most_kept:
            self.shrink()

    def shrink(self) -> None:
        """Gives blocks back to the device until no more wait than should."""
        with self._lock:
            while self.waiting > self.most_kept:
                self.device.free(self.oldest())

    def reset_peak(self) -> None:
        """From now on the peak is counted anew."""
        self.most_in_use = self.in_use

    def trim(self) -> None:
        """Gives all waiting blocks back to the device."""
        with self._lock:
            while self.waiting:
                self.device.free(self.oldest())

    def _fresh(self, size: int, purpose: Callable[[], str]) -> Handle:
        if self._fits(size):
            try:
                return self.device.allocate(size)
            except OutOfMemoryError:
                pass  # what waits for reuse is given back first
        try:
            self.trim()
            if not self._fits(size):
                raise OutOfMemoryError(
                    f"{self.device.name} has {self.device.memory:,} bytes, of which {self.in_use:,} are in use"
                )
            return self.device.allocate(size)
        except OutOfMemoryError as error:
            raise OutOfMemoryError(
                f"out of memory: {error}. Use smaller batches, or let go of tensors that are no longer needed\n"
                + memory_table(self, size, purpose())
            ) from None

    def _fits(self, size: int) -> bool:
        """False where there cannot be enough: some systems promise memory that they do not have, and end the process
        when it is used.
        """
        return not self.device.memory or self.in_use + self.waiting + size <= self.device.memory


def rounded(nbytes: int) -> int:
    """The size of the block that a request of so many bytes is given."""
    return -(-nbytes // _GRAIN) * _GRAIN or _GRAIN
