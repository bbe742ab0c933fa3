"""One trace for all sizes: from traces of a function at a few sizes to a capture that is replayed at any.

A trace at the largest sizes and one between give the template of each computation, and the formulas of all else that
depends on the sizes. Traces at the smallest sizes and at those of the call have to be the same at theirs.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rulegrad.capture.captured import Captured, Part
from rulegrad.capture.outcome import Outcome
from rulegrad.capture.sources import Source
from rulegrad.capture.variables import LEAST, Variable
from rulegrad.compile.plans import Plan
from rulegrad.compile.realize import Found, plan_of
from rulegrad.compile.varying import OFTEN, filled_buffer, general_of
from rulegrad.compile.varying.explanations import Quotient, formula_of, rounded_sizes, with_quotients
from rulegrad.compile.varying.formulas import Formula, value_of
from rulegrad.compile.varying.pairs import DifferentError
from rulegrad.compile.varying.plans import General
from rulegrad.compile.varying.templates import generalised, instance, matched
from rulegrad.errors import CaptureError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.ir.substitution import substituted
from rulegrad.runtime.buffer import Buffer

#: Sizes between bounds at which a function is looked at.
_BETWEEN: Final = (211, 223, 227, 229, 233, 239, 23, 29, 31, 37, 41, 43, 7, 11, 13, 5, 3)
#: By how much bounds are closer than those that are declared; the least that is not: a window has to fit.
_CLOSER: Final = (0, 1, 2)
_GREATER: Final = (*_CLOSER, 6, 14, 30, 62, 126)
_MOST_KEPT: Final = 64  # sizes whose plans are kept

#: What a number of a computation may be of a formula's value.
_FUNCTIONS: Final[tuple[Callable[[float], float], ...]] = (
    lambda v: v, lambda v: 1 / v, lambda v: -v, math.sqrt, lambda v: 1 / math.sqrt(v),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Varying:
    """A number of what is captured that depends on the sizes."""

    formula: Formula


@dataclass(frozen=True, slots=True)
class Scalar:
    """A constant of a computation that depends on the sizes."""

    formula: Formula
    function: Callable[[float], float]
    dtype: Any

    def at(self, sizes: Sequence[int]) -> float:
        return self.function(value_of(self.formula, sizes))


def between(variable: Variable) -> list[int]:
    """Sizes within the bounds that no layer has by chance."""
    least, most = max(LEAST, variable.least), variable.most
    several = (least + (most - least) * part // 16 | 1 for part in (9, 5, 11, 7))
    return [size for size in dict.fromkeys((*_BETWEEN, *several)) if least < size < most]


def _independent(variables: Sequence[Variable]) -> list[tuple[int, int]]:
    """Two sizes of each variable: no difference is the sum or a multiple of others, which would be taken for it."""
    found: list[tuple[int, int]] = []
    for one in variables:
        pairs = list(itertools.combinations(between(one), 2))
        found.append(next((pair for pair in pairs if _is_independent([*found, pair])), pairs[0]))
    return found


def _is_independent(pairs: Sequence[tuple[int, int]]) -> bool:
    steps = [second - first for first, second in pairs]
    sums = [a + sign * b for a, b in itertools.combinations(steps, 2) for sign in (1, -1)]
    return not any(one % other == 0 for one, other in itertools.permutations(steps, 2)) and not any(
        one % step == 0 for one in sums for step in steps
    )


class Looks:
    """Outcomes of a function at several sizes: two between the bounds, those near them, and last those of the call."""

    def __init__(self, variables: Sequence[Variable], sizes: tuple[int, ...], declared: bool) -> None:
        """declared: the bounds are the user's."""
        self.variables, self.sizes, self._declared = variables, sizes, declared
        self.points: list[tuple[int, ...]] = []
        self.outcomes: list[Outcome] = []
        self.bounds = [(max(LEAST, one.least), one.most) for one in variables]
        #: the sizes of the first two looks, from which formulas are made, and those that follow from others
        self.pairs: list[tuple[int, int]] = []
        self.quotients: dict[int, Quotient] = {}

    def sizes_of(self, own: Sequence[int]) -> tuple[int, ...]:
        """The sizes of the variables, and those that follow from them."""
        return with_quotients(own, self.quotients)

    def add(self, point: tuple[int, ...], outcome: Outcome) -> None:
        """Adds the outcome at these sizes."""
        self.points.append(point)
        self.outcomes.append(outcome)

    def look(self, look: Callable[[tuple[int, ...], str], Outcome]) -> None:
        """Looks at what the function does at all sizes but those of the call.

        Something may vanish at a bound itself, as a part of an axis does that is all of it or one element: then the
        bounds are closer. Raises DifferentError where it is not one computation.
        """
        for point in zip(*_independent(self.variables), strict=True):
            self.add(point, look(point, self._told(point)))
        self.pairs = list(zip(*self.points, strict=True))
        one, other = (outcome.parts() for outcome in self.outcomes)
        for device in (device for device in one if device in other):
            self.pairs, found = rounded_sizes(one[device][1], other[device][1], self.pairs)
            self.quotients |= found
        for side in (1, 0):
            error: DifferentError | None = None
            for step in _CLOSER if side or self._declared else _GREATER:
                bounds = [pair[side] + step * (1 - 2 * side) for pair in self.bounds]
                if not (side or self._declared):
                    bounds = [max(LEAST, min(both)) for both in zip(bounds, self.sizes, strict=True)]
                point = tuple(bounds)
                try:
                    outcome = look(point, self._told(point))
                    self.add(point, outcome)
                    self.check()
                    self.bounds = [
                        (least, bound) if side else (bound, most)
                        for bound, (least, most) in zip(bounds, self.bounds, strict=True)
                    ]
                    break
                except DifferentError as problem:
                    error = error or problem
                    del self.points[2 + (1 - side) :], self.outcomes[2 + (1 - side) :]
            else:
                assert error is not None
                raise error

    def check(self) -> None:
        """Raises DifferentError where the last look is another computation than the first two."""
        facts = [_fixed(outcome) for outcome in self.outcomes]
        for name, fact in facts[-1].items():
            if fact != facts[0][name]:
                raise DifferentError(f"{name} at {self.told(0)} are not those at {self.told(-1)}")
        self.shapes(), self.steps()
        for device in facts[0]["computed results"]:
            Computation(self, device)

    def shapes(self) -> Any:
        """The shapes of results. Raises DifferentError."""
        return self.common([[output.shape for output in outcome.outputs] for outcome in self.outcomes])

    def steps(self) -> Any:
        """The movements of results that are views. Raises DifferentError."""
        return self.common([[recipe.steps for recipe in outcome.recipes] for outcome in self.outcomes])

    def _told(self, point: Sequence[int]) -> str:
        return ", ".join(f"{one.name} = {size}" for one, size in zip(self.variables, point, strict=True))

    def told(self, look: int) -> str:
        """`t = 5, n = 2`."""
        return self._told(self.points[look])

    def formula(self, numbers: Sequence[int]) -> Formula:
        """The formula that has these values at the looks. Raises DifferentError."""
        if len(set(numbers)) == 1:
            return (((), numbers[0]),) if numbers[0] else ()
        found = formula_of((numbers[0], numbers[1]), self.pairs)
        for look, number in enumerate(numbers):
            if value_of(found, self.sizes_of(self.points[look])) != number:
                raise DifferentError(f"a size is {number} at {self.told(look)}, where others say it were another")
        return found

    def common(self, trees: Sequence[Any]) -> Any:
        """Nested tuples, lists and dicts with formulas in the place of numbers that vary. Raises DifferentError."""
        first = trees[0]
        if all(type(tree) is type(first) and tree == first for tree in trees):
            return first
        if all(type(tree) is int for tree in trees):
            return Varying(self.formula(trees))
        if any(type(tree) is not type(first) for tree in trees):
            raise DifferentError(f"it has {first!r} at {self.told(0)} and {trees[-1]!r} at {self.told(len(trees) - 1)}")
        if isinstance(first, dict) and all(list(tree) == list(first) for tree in trees):
            return {key: self.common([tree[key] for tree in trees]) for key in first}
        if isinstance(first, (tuple, list)) and all(len(tree) == len(first) for tree in trees):
            parts = [self.common(parts) for parts in zip(*trees, strict=True)]
            return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
        raise DifferentError(f"it has {first!r} at {self.told(0)} and {trees[-1]!r} at {self.told(len(trees) - 1)}")


def filled(tree: Any, sizes: Sequence[int]) -> Any:
    """A tree of `common` at some sizes."""
    if isinstance(tree, Varying):
        return value_of(tree.formula, sizes)
    if isinstance(tree, dict):
        return {key: filled(part, sizes) for key, part in tree.items()}
    if isinstance(tree, (tuple, list)):
        parts = [filled(part, sizes) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return tree


class Computation:
    """The computation on one device, at all sizes."""

    def __init__(self, looks: Looks, device: str) -> None:
        """Raises DifferentError where the looks are not one computation."""
        graphs = [outcome.parts()[device][1] for outcome in looks.outcomes]
        self.device = device
        self.template = generalised(graphs[0], graphs[1], variables=looks.pairs, quotients=looks.quotients)
        matches = []
        for look, (point, several) in enumerate(zip(looks.points, graphs, strict=True)):
            match = matched(self.template, several, point)
            if match is None:
                generalised(graphs[0], several)  # tells where they differ
                raise DifferentError(f"the computation at {looks.told(look)} is not that at {looks.told(0)}")
            matches.append(match)
        self.scalars = tuple(
            _scalar(looks, dtype, [match.scalars[k] for match in matches])
            for k, dtype in enumerate(self.template.scalars)
        )
        self.buffers = matches[-1].buffers  # ids, of the look at the sizes of the call
        for numbers in zip(*(match.buffers for match in matches), strict=True):
            _require_same(looks, numbers)
        self._general: General | None = None

    def compile(self, bounds: Sequence[tuple[int, int]]) -> None:
        """Makes kernels for all sizes within the bounds, if there can be any."""
        if self.template.formulas() or self.template.scalars:
            self._general = general_of(self.template, self.device, tuple(bounds))

    def at(self, sizes: tuple[int, ...], own: bool) -> tuple[Plan, list[int | Buffer]]:
        """The plan, and what it reads: numbers of the template's buffers, or constants. own: made for these sizes."""
        general = self._general
        if own or general is None or not general.serves(sizes):
            plan, numbers = plan_of(self.graphs(sizes), self.device)
            return plan, [self._input(number - 1, sizes) for number in numbers]
        values = sizes or (0,)
        given = [self._input(number, sizes) for number in general.inputs]
        return general.plan(sizes, self.device), [*given, filled_buffer(values, (len(values),), "int64", self.device)]

    def graphs(self, sizes: tuple[int, ...]) -> list[UOp]:
        """At these sizes, with BUFFERs that are numbered from 1."""
        return instance(self.template, sizes, self.device)

    def told(self, sizes: tuple[int, ...]) -> tuple[UOp, ...]:
        """The same as errors tell of them: numbers that follow from the sizes are constants, not buffers."""
        root = UOp("SINK", tuple(self.graphs(sizes)))
        numbers = {}
        for node in root.toposort("BUFFER"):
            place = node.attrs["id"] - 1 - self.template.buffers
            if place >= 0:
                numbers[node] = UOp.const(self.scalars[place].at(sizes), node.dtype)
        return substituted(root, numbers).src

    def _input(self, number: int, sizes: tuple[int, ...]) -> int | Buffer:
        if number < self.template.buffers:
            return number
        scalar = self.scalars[number - self.template.buffers]
        return filled_buffer(scalar.at(sizes), (), scalar.dtype, self.device)


def _scalar(looks: Looks, dtype: Any, values: Sequence[Any]) -> Scalar:
    """A constant that varies, as a function of a formula. Raises DifferentError."""
    kind = as_dtype(dtype).numpy.type
    if as_dtype(dtype).kind != "bool" and all(isinstance(value, (int, float)) for value in values):
        inverses: tuple[Callable[[float], float], ...] = (
            lambda v: v, lambda v: 1 / v, lambda v: -v, lambda v: v * v, lambda v: 1 / (v * v),
        )  # fmt: skip
        for function, inverse in zip(_FUNCTIONS, inverses, strict=True):
            try:
                formula = formula_of(tuple(round(inverse(value)) for value in values[:2]), looks.pairs)  # type: ignore[arg-type]
                if all(
                    kind(function(value_of(formula, looks.sizes_of(point)))) == kind(value)
                    for point, value in zip(looks.points, values, strict=True)
                ):
                    return Scalar(formula, function, dtype)
            except (DifferentError, ArithmeticError, ValueError):
                continue
    raise DifferentError(f"a number is {values[0]!r} at {looks.told(0)} and {values[1]!r} at {looks.told(1)}")


def _require_same(looks: Looks, numbers: Sequence[int]) -> None:
    """Raises DifferentError for a buffer that is not the same tensor, or the same constant, in all looks."""
    sources = [_settled(outcome, outcome.source(n)) for outcome, n in zip(looks.outcomes, numbers, strict=True)]
    first = sources[-1]
    for source in sources[:-1]:
        if source.kind != first.kind:
            raise DifferentError("it reads other tensors at other sizes")
        if source.kind == "constant":
            one, other = source.which, first.which
            if one.shape != other.shape or one.numpy().tobytes() != other.numpy().tobytes():
                raise DifferentError("values of the host that it computes with depend on a size")
        elif source != first:
            raise DifferentError("it reads other tensors at other sizes")


def _settled(outcome: Outcome, source: Source) -> Source:
    """With a tensor from outside in the place of its number, which looks may differ in."""
    if source.kind not in ("tensor", "gradient"):
        return source
    return Source(source.kind, _where(outcome, source.which))


def _where(outcome: Outcome, number: int) -> int | tuple[str, int]:
    count = len(outcome.arguments)
    return number if number < count else ("outside", id(outcome.outside[number - count]))


def _fixed(outcome: Outcome) -> Any:
    """The parts of an outcome that have to be the same in all looks, by what they are called in messages."""
    return {
        "results": [tuple(output)[1:] for output in outcome.outputs],
        "views": [
            (one.kind, one.which if one.kind == "made" else _where(outcome, one.which), one.detached, one.obstacle)
            for one in outcome.recipes
        ],
        "changes of tensors": [(_where(outcome, one.tensor), one.output) for one in outcome.writes],
        "gradients": [(_where(outcome, one.tensor), one.output) for one in outcome.gradients],
        "tensors that the host makes": [
            [(tensor.shape, str(tensor.dtype)) for tensor in called] for called in outcome.trace.called
        ],
        "computed results": {device: numbers for device, (numbers, _) in outcome.parts().items()},
        "the rest of the result": outcome.rebuild([f"tensor {k}" for k in range(len(outcome.recipes))]),
    }


class GeneralCapture:
    """A function as it was traced for arguments of one structure and any sizes within bounds."""

    def __init__(self, looks: Looks, formulas: Sequence[Formula], captured: Callable[[Any], Captured]) -> None:
        """formulas: of the numbers in the arguments that vary. Raises DifferentError for looks that differ."""
        looks.check()
        self.variables, self._formulas, self._sizes = looks.variables, formulas, looks.points[-1]
        self.bounds = looks.bounds
        self._shapes, self._steps, self._sizes_of = looks.shapes(), looks.steps(), looks.sizes_of
        last = looks.outcomes[-1]
        self._computations = [Computation(looks, device) for device in last.parts()]
        for one in self._computations:
            one.compile(self.bounds)
        sources = [[last.source(number) for number in one.buffers] for one in self._computations]
        found = {one.device: one for one in self._computations}

        def find(graphs: Sequence[UOp], device: str) -> Found:
            plan, inputs = found[device].at(self._sizes_of(self._sizes), own=False)
            last.trace.constants.update(one.id for one in inputs if not isinstance(one, int))
            buffers = [Buffer.numbered(found[device].buffers[one]) if isinstance(one, int) else one for one in inputs]
            return Found(plan, buffers)

        self.first = captured(find)
        self._sources = sources
        self._own = [{part.sources[k]: heir for k, heir in part.own.items()} for part in self.first.parts]
        self._targets = [{part.sources[k] for k in part.targets} for part in self.first.parts]
        self._at: OrderedDict[tuple[int, ...], Captured] = OrderedDict({self._sizes: self.first})
        self._uses: dict[tuple[int, ...], int] = {}
        self._total = 0

    # ---- as of a capture for one structure ----

    @property
    def guards(self) -> Any:
        return self.first.guards

    @property
    def same(self) -> Any:
        return self.first.same

    @property
    def objects(self) -> Sequence[Any]:
        return self.first.objects

    @objects.setter
    def objects(self, objects: Sequence[Any]) -> None:
        self.first.objects = objects

    def obstacle(self, arguments: Sequence[Any], roots: Sequence[Any]) -> str:
        """Why a replay would not be a call, as a sentence; "" where it would."""
        return self.first.obstacle(arguments, roots)

    def replay(self, arguments: Sequence[Any], called: Sequence[list[Any]] | None = None) -> Any:
        """The result of the call that was traced."""
        return self.first.replay(arguments, called)

    # ---- sizes ----

    def sizes(self, numbers: Sequence[int]) -> tuple[int, ...] | None:
        """The values of the variables with which the arguments have these numbers; None where there are none."""
        found: list[int] = [0] * len(self.variables)
        for formula, number in zip(self._formulas, numbers, strict=True):
            if len(formula) == 1 and formula[0][1] == 1 and len(formula[0][0]) == 1:
                found[formula[0][0][0]] = number
        sizes = tuple(found)
        if any(value_of(formula, sizes) != number for formula, number in zip(self._formulas, numbers, strict=True)):
            return None
        inside = all(least <= size <= most for size, (least, most) in zip(sizes, self.bounds, strict=True))
        return sizes if inside else None

    def at(self, sizes: tuple[int, ...]) -> Captured:
        """The capture at these sizes; where they are used often, with kernels of their own."""
        self._total += 1
        uses = self._uses[sizes] = self._uses.get(sizes, 0) + 1
        found = self._at.get(sizes)
        becomes_own = uses == OFTEN and 2 * uses >= self._total
        if found is None or becomes_own:
            found = self._at[sizes] = self._made(sizes, becomes_own)
            while len(self._at) > _MOST_KEPT:
                gone, _ = self._at.popitem(last=False)
                self._uses.pop(gone, None)
        self._at.move_to_end(sizes)
        return found

    def _made(self, of_variables: tuple[int, ...], own: bool) -> Captured:
        new, sizes = copy.copy(self.first), self._sizes_of(of_variables)
        new.parts = [self._part(number, sizes, own) for number in range(len(self._computations))]
        shapes, steps = filled(self._shapes, sizes), filled(self._steps, sizes)
        new.outputs = [one._replace(shape=shape) for one, shape in zip(self.first.outputs, shapes, strict=True)]
        new.recipes = [one._replace(steps=its) for one, its in zip(self.first.recipes, steps, strict=True)]
        new._products, new._native, new._learned = {}, None, set()
        return new

    def _part(self, number: int, sizes: tuple[int, ...], own: bool) -> Part:
        computation, first = self._computations[number], self.first.parts[number]
        plan, inputs = computation.at(sizes, own)
        known = self._sources[number]
        sources = tuple(known[one] if isinstance(one, int) else Source("constant", one) for one in inputs)
        own_places = {k: self._own[number][one] for k, one in enumerate(sources) if one in self._own[number]}
        targets = tuple(k for k, one in enumerate(sources) if one in self._targets[number])
        part = first._replace(plan=plan, sources=sources, own=own_places, targets=targets)
        if not plan.dependencies.words and not self.first._tracked:
            return part  # nobody looks at its graphs
        graphs = computation.told(sizes)
        nodes = {node.attrs["id"]: node for node in UOp("SINK", graphs).toposort("BUFFER")}
        read = tuple(nodes[one + 1] if isinstance(one, int) else one.uop for one in inputs)
        return part._replace(graphs=graphs, inputs=read)


def shown(error: DifferentError, looks: Looks, name: str) -> CaptureError:
    """The error of a function that is not the same computation at all sizes."""
    told = "; ".join(looks.told(look) for look in range(len(looks.points)))
    return CaptureError(
        f"jit: `{name}` is not one computation at all sizes that `dynamic` allows (looked at for {told}): {error}. Let "
        "tensors take the place of what branches on a size, declare closer bounds, or leave that axis out of "
        "`dynamic`"
    )
