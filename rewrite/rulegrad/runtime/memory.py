"""Use of a device's memory: its peak, and the buffers in it now."""

from __future__ import annotations

from rulegrad.runtime import devices
from rulegrad.runtime.allocator import Allocator
from rulegrad.runtime.memory_table import MemoryReport, report_of


def peak_memory(device: str | None = None) -> int:
    """The most bytes of a device that buffers had at one time, since the start or `reset_peak_memory`.

    device: the default one unless named. Blocks that wait for reuse do not count. Raises DeviceError.

    >>> from rulegrad import Tensor
    >>> reset_peak_memory("numpy")
    >>> before = peak_memory("numpy")
    >>> x = Tensor([0.0] * 1024, device="numpy")
    >>> peak_memory("numpy") - before
    4096
    """
    return _allocator(device).most_in_use


def reset_peak_memory(device: str | None = None) -> None:
    """Count the peak of a device (the default one unless named) from what is in use now. Raises DeviceError.

    >>> reset_peak_memory("numpy")
    >>> peak_memory("numpy") == memory_report("numpy").in_use
    True
    """
    _allocator(device).reset_peak()


def memory_report(device: str | None = None) -> MemoryReport:
    """The current use of the memory of a device (the default one unless named). Raises DeviceError.

    >>> x = Tensor.full((1024,), 2.0, device="numpy").contiguous().realize()
    >>> report = rg.memory_report("numpy")
    >>> report.in_use >= 4096, any(one.kind == "float32 1024" for one in report.buffers)
    (True, True)
    >>> print(report)
        numpy: in use ... bytes  ... buffers
        peak          ... bytes
    ...
    """
    return report_of(_allocator(device))


def _allocator(device: str | None) -> Allocator:
    return devices.allocator(devices.canonical(device) if device else devices.default())
