"""For which sizes the kernels of a template are right.

Rules decide by sizes: that a slice lies within one of two parts, that a place is never in the padding. Kernels for all
sizes are made from graphs of a few, so these decisions have to be the same at all others. They are compared at the
corners of the bounds: what is compared there are sums of sizes with constants, which are least and largest at a corner.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from rulegrad import engine
from rulegrad.compile.passes import lower
from rulegrad.errors import RulegradError
from rulegrad.ir import UOp
from rulegrad.ir.substitution import substituted

from .formulas import Fit, NoFormulaError, primes_in
from .kernels import at_point, at_sizes
from .pairs import DifferentError
from .templates import Template

Bounds: TypeAlias = "tuple[tuple[int, int], ...]"  # the least and the most of each size
Point: TypeAlias = "tuple[int, ...]"
GraphAt: TypeAlias = Callable[[Point], tuple[UOp, list[UOp]]]  # numbered, and its buffers by slot

_ALL_CORNERS: Final = 3  # variables of which all corners are looked at; of more, those where one is unlike the others


def is_possible(graph_at: GraphAt, point: Point) -> bool:
    """Whether there is a graph of these sizes."""
    try:
        graph_at(point)
    except RulegradError:
        return False
    return True


@dataclass(slots=True)
class Comparison:
    """A comparison of kernels at some sizes with those for all, which were made of graphs at the points of a fit."""

    template: Template
    graph_at: GraphAt  #: raises GraphError where sizes are not possible
    target: str
    fit: Fit
    steps: Sequence[Sequence[UOp]]  #: the kernels of the schedule, each at the fit's points
    kernels: Sequence[UOp]  #: the same for all sizes, with flat addresses
    moved: list[UOp] = field(init=False)  #: the graphs at the fit's points, before values are put together into kernels

    def __post_init__(self) -> None:
        self.moved = self._moved(self.fit.points)

    def is_right(self, point: Point) -> bool:
        """Whether the kernels for all sizes compute, at these, what the graph is.

        How values are put together into kernels may be another choice at these sizes; all that is decided before and
        after that has to be the same.
        """
        try:
            if self._moved([point])[0] != at_point(self.moved, self.fit, point):
                return False
            steps = [at_point(several, self.fit, point) for several in self.steps]
        except (DifferentError, NoFormulaError, RulegradError):
            return False
        of_sizes = engine.run_all(steps, ["indexing", "flatten_addresses"], self.target)
        general = [_on_parameters_of(at_sizes(k, point), one) for k, one in zip(self.kernels, of_sizes, strict=True)]
        passes = engine.pipeline("kernel")
        both = [*of_sizes, *general]
        ready = lower(both, both, passes[passes.index("indexing") + 1 :], self.target, "kernel")
        count = len(steps)
        return all(_closed(one) == _closed(two) for one, two in zip(ready[:count], ready[count:], strict=True))

    def _moved(self, points: Sequence[Point]) -> list[UOp]:
        """The graphs at points after the passes that do not ask what it costs to compute a value."""
        passes = engine.pipeline("schedule")
        graphs = [self.graph_at(point)[0] for point in points]
        return engine.run_all(
            graphs, passes[passes.index("number_buffers") + 1 : passes.index("mark_fused_attention")], self.target
        )


def _on_parameters_of(kernel: UOp, other: UOp) -> UOp:
    """A kernel with the parameters of another: those for all sizes have room for the largest."""
    of_slot = {node.attrs["slot"]: node for node in other.toposort("PARAM")}
    return substituted(kernel, {node: of_slot.get(node.attrs["slot"], node) for node in kernel.toposort("PARAM")})


def _closed(kernel: UOp) -> UOp:
    """A kernel without the loops of one turn among those that END closes."""
    ends = {
        node: node.replace([node.src[0], *(loop for loop in node.src[1:] if loop.op != "CONST")])
        for node in kernel.toposort("END")
        if any(loop.op == "CONST" for loop in node.src[1:])
    }
    return substituted(kernel, ends) if ends else kernel


def valid_bounds(comparison: Comparison, bounds: Bounds) -> Bounds:
    """Bounds within these for which the kernels are right. Raises DifferentError where there are none.

    Bounds and points are those of the sizes that do not follow from others.
    """
    sizes_of = comparison.template.sizes_of
    is_right = functools.cache(lambda point: comparison.is_right(sizes_of(point)))
    inside = comparison.template.own(comparison.fit.points[0])

    def ends_of(box: Bounds) -> list[Point]:
        return [_nearest(lambda p: is_possible(comparison.graph_at, sizes_of(p)), one, inside) for one in _corners(box)]

    if comparison.template.quotients:  # and other remainders
        within = tuple((a + 1, b - 1) for a, b in bounds)
        if not all(map(is_right, ends_of(within))):
            raise DifferentError(f"what is computed at sizes {inside} is not what is computed at all within {within}")
    ends = ends_of(bounds)
    if len(bounds) == 1:
        if not all(map(is_right, ends)):
            pairs = zip(ends, ends_of(_of_primes(bounds)), strict=True)
            ends = [end if is_right(end) else _nearest(is_right, prime, inside) for end, prime in pairs]
        (least,), (most,) = ends
        if not bounds[0][0] <= least <= most <= bounds[0][1]:  # the fit's points need not be within them
            raise DifferentError(f"what is computed at a size of {inside[0]} is not what is computed at {bounds[0]}")
        return ((least, most),)
    if all(map(is_right, ends)):
        return bounds
    primes = _of_primes(bounds)
    for end in ends_of(primes):
        if not is_right(end):
            raise DifferentError(f"what is computed at sizes {inside} is not what is computed at {end}")
    return primes


def _of_primes(bounds: Bounds) -> Bounds:
    """Bounds that are primes, as the fit's points are: no size divides or is equal to another at these."""
    taken: set[int] = set()

    def first(numbers: range) -> int:
        found = next(primes_in(numbers, taken), numbers[0])
        taken.add(found)
        return found

    return tuple((first(range(a, b + 1)), first(range(b, a - 1, -1))) for a, b in bounds)


def _corners(bounds: Bounds) -> Iterator[Point]:
    count = len(bounds)
    sides = itertools.product((0, 1), repeat=count)
    for corner in sides:
        if count <= _ALL_CORNERS or sum(corner) in (0, 1, count - 1, count):
            yield tuple(ends[side] for ends, side in zip(bounds, corner, strict=True))


def _nearest(holds: Callable[[Point], bool], end: Point, inside: Point) -> Point:
    """The point nearest to an end, on the line from a point for which something holds, for which it holds too."""
    if holds(end):
        return end
    low, high = 0, max(abs(a - b) for a, b in zip(end, inside, strict=True))
    parts = high
    while high - low > 1:
        part = (low + high) // 2
        if holds(_between(inside, end, part, parts)):
            low = part
        else:
            high = part
    return _between(inside, end, low, parts)


def _between(inside: Point, end: Point, part: int, parts: int) -> Point:
    return tuple(a + (b - a) * part // parts for a, b in zip(inside, end, strict=True))
