"""Flow passes: a state for each node, along or against the edges, then one replacement of all nodes at once."""

from __future__ import annotations

import textwrap

import pytest
from rule_programs import const, loop, one_pass, rewritten, var

from rulegrad.errors import RewriteError, RuleError
from rulegrad.ir import UOp

UP, DOWN = "flow sources_first", "flow consumers_first"


def states(rules: str, kind: str, root: UOp) -> dict[UOp, int]:
    """The state `s` of each BUFFER (an integer) after a flow."""
    mark = "mark: b@BUFFER[id=k]() -> BUFFER[..b, id={k + 1000 * (s(b) + 10)}]()"
    result = rewritten(f"{textwrap.dedent(rules).strip()}\n{mark}", root, kind)
    ids = [n.attrs["id"] for n in result.toposort() if n.op == "BUFFER"]
    return {var(k % 1000): k // 1000 - 10 for k in ids}


@pytest.mark.parametrize(
    ("join", "value", "expected"),
    [
        ("first", "op_number(n)", 3),
        ("min", "op_number(n)", 1),
        ("max", "op_number(n)", 3),
        ("sum", "op_number(n)", 6),
    ],
)
def test_joins_of_numbers(join: str, value: str, expected: int) -> None:
    before = """
    function op_number(n):
        a: op_number(NEG(_)) -> {1}
        b: op_number(ABS(_)) -> {2}
        c: op_number(SQRT(_)) -> {3}
    """
    x = var(0, "float32")
    root = UOp("SINK", (-x, UOp("ABS", (x,)), UOp("SQRT", (x,)), var(1)))
    rules = f"state s = -5 {join}\nsend s s: n@_ -> {{[{value}]}}\nmark: b@BUFFER() -> BUFFER[..b, id={{s(b) + 10}}]()"
    result = rewritten(rules, root, DOWN, before)
    assert {n.attrs["id"] for n in result.toposort() if n.op == "BUFFER"} == {expected + 10, 5}


def test_joins_of_truth_and_sequences() -> None:
    x, y, z = var(0), var(1), var(2)
    rules = """
        state negated = false any
        state only = true every
        state above = () union
        send negated neg: NEG(_) -> {[true]}
        send negated other: n@_ -> {[false for s in srcs(n)]}
        send only neg: NEG(_) -> {[true]}
        send only other: n@_ -> {[false for s in srcs(n)]}
        send above n: n@_ -> {[above(n) + [op(n)] for s in srcs(n)]}
        mark: b@BUFFER() -> BUFFER[..b, id={len(above(b)) * 10 + (2 if negated(b) else 0) + (1 if only(b) else 0)}]()
    """
    root = UOp("SINK", (-x + y, -x * z, -UOp("MUL", (z, z)), -z))
    result = rewritten(rules, root, DOWN)
    ids = {n.attrs["id"] for n in result.toposort() if n.op == "BUFFER"}
    # x: only below NEG, over SINK, ADD or MUL; y: SINK, ADD; z: SINK, MUL, NEG
    assert ids == {4 * 10 + 3, 2 * 10, 3 * 10 + 2}


def test_the_state_of_a_node_is_known_where_it_sends() -> None:
    x, y = var(0), var(1)
    rules = """
        state s = 0 max
        send deeper: n@_ -> {[s(n) + 1 for x in srcs(n)]}
    """
    assert states(rules, DOWN, -(-x + y)) == {x: 3, y: 2}
    assert states(rules, DOWN, x) == {x: 0}


def test_none_sends_nothing() -> None:
    x, y = var(0), var(1)
    rules = """
        state s = 7 sum
        send left: a - b -> {[1, none]}
    """
    assert states(rules, DOWN, (x - y) + (x - x)) == {x: 2, y: 7}


def test_along_the_edges() -> None:
    x, y = var(0), var(1)
    rules = """
        state depth = 0
        send depth: n@_ -> {1 + max([depth(s) for s in srcs(n)])}
            if len(srcs(n)) > 0
        mark: n@NEG(x) -> x * depth(n)
    """
    root = -(x + y * (-x))
    inner = x * 1
    assert rewritten(rules, root, UP) == (x + y * inner) * 4


def test_several_states_and_lines() -> None:
    x, y = var(0), var(1)
    rules = """
        state small = 0
        state large = 0
        send small leaf: BUFFER[id=k]() -> {k}
        send small above: n@_ -> {min([small(s) for s in srcs(n)])}
        send large leaf: BUFFER[id=k]() -> {k}
        send large above: n@_ -> {max([large(s) for s in srcs(n)]) + small(n)}
        mark: n@NEG(a) -> a + small(n) * 10 + large(n)
    """
    assert rewritten(rules, -(y - x - y), UP) == (y - x - y) + 0 * 10 + 1


def test_a_state_that_is_not_known_yet_has_no_value() -> None:
    x = var(0)
    rules = """
        state s = 1 sum
        send down: n@_ -> {[s(y) for y in srcs(n)]}
    """
    assert states(rules, DOWN, -x) == {x: 1}


def test_loops_around_a_value() -> None:
    """How often a value is computed: what the cost of a kernel is made of."""
    rules = """
        state trips = 1 max
        send through: n@REDUCE(_, rs...) -> {[trips(n) * prod([value(src(r, 0)) for r in rs])] + [none for r in rs]}
        send other: n@_ -> {[trips(n) for s in srcs(n)]}
        mark: b@BUFFER() -> b * trips(b)
    """
    x, r, s = var(0), loop(1, 4), loop(2, 3)
    inner = UOp("REDUCE", (x, s), op="ADD")
    assert rewritten(rules, UOp("REDUCE", (-inner, r), op="ADD"), DOWN) == UOp(
        "REDUCE", (-UOp("REDUCE", (x * 12, s), op="ADD"), r), op="ADD"
    )


def test_deep_graphs() -> None:
    x = var(0)
    root = x
    for _ in range(50_000):
        root = -root
    rules = """
        state s = 0 max
        send deeper: n@_ -> {[s(n) + 1 for x in srcs(n)]}
        leaf: b@BUFFER() -> b * s(b)
    """
    result = rewritten(rules, root, DOWN)
    leaf = next(n for n in result.toposort() if n.op == "MUL")
    assert leaf == x * const(50_000)


# ---- errors ----


def test_a_value_for_each_source() -> None:
    rules = "state s = 0 max\nsend one: _ + _ -> {[1]}\nuse: b@BUFFER() -> b * s(b)"
    message = r"rule p\.one \(test\.rules:4\) on ADD:int32\(.*\): it must send one value to each of the 2 sources, not"
    with pytest.raises(RewriteError, match=message):
        rewritten(rules, var(0) + var(1), DOWN)


def test_values_that_cannot_be_joined() -> None:
    rules = "state s = () union\nsend one: -_ -> {[3]}\nuse: b@BUFFER() -> b * len(s(b))"
    with pytest.raises(RewriteError, match=r"rule p\.one .* `s` joins sequences, not 3"):
        rewritten(rules, -var(0), DOWN)


def test_an_initial_value_is_a_constant() -> None:
    with pytest.raises(RuleError, match="a state starts as a number"):
        one_pass("state s = 1 + 2 max\nsend one: -_ -> {[3]}\nuse: b@BUFFER() -> b * s(b)", DOWN)
