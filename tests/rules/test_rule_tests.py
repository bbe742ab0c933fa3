"""Every `test` line of every rule file holds, and every rule has one (texts of render passes have golden sources)."""

from __future__ import annotations

import pytest

from rulegrad.lang import engine, syntax
from rulegrad.lang.rule_tests import Case, RuleTests, owners
from rulegrad.lang.walk import calls_in

TESTS = RuleTests(engine.loaded().sources.files)


@pytest.mark.parametrize("case", TESTS.cases, ids=lambda case: f"{case.name}:{case.test.span.line}")
def test_line(case: Case) -> None:
    problem = TESTS.run(case)
    assert not problem, f"{case.place}: rule {case.name} {problem}"


def asks_for_consumers(rule: syntax.Rule) -> bool:
    """A test line has no graph around it: such rules are tried on whole graphs (tests/compile/test_fusion.py)."""
    return any(c.expression is not None and calls_in(c.expression) & {"uses", "meets"} for c in rule.clauses)


def test_every_rule_has_a_test_line() -> None:
    rules = [(f"{owner}.{rule.name}", rule) for owner, _, rules in owners(TESTS.files) for rule in rules]
    assert not [name for name, rule in rules if not rule.tests and not asks_for_consumers(rule)]
