"""`torch.accelerator`: what programs ask of a device beside the processor. Here that is a CUDA device."""

from __future__ import annotations

from typing import Any

from rulegrad.cuda import device_count, is_available
from rulegrad.runtime import devices

__all__ = ["current_accelerator", "device_count", "is_available", "synchronize"]


def current_accelerator(check_available: bool = False) -> Any:
    """The device by its name as `torch.device` has it; None where no CUDA device can be used.

    >>> (current_accelerator() is None) == (not is_available())
    True
    """
    if not is_available():
        return None
    from rulegrad.pytorch.names import find  # late: a program without one has no use for it

    return find("device")("cuda")


def synchronize(device: Any = None) -> None:
    """Returns when a device has done all that was asked of it; the default one unless another is named.

    >>> synchronize()
    """
    devices.get(devices.default() if device is None else str(device)).synchronize()
