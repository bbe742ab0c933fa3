"""Parts of a template that are rewritten on their own: `rewritten`, `given` and `must`."""

from __future__ import annotations

import pytest
from rule_programs import compile_rules, const, loop, one_pass, rewritten, var

from rulegrad.errors import RewriteError, RuleError
from rulegrad.ir import UOp

SIGNS = """
ruleset signs:
    twice: -(-x) -> x
    none: x + 0 -> x
"""
# Rules that intervals decide; what they say of an index is made simpler where a condition holds.
INTERVALS = """
known[f: {CMPLT, CMPLE, CMPEQ, FLOORDIV}]: n@f(_, _) -> {vmin(n)}
    if vmin(n) == vmax(n)
whole: x:index % c:const -> x
    if 0 <= vmin(x) and vmax(x) < c
least: max(x:index, y) -> x
    if vmin(x) >= vmax(y)
where_true: where(true, x, _) -> x
same: x:index + 0 -> x
"""


def negated(times: int, x: UOp) -> UOp:
    for _ in range(times):
        x = -x
    return x


# ---- rewritten ----


def test_rewritten_is_children_first_and_to_the_end() -> None:
    rules = "abs: ABS(x) -> rewritten(x, signs)"
    x = var(0)
    assert rewritten(rules, UOp("ABS", (negated(5, x + 0),)), before=SIGNS) == -x
    assert rewritten(rules, negated(2, x), before=SIGNS) == negated(2, x)  # the set is not in the pass


def test_speculation() -> None:
    """A rule that fires only where what it makes gets better."""
    rules = """
        pull: x * -y -> z
            let z = rewritten(-(x * y), signs)
            if op(z) != NEG
        move: ABS(x) -> -x
            let y = rewritten(-x, signs)
            if op(y) == BUFFER
    """
    x, y = var(0), var(1)
    assert rewritten(rules, UOp("ABS", (-x,)), before=SIGNS) == negated(2, x)
    assert rewritten(rules, UOp("ABS", (x,)), before=SIGNS) == UOp("ABS", (x,))
    assert rewritten(rules, y * -x, before=SIGNS) == y * -x


def test_rewritten_in_a_function_and_in_a_walk() -> None:
    before = SIGNS + "function plain(n):\n    all: plain(n@_) -> rewritten(-n, signs)\n"
    x = var(0)
    assert rewritten("a: ABS(x) -> plain(x)", UOp("ABS", (-x,)), "rewrite walk", before) == x
    assert rewritten("a: ABS(x) -> rewritten(x, signs)", UOp("ABS", (negated(4, x),)), "collect", SIGNS) == x


def test_an_endless_rewriting_names_its_rules() -> None:
    before = "ruleset up:\n    grow: SQRT(x) -> SQRT(x + 1.0)\n    turn: x - y -> y - x\n"
    x = var(0, "float32")
    message = r"rewritten rules up: pass rules up did not end after \d+ firings; most often fired: up\.grow"
    with pytest.raises(RewriteError, match=message):
        rewritten("a: ABS(x) -> rewritten(SQRT(x), up)", UOp("ABS", (x,)), before=before)
    with pytest.raises(RewriteError, match=r"up\.turn .* -> up\.turn"):
        rewritten("a: ABS(x) -> rewritten(x - 1.0, up)", UOp("ABS", (x,)), before=before)


def test_it_does_not_nest() -> None:
    text = """
    ruleset inner:
        a: -x -> x
    function f(n):
        all: f(n@_) -> rewritten(n, inner)
    ruleset outer:
        b: SQRT(x) -> f(x)
    pass p rewrite children_first:
        c: ABS(x) -> rewritten(x, outer)
    """
    root = UOp("ABS", (UOp("SQRT", (-var(0, "float32"),)),))
    with pytest.raises(RewriteError, match="rewritten rules inner is asked for while a part is rewritten"):
        compile_rules(text, checked=False).rewrite("p", root)


# ---- given ----


@pytest.mark.parametrize(
    ("condition", "simple"),
    [
        ("i < 4", True),
        ("i <= 3", True),
        ("i < 5", False),
        ("~(i < 4)", False),
        ("~(4 <= i)", True),
        ("~(3 < i)", True),
        ("(i < 4) & (j < 2)", True),
        ("(i < 4) | (j < 2)", False),
        ("~((4 <= i) | (j < 2))", True),
        ("i == 2", True),
        ("~(i != 2)", True),
        ("i != 2", False),
        ("i + 3 < 7", True),
        ("i * 2 < 8", True),
        ("i * 2 + 1 < 8", True),
        ("i * -2 < -8", False),
        ("i < j", True),
        ("j < i", False),
    ],
)
def test_what_conditions_say(condition: str, simple: bool) -> None:
    rules = INTERVALS + f"use: SINK(i, j) -> SINK(given({condition}, i % 4))"
    i, j = loop(0, 8), loop(1, 5)
    result = rewritten(rules, UOp("SINK", (i, j)))
    expected = const(2, "index") if "==" in condition or "!= 2)" in condition else i
    assert result.src[0] == (expected if simple else i % 4)


def test_both_ends() -> None:
    rules = INTERVALS + "use: SINK(i) -> SINK(given((1 <= i) & (i < 5), (i + -1) % 4), i)"
    i = loop(0, 8)
    assert rewritten(rules, UOp("SINK", (i,))).src[0] == i + -1


def test_the_largest_part_that_is_known() -> None:
    rules = INTERVALS + "use: SINK(i, j) -> SINK(given((i * 4 + j < 6) & (i < 3), (i * 4 + j) % 6 + i % 3), i, j)"
    i, j = loop(0, 8), loop(1, 4)
    assert rewritten(rules, UOp("SINK", (i, j))).src[0] == i * 4 + j + i


def test_a_condition_is_true_where_it_holds() -> None:
    rules = INTERVALS + "use: SINK(c, i) -> SINK(given(c, where(c, i, i * 2)), c, i)"
    i = loop(0, 8)
    c = UOp("BUFFER", (), "bool", id=7, shape=())
    assert rewritten(rules, UOp("SINK", (c, i))).src[0] == i


def test_nothing_known_nothing_done() -> None:
    rules = INTERVALS + "use: SINK(i, j) -> SINK(given(j < 2, i % 4), given((i < 3) & (5 < i), i % 4), i)"
    i, j = loop(0, 8), loop(1, 4)
    assert rewritten(rules, UOp("SINK", (i, j))) == UOp("SINK", (i % 4, i % 4, i))


def test_a_fixed_point_with_given() -> None:
    """The rule's own result is tried again; given does not nest in what it simplifies."""
    rules = INTERVALS + "use: where(c, x:index, INVALID()) -> where(c, given(c, x), INVALID[index]())"
    i = loop(0, 8)
    nothing = UOp("INVALID", (), "index")
    inner = UOp("WHERE", (i < 4, i % 4, nothing))
    assert rewritten(rules, UOp("WHERE", (i < 3, inner, nothing))) == UOp("WHERE", (i < 3, i, nothing))


def test_given_needs_a_pass_to_a_fixed_point() -> None:
    with pytest.raises(RuleError, match="`given` stands in a pass that does not rewrite to a fixed point"):
        one_pass("use: where(c, x, y) -> where(c, given(c, x), y)", "rewrite walk")
