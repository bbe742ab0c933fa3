"""Running tensor graphs: schedule, plan memory, compile what is new in one program, launch."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from rulegrad import engine
from rulegrad._core import signature
from rulegrad.compile import kernels
from rulegrad.compile.estimate import nbytes
from rulegrad.compile.kernels import compile_kernels
from rulegrad.compile.memory_plan import MemoryPlan, Use, plan_memory, useful_inputs
from rulegrad.compile.overwriting import overwritable, overwriting, use_of
from rulegrad.compile.schedule import Schedule, find_lines, make_schedule, number_buffers
from rulegrad.engine import watching
from rulegrad.errors import DeviceError
from rulegrad.ir import UOp
from rulegrad.runtime import devices, index_checks, profile
from rulegrad.runtime.allocator import rounded
from rulegrad.runtime.buffer import Buffer, Layout
from rulegrad.runtime.device import Executable, Handle
from rulegrad.runtime.index_checks import Dependencies
from rulegrad.runtime.kernel import Kernel
from rulegrad.runtime.telling import tell_built, tell_graphs, tell_sources


class Holders(Protocol):
    """Those who hold the buffers that a graph reads only for the sake of that graph."""

    def let_go(self) -> None:
        """From now on the buffers are held by others, or by nobody."""
        ...

    def take_back(self, buffers: Sequence[Buffer]) -> None:
        """The graph was not computed, and needs these buffers."""
        ...


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel, and the plan's buffers behind its slots."""

    kernel: Kernel
    executable: Executable
    buffers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A schedule's kernels and memory, where some inputs are needed by nobody else."""

    memory: MemoryPlan
    launches: tuple[Launch, ...]
    blocks: tuple[Layout | int, ...]  # how a block is made, or the input that it is taken from
    results: tuple[Layout | None, ...]  # of outputs that are in memory taken from inputs
    checks_indices: bool  # whether a kernel has flags


@dataclass(frozen=True, slots=True)
class Plan:
    """A schedule, ready to be launched on any buffers of the same shapes."""

    schedule: Schedule
    uses: tuple[Use, ...]
    sizes: tuple[int, ...]  # bytes of each buffer, the inputs first
    takeable: tuple[int, ...]  # inputs whose memory the schedule could use
    pairs: frozenset[tuple[int, int]]  # buffers that a kernel may have in one place
    dependencies: Dependencies
    prepared: dict[tuple[int, ...], Prepared] = field(default_factory=dict)  # by the inputs that are taken


class _Found(NamedTuple):
    """A plan, and for each of its inputs the place of the buffer in a graph's signature."""

    plan: Plan
    inputs: tuple[int, ...]


#: Of one plan: each may have kernels of its own, which take time to build.
_MOST_VARIANTS = 8
_plans: dict[tuple[UOp, str], Plan] = {}
_found: dict[tuple[bytes, str], _Found] = {}  # by signature: the way to a plan that runs no pass
_executables: dict[tuple[Kernel, str], Executable] = {}


def _forget() -> None:
    _plans.clear()
    _found.clear()
    _executables.clear()


kernels._also_forget.append(_forget)


def realize(uops: Sequence[UOp], holders: Holders | None = None, device: str | None = None) -> list[Buffer]:
    """Computes tensor graphs: buffers of their shapes and dtypes, on the device of the buffers that they read.

    holders: let go of the buffers where their memory can be used; what nobody else holds then is overwritten or reused.
    device: where graphs without a buffer are computed, by default on the default device. Raises DeviceError when the
    buffers are on several devices, or a device fails.
    """
    if not uops:
        return []
    key, ids = signature(uops)
    buffers = [Buffer.numbered(number) for number in ids]
    device = _device_of(buffers) or device or devices.default()
    found = None if watching.watchers else _found.get((key, device))
    if found is None:
        found = _found[key, device] = _find(list(uops), ids, buffers, device)
    plan, buffers = found.plan, [buffers[place] for place in found.inputs]
    if holders is None or not plan.takeable:
        return _launch(plan, _prepared(plan, (), device), buffers, device, uops)
    holders.let_go()
    try:
        taken = tuple([number for number in plan.takeable if _is_free(buffers, number)])
        return _launch(plan, _prepared(plan, taken, device), buffers, device, uops)
    except BaseException:
        holders.take_back([buffer for buffer in buffers if buffer.is_allocated or not buffer.nbytes])
        raise


def _is_free(buffers: list[Buffer], number: int) -> bool:
    """Whether nobody but the list has the buffer, and the memory is its own."""
    # The second reference is the argument's.
    return sys.getrefcount(buffers[number]) == 2 and buffers[number].owns_memory


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
    """The device of all buffers, "" for none. Raises DeviceError for several."""
    names = {buffer.device for buffer in buffers}
    if len(names) > 1:
        listed = " and ".join(sorted(names))
        raise DeviceError(f"the tensors of one computation are on {listed}; copy them to one device with .to()")
    return names.pop() if names else ""


def _make_plan(graph: UOp, inputs: int, device: str, uops: list[UOp]) -> Plan:
    target = devices.target_of(device)
    lines = find_lines(uops)
    if lines:  # the lines are known of the graph with buffers
        nodes = list(lines)
        with watching.part("schedule"):
            _, info = engine.run(UOp("SINK", tuple(uops)), "number", follow=nodes)
        lines = {new: lines[old] for old, new in zip(nodes, info["followed"], strict=True) if new is not None}
    schedule = make_schedule(graph, inputs, target, lines)
    return _plan_of(schedule, graph, target)


def _plan_of(schedule: Schedule, graph: UOp, target: str) -> Plan:
    """A plan with nothing prepared, of a graph with parameters in the place of its buffers."""
    sizes = [0] * schedule.inputs + [rounded(nbytes(shape, dtype)) for shape, dtype in schedule.made]
    for node in graph.toposort():
        if node.op == "PARAM":
            sizes[node.attrs["slot"]] = rounded(nbytes(node.shape, node.dtype))
    last = {number: place for place, step in enumerate(schedule.steps) for number in step.buffers}
    pairs: set[tuple[int, int]] = set()
    for place, step in enumerate(schedule.steps):
        ending = [number for number in step.buffers if last[number] == place and number not in schedule.outputs]
        pairs.update(overwritable(step, ending, target))
    uses = [use_of(step) for step in schedule.steps]
    useful = useful_inputs(uses, sizes, schedule.inputs, schedule.outputs, pairs)
    return Plan(schedule, tuple(uses), tuple(sizes), useful, frozenset(pairs), Dependencies(graph))


def _prepared(plan: Plan, taken: tuple[int, ...], device: str) -> Prepared:
    """The plan's kernels and memory for these inputs; once there are many variants, that for the most of them."""
    found = plan.prepared.get(taken)
    if found is None:
        if len(plan.prepared) >= _MOST_VARIANTS:
            taken = max((known for known in plan.prepared if set(known) <= set(taken)), key=len, default=())
            found = plan.prepared.get(taken)
        if found is None:
            found = plan.prepared[taken] = _prepare(plan, taken, device)
    return found


def _prepare(plan: Plan, taken: tuple[int, ...], device: str) -> Prepared:
    schedule, target = plan.schedule, devices.target_of(device)
    memory = _memory_of(plan, taken)
    changed = [
        overwriting(step, pairs, target) if pairs else step
        for step, pairs in zip(schedule.steps, memory.overwritten, strict=True)
    ]
    steps = [step for step in changed if step is not None]
    start, known = time.perf_counter(), len(_executables)
    found = compile_kernels([step.graph for step in steps], target, not devices.get(device).interprets, device)
    tell_graphs(found, [step.graph for step in steps])
    executables = _executables_of(found, device)
    tell_built(len(found), len(_executables) - known, device, time.perf_counter() - start)
    flags = (schedule.inputs + len(schedule.made),)
    launches = (
        Launch(
            replace(kernel, user_line=step.user_line), executable,
            step.buffers + flags if kernel.checks_indices else step.buffers,
        )
        for kernel, executable, step in zip(found, executables, steps, strict=True)
    )  # fmt: skip
    layouts = [Layout.of(shape, dtype, device) for shape, dtype in schedule.made]
    first = schedule.inputs
    blocks = [layouts[block.largest - first] if block.taken is None else block.taken for block in memory.blocks]
    in_taken = [k >= first and memory.blocks[memory.block_of[k - first]].taken is not None for k in schedule.outputs]
    results = [layouts[k - first] if moved else None for k, moved in zip(schedule.outputs, in_taken, strict=True)]
    checks_indices = any(kernel.checks_indices for kernel in found)
    return Prepared(memory, tuple(launches), tuple(blocks), tuple(results), checks_indices)


def _memory_of(plan: Plan, taken: Sequence[int]) -> MemoryPlan:
    schedule = plan.schedule
    return plan_memory(plan.uses, plan.sizes, schedule.inputs, schedule.outputs, taken, plan.pairs)


def _executables_of(wanted: Sequence[Kernel], device: str) -> tuple[Executable, ...]:
    """All new kernels are built in one program: that is several times cheaper than one by one."""
    new = list(dict.fromkeys(k for k in wanted if (k, device) not in _executables))
    if new:
        tell_sources(new)
        for kernel, executable in zip(new, devices.get(device).compile(new), strict=True):
            _executables[kernel, device] = executable
    return tuple(_executables[k, device] for k in wanted)


def _launch(plan: Plan, prepared: Prepared, inputs: list[Buffer], device: str, graphs: Sequence[UOp]) -> list[Buffer]:
    """Launches the kernels, once all memory is there. Inputs whose memory is taken have no contents afterwards."""
    flags = index_checks.new_flags(device, plan.dependencies.words) if prepared.checks_indices else None
    blocks = [inputs[block] if isinstance(block, int) else Buffer.like(block) for block in prepared.blocks]
    made = [blocks[number] for number in prepared.memory.block_of]
    handles = [buffer.handle for buffer in (*inputs, *made)]
    if flags is not None:
        handles.append(flags.handle)
    try:
        _start(prepared.launches, handles, device)
    except BaseException:
        for block in prepared.blocks:
            if isinstance(block, int):
                inputs[block].release()
        raise
    results: dict[int, Buffer] = {}
    for number, layout in zip(plan.schedule.outputs, prepared.results, strict=True):
        if number not in results:
            buffer = inputs[number] if number < len(inputs) else made[number - len(inputs)]
            if layout is not None:
                taken, buffer = buffer, Buffer.like(layout)
                buffer.take_memory(taken)
            results[number] = buffer
    found = [results[number] for number in plan.schedule.outputs]
    if flags is not None or any(buffer.checks for buffer in inputs):
        check = None if flags is None else index_checks.launched(flags, graphs)
        index_checks.tell(found, plan.dependencies, check, inputs)
    return found


def _start(launches: Sequence[Launch], handles: list[Handle], device: str) -> None:
    """Launches in order; at once, where the device can and nobody wants to know how long each takes."""
    together = getattr(devices.get(device), "launch_together", None)
    if together is not None and not profile.is_timing():
        together([(launch.executable, [handles[number] for number in launch.buffers]) for launch in launches])
        return
    for launch in launches:
        profile.launch(launch.executable, [handles[number] for number in launch.buffers], launch.kernel, device)


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


def plan_memory_of(uops: Sequence[UOp], target: str = "opencl", taken: bool = False) -> MemoryPlan:
    """How the buffers that tensor graphs make would share memory on a target; nothing is compiled or run.

    taken: as if nobody held the buffers that the graphs read.

    >>> from rulegrad import Tensor
    >>> plan = plan_memory_of([Tensor.ones(64, 64).uop])
    >>> plan.nbytes, plan.bound
    (16384, 16384)
    """
    with watching.part("schedule"):
        graph, inputs = number_buffers(UOp("SINK", tuple(uops)))
    plan = _plan_of(make_schedule(graph, len(inputs), target, {}), graph, target)
    return _memory_of(plan, plan.takeable if taken else ())
