"""For which sizes the kernels of a template are right.

Rules decide by sizes: that a slice lies within one of two parts, that a place is never in the padding. Kernels for all
sizes are made from graphs of a few, so these decisions have to be the same at all others. They are compared at the
corners of the bounds: what is compared there are sums of sizes with constants, which are least and largest at a corner.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from rulegrad import engine
from rulegrad.compile.passes import lower
from rulegrad.errors import RulegradError
from rulegrad.ir import UOp
from rulegrad.ir.substitution import substituted

from .formulas import Fit, NoFormulaError, is_prime
from .kernels import at_point, at_sizes
from .templates import DifferentError

Bounds: TypeAlias = "tuple[tuple[int, int], ...]"  # the least and the most of each size
Point: TypeAlias = "tuple[int, ...]"

_ALL_CORNERS: Final = 3  # variables of which all corners are looked at; of more, those where one is unlike the others


@dataclass(frozen=True, slots=True)
class Computation:
    """What is computed, at the points of a fit, and what the rules made of it."""

    graph: Callable[[Point], UOp]  #: numbered, at other sizes; raises GraphError where these are not possible
    target: str
    fit: Fit
    steps: Sequence[Sequence[UOp]]  #: the kernels of the schedule, each at the fit's points
    kernels: Sequence[UOp]  #: the same for all sizes, with flat addresses

    def is_possible(self, point: Point) -> bool:
        """Whether there is such a graph."""
        try:
            self.graph(point)
        except RulegradError:
            return False
        return True

    def is_right(self, moved: Sequence[UOp], point: Point) -> bool:
        """Whether the kernels for all sizes compute, at these, what the graph is.

        moved: the graphs at the fit's points as `moved` gives them. How values are put together into kernels may be
        another choice at these sizes; all that is decided before and after that has to be the same.
        """
        try:
            if _moved([self.graph(point)], self.target)[0] != at_point(moved, self.fit, point):
                return False
            steps = [at_point(several, self.fit, point) for several in self.steps]
        except (DifferentError, NoFormulaError, RulegradError):
            return False
        of_sizes = engine.run_all(steps, ["indexing", "flat"], self.target)
        general = [_on_parameters_of(at_sizes(k, point), one) for k, one in zip(self.kernels, of_sizes, strict=True)]
        passes = engine.pipeline("kernel")
        both = [*of_sizes, *general]
        ready = lower(both, both, passes[passes.index("indexing") + 1 :], self.target, "kernel")
        count = len(steps)
        return all(_closed(one) == _closed(two) for one, two in zip(ready[:count], ready[count:], strict=True))


def _moved(graphs: Sequence[UOp], target: str) -> list[UOp]:
    """Graphs after the passes that do not ask what it costs to compute a value."""
    passes = engine.pipeline("schedule")
    return engine.run_all(graphs, passes[passes.index("number") + 1 : passes.index("fuse")], target)


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


def valid_bounds(computation: Computation, bounds: Bounds) -> Bounds:
    """Bounds within these for which the kernels are right. Raises DifferentError where there are none."""
    fit = computation.fit
    moved = _moved([computation.graph(point) for point in fit.points], computation.target)
    known: dict[Point, bool] = {}

    def is_right(point: Point) -> bool:
        if point not in known:
            known[point] = computation.is_right(moved, point)
        return known[point]

    inside = fit.points[0]
    boxes = (bounds, _of_primes(bounds))
    corners = [[_nearest(computation.is_possible, corner, inside) for corner in _corners(box)] for box in boxes]
    if len(bounds) == 1:
        ends = zip(*corners, strict=True)
        (least,), (most,) = (one if is_right(one) else _nearest(is_right, prime, inside) for one, prime in ends)
        if not bounds[0][0] <= least <= most <= bounds[0][1]:  # the fit's points need not be within them
            raise DifferentError(f"what is computed at a size of {inside[0]} is not what is computed at {bounds[0]}")
        return ((least, most),)
    for box, points in zip(boxes, corners, strict=True):
        if all(map(is_right, points)):
            return box
    wrong = next(point for point in corners[1] if not is_right(point))
    raise DifferentError(f"what is computed at sizes {inside} is not what is computed at {wrong}")


def _of_primes(bounds: Bounds) -> Bounds:
    """Bounds that are primes, as the fit's points are: no size divides or is equal to another at these."""
    taken: set[int] = set()

    def first(numbers: range) -> int:
        found = next((n for n in numbers if n not in taken and is_prime(n)), numbers[0])
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
