"""Values for which z3 finds that the sides of a rule differ, run by the interpreter, which decides."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from rulegrad._core import UOp
from rulegrad.errors import RulegradError
from rulegrad.ir.dtype import as_dtype
from rulegrad.lang.optable import OpTable
from rulegrad.workbench.proof.instances import Generator, NoGraphError
from rulegrad.workbench.proof.programs import Entry
from rulegrad.workbench.proof.symbolic import DIFFERENCE, Attempt, Found
from rulegrad.workbench.proof.testing import Difference, Tester

_NEAR = 8  # a variable that takes several values takes those that are nearer than this

EQUAL = f"{DIFFERENCE}, for whose values the interpreter gives both sides the same: it knows more of the ops"
SILENT = f"{DIFFERENCE}, for whose values the rule does not fire"
UNTRIED = f"{DIFFERENCE}, whose values cannot be tried"


def confirmed(tester: Tester, entry: Entry, attempt: Attempt) -> Difference | str:
    """The difference of a refuted attempt, as the interpreter computes it; or why there is none."""
    told = (0, UNTRIED)  # what came of one graph says more than that another could not be tried
    for graph in _graphs(tester.rules.library.table, attempt):
        try:
            found = tester.compare(entry, graph, random.Random(0))
        except RulegradError as error:
            found = error.problem
        if isinstance(found, Difference):
            return found
        if found is None:
            told = max(told, (1, SILENT))
        else:
            told = max(told, (3, EQUAL) if found is True else (2, f"{UNTRIED}: {found}"))
    return told[1]


def _graphs(table: OpTable, attempt: Attempt) -> Iterator[UOp]:
    """The pattern with a model's values: as constants; as all numbers near them, for rules that ask for no constant."""
    if attempt.choice is None or attempt.pattern is None:
        return
    dtypes, choice = attempt.choice
    for make in (_as_constants, _as_counters):
        try:  # a value may be outside of what a counter, which is an index, can be
            known = make(attempt.variables)
            generator = Generator(table, random.Random(0), dtypes, choice, True, attempt.model, known)
            graph = generator.of(attempt.pattern, ())
        except (NoGraphError, RulegradError, OverflowError):
            continue
        yield graph


def _as_constants(found: Mapping[str, Found]) -> dict[str, UOp]:
    return {name: UOp.const(_stored(one.value, one.dtype), one.dtype) for name, one in found.items()}


def _stored(value: int, dtype: str) -> int | bool:
    return bool(value) if as_dtype(dtype).kind == "bool" else value


def _as_counters(found: Mapping[str, Found]) -> dict[str, UOp]:
    """Each variable as a loop counter, whose interval is that of the model as far as that is near the value."""
    made: dict[str, UOp] = {}
    for number, (name, one) in enumerate(found.items()):
        low, high = max(one.low, one.value - _NEAR), min(one.high, one.value + _NEAR)
        if as_dtype(one.dtype).kind == "bool":
            low, high = 0, 1
        counter = UOp("RANGE", (UOp.const(high - low + 1, "index"),), id=400 + number, kind="test")
        whole = counter + low if low else counter
        made[name] = whole if one.dtype == "index" else UOp("CAST", (whole,), one.dtype)
    return made
