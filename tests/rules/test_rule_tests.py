"""Every `test` line of every rule file holds, and every rule has one (texts of render passes have golden sources).

What both sides of a line compute is the same, too: a line that only says its rule again would hold for a wrong rule.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from rulegrad import engine
from rulegrad.lang import syntax
from rulegrad.lang.walk import calls_in
from rulegrad.workbench.proof.ledger import Ledger
from rulegrad.workbench.proof.lines import on_values
from rulegrad.workbench.rule_tests import Case, RuleTests, owners

TESTS = RuleTests(engine.loaded().sources.files)

#: Rules of which no line is computed on values, each with the reason; those that are unsound or assume something say so.
LEFT_OUT = dict.fromkeys(
    (
        *("gradient.complex_pow", "gradient.complex_cast", "gradient.complex_of_float", "gradient.complex"),
        *("gradient.real", "gradient.imaginary"),
    ),
    "slopes are taken of real numbers; tests/tensor has gradients of complex ones",
) | dict.fromkeys(("gradient.compare", "gradient.bits"), "there is no slope: the gradient is nothing")
LEFT_OUT |= {
    case.name: "a size is an argument of the kernel, and a line gives it no value; these laws are proved"
    for case in TESTS.cases
    if case.name.startswith("size_division.")
}
ON_VALUES = [
    case
    for case in TESTS.cases
    if case.test.fires
    or (case.test.right is not None and (not case.function or case.function == "gradient") and not case.has("assumes"))
    if not case.has("unsound")
]


@pytest.mark.parametrize("file", [file.path for file in TESTS.files])
def test_lines(file: str) -> None:
    found = [(case, TESTS.run(case)) for case in TESTS.cases if case.test.span.file == file]
    assert not [f"{case.location}: rule {case.name} {problem}" for case, problem in found if problem]


#: They hold for all values: only the long run tries some.
PROVED = {
    name
    for name, known in Ledger.read(Path(__file__).with_name("proofs.json")).known.items()
    if known["kind"] == "proved"
}


def on_values_of(case: Case) -> ParameterSet:
    marks = [pytest.mark.long_run] if case.name in PROVED and case.name not in LEFT_OUT else []
    return pytest.param(case, id=f"{case.name}:{case.test.span.line}", marks=marks)


@pytest.mark.parametrize("case", map(on_values_of, ON_VALUES))
def test_line_on_values(case: Case) -> None:
    found = on_values(TESTS, case)
    assert found.kind != "differ", f"{case.location}: rule {case.name} {found.how}"
    assert (found.kind == "left out") == (case.name in LEFT_OUT), found.how


def test_which_rules_are_not_tried_on_values() -> None:
    """Only those that are wrong on purpose or assume something, functions, and what is tried on whole graphs."""
    tried = {case.name for case in ON_VALUES}
    assert set(LEFT_OUT) <= tried
    left = [f"{o}.{r.name}" for o, function, rules in owners(TESTS.files) for r in rules if not function and r.tests]
    apart = {case.name for case in TESTS.cases if case.has("unsound") or case.has("assumes")}
    assert set(left) - tried <= apart


def test_every_rule_has_a_line_that_fires() -> None:
    firing = {case.name for case in TESTS.cases if case.test.right is not None or case.test.fires}
    assert {case.name for case in TESTS.cases} == firing


def asks_for_consumers(rule: syntax.Rule) -> bool:
    """A test line has no graph around it: such rules are tried on whole graphs (tests/compile/test_fusion.py)."""
    return any(c.expression is not None and "uses" in calls_in(c.expression) for c in rule.clauses)


def test_every_rule_has_a_test_line() -> None:
    rules = [(f"{owner}.{rule.name}", rule) for owner, _, rules in owners(TESTS.files) for rule in rules]
    assert not [name for name, rule in rules if not rule.tests and not asks_for_consumers(rule)]
