"""Measuring what the cost model counts with: bandwidth, rate of arithmetic, time of a launch; and counting threads.

Each is the median of several runs of a kernel that the compiler makes from a tensor, as a user's kernel is made.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Final

from rulegrad import engine
from rulegrad.compile.kernels import compile_kernels
from rulegrad.compile.schedule import make_schedule, number_buffers
from rulegrad.errors import DeviceError
from rulegrad.ir import UOp
from rulegrad.runtime import devices
from rulegrad.runtime.buffer import Buffer, Layout
from rulegrad.runtime.profile import launch, profile
from rulegrad.tensor.tensor import Tensor

COSTS: Final = ("bandwidth", "rate", "launch")  # the limits that the cost model counts with
#: All that is found out: threads of targets that say how many share a launch, and units of those that say how many.
NUMBERS: Final = (*COSTS, "threads", "compute_units")

_RUNS: Final = 7
_LONG: Final = 0.01  # seconds: a run that takes as long is not hidden by what starts and ends it
_LARGEST: Final = 1 << 28  # elements
# Multiply-adds of a chain: with many more, a processor cannot begin the next element before this one ends.
_STEPS: Final = 64
_LAUNCHES: Final = 64  # in a run


def measure(device: str) -> dict[str, int]:
    """The numbers of `NUMBERS` for a device, as `limit` lines of its target have them.

    bandwidth: bytes read and written by a copy. rate: float32 operations of chains of multiply-adds, two each. launch:
    from launch to launch of a kernel on one element. threads: the cores that this process may run on, where the target
    says that threads share its launches. compute_units: those that the device tells, where its target has a number of
    them. Raises DeviceError where the device fails.
    """
    found = {"bandwidth": _bandwidth(device), "rate": _rate(device), "launch": _launch_time(device)}
    opened = devices.get(device)
    limits = engine.target_declaration(opened.target).limits
    if "threads" in limits:
        found["threads"] = _cores()
    if "compute_units" in limits and hasattr(opened, "compute_units"):
        found["compute_units"] = opened.compute_units
    return {name: max(1, round(number)) for name, number in found.items()}


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _bandwidth(device: str) -> float:
    def moved(elements: int) -> tuple[Tensor, int]:
        return -_given(elements, device), 2 * 4 * elements

    return _a_microsecond(moved, device, start=1 << 22)


def _rate(device: str) -> float:
    def computed(elements: int) -> tuple[Tensor, int]:
        x, offset = _given(elements, device), _given(1, device)
        slopes = [_given(1, device), _given(1, device)]  # two chains, so that what is read and written matters little
        chains = [x, x]
        for _ in range(_STEPS):
            chains = [chain * slope + offset for chain, slope in zip(chains, slopes, strict=True)]
        return chains[0] + chains[1], 2 * 2 * _STEPS * elements

    return _a_microsecond(computed, device, start=1 << 12)


def _launch_time(device: str) -> float:
    run = _Runner(-_given(1, device), device)
    opened = devices.get(device)

    def seconds() -> float:
        opened.synchronize()
        start = time.perf_counter()
        for _ in range(_LAUNCHES):
            run()
        opened.synchronize()
        return time.perf_counter() - start

    return _median(seconds) / _LAUNCHES * 1e9


def _given(elements: int, device: str) -> Tensor:
    """A tensor in memory; no rule knows its values."""
    return Tensor.ones(elements, device=device).contiguous().realize()


def _a_microsecond(work: Callable[[int], tuple[Tensor, int]], device: str, start: int) -> float:
    """How much of something is done in a microsecond, with so many elements that it takes long enough."""
    elements = start
    while True:
        result, amount = work(elements)
        run = _Runner(result, device)
        run()
        if run.seconds() >= _LONG or elements >= _LARGEST or 16 * elements > _free(device):
            return amount / _median(run.seconds) * 1e-6
        elements *= 2


def _free(device: str) -> int:
    """Bytes that the tensors of a run may have for certain: a fraction of the device's memory."""
    return (devices.get(device).memory or 1 << 30) // 4


def _median(seconds: Callable[[], float]) -> float:
    seconds()
    return max(1e-9, statistics.median(seconds() for _ in range(_RUNS)))


class _Runner:
    """The one kernel of a tensor, launched on buffers that it keeps."""

    def __init__(self, result: Tensor, device: str) -> None:
        target, opened = devices.target_of(device), devices.get(device)
        numbered, inputs = number_buffers(UOp("SINK", (result.uop,)))
        schedule = make_schedule(numbered, len(inputs), target, {})
        if len(schedule.steps) != 1:
            count = len(schedule.steps)
            raise DeviceError(f"{device} cannot be measured: the rules in force make {count} kernels of one")
        self._device = device
        self._kernel = compile_kernels([schedule.steps[0].graph], target, not opened.interprets)[0]
        self._executable = opened.compile([self._kernel])[0]
        made = [Buffer.like(Layout.of(shape, dtype, device)) for shape, dtype in schedule.made]
        held = [*map(Buffer.of, inputs), *made]
        self._buffers = [held[number] for number in schedule.steps[0].buffers]
        self._handles = [buffer.handle for buffer in self._buffers]

    def __call__(self) -> None:
        launch(self._executable, self._handles, self._kernel, self._device)

    def seconds(self) -> float:
        """The time of one launch by the device's clock."""
        with profile() as record:
            self()
        return record.seconds
