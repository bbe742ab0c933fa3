"""Records: values with named parts, made and read by rules, and handed to functions and to the host."""

from __future__ import annotations

from typing import Any

import pytest
from rule_programs import compile_rules, const, one_pass, rewritten, var

from rulegrad.errors import RewriteError
from rulegrad.ir import UOp

BEFORE = """
    record pair(first, second)
    record other(first, second)
    table units(T: dtype, lanes: int):
        float32 8
        int8    4
    def swapped(p) = pair(first=p.second, second=p.first)
    def lanes_of(unit) = unit.lanes
    function halves(n):
        number: halves(n:const) -> pair(first={n // 2}, second={n - n // 2})
    function parts_of(n, p):
        all: parts_of(n@_, p) -> n + p.first
    function with_part(n, p):
        all: with_part(n@_, p) -> pair(..p, first=n)
"""


def changed(template: str, clauses: str = "") -> str:
    """The result of a rule for `x - 1`, where x is BUFFER 7; empty where it does not fire."""
    lines = "".join(f"\n        {line}" for line in clauses.split(";") if line)
    root = UOp("SUB", (var(7), const(1)))
    made = rewritten(f"made: x - 1 -> {template}{lines}", root, before=BEFORE)
    return "" if made == root else str(made.attrs["value"]) if made.op == "CONST" else made.op


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{pair(3, 4).second}", "4"),
        ("{pair(second=3, first=4).second}", "3"),
        ("{swapped(pair(3, second=4)).second}", "3"),
        ("{halves(CONST[int32](7)).second}", "4"),
        ("{[p.first for p in [pair(1, 2), pair(3, 4)]][1]}", "3"),
        ("{reversed([pair(1, 2), pair(3, 4)])[0].second}", "4"),
        ("{pair(pair(1, 2), [3, pair(4, 5)]).second[1].first}", "4"),
        ("{total([lanes_of(u) for u in units])}", "12"),
        ("{lanes_of(units[int8])}", "4"),
        ("{(units[int8] if 1 < 2 else units[float32]).lanes}", "4"),
        ("{with_part(x, pair(1, 2)).second}", "2"),
        ("with_part(x, pair(1, 2)).first", "BUFFER"),
        ("parts_of(x, pair(1, 2))", "ADD"),
    ],
)
def test_fields_are_read_wherever_a_record_goes(template: str, value: str) -> None:
    assert changed(template) == value


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("pair(1, 2) == pair(second=2, first=1)", True),
        ("pair(1, 2) == pair(1, 3)", False),
        ("pair(x, 2) == pair(x, 2)", True),
        # records of two kinds, and a sequence, are different though their values are the same
        ("pair(1, 2) == other(1, 2)", False),
        ("halves(CONST[int32](3)) == [1, 2]", False),
        ("pair(1, 2) in [other(1, 2), [1, 2]]", False),
        ("pair(1, 2) in [other(1, 2), pair(1, 2)]", True),
        ("len(distinct([[pair(1, 2), other(1, 2)], [pair(1, 2)]])) == 2", True),
    ],
)
def test_equality(condition: str, holds: bool) -> None:
    assert changed("{5}", f"if {condition}") == ("5" if holds else "")


def test_a_field_that_a_value_does_not_have_makes_the_rule_not_fire() -> None:
    assert changed("{5}", "for p in [other(1, 2).second, [1], x, pair(1, 2)];if p.first == 1") == "5"
    assert changed("{5}", "for p in [other(1, 2).second, [1], x];if p.first == 1") == ""


def test_results_of_functions_are_kept_by_the_kind_of_a_record() -> None:
    before = BEFORE + "\n    function kind(n, p):\n        pairs: kind(_, p) -> {1}\n            if p == pair(1, 2)"
    before += "\n        others: kind(_, p) -> {2}\n            fallback\n"
    root = UOp("SUB", (var(7), const(1)))
    rule = "made: x - 1 -> {kind(x, pair(1, 2)) * 100 + kind(x, other(1, 2)) * 10 + kind(x, [1, 2])}"
    assert rewritten(rule, root, before=before).attrs["value"] == 122


def test_a_record_is_neither_a_node_nor_an_attribute() -> None:
    root = UOp("SUB", (var(7), const(1)))
    with pytest.raises(RewriteError, match=r"a template needs a node here, not pair\(first=1, second=2\)"):
        rewritten("made: x - 1 -> MAX(x, p.first)\n    let p = pair(pair(1, 2), 3)", root, before=BEFORE)
    with pytest.raises(RewriteError, match=r"shape must be a tuple of ints, not pair\(first=1, second=2\)"):
        rule = "made: x - 1 -> RESHAPE[shape=p.first](x)\n    let p = pair(pair(1, 2), 3)"
        rewritten(rule, root, before=BEFORE)


def test_the_host_gets_named_tuples() -> None:
    before = BEFORE + '\n    extern pure seen(p: tuple) -> int = "tests.seen"\n        test seen([1, 2]) -> 1\n'
    # names that are words of Python
    before += "\n    record lambda(def, other)\n    table class(n: int):\n        4\n"
    found: list[Any] = []
    program = one_pass("made: x - 1 -> {seen(pair(3, lambda(4, class[4])))}", before=before)
    program.set_extern("seen", lambda p: found.append(p) or 5)
    assert program.rewrite("p", UOp("SUB", (var(7), const(1))))[0].attrs["value"] == 5
    (outer,) = found
    assert outer._asdict() == {"first": 3, "second": (4, (4,))}
    inner = outer.second
    assert [type(p).__name__ for p in (outer, inner, inner.other)] == ["pair", "lambda", "class"]
    assert inner._record == ("def", "other")


def test_many_kinds_of_records_are_many_programs() -> None:
    for k in range(40):
        program = compile_rules(
            f"record r{k}(a, b{k})\npass p rewrite children_first:\n    made: x - 1 -> {{r{k}(1, 2).b{k}}}\n"
        )
        assert program.rewrite("p", UOp("SUB", (var(7), const(1))))[0].attrs["value"] == 2
