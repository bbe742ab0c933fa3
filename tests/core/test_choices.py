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

from rulegrad.errors import RewriteError, RuleError
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


PAIRS = """
a: SINK(x, y) -> SINK(CONST[int32](cost), CONST[int32](h), CONST[int32](w))
    if is_const(x)
    for h in [1, 2, 4, 8]
    for w in [3, 2, 1]
    if h * w <= value(x)
    let cost = abs(h * w - value(y))
    least {most}cost
    {then}
"""


def best(limit: int, wanted: int, most: str = "", then: str = "") -> tuple[int, ...] | None:
    rule = PAIRS.replace("{most}", most).replace("{then}", then)
    graph = UOp("SINK", (const(limit), const(wanted)))
    result = rewritten(rule, graph, "rewrite walk")
    return None if result == graph else tuple(s.attrs["value"] for s in result.src)


def test_least_is_over_all_choices_that_hold() -> None:
    choices = [(h, w) for h in (1, 2, 4, 8) for w in (3, 2, 1)]
    for limit, wanted in itertools.product((1, 2, 5, 12, 24), (0, 4, 7, 30)):
        allowed = [(h, w) for h, w in choices if h * w <= limit]
        h, w = min(allowed, key=lambda pair: abs(pair[0] * pair[1] - wanted))  # the first of equal ones
        assert best(limit, wanted) == (abs(h * w - wanted), h, w)
    assert best(0, 4) is None


def test_those_that_least_keeps_are_tried_in_order() -> None:
    assert best(24, 4, "3 of ", "if w == 2") == (0, 2, 2)
    assert best(24, 4, "3 of ", "if w == 1") == (0, 4, 1)
    assert best(24, 4, "3 of ", "if w == 3 and h == 1") == (1, 1, 3)
    assert best(24, 4, "2 of ", "if w == 3") is None
    assert best(24, 4, "1000 of ", "if cost == 20") == (20, 8, 3)


def test_every_choice_that_is_kept_is_a_candidate() -> None:
    before = """
    function height(n):
        sink: height(SINK(_, h, _)) -> {0 - value(h)}
        all: height(_) -> {100}
    """
    graph = UOp("SINK", (const(24), const(4)))
    for most, expected in (("", (0, 2, 2)), ("2 of ", (0, 4, 1)), ("12 of ", (4, 8, 1))):
        rule = PAIRS.replace("{then}", "").replace("{most}", most)
        found = rewritten("cost height\n" + rule.strip(), graph, "choose best", before)
        assert tuple(s.attrs["value"] for s in found.src) == expected


def test_a_choice_without_a_number_is_not_kept() -> None:
    rule = """
    a: SINK(x) -> SINK(CONST[int32](k), CONST[int32](c))
        if is_const(x)
        for k in [0, 3, 2, 5]
        let c = value(x)
        least (12 / k if k != 5 else dtype(x))
    """
    assert rewritten(rule, UOp("SINK", (const(7),)), "rewrite walk") == UOp("SINK", (const(3), const(7)))


def test_fold_builds_a_chain() -> None:
    rule = "a[f: Op]: SINK(f(x, y), xs...) -> SINK(fold[f]([NEG(x) for x in xs]))"
    for op, identity in (("ADD", 0), ("MAX", -(2**31)), ("MUL", 1), ("AND", -1)):
        pair = UOp(op, (N, J)) if op != "AND" else UOp("AND", (N, J))
        chain = functools.reduce(lambda a, b: UOp(op, (a, b)), (-N, -J, -K))
        assert rewritten(rule, UOp("SINK", (pair, N, J, K)), "rewrite walk") == UOp("SINK", (chain,))
        assert rewritten(rule, UOp("SINK", (pair, J)), "rewrite walk") == UOp("SINK", (-J,))
        program = compile_rules(f"""
        function empty(n):
            all: empty(n@_) -> fold[{op}](srcs(n))
        """)
        assert program.call("empty", var(0)) == const(identity)
    assert (
        compile_rules("""
    function empty(n):
        all: empty(n@_) -> fold[SUB](srcs(n))
    """).call("empty", var(0))
        is None
    )


def test_nodes_are_each_given_once_sources_first() -> None:
    program = compile_rules("""
    function below(n):
        all: below(n@_) -> {nodes(n)}
    """)
    shared = N + J
    graph = shared * shared + K
    found = program.call("below", graph)
    assert found[-1] == graph and len(set(found)) == len(found) == graph.count_nodes()
    places = {node: place for place, node in enumerate(found)}
    assert all(places[s] < places[n] for n in found for s in n.src)
    for _ in range(200):  # the number of ways through it doubles each time
        graph = graph * graph
    assert len(program.call("below", graph)) == graph.count_nodes()


def test_a_field_joins_the_texts_of_a_sequence() -> None:
    rules = """
    pass linear order:
        priority LOAD 0
    pass text render:
        parameter: PARAM[slot=k]() -> inline "p{k}"
        constant: c:const -> inline "{value(c)}"
        sum: a + b -> expr 4 "{a} + {b:bare}"
        call: STACK(xs...) -> stmt "f({xs:bare ', '}); g({[x for x in xs if not is_const(x)]:'*'}); h({[]:' '}, {[1, 2]:'|'});"
        wrong: ABS(x) -> stmt "{x:', '}"
    """
    rules += """
    target test:
        has      ADD ABS
        dtypes   int32
        type     int32 "int"
    """
    program = compile_rules(rules, "test")
    x, y = (UOp("PARAM", (), "int32", slot=k, shape=()) for k in range(2))
    graph = UOp("SINK", (UOp("STACK", (x + y, const(3), x)),))
    assert program.source("linear", "text", graph)[0] == "  f(p0 + p1, 3, p0); g((p0 + p1)*p0); h(, 1|2);\n"
    with pytest.raises(RewriteError, match=r"joins PARAM.*, which is not a sequence"):
        program.source("linear", "text", UOp("SINK", (UOp("ABS", (x,)),)))


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
