"""Test lines on values: a line that says its rule again in other letters does not hold for a wrong rule."""

from __future__ import annotations

from functools import cache

import pytest

from rulegrad import engine
from rulegrad.engine.sources import Sources
from rulegrad.workbench.proof import lines
from rulegrad.workbench.proof.lines import DEFINITION, FAILS, OnValues, on_values
from rulegrad.workbench.proof.outcome import outcome
from rulegrad.workbench.rule_tests import RuleTests

WRONG = {
    "signs": "ABS(x:T) -> x\n        test ABS(x:float32) -> x",
    "fractions": "FLOOR(x:T) -> x\n        test FLOOR(x:float32) -> x",
    "wraps": "(x:int8 * 2) // 2 -> x\n        test (x:int8 * 2) // 2 -> x",
    "large": "CAST[float32](x:int32) -> CAST[float32](CAST[float16](x))\n"
    "        test CAST[float32](x:int32) -> CAST[float32](CAST[float16](x))",
    "nan": "CMPEQ(x:T, x) -> {true}\n        test CMPEQ(x:float32, x) -> {true}",
    "negative zero": "x:T + 0 -> x\n        test x:float32 + 0 -> x",
    "one of a range": "CMPEQ(x:index, 63) -> {false}\n        test CMPEQ(i:range(64), 63) -> {false}",
    "the last of many": "CMPEQ(x:index, 4999999999) -> {false}\n"
    "        test CMPEQ(i:range(5000000000), 4999999999) -> {false}",
    "memory": "STORE(p, x:T) -> STORE(p, -x)\n        test STORE(x:float32[3], y:float32[3]) -> STORE(x, -y)",
    "an element": "INDEX(n@FLIP(x:T), i) -> INDEX(x, i)\n"
    "        test INDEX(FLIP[axes=(0,)](x:float32[4]), i:range(4)) -> INDEX(x, i)",
}
RIGHT = {
    "ulp": "x:T * 3 -> x + x + x\n        ulp 1\n        test x:float32 * 3 -> x + x + x",
    "a long loop": "x:index + x -> x * 2\n        test i:range(5000000000) + i -> i * 2",
    "a place that is not always there": "where(c, INDEX(x, i), 0) -> where(c, INDEX(x, i) + 0, 0) * 1\n"
    "        if dtype(x) == int32\n"
    "        test where(c:bool, INDEX(x:int32[3], i:int32), 0) -> where(c, INDEX(x, i) + 0, 0) * 1",
}


LEFT_OUT = {
    "too long a sum": (
        "REDUCE[op=ADD](x:int32, i) -> x * 500000000\n"
        "        test REDUCE[op=ADD](x:int32, i:range(500000000)) -> x * 500000000",
        "its loops have too many iterations",
    ),
    "fails": ("x // 3 -> x // 3 * 1\n        if vmin(x) > 0\n        test fails i:range(9) // 3", FAILS),
    "unsound": (
        'x:T - x -> 0\n        unsound "inf - inf is nan"\n        test x:float32 - x -> 0',
        "the rule unsound inf - inf is nan",
    ),
}
FUNCTIONS = """
function gradient(n, d):
    sin: gradient(SIN(x), d) -> (d * SIN(x),)
        test gradient(SIN(x:float32), d:float32) -> (d * SIN(x),)
function twice(n):
    other: twice(n@_) -> n + n
        test twice(x:float32) -> x + x
"""


def name_of(rule: str) -> str:
    return rule.replace(" ", "_")


@cache
def outcomes() -> dict[str, OnValues]:
    """The result of each rule's line here, by its name."""
    engine.install_op_table()
    rules = {**WRONG, **RIGHT, **{name: rule for name, (rule, _) in LEFT_OUT.items()}}
    lines = [f"    {name_of(n)}{'[T: Float]' if ':T' in rule else ''}: {rule}\n" for n, rule in rules.items()]
    mine = ("mine.rules", "use tensor/gradient: gradient\n\nruleset mine:\n" + "".join(lines) + FUNCTIONS)
    tests = RuleTests(Sources([*engine.loaded().sources.texts, mine], frozenset(("mine.rules",))).files)
    cases = [case for case in tests.cases if case.test.span.file == "mine.rules"]
    assert not [problem for case in cases if (problem := tests.run(case))], "the lines themselves hold"
    return {case.rule.name: on_values(tests, case) for case in cases}


@pytest.mark.parametrize("rule", WRONG)
def test_wrong_rules_differ(rule: str) -> None:
    found = outcomes()[name_of(rule)]
    assert found.kind == "differ" and "not" in found.how


@pytest.mark.parametrize("rule", RIGHT)
def test_right_rules_agree(rule: str) -> None:
    assert outcomes()[name_of(rule)] == OnValues("agree")


@pytest.mark.parametrize("rule", LEFT_OUT)
def test_what_is_left_out_says_why(rule: str) -> None:
    assert outcomes()[name_of(rule)] == OnValues("left out", LEFT_OUT[rule][1])


def test_gradients_are_slopes() -> None:
    sin = outcomes()["sin"]
    assert sin.kind == "differ" and "slope" in sin.how
    assert outcomes()["other"] == OnValues("left out", DEFINITION)


@pytest.mark.parametrize(
    ("rule", "rounds"),
    [
        ("x:int32 + 0 -> x\n        test x:int32 + 0 -> x", 1),  # 256 values of the variable at once
        ("x:index + 0 -> x\n        test i:range(9) + 0 -> i", 1),  # no memory: each round would be the same
        ("x:int32 + 0 -> x\n        test x:int32[3] + 0 -> x", 12),  # three values at a time
    ],
)
def test_a_line_is_computed_as_often_as_that_says_something(
    rule: str, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.install_op_table()
    computed = []
    monkeypatch.setattr(lines, "outcome", lambda *given: computed.append(given) or outcome(*given))
    ours = engine.loaded().sources
    mine = ("often.rules", f"ruleset mine:\n    a: {rule}\n")
    tests = RuleTests(Sources([*ours.texts, mine], frozenset()).files, only={"often.rules"})
    (case,) = tests.cases
    assert on_values(tests, case).kind == "agree"
    assert len(computed) == 2 * rounds
