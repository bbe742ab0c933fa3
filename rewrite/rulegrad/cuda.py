"""What programs ask `torch.cuda`: whether a CUDA device can be used, and how many there are."""

from __future__ import annotations

from rulegrad.runtime import devices
from rulegrad.runtime.backends import backend
from rulegrad.support.torch_modules import modules_below

__all__ = ["device_count", "is_available"]


__path__: list[str] = []  # `import rulegrad.cuda.amp` looks for it
__getattr__ = modules_below("cuda")


def __dir__() -> list[str]:
    return __all__


def device_count() -> int:
    """The number of CUDA devices that can be used.

    >>> device_count() >= 0
    True
    """
    return sum(not found.problem for found in devices.report(backend("cuda")).discovery.devices)


def is_available() -> bool:
    """Whether there is a CUDA device that can be used.

    >>> is_available() == (device_count() > 0)
    True
    """
    return device_count() > 0
