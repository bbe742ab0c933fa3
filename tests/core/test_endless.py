"""Rules that do not end: every kind is reported, with the names and places of the rules, before memory runs out."""

from __future__ import annotations

import pytest
from rule_programs import compile_rules, const, loop, one_pass, var

from rulegrad.errors import RewriteError
from rulegrad.ir import UOp

TENSOR = var(0, "float32", (4,))
X = var(0, "float32")


def error_of(rules: str, root: UOp, kind: str = "rewrite children_first", before: str = "", fuel: int = 0) -> str:
    program = one_pass(rules, kind, before)
    with pytest.raises(RewriteError) as caught:
        program.rewrite("p", root, fuel=fuel)
    message = str(caught.value)
    assert len(message) < 4_000
    return message


@pytest.mark.parametrize("kind", ["rewrite children_first", "rewrite parents_first"])
class TestCycles:
    def test_into_itself(self, kind: str) -> None:
        message = error_of("wrap: n@SQRT(x) -> EXP(n)", UOp("SQRT", (X,)), kind)
        assert "pass p does not end: the rules lead from SQRT:float32(BUFFER[" in message
        assert ") back to it: p.wrap (test.rules:3)\n    look further: python -m rulegrad trace SCRIPT" in message

    def test_ping_pong(self, kind: str) -> None:
        message = error_of("ping: SIN(x) -> COS(x)\npong: COS(x) -> SIN(x)", UOp("SIN", (X,)), kind)
        assert "from SIN:float32(BUFFER[" in message
        assert ") back to it: p.ping (test.rules:3) -> p.pong (test.rules:4)" in message

    def test_three_rules(self, kind: str) -> None:
        rules = "a: SIN(x) -> COS(x)\nb: COS(x) -> TANH(x)\nc: TANH(x) -> SIN(x)"
        message = error_of(rules, UOp("EXP", (UOp("COS", (X,)),)), kind)
        assert "p.b (test.rules:4) -> p.c (test.rules:5) -> p.a (test.rules:3)" in message

    def test_commuting(self, kind: str) -> None:
        message = error_of("swap: ordered x + y -> y + x", var(0) + var(1), kind)
        assert message.count("p.swap") == 2

    def test_only_the_cycle_is_shown(self, kind: str) -> None:
        rules = "once: EXP(x) -> SIN(x)\nping: SIN(x) -> COS(x)\npong: COS(x) -> SIN(x)"
        message = error_of(rules, UOp("EXP", (X,)), kind)
        assert "p.once" not in message and "p.ping" in message and "p.pong" in message


def test_a_long_cycle_is_cut() -> None:
    rules = "step: n@RANGE[id=k, kind=w](e) -> RANGE[id={(k + 1) % 100}, kind=w](e)"
    message = error_of(rules, loop(0, 5))
    assert "… (100 firings)" in message


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["rewrite children_first", "rewrite parents_first"])
@pytest.mark.parametrize(
    ("rules", "root"),
    [
        ("grow: n@RANGE[id=k, kind=w](e) -> RANGE[id={k + 1}, kind=w](e)", loop(0, 5)),
        ("grow: SQRT(x) -> SQRT(x + 1.0)", UOp("SQRT", (X,))),
        ("grow: SQRT(x) -> EXP(SQRT(x + 1.0))", UOp("SQRT", (X,))),
        ("grow: SQRT(x) -> SQRT(x + 1.0) + SQRT(x + 2.0)", UOp("SQRT", (X,))),
        ("grow: SQRT(x) -> SQRT(SQRT(x + 1.0))", UOp("SQRT", (X,))),
    ],
)
def test_growth(rules: str, root: UOp, kind: str) -> None:
    message = error_of(rules, root, kind)
    assert "p.grow (test.rules:3)" in message and "did not end after" in message


def test_growth_in_breadth() -> None:
    """Every way is short, but there are 2**40 of them."""
    rules = """
        split: RANGE[id=k, kind=w](e) -> RANGE[id={2 * k}, kind=w](e) + RANGE[id={2 * k + 1}, kind=w](e)
            if k < 2 ** 40
    """
    message = error_of(rules, loop(1, 5), fuel=100_000)
    assert "did not end after 100" in message and "p.split" in message


def test_fuel_names_the_rules_that_fired_most() -> None:
    rules = """
        often: SQRT(x) -> EXP(SQRT(x + 1.0) * 1.0)
        half: x * 1 -> x
        rare: x + 0 -> x
    """
    message = error_of(rules, UOp("SQRT", (X + 0,)), fuel=1000)
    assert "p.often" in message and "A rule must make progress" in message
    first, second = message.index("p.often"), message.find("p.half")
    assert second == -1 or first < second


def test_a_walk_always_ends() -> None:
    program = one_pass("grow: n@SQRT(x) -> SQRT(n)", "rewrite walk")
    assert program.rewrite("p", UOp("SQRT", (X,)))[0].count_nodes() == 3


# ---- functions ----


def test_a_function_that_needs_itself() -> None:
    before = """
    function f(n):
        all: f(n@_) -> {f(n) + 1}
    """
    message = error_of("a: n@NEG(x) -> {f(n)}", -var(0), before=before)
    assert "function f needs its own result: f(NEG:int32(BUFFER[id=0, shape=()])) -> f(NEG" in message


def test_two_functions_that_need_each_other() -> None:
    before = """
    function f(n):
        all: f(n@_) -> {g(n)}
    function g(n):
        neg: g(NEG(x)) -> {f(x)}
        all: g(n@_) -> {f(n)}
    """
    message = error_of("a: n@NEG(x) -> {f(n)}", -var(0), before=before)
    assert "needs its own result" in message and "f(BUFFER" in message and "g(BUFFER" in message
    assert "NEG" not in message.split("needs its own result: ")[1]  # which is not part of the cycle


def test_a_function_that_counts_for_ever() -> None:
    before = """
    function f(n, k):
        all: f(n@_, k) -> {f(n, k + 1)}
    """
    message = error_of("a: n@NEG(x) -> {f(n, 0)}", -var(0), before=before)
    assert "function f does not end" in message


# ---- one match ----


def test_a_match_that_never_ends() -> None:
    rules = """
        a: n@NEG(x) -> x
            if len([i + j + k for i, j, k in product((100, 100, 10))]) > 0
            if all(len([i + j for j in iota(10000)]) > 0 for i in iota(100000))
    """
    message = error_of(rules, -var(0))
    assert "rule p.a (test.rules:3) on NEG:int32" in message and "steps" in message


def test_shared_sums_are_not_spread_out() -> None:
    node = var(0)
    for _ in range(60):
        node = node + node
    message = error_of("a: n@NEG(x) -> x\n    if const_factor(x) > 0", -node)
    assert "p.a" in message and "steps" in message


def test_deep_sums_are_fine() -> None:
    node = var(0) * 6
    for k in range(100_000):
        node = node + var(k % 10) * 4
    program = one_pass("a: n@NEG(x) -> x * {const_factor(x)}", "rewrite walk")
    assert program.rewrite("p", -node)[0].src[1] == const(2)


@pytest.mark.parametrize(
    "expression",
    [
        "iota(2 ** 40)",
        "product((2 ** 20, 2 ** 20))",
        "product((2 ** 100, 2 ** 100))",
        "product([2 for i in iota(2 ** 20)])",
    ],
)
def test_sequences_that_are_too_long_have_no_value(expression: str) -> None:
    program = one_pass(f"a: n@NEG(x) -> x\n    if len({expression}) >= 0")
    assert program.rewrite("p", -var(0))[0] == -var(0)


def test_the_depth_of_a_graph_is_no_reason_to_stop() -> None:
    program = compile_rules("""
    function depth(n):
        all: depth(n@_) -> {1 + max(0, [depth(s) for s in srcs(n)])}
    pass p rewrite walk:
        a: SINK(x) -> SINK(CONST[int64]({depth(x)}))
    """)
    node = var(0)
    for _ in range(200_000):
        node = -node
    assert program.rewrite("p", UOp("SINK", (node,)))[0].src[0].attrs["value"] == 200_001
    assert program.call("depth", node) == 200_001
