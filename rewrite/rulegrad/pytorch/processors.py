"""`torch.cpu`: what programs ask of the device `"cpu"` that they could ask of another one."""

from __future__ import annotations

from typing import Any

from rulegrad import amp
from rulegrad.runtime import devices

__all__ = ["amp", "current_device", "device_count", "is_available", "is_initialized", "synchronize"]


def is_available() -> bool:
    """True: there is always a processor.

    >>> is_available(), device_count()
    (True, 1)
    """
    return True


is_initialized = is_available


def device_count() -> int:
    """1: all cores are one device."""
    return 1


def current_device() -> str:
    """`"cpu"`."""
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Returns when the processor has done all that was asked of it.

    >>> synchronize()
    """
    devices.get(devices.canonical("cpu")).synchronize()
