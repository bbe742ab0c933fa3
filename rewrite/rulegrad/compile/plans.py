"""Execution plans: the launches of a graph with its buffers left open, their memory, and running them.

Where the device can, the launches of a plan are one program: it is recorded once, and run on the buffers of each call.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from rulegrad.compile import kernels
from rulegrad.compile.collectives import (
    Communication,
    Item,
    in_order,
    is_communication,
    keeping_sources,
    program_of,
    run_timed,
    with_communication,
)
from rulegrad.compile.estimate import nbytes
from rulegrad.compile.kernels import compile_kernels
from rulegrad.compile.memory_plan import MemoryPlan, Use, plan_memory, useful_inputs
from rulegrad.compile.ordering import is_copy
from rulegrad.compile.overwriting import overwritable, overwriting, uses_of
from rulegrad.compile.schedule import Schedule, make_schedule, number_buffers, numbered_lines
from rulegrad.ir import UOp
from rulegrad.runtime import devices, index_checks, profile
from rulegrad.runtime.allocator import rounded
from rulegrad.runtime.buffer import LARGE, Buffer, Layout
from rulegrad.runtime.device import Executable, Handle, Program, Replay
from rulegrad.runtime.index_checks import Dependencies
from rulegrad.runtime.kernel import Kernel
from rulegrad.runtime.telling import tell_built, tell_graphs, tell_sources
from rulegrad.support.locations import Stack, user_location, user_stack

Location: TypeAlias = tuple[str, int] | None  # the user's file and line
_Pairs: TypeAlias = tuple[tuple[int, int], ...]
_Variant: TypeAlias = tuple[tuple[int, ...], _Pairs]  # inputs that are taken, and results in the places of such inputs
#: Of one plan: each may have kernels of its own, which take time to build.
_MOST_VARIANTS = 8
#: Bytes of a block in the arena. A larger one is an allocation of its own, which other plans use in their turn.
_LARGE = 1 << 20
#: Bytes of a result that is not worth to look for memory that it could take.
_LITTLE = 1 << 12
_executables: dict[tuple[Kernel, str], Executable] = {}
kernels._also_forget.append(_executables.clear)
#: Called after each launch of a plan with the plan, the memory that it had, its inputs and its results.
launched: list[Callable[[Plan, MemoryPlan, Sequence[Buffer], Sequence[Buffer]], None]] = []


class Launch(NamedTuple):
    """One kernel, and the plan's buffers behind its slots; the number of the schedule's step that it is."""

    kernel: Kernel
    executable: Executable
    buffers: tuple[int, ...]
    step: int


class Recorded(NamedTuple):
    """The launches as one program of the device: on the inputs, some blocks, the flags if any, and the arena."""

    program: Program
    bound: tuple[int, ...]  # the blocks that are allocations of their own
    arena: Layout | None  # the others together


class Prepared(NamedTuple):
    """A schedule's kernels and memory, where some inputs are needed by nobody else."""

    memory: MemoryPlan
    launches: tuple[Launch, ...]
    blocks: tuple[Layout | int, ...]  # how a block is made, or the input that it is taken from
    results: tuple[Layout | None, ...]  # of outputs that are in memory taken from inputs
    checks_indices: bool  # whether a kernel has flags
    recorded: Recorded | None  # None where the device launches kernels one by one
    is_large: bool  # whether it makes a buffer that is worth to know the line of

    @property
    def is_replayed(self) -> bool:
        """Whether the engine can launch it: as a program of its own kind."""
        return self.recorded is not None and isinstance(self.recorded.program, Replay)


@dataclass(frozen=True, slots=True)
class Plan:
    """A schedule, ready to be launched on any buffers of the same shapes."""

    device: str
    schedule: Schedule
    uses: tuple[Use, ...]
    sizes: tuple[int, ...]  # bytes of each buffer, the inputs first
    takeable: tuple[int, ...]  # inputs whose memory the schedule could use
    pairs: frozenset[tuple[int, int]]  # buffers that a kernel may have in one place
    dependencies: Dependencies
    may_spare_a_copy: bool = False  # of an input: what is updated in place
    _prepared: dict[_Variant, Prepared] = field(default_factory=dict)
    _stacks: list[Stack] = field(default_factory=list)  # of each step, once somebody asked

    def prepared(self, taken: tuple[int, ...] = (), own: _Pairs = ()) -> Prepared:
        """The kernels and the memory where nobody else needs the inputs `taken`, numbers out of `takeable`.

        own: pairs of a result's number, out of `schedule.outputs`, and an input that is taken, in whose memory the
        result is put if it can: the new value of a state and the old one. Once there are many variants, it is that for
        the most of the inputs.
        """
        found = self._prepared.get((taken, own))
        if found is None:
            if len(self._prepared) >= _MOST_VARIANTS:
                less = (known for known in self._prepared if set(known[0]) <= set(taken))
                taken, own = max(less, key=lambda known: len(known[0]), default=((), ()))
                found = self._prepared.get((taken, own))
            if found is None:
                found = self._prepared[taken, own] = _prepare(self, taken, own)
        return found

    def variants(self) -> list[Prepared]:
        """The variants that were prepared so far."""
        return list(self._prepared.values())

    def built(self) -> Plan:
        """A plan that was read from a file, with what was prepared of it: its kernels as the device has them."""
        made: dict[_Variant, Prepared] = {}
        for key, variant in self._prepared.items():
            steps = [self.schedule.steps[launch.step] for launch in variant.launches]
            kernels = [launch.kernel for launch in variant.launches]
            computing = [kernel for kernel, step in zip(kernels, steps, strict=True) if not is_communication(step)]
            built = executables_of(computing, self.device)
            _, executables = with_communication(steps, computing, built, self.device)
            pairs = zip(variant.launches, executables, strict=True)
            launches = tuple(launch._replace(executable=executable) for launch, executable in pairs)
            recorded = record(self, variant.memory, launches, variant.blocks, variant.checks_indices)
            made[key] = variant._replace(launches=launches, recorded=recorded)
        return replace(self, _prepared=made)

    def stacks(self, graphs: Sequence[UOp]) -> list[Stack]:
        """The user's frames that each step is computed for, by lines that were recorded; () for one not known.

        graphs: what is computed. A plan of before anybody read lines was made without; the schedule's passes are run
        again then, which give the same steps.
        """
        if not self._stacks:
            steps = self.schedule.steps
            if not any(step.stack for step in steps) and (lines := numbered_lines(graphs)):
                numbered, inputs = number_buffers(UOp("SINK", tuple(graphs)))
                again = make_schedule(numbered, len(inputs), devices.target_of(self.device), lines).steps
                steps = again if len(again) == len(steps) or not steps else steps  # one for many sizes has no steps
            self._stacks.extend(step.stack for step in steps)
        return self._stacks

    @property
    def communicates(self) -> bool:
        """Whether it is of tensors on a mesh: with collectives, or with results in parts."""
        return bool(self.schedule.parts) or any(is_communication(step) for step in self.schedule.steps)

    @property
    def is_little(self) -> bool:
        """Whether its results are too small to look for memory that they could take, and no kernel fewer if they do."""
        return not self.may_spare_a_copy and all(self.sizes[number] <= _LITTLE for number in self.schedule.outputs)

    def memory(self, taken: Sequence[int] = (), own: _Pairs = ()) -> MemoryPlan:
        """Where each buffer lies, as `prepared` has it."""
        schedule = self.schedule
        return plan_memory(self.uses, self.sizes, schedule.inputs, schedule.outputs, taken, self.pairs, dict(own))

    def launch(
        self, inputs: Sequence[Buffer], graphs: Sequence[UOp], taken: tuple[int, ...] = (), own: _Pairs = ()
    ) -> list[Buffer]:
        """Launches the kernels on these inputs, and returns the buffers of the results, in the order of the graphs.

        A result may be one of the inputs. graphs: what is computed, which errors about indices name. taken: inputs that
        nobody else needs; where the memory of one is used, it has no contents afterwards. own: as `prepared` has it.
        Raises DeviceError.
        """
        prepared = self.prepared(taken, own)
        flags = index_checks.new_flags(self.device, self.dependencies.words) if prepared.checks_indices else None
        try:
            if profile.is_timing():
                made_at, blocks = None, self._run_timed(prepared, inputs, flags, graphs)
            else:
                made_at = user_location() if prepared.is_large else None
                blocks = _run(self.device, prepared, inputs, flags, made_at)
        except BaseException:
            for block in prepared.blocks:
                if isinstance(block, int):
                    inputs[block].release()
            raise
        found = self._results(prepared, inputs, blocks, made_at)
        if flags is not None or any(buffer.checks for buffer in inputs):
            check = None if flags is None else index_checks.launched(flags, graphs)
            index_checks.tell(found, self.dependencies, check, inputs)
        for tell in launched:
            tell(self, prepared.memory, inputs, found)
        return found

    def _run_timed(
        self, prepared: Prepared, inputs: Sequence[Buffer], flags: Buffer | None, graphs: Sequence[UOp]
    ) -> list[Buffer | None]:
        """`_run`, the kernels one by one, for somebody who wants to know how long each takes, and for which line."""
        here = user_stack()
        known = dict(enumerate(self.stacks(graphs)))
        stacks = {launch.step: known.get(launch.step) or here for launch in prepared.launches}
        made_at: dict[int, Stack] = {}  # by block, the first step that uses it: the one that writes into it
        first = self.schedule.inputs
        for launch in prepared.launches:
            for number in launch.buffers:
                if first <= number < first + len(prepared.memory.block_of):
                    made_at.setdefault(prepared.memory.block_of[number - first], stacks[launch.step])
        profile.note_memory(devices.allocator(self.device))
        with profile.span(f"launch {len(prepared.launches)} kernels", "launch"):
            blocks: list[Buffer | None] = []
            for number, block in enumerate(prepared.blocks):
                stack = made_at.get(number, here)
                location = stack[-1][:2] if stack else None
                blocks.append(inputs[block] if isinstance(block, int) else Buffer.like(block, True, location))
            of_blocks = [blocks[number].handle for number in range(len(blocks))]  # type: ignore[union-attr]
            handles: list[Handle] = [*(buffer.handle for buffer in inputs), *of_blocks]
            handles += [] if flags is None else [flags.handle]
            profile.note_memory(devices.allocator(self.device))
            run_timed(self.items(prepared), handles, self.device, lambda launch: stacks[launch.step])
        return blocks

    def items(self, prepared: Prepared) -> list[Item]:
        """Kernels, starts and waits of collectives, in order; memory is numbered: inputs, blocks, then the flags."""
        first = self.schedule.inputs
        places = [first + k if not isinstance(block, int) else block for k, block in enumerate(prepared.blocks)]
        memory = [*range(first), *(places[k] for k in prepared.memory.block_of), first + len(prepared.blocks)]
        return in_order(prepared.launches, memory)

    def _results(
        self, prepared: Prepared, inputs: Sequence[Buffer], blocks: Sequence[Buffer | None], made_at: Location
    ) -> list[Buffer]:
        results: dict[int, Buffer] = {}
        count = self.schedule.inputs
        for number, layout in zip(self.schedule.outputs, prepared.results, strict=True):
            if number not in results:
                buffer = inputs[number] if number < count else blocks[prepared.memory.block_of[number - count]]
                assert buffer is not None  # the arena has no results
                if layout is not None:
                    taken, buffer = buffer, Buffer.like(layout, made_at=made_at)
                    buffer.take_memory(taken)
                results[number] = buffer
        return [results[number] for number in self.schedule.outputs]


def make_plan(schedule: Schedule, graph: UOp, device: str, target: str) -> Plan:
    """A plan with nothing prepared, of a graph with parameters in the place of its buffers.

    device: "" for a plan that is only looked at.
    """
    sizes = [0] * schedule.inputs + [rounded(nbytes(shape, dtype)) for shape, dtype in schedule.made]
    for node in graph.toposort("PARAM"):
        sizes[node.attrs["slot"]] = rounded(nbytes(node.shape, node.dtype))
    last = {number: place for place, step in enumerate(schedule.steps) for number in step.buffers}
    uses = uses_of(schedule.steps)
    outputs = set(schedule.outputs)
    endings = (
        (step, [number for number in use.reads if last[number] == place and number not in outputs])
        for place, (step, use) in enumerate(zip(schedule.steps, uses, strict=True))
        if not is_communication(step)
    )
    pairs = overwritable(endings, target)
    uses = keeping_sources(schedule.steps, uses)
    useful = useful_inputs(uses, sizes, schedule.inputs, schedule.outputs, pairs)
    writers = Counter(number for use in uses for number in use.writes)
    copies = any(
        is_copy(step) and not set(use.reads).isdisjoint(useful) and any(writers[number] > 1 for number in use.writes)
        for step, use in zip(schedule.steps, uses, strict=True)
    )
    return Plan(device, schedule, tuple(uses), tuple(sizes), useful, frozenset(pairs), Dependencies.of(graph), copies)


def is_for_engine(plan: Plan, taken: tuple[int, ...] = ()) -> bool:
    """Whether the engine may launch a plan by itself: as a program, and the results are buffers of their own."""
    outputs = plan.schedule.outputs
    if plan.communicates or not plan.prepared(taken).is_replayed:
        return False
    return len({*outputs}) == len(outputs) and min(outputs) >= plan.schedule.inputs


def in_engine(
    plan: Plan, prepared: Prepared, taken: tuple[int, ...], graphs: Sequence[UOp] = ()
) -> dict[str, Any] | None:
    """The parts of a prepared plan with which the engine launches it; None where Python has to.

    None of the results is an input, and no input waits for a check of indices. graphs: for messages about indices,
    what is computed, where that is the same each time.
    """
    recorded = prepared.recorded
    if recorded is None or not prepared.is_replayed:
        return None
    memory, count = prepared.memory, plan.schedule.inputs

    def new_flags() -> Buffer:
        return index_checks.new_flags(plan.device, plan.dependencies.words)

    def tell_checks(results: list[Buffer], flags: Buffer, now: Sequence[UOp] | None) -> None:
        check = index_checks.launched(flags, graphs if now is None else now)
        index_checks.tell(results, plan.dependencies, check, ())

    return {
        "taken": taken,
        "program": recorded.program,
        "blocks": prepared.blocks,
        "bound": recorded.bound,
        "arena": recorded.arena,
        "results": [
            (memory.block_of[number - count], layout)
            for number, layout in zip(plan.schedule.outputs, prepared.results, strict=True)
        ],
        "user_location": user_location if prepared.is_large else None,
        "new_flags": new_flags if prepared.checks_indices else None,
        "tell_checks": tell_checks if prepared.checks_indices else None,
        "visible_flags": plan.dependencies.words if index_checks.are_visible(plan.device) else 0,
    }


def executables_of(wanted: Sequence[Kernel], device: str) -> tuple[Executable, ...]:
    """All new kernels are built in one program: that is several times cheaper than one by one."""
    new = list(dict.fromkeys(k for k in wanted if (k, device) not in _executables))
    if new:
        tell_sources(new)
        with profile.span(f"build {len(new)} kernels", "compile"):
            built = devices.get(device).compile(new)
        for kernel, executable in zip(new, built, strict=True):
            _executables[kernel, device] = executable
    return tuple(_executables[k, device] for k in wanted)


def _prepare(plan: Plan, taken: tuple[int, ...], own: _Pairs) -> Prepared:
    schedule, device = plan.schedule, plan.device
    memory = plan.memory(taken, own)
    launches = _launches_of(plan, memory)
    first, parts = schedule.inputs, dict(schedule.parts)
    layouts = [Layout.of(*made, device, parts.get(first + k)) for k, made in enumerate(schedule.made)]
    blocks = [layouts[block.largest - first] if block.taken is None else block.taken for block in memory.blocks]
    in_taken = [k >= first and memory.blocks[memory.block_of[k - first]].taken is not None for k in schedule.outputs]
    results = [layouts[k - first] if moved else None for k, moved in zip(schedule.outputs, in_taken, strict=True)]
    checks_indices = any(launch.kernel.checks_indices for launch in launches)
    recorded = record(plan, memory, launches, blocks, checks_indices)
    is_large = any(layout.nbytes >= LARGE for layout in layouts)
    return Prepared(memory, launches, tuple(blocks), tuple(results), checks_indices, recorded, is_large)


def _launches_of(plan: Plan, memory: MemoryPlan) -> tuple[Launch, ...]:
    """The kernels of the schedule's steps, built for the device; in this memory some write over what they read."""
    schedule, device, target = plan.schedule, plan.device, devices.target_of(plan.device)
    changed = [
        overwriting(step, pairs, target) if pairs else step
        for step, pairs in zip(schedule.steps, memory.overwritten, strict=True)
    ]
    numbers = [number for number, step in enumerate(changed) if step is not None]
    steps = [step for step in changed if step is not None]
    start = time.perf_counter()
    computing = [step for step in steps if not is_communication(step)]
    with profile.span(f"lower {len(computing)} kernels", "compile"):
        lowered = compile_kernels(
            [step.graph for step in computing], target, not devices.get(device).interprets, device
        )
    tell_graphs(lowered, [step.graph for step in computing])
    new = {kernel.name for kernel in lowered if (kernel, device) not in _executables}
    built = executables_of(lowered, device)
    tell_built(len(lowered), len(new), device, time.perf_counter() - start)
    found, executables = with_communication(steps, lowered, built, device)
    flags = (schedule.inputs + len(schedule.made),)
    return tuple(
        Launch(
            kernel._replace(user_line=step.user_line), executable,
            step.buffers + flags if kernel.checks_indices else step.buffers, number,
        )
        for kernel, executable, step, number in zip(found, executables, steps, numbers, strict=True)
    )  # fmt: skip


def record(
    plan: Plan, memory: MemoryPlan, launches: Sequence[Launch], blocks: Sequence[Layout | int], checks_indices: bool
) -> Recorded | None:
    """The launches as a program: inputs, blocks that results are in or that are large, and flags are bound to it."""
    device = devices.get(plan.device)
    recorder = getattr(device, "record", None)
    if recorder is None or not launches:
        return None
    most = _LARGE if getattr(device, "has_arenas", True) else 0
    count = plan.schedule.inputs
    communications = [launch for launch in launches if isinstance(launch.executable, Communication)]
    # results, and what is sent or received
    apart = [*plan.schedule.outputs, *(number for launch in communications for number in launch.buffers)]
    own = {memory.block_of[number - count] for number in apart if number >= count}
    bound, places, offsets, end = [], [], [], 0
    for number, block in enumerate(blocks):
        if isinstance(block, int):
            continue
        if number in own or block.nbytes > most:
            bound.append(number)
        else:
            places.append(number)
            offsets.append(end)
            end += rounded(block.nbytes)
    all_bound = count + len(bound) + checks_indices
    at = {number: block for number, block in enumerate(blocks) if isinstance(block, int)}
    at |= {number: count + k for k, number in enumerate(bound)}
    at |= {number: all_bound + k for k, number in enumerate(places)}
    buffers = [*range(count), *(at[number] for number in memory.block_of), all_bound - 1]  # the last: the flags
    if communications:
        program = program_of(in_order(launches, buffers), lambda kernels: recorder(kernels, all_bound, offsets))
    else:
        program = recorder(
            [(launch.executable, tuple([buffers[number] for number in launch.buffers])) for launch in launches],
            all_bound,
            offsets,
        )
    if program is None:
        return None
    return Recorded(program, tuple(bound), Layout.of((end,), "uint8", plan.device) if end else None)


def _run(
    device: str, prepared: Prepared, inputs: Sequence[Buffer], flags: Buffer | None, made_at: Location
) -> list[Buffer | None]:
    """Launches in order, once all memory is there; returns the blocks, None for those that were in the arena.

    A program runs all at once.
    """
    recorded = prepared.recorded
    own = range(len(prepared.blocks)) if recorded is None else recorded.bound
    blocks: list[Buffer | None] = [inputs[block] if isinstance(block, int) else None for block in prepared.blocks]
    for number in own:
        layout = prepared.blocks[number]
        if not isinstance(layout, int):
            blocks[number] = Buffer.like(layout, True, made_at)
    handles = [buffer.handle for buffer in inputs]
    last = [] if flags is None else [flags.handle]
    if recorded is not None:
        arena = None if recorded.arena is None else Buffer.like(recorded.arena, True, made_at)
        handles += [blocks[number].handle for number in recorded.bound]  # type: ignore[union-attr]
        recorded.program.run(handles + last, None if arena is None else arena.handle)
        return blocks
    handles += [blocks[number].handle for number in prepared.memory.block_of]  # type: ignore[union-attr]
    handles += last
    for launch in prepared.launches:
        launch.executable([handles[number] for number in launch.buffers])
    return blocks
