"""Rules that give gradients: compared with differences of the function itself, in float64 at random places."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from rulegrad._core import Program, UOp
from rulegrad.errors import RulegradError
from rulegrad.interpreter.evaluation import evaluate
from rulegrad.interpreter.nodes import STORAGE
from rulegrad.interpreter.numerics import Array
from rulegrad.lang import syntax
from rulegrad.workbench.proof.programs import Entry, Rules
from rulegrad.workbench.proof.testing import Trial
from rulegrad.workbench.rule_tests import Case, RuleTests

_STEP, _TOLERANCE = 1e-6, 1e-5
_PLACES = 5
_MOST_PLACES = 8 * _PLACES  # where a function has no value at some


def gradient_functions(files: Sequence[syntax.File]) -> frozenset[str]:
    """The functions that `reverse` passes use."""
    passes = [d for f in files for d in f.declarations if isinstance(d, syntax.Pass) and d.kind == "reverse"]
    return frozenset(name for p in passes for name in p.uses)


def test_gradient(rules: Rules, entry: Entry) -> tuple[Trial, str]:
    """(what came of it, what is wrong) for the test lines of one rule of a gradient function."""
    trial = Trial()
    for case in rules.tests.cases:
        if case.rule is entry.rule:
            trial.tried += 1
            compared, problem = test_gradient_line(rules.tests, case)
            if problem:
                return trial, problem
            trial.fired += compared > 0
    return trial, ""


def test_gradient_line(tests: RuleTests, case: Case) -> tuple[int, str]:
    """(at how many places the gradient is the slope, what is wrong) for one test line of a gradient function."""
    try:
        node = UOp.parse(str(tests.argument(case)).replace("float32", "float64"))
    except RulegradError:  # about the bits of a float32
        return 0, ""
    if node.dtype != "float64":
        return 0, ""
    compared, r = 0, random.Random(0)
    for _ in range(_MOST_PLACES):
        problem = _compare(tests.program(case), case.function, node, r)
        if problem:
            return compared, problem
        compared += problem is not None
        if compared == _PLACES:
            break
    return compared, ""


def _compare(program: Program, function: str, node: UOp, r: random.Random) -> str | None:
    """Empty, or where a gradient is not the slope of the node's value; None at a place where it has no value."""
    leaves = [n for n in node.toposort() if n.op in STORAGE]
    generator = np.random.default_rng(r.getrandbits(32))
    arrays = {n: _place(generator, n) for n in leaves}
    out = UOp("PARAM", (), node.dtype, slot=999, shape=node.shape)
    found = program.call(function, node, out)
    weights = generator.uniform(0.5, 1.5, node.shape)
    for number, (source, gradient) in enumerate(zip(node.src, found or ())):
        if gradient is None or source not in arrays or source.dtype != "float64":
            continue
        direction = generator.uniform(-1, 1, source.shape)
        ends = [_value(node, {**arrays, source: arrays[source] + s * _STEP * direction}) for s in (1, -1)]
        slope = float(np.sum((ends[0] - ends[1]) / (2 * _STEP) * weights))
        if np.isnan(slope):
            return None
        given = float(np.sum(_value(gradient, {**arrays, out: weights}) * direction))
        if not abs(slope - given) <= _TOLERANCE * (1 + abs(slope)):
            return f"the gradient of source {number} is {given}, where the slope is {slope}"
    return ""


def _place(generator: np.random.Generator, node: UOp) -> Array:
    if node.dtype == "float64":
        return generator.uniform(0.3, 2.0, node.shape)
    return np.asarray(generator.integers(0, 2, node.shape)).astype(node.dtype)


def _value(node: UOp, arrays: dict[UOp, Array]) -> Array:
    try:
        with np.errstate(all="ignore"):
            return evaluate(node, arrays)
    except RulegradError:
        return np.asarray(np.nan)
