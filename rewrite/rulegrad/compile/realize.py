"""Running tensor graphs: schedule, compile what is new in one program, launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rulegrad._core import signature
from rulegrad.compile import kernels
from rulegrad.compile.kernels import compile_kernels
from rulegrad.compile.schedule import Schedule, find_lines, make_schedule, number_buffers
from rulegrad.errors import DeviceError
from rulegrad.ir import UOp
from rulegrad.lang import engine, watching
from rulegrad.runtime import devices, profile
from rulegrad.runtime.buffer import Buffer, Layout
from rulegrad.runtime.device import Executable
from rulegrad.runtime.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Plan:
    """A schedule with its kernels, ready to be launched on any buffers of the same shapes."""

    schedule: Schedule
    kernels: tuple[Kernel, ...]
    executables: tuple[Executable, ...]
    free: list[list[int]]
    made: tuple[Layout, ...]


class _Found(NamedTuple):
    """A plan, and for each of its inputs the place of the buffer in a graph's signature."""

    plan: Plan
    inputs: tuple[int, ...]


_plans: dict[tuple[UOp, str], Plan] = {}
_found: dict[tuple[bytes, str], _Found] = {}  # by signature: the way to a plan that runs no pass
_executables: dict[tuple[Kernel, str], Executable] = {}


def _forget() -> None:
    _plans.clear()
    _found.clear()
    _executables.clear()


kernels._also_forget.append(_forget)


def realize(uops: Sequence[UOp]) -> list[Buffer]:
    """Computes tensor graphs: buffers of their shapes and dtypes, on the device of the buffers that they read.

    Graphs without a buffer are computed on the default device. Raises DeviceError when the buffers are on several
    devices, or a device fails.
    """
    if not uops:
        return []
    key, ids = signature(uops)
    buffers = [Buffer.numbered(number) for number in ids]
    device = _device_of(buffers)
    found = None if watching.watchers else _found.get((key, device))
    if found is None:
        found = _found[key, device] = _find(list(uops), ids, buffers, device)
    return _launch(found.plan, [buffers[place] for place in found.inputs], device)


def _find(uops: list[UOp], ids: list[int], buffers: Sequence[Buffer], device: str) -> _Found:
    """The plan of a graph with parameters in the place of its buffers: equal work on other buffers has the same."""
    with watching.part("schedule"):
        graph, inputs = number_buffers(UOp("SINK", tuple(uops)))
    places = tuple(ids.index(uop.attrs["id"]) for uop in inputs)
    plan = _plans.get((graph, device))
    if plan is None:
        plan = _plans[graph, device] = _make_plan(graph, len(inputs), device, uops)
    return _Found(plan, places)


def _device_of(buffers: Sequence[Buffer]) -> str:
    names = {buffer.device for buffer in buffers}
    if len(names) > 1:
        listed = " and ".join(sorted(names))
        raise DeviceError(f"the tensors of one computation are on {listed}; copy them to one device with .to()")
    return names.pop() if names else devices.default()


def _make_plan(graph: UOp, inputs: int, device: str, uops: list[UOp]) -> Plan:
    target = devices.target_of(device)
    lines = find_lines(uops)
    if lines:  # the lines are known of the graph with buffers
        nodes = list(lines)
        with watching.part("schedule"):
            _, info = engine.run(UOp("SINK", tuple(uops)), "number", follow=nodes)
        lines = {new: lines[old] for old, new in zip(nodes, info["followed"], strict=True) if new is not None}
    schedule = make_schedule(graph, inputs, target, lines)
    source = not devices.get(device).interprets
    found = compile_kernels([step.graph for step in schedule.steps], target, source)
    executables = _executables_of(found, device)
    named = tuple(replace(kernel, user_line=step.user_line) for kernel, step in zip(found, schedule.steps, strict=True))
    made = tuple(Layout.of(shape, dtype, device) for shape, dtype in schedule.made)
    return Plan(schedule, named, executables, schedule.last_uses(), made)


def _executables_of(wanted: Sequence[Kernel], device: str) -> tuple[Executable, ...]:
    """All new kernels are built in one program: that is several times cheaper than one by one."""
    new = list(dict.fromkeys(k for k in wanted if (k, device) not in _executables))
    if new:
        for kernel, executable in zip(new, devices.get(device).compile(new), strict=True):
            _executables[kernel, device] = executable
    return tuple(_executables[k, device] for k in wanted)


def _launch(plan: Plan, inputs: Sequence[Buffer], device: str) -> list[Buffer]:
    schedule = plan.schedule
    buffers: list[Buffer | None] = [*inputs, *[Buffer.like(layout) for layout in plan.made]]
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
