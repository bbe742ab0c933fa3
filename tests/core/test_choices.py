"""Patterns and clauses that choose: multisets, views, `not`, `for`; tables and `subst`.

The test lines of tests/lang/pass/choices.rules say what each construct means; here is what a line cannot say.
"""

from __future__ import annotations

import functools
import itertools
import operator
from pathlib import Path

import pytest
from rule_programs import compile_rules, const, loop, op_table, rewritten, var

from rulegrad.errors import RuleError
from rulegrad.ir import UOp
from rulegrad.lang.parser import parse_file
from rulegrad.workbench.rule_tests import RuleTests

EXAMPLE = Path(__file__).parents[1] / "lang" / "pass" / "choices.rules"
N, J, K = loop(0, 12), loop(1, 8), loop(2, 9)
VIEWS = """
view scaled(t, k):
    t * k:const
    t with k = 1
"""


def total(*members: UOp) -> UOp:
    return functools.reduce(operator.add, members)


def test_the_lines_of_the_example() -> None:
    tests = RuleTests([op_table(), parse_file(EXAMPLE.read_text(encoding="utf-8"), EXAMPLE.name)])
    assert {case.name: problem for case in tests.cases if (problem := tests.run(case))} == {}


def members(chain: UOp) -> list[UOp]:
    return [m for source in chain.src for m in members(source)] if chain.op == "ADD" else [chain]


# ---- multisets ----


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_members_stand_in_any_order_and_grouping(order: tuple[int, ...]) -> None:
    parts = [N % 4, (N // 4) * 4, J, K * 3]
    a, b, c, d = (parts[k] for k in order)
    rule = "join: sum{x % d:const, (x // d) * d, rest...} -> sum{x, rest...}"
    for graph in (total(a, b, c, d), a + (b + (c + d)), (a + b) + (c + d)):
        left = members(rewritten(rule, graph, "rewrite walk"))
        assert len(left) == 3 and all(m in left for m in (N, J, K * 3))


def test_a_wrong_choice_is_taken_back() -> None:
    """The first remainder has no quotient: the second has."""
    graph = total(J % 3, N % 4, N // 4 * 4)
    rule = "join: sum{x % d:const, (x // d) * d, rest...} -> sum{x, rest...}"
    assert rewritten(rule, graph, "rewrite walk") == N + J % 3
    guarded = "pick: sum{x, y:index, rest...} -> x * y\n    if vmax(x) == 7 and vmax(y) == 8"
    assert rewritten(guarded, total(N, K, J), "rewrite walk") == J * K


def test_a_node_is_a_multiset_of_one() -> None:
    rule = "a: NEG(sum{x:int32, rest...}) -> x * {1 + len(rest)}"
    assert rewritten(rule, -var(0)) == var(0) * const(1)
    assert rewritten("a: NEG(sum{_, _, _...}) -> 1", -var(0)) == -var(0)
    assert rewritten("a: NEG(sum{rest...}) -> sum{rest..., rest...}", -(N + J)) == N + J + N + J


def test_a_long_chain_is_left_alone() -> None:
    rule = "a: sum{NEG(x), _...} -> x"
    at_most = total(*(var(k) for k in range(63)), -var(99))
    assert rewritten(rule, at_most, "rewrite walk") == var(99)
    assert rewritten(rule, total(var(100), at_most), "rewrite walk") != var(99)


def test_sharing_does_not_make_a_chain_endless() -> None:
    graph = N
    for _ in range(200):
        graph = graph + graph
    assert rewritten("a: sum{NEG(x), _...} -> x", graph) == graph


def test_empty_chains() -> None:
    assert rewritten("a: NEG(_) -> sum{}", -var(0), "rewrite walk") == const(0)
    assert rewritten("a: NEG(_) -> prod{}", -var(0), "rewrite walk") == const(1)
    assert rewritten("a: x + y -> all{}", (N < J) + (J < K), "rewrite walk") == const(True, "bool")


# ---- views ----


def test_the_first_case_with_the_shape_decides() -> None:
    """`3 * x` is read as x scaled by 3 and as nothing else, even where that fails later."""
    rule = "a: NEG(scaled(x, k)) -> x\n    if k == 1"
    assert rewritten(rule, -var(0), before=VIEWS) == var(0)
    assert rewritten(rule, -(var(0) * 3), before=VIEWS) == -(var(0) * 3)


def test_a_template_takes_the_case_that_fits() -> None:
    rule = "a: NEG(scaled(x, k)) -> scaled(x, {k - 1})"
    assert rewritten(rule, -(var(0) * 3), before=VIEWS) == var(0) * 2
    assert rewritten(rule, -(var(0) * 2), before=VIEWS) == var(0)


def test_a_value_is_the_same_as_a_constant() -> None:
    rule = "a: SINK(scaled(_, k), k:const, scaled(_, k)) -> SINK()"
    root = UOp("SINK", (var(0) * 3, const(3), var(1) * 3))
    assert rewritten(rule, root, before=VIEWS) == UOp("SINK")
    assert rewritten(rule, UOp("SINK", (var(0) * 3, const(2), var(1) * 3)), before=VIEWS) != UOp("SINK")


# ---- alternatives ----


def test_too_many_alternatives() -> None:
    chain = " + ".join(f"NEG(a{k})" for k in range(7))
    with pytest.raises(RuleError, match="has 64 orders of its commutative ops, more than 32"):
        compile_rules(f"ruleset r:\n    a: {chain} -> a0\npass p rewrite walk: r\n")


def test_negation_sees_every_order() -> None:
    rule = "a: SINK(not (_ + NEG(_)), x) -> SINK(x)"
    for pair in (UOp("ADD", (var(0), -var(1))), UOp("ADD", (-var(1), var(0)))):
        assert rewritten(rule, UOp("SINK", (pair, var(0)))) == UOp("SINK", (pair, var(0)))
    assert rewritten(rule, UOp("SINK", (var(1), var(0)))) == UOp("SINK", (var(0),))


# ---- clauses and templates ----


def test_for_tries_the_next_item_when_a_later_clause_fails() -> None:
    rule = """
    a: n@SINK(xs...) -> SINK(x, y)
        for x in xs
        for y in xs
        let (s, t) = (vmax(x), vmax(y))
        if s + t == 15
    """
    assert rewritten(rule, UOp("SINK", (N, J, K))) == UOp("SINK", (J, K))


def test_subst_replaces_all_at_once() -> None:
    rule = "a: SINK(e, x, y) -> SINK(subst(e, x -> y, y -> x + 1))"
    assert rewritten(rule, UOp("SINK", (N * 2 + J, N, J)), "rewrite walk") == UOp("SINK", (J * 2 + (N + 1),))
    many = "a: SINK(e, xs...) -> SINK(subst(e, xs -> [x * 2 for x in xs]))"
    assert rewritten(many, UOp("SINK", (N + J, N, J)), "rewrite walk") == UOp("SINK", (N * 2 + J * 2,))


def test_a_lookup_of_what_is_not_there_fails() -> None:
    table = 'table sizes(name: str, size: int):\n    "a" 1\n    "b" 2\n'
    rule = "a: RANGE[kind=k](e) -> e + {sizes[k].size}"
    e = const(4, "index")
    assert rewritten(rule, loop(0, 4, "b"), "rewrite walk", before=table) == e + 2
    assert rewritten(rule, loop(0, 4, "c"), "rewrite walk", before=table) == loop(0, 4, "c")
