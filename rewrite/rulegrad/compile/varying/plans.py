"""General plans: the kernels of a template for all its sizes, and the plan of one set of sizes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from rulegrad import engine
from rulegrad.compile.kernels import compile_varying, launch_sizes
from rulegrad.compile.memory_plan import MemoryPlan, plan_memory
from rulegrad.compile.plans import Launch, Plan, Prepared, executables_of, make_plan, record
from rulegrad.compile.schedule import Schedule, Step, make_schedule, number_buffers
from rulegrad.errors import RulegradError
from rulegrad.ir import UOp
from rulegrad.runtime import devices
from rulegrad.runtime.buffer import LARGE, Layout
from rulegrad.runtime.index_checks import Dependencies
from rulegrad.runtime.kernel import Kernel

from .formulas import GENERIC, Fit, Formula, numbers_needed, numbers_within, value_of
from .kernels import at_typical_sizes, general_kernel, variable
from .templates import DifferentError, Hole, Template, instance

if TYPE_CHECKING:
    from rulegrad.runtime.device import SizedExecutable

Bounds: TypeAlias = "tuple[tuple[int, int], ...]"  # the least and the most of each size

_LEAST: Final = 2  # sizes 0 and 1 have plans of their own
_LARGE: Final = 4096  # a plan is for sizes up to this at least
_FAR: Final = 3  # times as large as those that choices are made for several sizes may be
_TYPICAL: Final = 256  # what kernels are good for at least; the sizes that a plan is made of are often the smallest


@dataclass(frozen=True, slots=True)
class General:
    """A template with its kernels, for one device."""

    template: Template
    axes: tuple[Formula, ...]  # the sizes of axes, of which none has no element
    bounds: Bounds
    inputs: tuple[int, ...]  # the template's buffers and constants that the schedule reads, in its order
    made: tuple[tuple[tuple[Formula, ...], Any], ...]  # shape and dtype of what the schedule makes
    launches: tuple[Launch, ...]
    block_of: tuple[int, ...]  # of each buffer that is made, numbered in the order of first use
    outputs: tuple[int, ...]
    dependencies: Dependencies

    def plan(self, sizes: Sequence[int], device: str) -> Plan:
        """The plan at these sizes: its last input is a buffer of them."""
        shapes = tuple((tuple([value_of(size, sizes) for size in dims]), dtype) for dims, dtype in self.made)
        layouts = [Layout.of(shape, dtype, device) for shape, dtype in shapes]
        blocks: list[Layout] = []
        for layout, block in zip(layouts, self.block_of, strict=True):  # blocks are numbered in the order of first use
            if block == len(blocks):
                blocks.append(layout)
            elif layout.nbytes > blocks[block].nbytes:
                blocks[block] = layout
        launches = tuple([_sized(launch, sizes) for launch in self.launches])
        checks_indices = any(launch.kernel.checks_indices for launch in launches)
        none = (None,) * len(self.outputs)
        memory = MemoryPlan((), self.block_of, (), sum(block.nbytes for block in blocks), 0)
        schedule = Schedule(len(self.inputs) + 1, shapes, (), self.outputs)
        plan = Plan(device, schedule, (), (), (), frozenset(), self.dependencies)
        is_large = any(layout.nbytes >= LARGE for layout in layouts)
        recorded = record(plan, memory, launches, blocks, checks_indices)
        prepared = Prepared(memory, launches, tuple(blocks), none, checks_indices, recorded, is_large)
        return replace(plan, _prepared={((), ()): prepared})


def _sized(launch: Launch, sizes: Sequence[int]) -> Launch:
    """A launch with the grid that it has at these sizes, where the kernel does not say so itself."""
    kernel = launch.kernel
    if kernel.positions is None:
        return launch
    kernel = kernel._replace(grid=launch_sizes(kernel.positions, sizes)[0])
    return launch._replace(kernel=kernel, executable=cast("SizedExecutable", launch.executable).sized(kernel))


def general_plan(template: Template, device: str, bounds: Bounds | None = None) -> General:
    """Compiles a template. Raises DifferentError, NoFormulaError, or what stopped the rules.

    bounds: the least and the most that each size is; found out where they are not given.
    """
    count = len(template.examples)
    primes, small = _possible(template, device)
    bounds = bounds or tuple(_bounds(template, number) for number in range(count))
    try:
        return _general_plan(template, device, Fit(count, template.monomials, primes, small if count else ()), bounds)
    except DifferentError:  # kernels of small sizes may have another structure
        return _general_plan(template, device, Fit(count, template.monomials, primes), bounds)


def _possible(template: Template, device: str) -> tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]:
    """Sizes that graphs of the template may have: the largest generic ones, and small ones; in each order of the sizes.

    Raises GraphError where there are none.
    """
    count = len(template.examples)

    def check(*rows: Sequence[Sequence[int]]) -> None:
        for point in Fit(count, template.monomials, *rows).points:
            instance(template, point, device)

    for primes in GENERIC:
        for order in itertools.permutations(range(count)):
            of_order = [[rows[k] for k in order] for rows in (primes, GENERIC[-1])]
            with contextlib.suppress(RulegradError):
                check(*of_order)
                return of_order[0], of_order[1]
    # both graphs are possible, and so is what lies between them; and places of an axis, up to its end
    for within in (template.examples, [_places(template, number) for number in range(count)]):
        numbers = numbers_within([(min(ends), max(ends)) for ends in within], numbers_needed(template.monomials))
        if numbers:
            with contextlib.suppress(RulegradError):
                check(numbers)
                return numbers, numbers
    check(GENERIC[-1])
    return GENERIC[-1], GENERIC[-1]


def _places(template: Template, number: int) -> tuple[int, int]:
    """The least and the most that a size may be for the padding of a value that is put there."""
    paddings = (node.attrs[side] for node in template.nodes if node.op == "PAD" for side in ("before", "after"))
    rests = (dict(one.formula) for padding in paddings for one in padding if isinstance(one, Hole))
    most = [rest.get((), 0) // -rest[number,] for rest in rests if rest.get((number,), 0) < 0 and len(rest) <= 2]
    return _LEAST, min(most, default=max(template.examples[number]))


def _general_plan(template: Template, device: str, fit: Fit, bounds: Bounds) -> General:
    target = devices.target_of(device)
    graphs, schedules = [], []
    for point in fit.points:
        graph, given = number_buffers(UOp("SINK", tuple(instance(template, point, device))))
        graphs.append(graph)
        inputs = tuple(uop.attrs["id"] - 1 for uop in given)
        schedules.append((inputs, make_schedule(graph, len(given), target, {})))
    (inputs, first), others = schedules[0], schedules[1:]
    if any(other_inputs != inputs or not _alike(first, other) for other_inputs, other in others):
        raise DifferentError("the schedules at several sizes differ")
    made = tuple(
        (tuple([fit(sizes) for sizes in zip(*(shape for shape, _ in buffers), strict=True)]), buffers[0][1])
        for buffers in zip(*(schedule.made for _, schedule in schedules), strict=True)
    )
    steps = [[schedule.steps[k] for _, schedule in schedules] for k in range(len(first.steps))]
    found = _kernels(template, fit, steps, bounds, target)
    plan = make_plan(first, graphs[0], device, target)
    memory = plan_memory(plan.uses, plan.sizes, first.inputs, first.outputs)
    outputs = tuple(_shifted(number, first.inputs) for number in first.outputs)
    block_of = _blocks(memory, [number - first.inputs for number in first.outputs if number >= first.inputs])
    return General(
        template,
        tuple(template.formulas()),
        bounds,
        inputs,
        made,
        tuple(_launches(first, found, device)),
        block_of,
        outputs,
        Dependencies(graphs[0]),
    )


def _alike(one: Schedule, two: Schedule) -> bool:
    """Whether two schedules differ in sizes only."""
    return (
        [step.buffers for step in one.steps] == [step.buffers for step in two.steps]
        and one.outputs == two.outputs
        and [(len(shape), dtype) for shape, dtype in one.made] == [(len(shape), dtype) for shape, dtype in two.made]
    )


def _launches(schedule: Schedule, found: list[Kernel], device: str) -> Iterator[Launch]:
    flags = (schedule.inputs + 1 + len(schedule.made),)
    executables = executables_of(found, device)
    for number, (kernel, executable, step) in enumerate(zip(found, executables, schedule.steps, strict=True)):
        arguments = (
            *[_shifted(number, schedule.inputs) for number in step.buffers],
            *(flags if kernel.checks_indices else ()),
            *((schedule.inputs,) if kernel.sizes else ()),
        )
        yield Launch(kernel, executable, arguments, number)


def _typical(template: Template) -> list[int]:
    """Sizes that choices are made for: those of the second graph, or multiples of them where all are small.

    Where they are quotients of what varies, what they are quotients of counts too.
    """
    sizes = [second for _, second in template.examples]
    axes = template.formulas() if template.steps else ()
    linear = [one for one in axes if all(len(names) <= 1 for names, _ in one)]
    longest = max([*sizes, *(value_of(one, sizes) for one in linear)], default=1)
    factor = -(-_TYPICAL // max(1, longest))
    return [size * factor for size in sizes]


def _bounds(template: Template, number: int) -> tuple[int, int]:
    """The least and the most that a size may be: sizes for which an axis has no element have plans of their own.

    So has one of several that is much larger than those that choices are made for: what is fast for 512 channels of
    7 x 7 takes four times as long as need be for 64 of 56 x 56.
    """
    ends = template.examples[number]
    least, most = _LEAST, max(_LARGE, 8 * max(ends))
    if len(template.examples) > 1:
        most = min(most, _FAR * max(_typical(template)[number], *ends))
    for formula in template.formulas():
        terms = dict(formula)
        factor, offset = terms.pop((number,), 0), terms.pop((), 0)
        if factor > 0 and not terms:
            least = max(least, -((offset - 1) // factor))
        if factor < 0 and not terms:
            most = min(most, (offset - 1) // -factor)
    return least, most


def _shifted(number: int, inputs: int) -> int:
    """A buffer's number once the sizes are one more input."""
    return number if number < inputs else number + 1


def _blocks(memory: MemoryPlan, results: Sequence[int]) -> tuple[int, ...]:
    """The block of each buffer that is made, numbered in the order of first use.

    A result has one to itself: what shares its block here may be larger than it is at other sizes.
    """
    blocks, alone = list(memory.block_of), itertools.count(len(memory.block_of))
    for number in dict.fromkeys(results):
        blocks[number] = next(alone)
    order = {block: number for number, block in enumerate(dict.fromkeys(blocks))}
    return tuple(order[block] for block in blocks)


def _kernels(
    template: Template, fit: Fit, steps: Sequence[Sequence[Step]], bounds: Sequence[tuple[int, int]], target: str
) -> list[Kernel]:
    """The kernels of steps, of which each is given at the fit's points."""
    variables = [
        variable(number, least, max(least, min(typical, most)), most)
        for number, (typical, (least, most)) in enumerate(zip(_typical(template), bounds, strict=True))
    ]
    roots = [step.graph for several in steps for step in several]
    flat = engine.run_all(roots, ["indexing", "flat"], target)
    count = len(fit.points)
    general = [general_kernel(flat[at : at + count], fit, variables) for at in range(0, len(flat), count)]
    # equal kernels may be given different numbers of buffers, some of which they do not read
    named = [(kernel, len(several[0].buffers)) for kernel, several in zip(general, steps, strict=True)]
    different = {name: several[0].graph for name, several in zip(named, steps, strict=True)}
    kernels = [kernel for kernel, _ in different]
    constant = [at_typical_sizes(kernel) for kernel in kernels]
    found = compile_varying(list(different.values()), kernels, constant, target)
    compiled = dict(zip(different, found, strict=True))
    return [compiled[name] for name in named]
