"""Test lines on values: what the left side of a line computes, the right side must compute too.

A line that says its rule again in other letters holds for a wrong rule as well. On values it does not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rulegrad._core import Program, UOp
from rulegrad.errors import RulegradError
from rulegrad.interpreter.elements import EFFECTS, Memory
from rulegrad.interpreter.nodes import STORAGE, extent
from rulegrad.ir.dtype import as_dtype
from rulegrad.workbench.diagnosis.comparing import Comparison
from rulegrad.workbench.proof.derivatives import gradient_functions, test_gradient_line
from rulegrad.workbench.proof.outcome import NoMeaningError, elements, outcome
from rulegrad.workbench.proof.testing import Allowed, difference, sample_memory
from rulegrad.workbench.rule_tests import STATEMENTS, Case, RuleTests

_SPREAD = 256  # values of each scalar variable that are computed at once; where all are scalars, these are enough
_SPREAD_READS = 64  # where that is done an element at a time
_ROUNDS = 3  # contents of memory that both sides are computed on; one where statements run an element at a time
_ROUNDS_OF_FEW = 12  # of memory with so few elements that a sum or an extreme may hide what is wrong
_FEW = 64
_MANY = 1 << 18  # elements, of which one round has values of all kinds at many places
_MOST_ROUNDS = 40  # where a side has no value for some contents, an index out of bounds say

#: Why a line is not computed on values, where that is not a fault of the line.
FAILS = "it says where the rule does not fire"
DEFINITION = "it says what a function gives, which is a definition"


@dataclass(frozen=True, slots=True)
class OnValues:
    """The result of a test line on values. how: where both sides differ, or why they were not computed."""

    kind: Literal["agree", "differ", "left out"]
    how: str = ""


_AGREE = OnValues("agree")


def on_values(tests: RuleTests, case: Case, result: UOp | None = None) -> OnValues:
    """Whether both sides of a test line compute the same, on sampled values.

    result: of the rule, where that is not to be found out.

    The values are signs, fractions, large and tiny numbers, infinities, nan and any bits, by dtype. Floats have to be
    equal to the bit, or as near as the rule's `ulp` says. A line of a gradient function is compared with the slope
    of what it is about. Lines of rules that are unsound, or take something for granted, are left out, as are those
    of other functions. What a rule gives in a line `test fires` is compared in any case but an unsound rule's.
    """
    if case.test.right is None and not case.test.fires:
        return OnValues("left out", FAILS)
    if case.function:
        return _of_function(tests, case)
    for clause in case.rule.clauses:
        if clause.keyword == "unsound" or (clause.keyword == "assumes" and not case.test.fires):
            return OnValues("left out", f"the rule {clause.keyword} {clause.text or ', '.join(clause.names)}")
    try:
        left = tests.left(case)
        right = result
        if right is None:
            right = tests.applied(case, left) if case.test.fires else tests.right(case, left)
        if right is None:
            return OnValues("left out", "the rule does not fire")
        known = {loop.attrs["id"] for loop in left.ranges}
        if opened := [loop for loop in right.ranges if loop.attrs["id"] not in known]:
            return OnValues("differ", f"leaves loops open that were not: {', '.join(x.describe() for x in opened)}")
        if case.test.fires and as_dtype(left.dtype).kind == "void":
            return _of_kernel(tests.program(case), left, right)
        return _compared(tests, case, left, right)
    except RulegradError as error:
        return OnValues("left out", error.problem)


def _of_kernel(program: Program, left: UOp, right: UOp) -> OnValues:
    """Kernels and programs, by the interpreters of these, which know work-groups and instructions on matrices.

    Reductions among statements are made statements.
    """
    if any(n.op == "REDUCE" for n in right.toposort()) and any(n.op == "AFTER" for n in right.toposort()):
        right, _ = program.rewrite(STATEMENTS, right)
    comparison = Comparison(left)
    kind = comparison.different(comparison.meanings(left), right)
    return OnValues("differ", f"computes something else from samples of kind {kind}") if kind else _AGREE


def _of_function(tests: RuleTests, case: Case) -> OnValues:
    if case.function not in gradient_functions(tests.files):
        return OnValues("left out", DEFINITION)
    places, problem = test_gradient_line(tests, case)
    if problem:
        return OnValues("differ", problem)
    return _AGREE if places else OnValues("left out", "its node has no slope in float64")


def _compared(tests: RuleTests, case: Case, left: UOp, right: UOp) -> OnValues:
    if right.shape not in (left.shape, ()):
        return OnValues("differ", f"has the shape {right.shape}, not {left.shape}")
    measure = tests.measured(case, left)
    graphs = [left, right] if measure is None else [left, right, measure]
    why, done, rounds = "", 0, _rounds_of(graphs)
    for nodes, loops, memory in _rounds(graphs, random.Random(case.name)):
        try:
            wanted, found, *size = (outcome(node, memory, loops) for node in nodes)
        except NoMeaningError as error:
            why = why or str(error)
            continue
        allowed = Allowed(case.ulp(), size[0].arrays[0] if size else None)
        differs = difference(nodes[0], nodes[1], found, wanted, memory, allowed)
        if differs is not None:
            return OnValues("differ", differs.values)
        done += 1
        if done >= rounds or (nodes != graphs and all(not leaf.shape for leaf in _leaves(graphs))):
            break
    return _AGREE if done else OnValues("left out", why)


def _rounds(graphs: Sequence[UOp], r: random.Random) -> Iterator[tuple[list[UOp], tuple[UOp, ...], Memory]]:
    """The graphs, the loops that are open in them, and contents of memory: of scalars first, many values at once."""
    loops = tuple(dict.fromkeys(loop for graph in graphs for loop in graph.ranges))
    if all(not g.shape and as_dtype(g.dtype).kind != "void" and _only_reads(g) for g in graphs):
        count = _SPREAD if all(map(_is_plain, graphs)) else _SPREAD_READS
        counter = UOp("RANGE", (UOp.const(count, "index"),), id=1 << 20, kind="test")
        spread = [_spread(graph, counter) for graph in graphs]
        if spread != list(graphs):
            yield spread, (*loops, counter), sample_memory(spread, r, apart=True)
    for _ in range(_MOST_ROUNDS):
        yield list(graphs), loops, sample_memory(graphs, r)


def _rounds_of(graphs: Sequence[UOp]) -> int:
    """How many contents of memory both sides are computed on; where there is no memory, all would be the same."""
    leaves = _leaves(graphs)
    if not leaves:
        return 1
    count = sum(map(elements, leaves))
    return _ROUNDS_OF_FEW if count <= _FEW else _ROUNDS if all(map(_is_plain, graphs)) and count < _MANY else 1


def _leaves(graphs: Sequence[UOp]) -> set[UOp]:
    """The memory that some graphs name."""
    return {node for graph in graphs for node in graph.toposort() if node.op in STORAGE}


def _is_plain(graph: UOp) -> bool:
    return not any(node.op in EFFECTS for node in graph.toposort())


def _only_reads(graph: UOp) -> bool:
    return not any(node.op in EFFECTS and node.op != "LOAD" for node in graph.toposort())


def _spread(graph: UOp, counter: UOp) -> UOp:
    """The graph with an element of an array in the place of each scalar variable."""
    made: dict[UOp, UOp] = {}
    for node in graph.toposort():
        if node.op in STORAGE and not node.shape:
            made[node] = UOp("INDEX", (node.replace(shape=(extent(counter),)), counter))
        else:
            made[node] = node.replace([made[source] for source in node.src])
    return made[graph]
