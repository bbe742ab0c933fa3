"""`torch.mps`: what programs ask of the devices of Metal. One that asks without a look goes on where there is none."""

from __future__ import annotations

from rulegrad.runtime import devices
from rulegrad.tensor.generators import manual_seed as start_again

__all__ = ["current_allocated_memory", "device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]


def device_count() -> int:
    """The number of devices of Metal that can be used.

    >>> device_count() >= 0
    True
    """
    return devices.usable("metal")


def is_available() -> bool:
    """Whether there is one.

    >>> is_available() == (device_count() > 0)
    True
    """
    return device_count() > 0


def synchronize() -> None:
    """Returns when the device has done all that was asked of it.

    >>> synchronize()
    """
    if is_available():
        devices.get("metal").synchronize()


def empty_cache() -> None:
    """Give the memory that nobody uses back to the device.

    >>> empty_cache()
    """
    if is_available():
        devices.allocator(devices.canonical("metal")).trim()


def current_allocated_memory() -> int:
    """The bytes that tensors have there now; 0 where there is no device.

    >>> current_allocated_memory() >= 0
    True
    """
    return devices.allocator(devices.canonical("metal")).in_use if is_available() else 0


def manual_seed(seed: int) -> None:
    """Start the random numbers again at `seed` where there is such a device: those of all devices are the same."""
    if is_available():
        start_again(seed)
