"""Times of the kernels of a plan on paper, measured on a device that is here."""

from __future__ import annotations

import time

import numpy as np

from rulegrad.compile.collectives import is_communication
from rulegrad.compile.kernels import compile_kernels
from rulegrad.compile.plans import Plan, executables_of
from rulegrad.runtime import devices, index_checks
from rulegrad.runtime.buffer import Buffer


def kernel_seconds(plan: Plan, device: str, repeats: int = 20) -> list[float]:
    """For each step of a plan the seconds of its kernel, the least of some launches; 0 for a collective.

    They run one by one, on zeros, in the order of the plan, as often as `repeats` says. Raises DeviceError where one
    cannot be built.

    >>> from rulegrad.workbench.scale.traced_step import traced_step
    >>> w = rg.nn.Parameter(Tensor.ones(4, device="numpy"))
    >>> def step():
    ...     with rg.no_grad():
    ...         w.sub_(0.5)
    >>> len(kernel_seconds(traced_step(step, (2,), {}).plan, "numpy"))
    1
    """
    steps = [step for step in plan.schedule.steps if not is_communication(step)]
    target = devices.target_of(device)
    kernels = compile_kernels([step.graph for step in steps], target, not devices.get(device).interprets, device)
    memory = [_zeros(size, device) for size in plan.sizes]
    flags = index_checks.new_flags(device, plan.dependencies.words)
    launches = []
    for step, kernel, executable in zip(steps, kernels, executables_of(kernels, device), strict=True):
        handles = [memory[number].handle for number in step.buffers]
        launches.append((executable, [*handles, flags.handle] if kernel.checks_indices else handles))
    least = [float("inf")] * len(launches)
    for _ in range(repeats):
        for number, (executable, handles) in enumerate(launches):
            start = time.perf_counter()
            seconds = executable(handles, wait=True)
            least[number] = min(least[number], time.perf_counter() - start if seconds is None else seconds)
    times = iter(least)
    return [0.0 if is_communication(step) else next(times) for step in plan.schedule.steps]


def _zeros(size: int, device: str) -> Buffer:
    buffer = Buffer((size,), "uint8", device)
    if size:
        buffer.copy_in(np.zeros(size, np.uint8))
    return buffer
