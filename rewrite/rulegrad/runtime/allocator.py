"""Device memory that is reused: freed blocks wait, by size, for the next request of that size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from rulegrad.errors import OutOfMemoryError
from rulegrad.runtime.device import Device, Handle
from rulegrad.runtime.memory_table import memory_table
from rulegrad.support import forks

_GRAIN = 128  # bytes; sizes are rounded up to it, so that nearly equal ones share blocks
_DEFAULT_KEPT = 1 << 30


class Allocator:
    """Gives out blocks of one device. Safe to use from several threads.

    At most a quarter of the device's memory is kept for reuse; the block that has waited longest is given
    back first. When the device has no memory left, all waiting blocks are given back and it is asked again.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.in_use = 0  #: bytes that are given out
        self.most_in_use = 0  #: since the last `reset_peak`
        self.waiting = 0  #: bytes that wait for reuse
        self.most_kept = device.memory // 4 or _DEFAULT_KEPT
        self._blocks: OrderedDict[int, list[Handle]] = OrderedDict()  # by size, least recently freed first
        # A buffer may be freed by the garbage collector while this thread is inside the allocator.
        self._lock = forks.lock()

    def allocate(self, nbytes: int, purpose: Callable[[], str] = str) -> Handle:
        """A block of at least `nbytes` bytes. Raises OutOfMemoryError when there is none.

        purpose: what the block is for, asked only for the error.
        """
        size = rounded(nbytes)
        with self._lock:
            blocks = self._blocks.get(size)
            if blocks:
                handle = blocks.pop()
                self.waiting -= size
            else:
                handle = self._fresh(size, purpose)
            self.in_use += size
            if self.in_use > self.most_in_use:
                self.most_in_use = self.in_use
            return handle

    def free(self, handle: Handle, nbytes: int) -> None:
        """Takes back a block that was asked for with this size."""
        size = rounded(nbytes)
        with self._lock:
            self.in_use -= size
            self.waiting += size
            self._blocks.setdefault(size, []).append(handle)
            self._blocks.move_to_end(size)
            while self.waiting > self.most_kept:
                self._give_back_one()

    def reset_peak(self) -> None:
        """From now on the peak is counted anew."""
        with self._lock:
            self.most_in_use = self.in_use

    def trim(self) -> None:
        """Gives all waiting blocks back to the device."""
        with self._lock:
            while self.waiting:
                self._give_back_one()

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

    def _give_back_one(self) -> None:
        size, blocks = next(iter(self._blocks.items()))
        if blocks:
            self.waiting -= size
            self.device.free(blocks.pop(0))
        if not blocks:
            del self._blocks[size]


def rounded(nbytes: int) -> int:
    """The size of the block that a request of so many bytes is given."""
    return -(-nbytes // _GRAIN) * _GRAIN or _GRAIN
