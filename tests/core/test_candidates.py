"""Choose passes: every match of a pattern is a candidate; `given` and `must` by the `use` lines; what a trace has of a search."""

from __future__ import annotations

from typing import Any

import pytest
from rule_programs import const, loop, one_pass, var

from rulegrad.errors import RewriteError, RuleError
from rulegrad.ir import UOp

# The graph of ABS nodes costs nothing, so that no candidate costs less.
NOTHING = """
function cost(n):
    nothing: cost(ABS(_)) -> {0}
    all: cost(n@_) -> {1}
"""
HIGHEST = """
function highest(n):
    leaf: highest(BUFFER[id=k]()) -> {k}
    all: highest(n@_) -> {max([highest(s) for s in srcs(n)])}
"""


def chain(*numbers: int) -> UOp:
    total = var(numbers[0])
    for number in numbers[1:]:
        total = total + var(number)
    return total


def run(rules: str, root: UOp, before: str, kind: str = "choose best") -> tuple[UOp, Any]:
    return one_pass(rules, kind, before).rewrite("p", root, trace=True)


def offered(rules: str, root: UOp, before: str = NOTHING) -> list[UOp]:
    """The candidates of the actions for the graph under an ABS, where none is taken."""
    result, info = run("cost cost\n" + rules, UOp("ABS", (root,)), before)
    assert result == UOp("ABS", (root,))
    return [one["after"] for one in info["remaining"] if one["rule"]]


def test_each_member_of_a_multiset_is_offered() -> None:
    found = offered("f: sum{a@BUFFER(), b@BUFFER(), c@BUFFER()} -> a - b", chain(1, 2, 3))
    assert found == [var(a) - var(b) for a, b in ((1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2))]


def test_the_best_of_all_matches_is_taken() -> None:
    rules = "cost highest\nkept: sum{b@BUFFER(), rest...} -> b"
    result, info = run(rules, chain(4, 9, 2, 7), HIGHEST)
    assert (result, info["fired"]) == (var(2), 1)


def test_a_clause_that_fails_leaves_the_other_matches() -> None:
    rules = "f: sum{b@BUFFER[id=k](), rest...} -> -b\n    if k % 2 == 1"
    assert offered(rules, var(1) + var(2)) == [-var(1)]
    assert offered(rules, var(3) + var(5)) == [-var(3), -var(5)]


def test_rows_of_a_table() -> None:
    before = NOTHING + 'table steps(name: str, n: int):\n    "a" 40\n    "b" 80\n    "c" 7\n'
    rules = "f: b@BUFFER[id=i]() -> BUFFER[..b, id={i + s.n}]()\n    for s in steps\n    if s.n != 80"
    assert offered(rules, var(1), before) == [var(41), var(8)]


def test_equal_results_are_one() -> None:
    assert offered("f: sum{_, _} -> 1000", var(1) + var(2)) == [const(1000)]
    assert offered("f: n@sum{_, _} -> n", var(1) + var(2)) == []


def test_functions_are_called_for_every_match() -> None:
    before = NOTHING + "function twice(n):\n    leaf: twice(b@BUFFER[id=i]()) -> BUFFER[..b, id={2 * i}]()\n"
    found = offered("f: sum{a@BUFFER(), b@BUFFER(), c@BUFFER()} -> twice(b)", chain(5, 6, 7), before)
    assert sorted(n.attrs["id"] for n in found) == [10, 12, 14]


@pytest.mark.parametrize("fuel", [1, 25, 1000])
def test_fuel_bounds_the_matches(fuel: int) -> None:
    rules = f"fuel {fuel}\npair: sum{{a@BUFFER(), b@BUFFER(), rest...}} -> a - b"
    assert len(offered(rules, chain(*range(1, 31)))) == fuel


def test_a_match_that_goes_wrong_is_an_error() -> None:
    before = NOTHING + 'function called(n):\n    two: called(BUFFER[id=2]()) -> {"two"}\n    all: called(n@_) -> n\n'
    with pytest.raises(RewriteError, match=r"rule p\.f .*its template is not a node but"):
        offered("f: sum{b@BUFFER(), _} -> called(b)", var(1) + var(2), before)


# ---- given, by the `use` lines ----

COUNT = """
function count(n):
    all: count(n@_) -> {1 + sum([count(s) for s in srcs(n)])}
"""
SIMPLE = """
ruleset simple:
    whole: x:index % c:const -> x
        if 0 <= vmin(x) and vmax(x) < c
    same: x:index + 0 -> x
    twice: -(-x) -> x
"""
GATED = "gated: where(g, x:index, INVALID()) -> where(g, given(g, x), INVALID[index]())\n"


def gated() -> tuple[UOp, UOp]:
    """An index that a condition makes simpler, and the index that it becomes."""
    i = loop(0, 8)
    nothing = UOp("INVALID", (), "index")
    return UOp("WHERE", (i < 4, i % 4, nothing)), UOp("WHERE", (i < 4, i, nothing))


def test_given_in_what_normalises() -> None:
    rules = "cost count\nuse simple\nnext: SINK(x, _) -> SINK(x)"
    before, after = gated()
    sets = COUNT + SIMPLE.rstrip() + "\n    " + GATED
    assert run(rules, UOp("SINK", (before, var(1))), sets)[0] == UOp("SINK", (after,))


def test_given_in_actions() -> None:
    rules = f"cost count\nuse simple\n{GATED}"
    before, after = gated()
    assert run(rules, before, COUNT + SIMPLE)[0] == after


def test_in_an_action_it_needs_a_use_line() -> None:
    with pytest.raises(RuleError, match="`given` stands in a choose pass without a `use` line") as raised:
        run("cost count\n" + GATED, gated()[0], COUNT)
    assert "`use RULESET`" in str(raised.value)


# ---- what a trace has of a search ----

WEIGHT = """
function weight(n):
    odd: weight(BUFFER[id=13]()) -> none
    leaf: weight(BUFFER[id=k]()) -> {k}
    all: weight(n@_) -> {1 + sum([weight(s) for s in srcs(n)])}
ruleset down:
    three: b@BUFFER[id=12]() -> BUFFER[..b, id=6]()
"""


def steps(*lines: str) -> str:
    rules = (line.split() for line in lines)
    return "\n".join(f"from{a}to{b}: b@BUFFER[id={a}]() -> BUFFER[..b, id={b}]()" for a, b in rules)


def test_the_rounds_of_a_search() -> None:
    rules = "cost weight\nuse down\n" + steps("9 12", "9 11", "9 7", "6 8")
    _, info = run(rules, -var(9), WEIGHT)
    assert [firing[0] for firing in info["firings"]] == ["p.from9to12", "down.three"]
    shown = [(one["rule"], one["verdict"], one["cost"]) for one in info["inside"][0]]
    assert shown == [
        ("", "given", 10),
        ("p.from9to12", "taken", 7),
        ("p.from9to11", "not taken", 12),
        ("p.from9to7", "not taken", 8),
    ]
    assert info["inside"][1] == []
    assert [(one["rule"], one["verdict"], one["cost"]) for one in info["remaining"]] == [
        ("", "given", 7),
        ("p.from6to8", "not taken", 9),
    ]


def test_a_candidate_that_is_not_taken_has_its_firings() -> None:
    _, info = run("cost weight\nuse down\n" + steps("5 12"), -var(5), WEIGHT)
    _, candidate = info["remaining"]
    assert (candidate["before"], candidate["after"]) == (var(5), var(12))
    assert [firing[0] for firing in candidate["firings"]] == ["down.three"]


def test_nothing_of_a_search_is_kept_without_a_trace() -> None:
    program = one_pass("cost weight\n" + steps("9 11"), "choose best", WEIGHT)
    _, info = program.rewrite("p", var(9))
    assert "remaining" not in info and info["firings"] == []
