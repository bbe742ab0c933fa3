"""Running tensor graphs: schedule, compile what is new in one program, launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rulegrad.compile import kernels
from rulegrad.compile.kernels import compile_kernels
from rulegrad.compile.schedule import Schedule, find_lines, make_schedule, number_buffers
from rulegrad.errors import DeviceError
from rulegrad.ir import UOp
from rulegrad.lang import engine, watching
from rulegrad.runtime import devices, profile
from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.device import Executable
from rulegrad.runtime.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Plan:
    """A schedule with its kernels, ready to be launched on any buffers of the same shapes."""

    schedule: Schedule
    kernels: tuple[Kernel, ...]
    executables: tuple[Executable, ...]
    free: list[list[int]]


_plans: dict[tuple[UOp, str], Plan] = {}
_executables: dict[tuple[Kernel, str], Executable] = {}


def _forget() -> None:
    _plans.clear()
    _executables.clear()


kernels._also_forget.append(_forget)


def realize(uops: Sequence[UOp]) -> list[Buffer]:
    """Computes tensor graphs: buffers of their shapes and dtypes, on the device of the buffers that they read.

    Graphs without a buffer are computed on the default device. Raises DeviceError when the buffers are on several
    devices, or a device fails.
    """
    if not uops:
        return []
    with watching.part("schedule"):
        graph, inputs = number_buffers(UOp("SINK", tuple(uops)))
    buffers = [Buffer.of(uop) for uop in inputs]
    device = _device_of(buffers)
    plan = _plans.get((graph, device))
    if plan is None:
        plan = _plans[graph, device] = _make_plan(graph, buffers, device, list(uops))
    return _launch(plan, buffers, device)


def _device_of(buffers: Sequence[Buffer]) -> str:
    names = sorted({buffer.device for buffer in buffers})
    if len(names) > 1:
        raise DeviceError(
            f"the tensors of one computation are on {' and '.join(names)}; copy them to one device with .to()"
        )
    return names[0] if names else devices.default()


def _make_plan(graph: UOp, buffers: Sequence[Buffer], device: str, uops: list[UOp]) -> Plan:
    target = devices.target_of(device)
    lines = find_lines(uops)
    if lines:  # the lines are known of the graph with buffers
        nodes = list(lines)
        with watching.part("schedule"):
            _, info = engine.run(UOp("SINK", tuple(uops)), "number", follow=nodes)
        lines = {new: lines[old] for old, new in zip(nodes, info["followed"], strict=True) if new is not None}
    schedule = make_schedule(graph, len(buffers), target, lines)
    source = not devices.get(device).interprets
    found = compile_kernels([step.graph for step in schedule.steps], target, source)
    executables = _executables_of(found, device)
    named = tuple(replace(kernel, user_line=step.user_line) for kernel, step in zip(found, schedule.steps, strict=True))
    return Plan(schedule, named, executables, schedule.last_uses())


def _executables_of(wanted: Sequence[Kernel], device: str) -> tuple[Executable, ...]:
    """All new kernels are built in one program: that is several times cheaper than one by one."""
    new = list(dict.fromkeys(k for k in wanted if (k, device) not in _executables))
    if new:
        for kernel, executable in zip(new, devices.get(device).compile(new), strict=True):
            _executables[kernel, device] = executable
    return tuple(_executables[k, device] for k in wanted)


def _launch(plan: Plan, inputs: Sequence[Buffer], device: str) -> list[Buffer]:
    schedule = plan.schedule
    buffers: list[Buffer | None] = [*inputs, *(Buffer(shape, dtype, device) for shape, dtype in schedule.made)]
    for step, kernel, executable, free in zip(schedule.steps, plan.kernels, plan.executables, plan.free, strict=True):
        handles = [buffers[number].handle for number in step.buffers]  # type: ignore[union-attr]
        profile.launch(executable, handles, kernel, device)
        for number in free:
            buffers[number] = None
    results = [buffers[number] for number in schedule.outputs]
    return [buffer for buffer in results if buffer is not None]


def compile_graph(uops: Sequence[UOp], target: str = "opencl") -> list[Kernel]:
    """The kernels of tensor graphs for a target, with their sources if it renders any; nothing is built or run."""
    with watching.part("schedule"):
        graph, inputs = number_buffers(UOp("SINK", tuple(uops)))
    schedule = make_schedule(graph, len(inputs), target, {})
    source = bool(engine.target(target).render)
    return compile_kernels([step.graph for step in schedule.steps], target, source)


def prepare(computations: Sequence[Sequence[UOp]], device: str) -> None:
    """Compiles tensor graphs for a device ahead, each computation on its own, and runs none.

    All their kernels are built in one program: for hundreds of kernels that is thirty times as fast as one program for
    each computation. Raises DeviceError when the device cannot build one.
    """
    target = devices.target_of(device)
    wanted = [kernel for uops in computations for kernel in compile_graph(uops, target)]
    _executables_of(wanted, devices.canonical(device))
