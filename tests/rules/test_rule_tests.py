"""Every `test` line of every rule file holds, and every rule has one (texts of render passes have golden sources)."""

from __future__ import annotations

import pytest
from rulegrad.lang import engine
from rulegrad.lang.rule_tests import Case, RuleTests, owners

TESTS = RuleTests(engine.loaded().sources.files, {"rows": 32, "lanes_last": 16, "lanes_before_last": 4})


@pytest.mark.parametrize("case", TESTS.cases, ids=lambda case: f"{case.name}:{case.test.span.line}")
def test_line(case: Case) -> None:
    problem = TESTS.run(case)
    assert not problem, f"{case.place}: rule {case.name} {problem}"


def test_every_rule_has_a_test_line() -> None:
    untested = [f"{owner}.{rule.name}" for owner, _, rules in owners(TESTS.files) for rule in rules if not rule.tests]
    assert not untested
