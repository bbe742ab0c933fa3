"""`decreases`: a measure that a rule makes smaller, checked while rules run under CHECK=1."""

from __future__ import annotations

import pytest
from rule_programs import const, one_pass, var

from rulegrad.errors import RewriteError
from rulegrad.ir import UOp

HALVES = """
    half: POW(x, c:const) -> POW(x, {c // 2}) * x
        if c > 1
        decreases c
"""


def power(exponent: int) -> UOp:
    return UOp("POW", (var(0), const(exponent)))


def test_a_measure_that_decreases() -> None:
    result, info = one_pass(HALVES).rewrite("p", power(8), check=True)
    assert info["fired"] == 3 and result.count_nodes() == 6


def test_a_measure_that_does_not() -> None:
    program = one_pass(HALVES.replace("c // 2", "c + 2"))
    with pytest.raises(RewriteError, match=r"rule p\.half .*: what `decreases` measures goes from 8 to 10, at POW"):
        program.rewrite("p", power(8), check=True)
    with pytest.raises(RewriteError, match="did not end"):  # unchecked, it is found when there is no fuel left
        program.rewrite("p", power(8), fuel=100)


def test_only_nodes_that_the_rule_could_fire_on_count() -> None:
    rules = HALVES.replace("{c // 2}", "{c + 2}").replace("if c > 1", "if c > 1 and c < 9")
    assert one_pass(rules).rewrite("p", power(8), check=True)[1]["fired"] == 1


def test_a_measure_is_a_natural_number() -> None:
    with pytest.raises(RewriteError, match="must be a natural number, not -8"):
        one_pass(HALVES.replace("decreases c", "decreases -c")).rewrite("p", power(8), check=True)
