"""General plans: the kernels of a template for all its sizes, and the plan of one set of sizes."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from rulegrad import engine
from rulegrad.compile import on_disk
from rulegrad.compile.kernels import compile_varying, launch_sizes
from rulegrad.compile.memory_plan import MemoryPlan, plan_memory
from rulegrad.compile.plans import Launch, Plan, Prepared, executables_of, make_plan, record
from rulegrad.compile.schedule import Schedule, Step, make_schedule, number_buffers
from rulegrad.errors import DeviceError, GraphError, RulegradError
from rulegrad.ir import UOp
from rulegrad.runtime import devices
from rulegrad.runtime.buffer import LARGE, Layout
from rulegrad.runtime.index_checks import Dependencies
from rulegrad.runtime.kernel import Kernel

from .formulas import (
    GENERIC,
    Fit,
    Formula,
    NoFormulaError,
    determining,
    grid,
    numbers_needed,
    numbers_within,
    primes_near,
    value_of,
)
from .kernels import at_sizes, general_kernel, variable
from .pairs import DifferentError
from .templates import Hole, Template, instance
from .validity import Bounds, Comparison, GraphAt, Point, is_possible, valid_bounds

if TYPE_CHECKING:
    from rulegrad.runtime.device import SizedExecutable

_LEAST: Final = 2  # sizes 0 and 1 have plans of their own
_LARGE: Final = 4096  # a plan is for sizes up to this at least
_FAR: Final = 3  # times as large as those that choices are made for several sizes may be
_TYPICAL: Final = 256  # what kernels are good for at least; the sizes that a plan is made of are often the smallest
_VALUES: Final = 8  # of the smallest rounded quotient, at the points from which formulas are made
_KIND: Final = "general plan"  # of what is kept on disk
_OF_EXAMPLES: Final = {"of": "examples"}  # kept of plans that depend on more than magnitudes
_CANDIDATES: Final = 400  # points, of which those are taken that determine formulas


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

    def serves(self, sizes: Sequence[int]) -> bool:
        """Whether its kernels are for these sizes."""
        return all(least <= size <= most for size, (least, most) in zip(sizes, self.bounds, strict=True)) and all(
            value_of(axis, sizes) >= 1 for axis in self.axes
        )

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
    """The plan of a template, which another process may have made. Raises DifferentError, NoFormulaError, or what
    stopped the rules.

    bounds: the least and the most that each size is; found out where they are not given.
    """
    if not on_disk.is_usable():
        return _made(template, device, bounds)[0]
    target = devices.target_of(device)
    text = repr((device, bounds, _typical(template), _magnitudes(template), template.text()))
    of_examples = f"{text}\0{template.examples}"
    (kept,) = on_disk.values(_KIND, [text], target)
    if kept == _OF_EXAMPLES:
        (kept,) = on_disk.values(_KIND, [of_examples], target)
    if kept is not None:
        if bounds is None and "bounds" in kept:
            _require_within(template, kept["bounds"])
        return _unpacked(kept, template, device)
    try:
        made, is_of_examples = _made(template, device, bounds)
        packed = _packed(made)
    except (DeviceError, GraphError):  # of the device, and what is found out before anything is scheduled
        raise
    except (DifferentError, NoFormulaError, RulegradError) as error:
        on_disk.keep(_KIND, {text: _OF_EXAMPLES, of_examples: {"refused": str(error)}}, target)
        raise
    entries = {text: _OF_EXAMPLES, of_examples: packed} if is_of_examples else {text: packed}
    on_disk.keep(_KIND, entries, target)
    return made


def _packed(general: General) -> dict[str, Any]:
    """A plan without its template, of plain values."""
    kernels = list(dict.fromkeys(launch.kernel for launch in general.launches))
    dependencies = general.dependencies
    return {
        "axes": general.axes,
        "bounds": tuple(general.bounds),
        "inputs": general.inputs,
        "made": tuple((shape, str(dtype)) for shape, dtype in general.made),
        "kernels": tuple(map(on_disk.packed, kernels)),
        "launches": tuple((kernels.index(one.kernel), one.buffers) for one in general.launches),
        "block_of": general.block_of,
        "outputs": general.outputs,
        "dependencies": (dependencies.words, tuple(dependencies.checks), tuple(dependencies.inputs)),
    }


def _unpacked(kept: dict[str, Any], template: Template, device: str) -> General:
    """The plan that was packed, of a template, with its kernels built. Raises DifferentError where there was none."""
    if "refused" in kept:
        raise DifferentError(kept["refused"])
    nothing = UOp("SINK", ())
    kernels = [on_disk.unpacked(one, nothing) for one in kept.pop("kernels")]
    executables = executables_of(kernels, device)
    launches = tuple(
        Launch(kernels[kernel], executables[kernel], buffers, number)
        for number, (kernel, buffers) in enumerate(kept.pop("launches"))
    )
    return General(template, launches=launches, dependencies=Dependencies(*kept.pop("dependencies")), **kept)


def _made(template: Template, device: str, bounds: Bounds | None) -> tuple[General, bool]:
    """Compiles a template; and whether another of the same magnitudes may have another plan.

    Raises DifferentError, NoFormulaError, or what stopped the rules.
    """

    @functools.cache
    def graph_at(point: Point) -> tuple[UOp, list[UOp]]:
        return number_buffers(UOp("SINK", tuple(instance(template, point, device))))

    error: DifferentError | None = None
    for fit, is_of_examples in _fits(template, graph_at):
        try:
            return _general_plan(template, device, fit, graph_at, bounds), is_of_examples
        except DifferentError as problem:
            error = error or problem
    if error is None:
        raise DifferentError("no sizes determine the formulas of all others")
    raise error


def _fits(template: Template, graph_at: GraphAt) -> Iterator[tuple[Fit, bool]]:
    """Fits at sizes that graphs of the template may have, the likeliest first; those in another order after them; and
    whether these sizes are between those of its examples.

    Those of several are near the typical ones: 1000 heads of 1000 queries and keys are put together otherwise than 12.
    With `t < u` all of a slice of t elements may be in u of them; kernels where it is not are those for both.
    Raises GraphError where there are none.
    """
    if template.quotients:
        found = _fit_of_quotients(template, graph_at)
        if found:
            yield found, False
        return
    count, monomials = len(template.examples), template.monomials

    def fit(primes: Sequence[Sequence[int]]) -> Fit | None:
        points = grid(count, monomials, primes)
        return Fit(monomials, points) if all(is_possible(graph_at, point) for point in points) else None

    found = fit(primes_near(_typical(template), numbers_needed(monomials))) if count > 1 else None
    if found:
        yield found, False
    for primes in GENERIC:
        orders = ([primes[k] for k in order] for order in itertools.permutations(range(count)))
        order, found = next(((order, one) for order in orders if (one := fit(order))), ([], None))
        if found:
            yield found, False
            other = [primes[count - 1 - primes.index(row)] for row in order]
            found = fit(other) if other != order else None
            if found:
                yield found, False
            return
    # both graphs are possible, and so is what lies between them; and places of an axis, up to its end
    for within in (template.examples, [_places(template, number) for number in range(count)]):
        numbers = numbers_within([(min(ends), max(ends)) for ends in within], numbers_needed(monomials))
        found = fit(numbers) if numbers else None
        if found:
            yield found, True
            return
    for point in grid(count, monomials, GENERIC[-1]):
        graph_at(point)


def _fit_of_quotients(template: Template, graph_at: GraphAt) -> Fit | None:
    """The same of sizes of which some are rounded quotients of others: of all remainders, so far apart that also what
    is divided several times has several values.
    """
    divided = [1] * len(template.examples)  # how often a variable is divided, by what is made of it
    for number, quotient in reversed(template.quotients.items()):
        for v in {v for names, _ in quotient.formula for v in names}:
            divided[v] = max(divided[v], quotient.divisor * divided[number])
    chosen = random.Random(0)
    ranges = [
        range(n, n + _VALUES * d) for n, d in zip(template.own(_typical(template)), template.own(divided), strict=True)
    ]
    drawn = ([chosen.choice(row) for row in ranges] for _ in range(_CANDIDATES))
    points = dict.fromkeys(template.sizes_of(own) for own in drawn if len(set(own)) == len(own))
    paddings = list(_paddings(template))  # none is nothing: an axis that is whole blocks by itself is not padded
    candidates = [point for point in points if all(value_of(one, point) > 0 for one in paddings)]
    found = determining(template.monomials, candidates)
    return Fit(*found) if found and all(is_possible(graph_at, point) for point in found[1]) else None


def _paddings(template: Template) -> Iterator[Formula]:
    """Those that vary."""
    paddings = (node.attrs[side] for node in template.nodes if node.op == "PAD" for side in ("before", "after"))
    return (one.formula for padding in paddings for one in padding if isinstance(one, Hole))


def _places(template: Template, number: int) -> tuple[int, int]:
    """The least and the most that a size may be for the padding of a value that is put there."""
    rests = [dict(one) for one in _paddings(template)]
    most = [rest.get((), 0) // -rest[number,] for rest in rests if rest.get((number,), 0) < 0 and len(rest) <= 2]
    return _LEAST, min(most, default=max(template.examples[number]))


def _general_plan(template: Template, device: str, fit: Fit, graph_at: GraphAt, bounds: Bounds | None) -> General:
    target = devices.target_of(device)
    graphs, schedules = [], []
    for point in fit.points:
        graph, given = graph_at(point)
        graphs.append(graph)
        inputs = tuple(uop.attrs["id"] - 1 for uop in given)
        schedules.append((inputs, make_schedule(graph, len(given), target, {})))
    (inputs, first), others = schedules[0], schedules[1:]
    if any(other_inputs != inputs or not _alike(first, other) for other_inputs, other in others):
        raise DifferentError("the schedules at several sizes differ")
    wanted = bounds or _own_bounds(template)
    steps = [[schedule.steps[k] for _, schedule in schedules] for k in range(len(first.steps))]
    of_steps = [[step.graph for step in several] for several in steps]
    kernels = _kernels(template, fit, of_steps, _all_bounds(template, wanted), target)
    if wanted:
        wanted = valid_bounds(Comparison(template, graph_at, target, fit, of_steps, kernels), wanted)
    wanted = _all_bounds(template, wanted)
    if bounds is None:
        _require_within(template, wanted)
    found = _compiled(kernels, steps, target)
    made = tuple(
        (tuple([fit(sizes) for sizes in zip(*(shape for shape, _ in buffers), strict=True)]), buffers[0][1])
        for buffers in zip(*(schedule.made for _, schedule in schedules), strict=True)
    )
    plan = make_plan(first, graphs[0], device, target)
    memory = plan_memory(plan.uses, plan.sizes, first.inputs, first.outputs)
    outputs = tuple(_shifted(number, first.inputs) for number in first.outputs)
    block_of = _blocks(memory, [number - first.inputs for number in first.outputs if number >= first.inputs])
    return General(
        template,
        tuple(template.formulas()),
        wanted,
        inputs,
        made,
        tuple(_launches(first, found, device)),
        block_of,
        outputs,
        Dependencies.of(graphs[0]),
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


def _typical(template: Template) -> Sequence[int]:
    """Sizes that choices are made for: near those of the second graph, or multiples of them where all are small.

    They are the same for all graphs of about these sizes. Where they are quotients of what varies, what they are
    quotients of counts too.
    """
    sizes = [second for _, second in template.examples]
    axes = template.formulas() if template.steps else ()
    linear = [one for one in axes if all(len(names) <= 1 for names, _ in one)]
    longest = max([*sizes, *(value_of(one, sizes) for one in linear)], default=1)
    factor = max(1, _TYPICAL / max(1, longest))
    return template.sizes_of([_near(size * factor) for size in template.own(sizes)])


def _near(size: float) -> int:
    """A size that all sizes near this one have in common: no power of two, as sizes that vary seldom have such factors.

    >>> [_near(size) for size in (0, 3, 197, 256, 350, 400)]
    [2, 4, 260, 260, 260, 520]
    """
    power = 1 << round(math.log2(max(2, size)))
    return power + power // 64


def _magnitudes(template: Template) -> tuple[int, ...]:
    """Powers of two that are not smaller than the sizes of both graphs: bounds are rounded, so that other sizes have
    the same.
    """
    return tuple(1 << (max(ends) - 1).bit_length() for ends in template.examples)


def _own_bounds(template: Template) -> Bounds:
    """The bounds of the sizes that do not follow from others. Raises DifferentError where there are none."""
    own = template.own(range(len(template.examples)))
    bounds = [_bounds(template, number) for number in own]
    least, most = ([one[end] for one in bounds] for end in (0, 1))
    while any(size < _LEAST for size in template.sizes_of(least)):
        least = [size + 1 for size in least]
        if any(a > b for a, b in zip(least, most, strict=True)):
            raise DifferentError("no sizes have two windows along each axis")
    return tuple(zip(least, most, strict=True))


def _all_bounds(template: Template, own: Bounds) -> Bounds:
    """The bounds of all sizes. Raises DifferentError for a quotient of which they are not known."""
    for quotient in template.quotients.values():
        factors = [factor for names, factor in quotient.formula if names]
        if len(factors) > 1 and min(factors) < 0:
            raise DifferentError("a number of windows grows with a size and falls with another")
    ends = [template.sizes_of([one[end] for one in own]) for end in (0, 1)]
    return tuple((min(both), max(both)) for both in zip(*ends, strict=True))


def _bounds(template: Template, number: int) -> tuple[int, int]:
    """The least and the most that a size may be: sizes for which an axis has no element have plans of their own.

    So has one of several that is much larger than those that choices are made for: what is fast for 512 channels of
    7 x 7 takes four times as long as need be for 64 of 56 x 56.
    """
    magnitude = _magnitudes(template)[number]
    least, most = _LEAST, max(_LARGE, 8 * magnitude)
    if len(template.examples) - len(template.quotients) > 1:
        most = min(most, _FAR * max(_typical(template)[number], magnitude))
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


def _require_within(template: Template, bounds: Bounds) -> None:
    """Raises DifferentError where a plan does not serve the second graph of the template, which asks for it."""
    for (_, size), (least, most) in zip(template.examples, bounds, strict=True):
        if not least <= size <= most:
            raise DifferentError(f"what is computed at a size of {size} is not what is computed at {least} to {most}")


def _kernels(
    template: Template, fit: Fit, steps: Sequence[Sequence[UOp]], bounds: Sequence[tuple[int, int]], target: str
) -> list[UOp]:
    """The indexed kernels for all sizes of steps, of which each is given at the fit's points."""
    variables = [
        variable(number, least, max(least, min(typical, most)), most)
        for number, (typical, (least, most)) in enumerate(zip(_typical(template), bounds, strict=True))
    ]
    flat = engine.run_all([graph for several in steps for graph in several], ["indexing", "flatten_addresses"], target)
    count = len(fit.points)
    return [general_kernel(flat[at : at + count], fit, variables) for at in range(0, len(flat), count)]


def _compiled(general: Sequence[UOp], steps: Sequence[Sequence[Step]], target: str) -> list[Kernel]:
    """The kernels of steps for all sizes."""
    # equal kernels may be given different numbers of buffers, some of which they do not read
    named = [(kernel, len(several[0].buffers)) for kernel, several in zip(general, steps, strict=True)]
    different = {name: several[0].graph for name, several in zip(named, steps, strict=True)}
    kernels = [kernel for kernel, _ in different]
    constant = [at_sizes(kernel) for kernel in kernels]
    found = compile_varying(list(different.values()), kernels, constant, target)
    compiled = dict(zip(different, found, strict=True))
    return [compiled[name] for name in named]
