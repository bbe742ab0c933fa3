"""Collect passes: facts of a graph, and one replacement of all its nodes at once."""

from __future__ import annotations

import gc

import pytest
from rule_programs import compile_bytes, compile_rules, const, loop, one_pass, rewritten, var

from rulegrad import _core
from rulegrad.errors import RewriteError, RuleError
from rulegrad.ir import UOp


def collected(rules: str, root: UOp) -> UOp:
    return rewritten(rules, root, "collect")


def parameter(slot: int) -> UOp:
    return UOp("PARAM", (), "int32", slot=slot, shape=())


# ---- merging ----


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ("f(r) = c first", 4),
        ("f(r) = c min", 2),
        ("f(r) = c max", 6),
        ("f(r) = c sum", 12),
        ("f(r) count", 3),
        ("f(r) = len([c]) sum", 3),
    ],
)
def test_merges(fact: str, expected: int) -> None:
    r = loop(1, 12)
    rules = f"""
        fact {fact}: r@RANGE(_) % c:const
        use: r@RANGE(n) -> RANGE[..r, id=f(r)](n)
    """
    root = UOp("SINK", (r % 4, r % 6, r % 2, loop(2, 3)))
    result = collected(rules, root)
    assert [n.attrs["id"] for n in result.src[0].toposort() if n.op == "RANGE"] == [expected]
    unknown = 0 if "sum" in fact or "count" in fact else 2  # sum and count are 0 where there is no value
    assert result.src[3].attrs["id"] == unknown


def test_all_keeps_distinct_values_in_order() -> None:
    rules = """
        fact extents() = n all: RANGE(n:const)
        all: n@SINK(xs...) -> SINK(xs..., (CONST[index](e) for e in extents()))
    """
    root = UOp("SINK", (loop(1, 5), loop(2, 3), loop(3, 5)))
    assert [n.attrs["value"] for n in collected(rules, root).src[3:]] == [5, 3]
    assert collected(rules, UOp("SINK", (var(0),))) == UOp("SINK", (var(0),))


def test_numbers_follow_the_graph() -> None:
    rules = """
        fact place(b) number: b@BUFFER()
        fact place(p) number: p@PARAM()
        buffer: b@BUFFER() -> PARAM[slot=place(b), shape=shape(b), dtype=dtype(b)]()
        parameter: p@PARAM() -> PARAM[..p, slot=place(p)]()
    """
    root = UOp("SINK", (var(5) + parameter(0), var(9) * var(5), parameter(1)))
    result, info = one_pass(rules, "collect").rewrite("p", root)
    assert info["numbered"] == {"place": [var(5), parameter(0), var(9), parameter(1)]}
    assert result == UOp("SINK", (parameter(0) + parameter(1), parameter(2) * parameter(0), parameter(3)))


def test_facts_of_several_keys_and_of_facts_above() -> None:
    rules = """
        fact extent(r) = n first: r@RANGE(n:const)
        fact sizes(k) = n sum: r@RANGE[kind=k](_)
            let n = extent(r)
        fact both(k, i) = n first: r@RANGE[kind=k, id=i](_)
            let n = sizes(k) * 100 + i
        use: r@RANGE[kind=k, id=i](n) -> RANGE[..r, id=both(k, i)](n)
    """
    root = UOp("SINK", (loop(1, 5), loop(2, 3), loop(3, 7, "reduce")))
    assert [s.attrs["id"] for s in collected(rules, root).src] == [801, 802, 703]


def test_a_guard_tells_whether_there_is_a_fact() -> None:
    rules = """
        fact signs(x) count: NEG(x)
        twice: n@ABS(x) -> x
            if signs(x) > 0
        never: n@ABS(x) -> -x
            if signs(n) > 0 or signs(-x) > 0
    """
    x, y = var(0), var(1)
    root = UOp("SINK", (-x, *(UOp("ABS", (n,)) for n in (x, y))))
    assert collected(rules, root).src == (-x, x, UOp("ABS", (y,)))


# ---- the replacement ----


def test_patterns_see_the_graph_as_it_was_given() -> None:
    rules = """
        sum: x + y -> x * y
        product: x * y -> x + y
    """
    x, y = var(0), var(1)
    assert collected(rules, (x + y) * (x * y)) == (x * y) + (x + y)
    assert collected(rules, (x + y) + (x + y * x)) == (x * y) * (x * (y + x))


def test_what_a_rule_builds_is_not_replaced_again() -> None:
    swap = """
        fact place(p) number: p@PARAM()
        parameter: p@PARAM() -> PARAM[..p, slot=place(p)]()
    """
    a, b = parameter(1), parameter(0)
    assert collected(swap, a * (a - b)) == b * (b - a)
    wrap = (
        "two: x:int32 - y -> NEG(x + 1) - y\nneg: NEG(x) -> ABS(x)\nloops: r@RANGE(e) -> RANGE[..r, id={3 - r.id}](e)"
    )
    x = var(0)
    assert collected(wrap, UOp("SINK", (x - -(x + 1), -(x + 1)))) == UOp(
        "SINK", (-(x + 1) - UOp("ABS", (x + 1,)), UOp("ABS", (x + 1,)))
    )
    assert collected(wrap, UOp("SINK", (loop(1, 4), loop(2, 4)))) == UOp("SINK", (loop(2, 4), loop(1, 4)))


def test_a_template_may_keep_the_node_itself() -> None:
    rules = """
        all: n@(x + y) -> NEG(n)
        leaf: b@BUFFER[id=0]() -> ABS(b)
    """
    x, y = var(0), var(1)
    inner = -(UOp("ABS", (x,)) + y)
    assert collected(rules, (x + y) + y) == -(inner + y)


def test_captures_and_constants_as_templates() -> None:
    rules = "zero: x + 0 -> x\nnothing: _ * 0 -> 0"
    x = var(0)
    assert collected(rules, ((x + 0) + 0) * x + 0) == x * x
    assert collected(rules, (x + 0) * 0) == const(0)
    assert one_pass(rules, "collect").rewrite("p", x * x)[1]["fired"] == 0


def test_replacements_that_need_each_other() -> None:
    rules = """
        fact above(x) = n first: n@ABS(x)
        up: n@NEG(_) -> above(n) + 1
    """
    message = r"cannot replace NEG:int32\(.*\): what takes its place needs its result: p\.up \(test\.rules:4\)"
    with pytest.raises(RewriteError, match=message):
        collected(rules, UOp("ABS", (-var(0),)))


def test_a_long_chain_of_replacements() -> None:
    x = var(0)
    root = x
    for _ in range(20_000):
        root = -root
    rules = """
        up: NEG(x) -> ABS(x)
        last: b@BUFFER() -> b * 2
    """
    result = collected(rules, root)
    assert result.count_nodes() == 20_000 + 3
    assert {n.op for n in result.toposort()} == {"ABS", "MUL", "BUFFER", "CONST"}


def test_followed_and_traced() -> None:
    x, y = var(0), var(1)
    rules = "neg: -a -> ABS(a)"
    root = -(-x + y)
    result, info = one_pass(rules, "collect").rewrite("p", root, trace=True, follow=[-x, y, root, var(7)])
    absolute = UOp("ABS", (x,))
    assert result == UOp("ABS", (absolute + y,))
    assert info["followed"] == [absolute, y, result, None]
    assert [(f[0], f[-2], f[-1]) for f in info["firings"]] == [("p.neg", -x, absolute), ("p.neg", root, result)]


def test_uses_and_rule_sets() -> None:
    program = compile_rules(
        """
        ruleset signs:
            minus: -x -> ABS(x)
        pass p collect:
            use signs
            fact seen() count: NEG(_)
            shared: n@(x + y) -> n * uses(n) * seen()
                if uses(n) > 1
        """
    )
    x, y = var(0), var(1)
    root = UOp("SINK", ((x + y) - x, -(x + y)))
    twice = (x + y) * 2 * 1
    assert program.rewrite("p", root)[0] == UOp("SINK", (twice - x, UOp("ABS", (twice,))))


# ---- errors ----


def test_values_that_cannot_be_merged() -> None:
    rules = """
        fact f(x) = y max: x + y
        use: x * y -> x
            if f(x) > 0
    """
    with pytest.raises(RewriteError, match=r"rule p\.f \(test\.rules:3\) on ADD:int32\(.*\): `f` joins numbers, not"):
        collected(rules, (var(0) + var(1)) * var(2))


def test_a_rule_that_changes_the_dtype() -> None:
    with pytest.raises(RewriteError, match="it changes the dtype"):
        collected("a: CAST[T](x) -> x".replace("a:", "a[T]:"), UOp("CAST", (var(0),), "float32"))


def test_malformed_dataflow() -> None:
    data = bytearray(_bytes())
    at = data.index(b"number_me") + len(b"number_me")
    for place, value, message in ((at, 99, "function is out of range"), (at + 4, 77, "unknown way to merge")):
        bad = bytearray(data)
        bad[place] = value
        with pytest.raises(RuleError, match=message):
            _core.Program(bytes(bad))


def _bytes() -> bytes:
    text = """
        pass p collect:
            fact number_me(b) number: b@BUFFER()
            a: b@BUFFER() -> b + number_me(b)
    """
    return compile_bytes(text).replace(b"p.number_me", b"p.numbered!")


def test_nothing_is_left_behind() -> None:
    rules = "a: x + y -> x * y\nb: x * y -> x + y"
    program = one_pass(rules, "collect")
    root = (var(0) + var(1)) * var(2)
    program.rewrite("p", root)
    gc.collect()
    base = _core.live_nodes()
    for _ in range(5):
        program.rewrite("p", root)
    gc.collect()
    assert _core.live_nodes() == base
