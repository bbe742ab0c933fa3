"""Functions that rules define, functions of the host, and reverse passes."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
from rule_programs import compile_rules, const, loop, one_pass, rewritten, var

from rulegrad import _core
from rulegrad.errors import RewriteError
from rulegrad.ir import UOp

X = var(0)

# ---- functions on nodes ----


def test_the_first_rule_that_matches_decides() -> None:
    program = compile_rules("""
    function kind(n):
        zero: kind(0) -> {0}
        constant: kind(_:const) -> {1}
        sum: kind(a + b) -> {2 + kind(a) * 10 + kind(b) * 100}
        other: kind(_) -> {5}
    """)
    assert program.call("kind", const(0)) == 0
    assert program.call("kind", const(7)) == 1
    assert program.call("kind", X) == 5
    assert program.call("kind", (X + 1) + 0) == 2 + (2 + 50 + 100) * 10


def test_nodes_of_some_ops() -> None:
    program = compile_rules("""
    function below(n):
        all: below(n@_) -> {nodes(n, MUL, CONST)}
    function of_number(n):
        all: of_number(n@_) -> {nodes(n, 3)}
    """)
    product = (X + 1) * UOp("CAST", (loop(0, 4) * 2,), str(X.dtype))
    found = [node for node in product.toposort() if node.op in ("MUL", "CONST")]
    assert [node.op for node in found] == ["CONST", "CONST", "CONST", "MUL", "MUL"]
    assert program.call("below", product) == tuple(found)
    assert list(product.toposort("MUL", "CONST")) == found
    assert program.call("below", X) == ()
    assert program.call("of_number", product) is None


def test_joins_that_need_no_code_are_those_of_the_code() -> None:
    program = compile_rules("""
    function variables(n) distinct:
        some: variables(n@ADD(_, _)) -> {[n, n] if vmin(n) > 0 else [n]}
    function negative(n) any:
        sum: negative(n@ADD(_, _)) -> {vmin(n) < 0}
    function positive(n) all:
        sum: positive(n@ADD(_, _)) -> {vmin(n) > 0}
    """)
    a, b = loop(0, 4) + 1, loop(1, 5) + loop(2, 5)
    assert program.call("variables", a * b) == (a, b)
    assert program.call("variables", (a * b) * a) == (a, b)
    assert program.call("variables", (a * a) * (b * a)) == (a, b)
    assert program.call("variables", loop(0, 4) * 2) == ()
    below = b + const(-9, "index")
    assert program.call("negative", a * b) is False
    assert program.call("negative", a * below) is True
    assert program.call("positive", a * loop(0, 4)) is True
    assert program.call("positive", a * b) is False


def test_no_rule_has_no_value() -> None:
    program = compile_rules("""
    function only_sums(n):
        sum: only_sums(_ + _) -> {1}
    pass p rewrite walk:
        a: n@NEG(x) -> x
            if only_sums(x) == 1
    """)
    assert program.call("only_sums", X) is None
    assert program.rewrite("p", -X)[0] == -X
    assert program.rewrite("p", -(X + X))[0] == X + X


def test_functions_give_values_nodes_and_tuples() -> None:
    program = compile_rules("""
    function twice(n):
        all: twice(n@_) -> n + n
    function both(n, k):
        all: both(n@_, k) -> (n, {k + 1}, float16, [k, k])
    """)
    assert program.call("twice", X) == X + X
    assert program.call("both", X, 3) == (X, 4, "float16", (3, 3))
    assert program.call("both", X, (1, "a")) is None  # 1 + a tuple has no value


def test_results_are_remembered() -> None:
    """2**60 ways lead to the leaf, but it is asked for once."""
    calls: list[object] = []
    program = compile_rules("""
    extern pure seen(n: int) -> int = "tests.seen"
        test seen(1) -> 1
    function depth(n):
        leaf: depth(BUFFER[id=k]()) -> {seen(k)}
        all: depth(n@_) -> {1 + max([depth(s) for s in srcs(n)])}
    """)
    program.set_extern("seen", lambda k: calls.append(k) or k)
    node = var(0)
    for _ in range(60):
        node = node + node
    assert program.call("depth", node) == 60 and calls == [0]


def test_other_arguments_are_part_of_what_is_remembered() -> None:
    program = compile_rules("""
    function scaled(n, k):
        sum: scaled(a + b, k) -> scaled(a, k * 2) + scaled(b, k * 3)
        all: scaled(n@_, k) -> n * k
    """)
    assert program.call("scaled", X + X, 1) == X * 2 + X * 3


def test_wrong_arguments() -> None:
    program = compile_rules("""
    function two(n, k):
        all: two(n@_, k) -> {k}
    """)
    with pytest.raises(RewriteError, match="function two takes 2 arguments, the first of them a node"):
        program.call("two", X)
    with pytest.raises(RewriteError, match="function two takes 2 arguments, the first of them a node"):
        program.call("two", 1, 2)
    with pytest.raises(RewriteError, match="function two takes 2 arguments, the first of them a node"):
        program.call("two", X, 1, 2, 3)
    for arguments in ((), (X, *range(8))):
        with pytest.raises(RewriteError, match="takes one to 8 arguments"):
            program.call("two", *arguments)


def test_a_rule_goes_on_after_each_of_its_calls() -> None:
    """Started again after each, 2,000 choices would take two million steps, and 20,000 sources two hundred million."""
    program = compile_rules("""
    function distance(n, k, m):
        all: distance(n@_, k, m) -> {abs(k * 50 + m - 777)}
    function leaves(n):
        leaf: leaves(_:const) -> {1}
        all: leaves(n@_) -> {total([leaves(s) for s in srcs(n)])}
    pass p rewrite walk:
        nearest: b@BUFFER() -> BUFFER[..b, id={k * 50 + m}]()
            for k in iota(40)
            let before = [k, b]
            for m in iota(50)
            if before[1] == b
            least distance(b, before[0], m)
    pass q choose best:
        cost leaves
        fuel 3000
        each: SINK(xs...) -> SINK(y, y)
            for y in xs
            if leaves(y) < 3
    """)
    assert program.rewrite("p", X)[0] == var(777)
    wide = UOp("SINK", tuple(const(k) + k for k in range(20_000)))
    assert program.call("leaves", wide) == 40_000
    pair = const(0) + 0
    assert program.rewrite("q", UOp("SINK", tuple(const(k) + 0 for k in range(500))))[0] == UOp("SINK", (pair, pair))


def test_calls_of_calls_at_every_depth() -> None:
    program = compile_rules("""
    function depth(n):
        leaf: depth(BUFFER()) -> {0}
        all: depth(n@_) -> {1 + max([depth(s) for s in srcs(n)])}
    function wrong(n):
        deep: wrong(n@_) -> n + CAST[int8](n)
            if depth(n) == 0
        all: wrong(n@_) -> wrong(src(n, 0))
    """)
    for depth in (0, 1, 20, 23, 24, 25, 26, 100, 3000):
        graph = X
        for k in range(depth):
            graph = UOp("SINK", (X, graph)) if k % 2 else UOp("SINK", (graph, X, graph))
        assert program.call("depth", graph) == depth
        negated = X
        for _ in range(depth):
            negated = UOp("SINK", (negated,))
        with pytest.raises(RewriteError) as caught:
            program.call("wrong", negated)
        assert str(caught.value).count("rule ") == 1 and "wrong.deep" in str(caught.value)


def test_functions_of_many_arguments() -> None:
    program = compile_rules("""
    function many(n, a, b, c, d, e, f, g):
        leaf: many(_:const, a, b, c, d, e, f, g) -> {[a, b, c, d, e, f, g]}
        other: many(n@_, a, b, c, d, e, f, g) -> many(src(n, 0), b, c, d, e, f, g, {a + 1})
    function four(n, a, b, c):
        all: four(n@_, a, b, c) -> {[n, a, b, c]}
    function asks(n):
        all: asks(n@_) -> {[many(n, 1, 2, 3, 4, 5, 6, [7, n]), four(n, n, [1, 2], 3), four(n, n, [1, 2], 4)]}
    """)
    assert program.call("many", const(0), *range(7)) == tuple(range(7))
    assert program.call("many", -(-const(0)), *range(7)) == (2, 3, 4, 5, 6, 1, 2)
    assert program.call("four", X, 1, (2, 3), 4) == (X, 1, (2, 3), 4)
    expected = ((1, 2, 3, 4, 5, 6, (7, const(0))), (const(0), const(0), (1, 2), 3), (const(0), const(0), (1, 2), 4))
    assert program.call("asks", const(0)) == expected
    with pytest.raises(RewriteError, match="function many takes 8 arguments"):
        program.call("many", X, 1, (2, 3))


def test_an_error_in_a_function_names_its_rule() -> None:
    before = """
    function wrong(n):
        all: wrong(n@_) -> n + CAST[int8](n)
    """
    with pytest.raises(RewriteError, match=r"rule wrong.all \(test.rules:3\) on BUFFER.*different dtypes"):
        rewritten("a: NEG(x) -> wrong(x)", -X, before=before)


def test_functions_in_every_place() -> None:
    before = """
    function small(n):
        constant: small(c:const) -> {c < 10}
        other: small(_) -> {false}
    """
    rules = """
        guard: x + c:const -> x * c
            if small(c)
        template: NEG(x) -> CONST[int32]({1 if small(x) else 2})
    """
    assert rewritten(rules, X + 5, before=before) == X * 5
    assert rewritten(rules, X + 50, before=before) == X + 50
    assert rewritten(rules, -X, before=before) == const(2)


def test_functions_can_be_disabled_by_rule() -> None:
    program = compile_rules("""
    function f(n):
        first: f(_) -> {1}
        second: f(_) -> {2}
    """)
    program.disable("f.first")
    assert program.call("f", X) == 2


# ---- functions of the host ----

EXTERN = """
extern pure host(n: {argument}) -> {result} = "tests.host"
    test host({sample}) -> {sample}
pass p rewrite walk:
    a: n@NEG(x) -> {template}
"""


def host_program(template: str, function: Any, argument: str = "int", result: str = "int", sample: str = "1") -> Any:
    program = compile_rules(
        EXTERN.format(template=template, argument=argument, result=result, sample=sample), checked=False
    )
    program.set_extern("host", function)
    return program


def test_an_extern_computes() -> None:
    seen: list[object] = []

    def function(n: int) -> int:
        seen.append(n)
        return n * 2

    program = host_program('x * {host(attr(x, "id") + 20)}', function)
    assert program.rewrite("p", -var(1))[0] == var(1) * 42 and seen == [21]
    assert program.externs == ["host"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3),
        (2.5, 2.5),
        (True, True),
        ("a", "a"),
        ((1, "b", (2.0,)), (1, "b", (2.0,))),
        ([1, 2], (1, 2)),
        (2**100, 2**100),
    ],
)
def test_what_an_extern_may_give(value: object, expected: object) -> None:
    program = compile_rules(
        """
        extern pure host(n: int) -> scalar = "tests.host"
            test host(1) -> 1
        function f(n):
            all: f(_) -> (host(1), 0)
        """
    )
    program.set_extern("host", lambda n: value)
    assert program.call("f", X) == (expected, 0)


def test_an_extern_takes_and_gives_nodes() -> None:
    program = host_program("host(x)", lambda node: node + 1, "node", "node", "x:int32")
    assert program.rewrite("p", -X)[0] == X + 1


def test_nodes_that_an_extern_made_stay_alive() -> None:
    program = host_program(
        "host(n)[0] + host(n)[1][0]", lambda node: (var(777) * 5, (var(778) * 6,)), "node", "tuple", "x:int32"
    )
    gc.collect()
    base = _core.live_nodes()
    assert program.rewrite("p", -X)[0] == var(777) * 5 + var(778) * 6
    gc.collect()
    assert _core.live_nodes() == base


def test_an_exception_in_an_extern() -> None:
    def function(n: int) -> int:
        raise KeyError("no such thing")

    program = host_program("x * {host(1)}", function)
    with pytest.raises(RewriteError, match=r"rule p.a .*the extern host failed: KeyError: 'no such thing'"):
        program.rewrite("p", -X)
    with pytest.raises(RewriteError, match="no such thing"):
        program.rewrite_many(["p"], [-X, -var(1), -var(2)])


@pytest.mark.parametrize("value", [None, 1j, object(), {1: 2}, 2**200])
def test_a_value_that_no_rule_can_have(value: object) -> None:
    program = host_program("x * {host(1)}", lambda n: value)
    with pytest.raises(RewriteError, match=r"rule p.a .*the extern host failed: .*(must be an int|does not fit)"):
        program.rewrite("p", -X)


def test_an_extern_with_no_implementation() -> None:
    program = compile_rules(
        EXTERN.format(template="x * {host(1)}", argument="int", result="int", sample="1"), checked=False
    )
    with pytest.raises(RewriteError, match="the extern host has no implementation"):
        program.rewrite("p", -X)
    with pytest.raises(RewriteError, match="no extern is called other"):
        program.set_extern("other", lambda n: n)
    program.set_extern("host", lambda n: 1)
    program.set_extern("host", lambda n: 2)
    assert program.rewrite("p", -X)[0] == X * 2


def test_an_extern_may_rewrite() -> None:
    """Runs nest: each has its own memory of what is done, and of how often nodes are used."""
    inner = one_pass("shared: n@ABS(x) -> x\n    if uses(n) > 1", "rewrite walk")

    def function(node: UOp) -> UOp:
        return inner.rewrite("p", UOp("MAX", (UOp("ABS", (node,)), UOp("ABS", (node,)) + 1)))[0]

    program = compile_rules(
        """
        extern pure host(n: node) -> node = "tests.host"
            test host(x:int32) -> x
        pass p rewrite walk:
            neg: n@NEG(x) -> host(x)
                if uses(n) == 2
            other: n@(a + b) -> a * b
                if uses(n) == 1
        """,
        checked=False,
    )
    program.set_extern("host", function)
    neg = -X
    root = UOp("SINK", (neg * 2, neg * 3, (X + 1) * 5))
    found = program.rewrite("p", root)[0]
    assert found.src[0] == UOp("MAX", (X, X + 1)) * 2 and found.src[2] == (X * 1) * 5


def test_externs_from_threads() -> None:
    program = host_program('x * {host(attr(x, "id"))}', lambda n: n + 1)
    roots = [-var(k) for k in range(200)]
    results: list[list[UOp]] = []
    threads = [threading.Thread(target=lambda: results.append(program.rewrite_many(["p"], roots)[0])) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[var(k) * (k + 1) for k in range(200)]] * 3


# ---- reverse passes ----

GRADIENTS = """
function gradient(n, d):
    add: gradient(_ + _, d) -> (d, d)
    mul: gradient(ordered a * b, d) -> (d * b, d * a)
    exp: gradient(n@EXP(_), d) -> (d * n,)
    where: gradient(where(c, _, _), d) -> (none, where(c, d, CONST[dtype(d)](0.0)), where(c, CONST[dtype(d)](0.0), d))
    wrong_dtype: gradient(SIN(_), d) -> (CAST[float64](d),)
    wrong_shape: gradient(EXPAND(_), d) -> (d,)
    one_too_many: gradient(COS(_), d) -> (d, d)
pass gradients = reverse gradient
"""


def gradients(root: UOp, *targets: UOp, seed: UOp | None = None) -> list[UOp | None]:
    return compile_rules(GRADIENTS).reverse(
        "gradients", [root], [seed if seed is not None else const(1.0, "float32")], list(targets)
    )


A, B, D = var(1, "float32"), var(2, "float32"), const(1.0, "float32")


def test_gradients_follow_the_rules() -> None:
    assert gradients(A + B, A, B) == [D, D]
    assert gradients(A * B, A, B) == [D * B, D * A]
    e = UOp("EXP", (A,))
    assert gradients(e, A) == [D * e]


def test_contributions_are_added() -> None:
    assert gradients(A + A, A) == [D + D]
    assert gradients(A * A, A) == [D * A + D * A]


def test_what_the_root_does_not_depend_on_has_none() -> None:
    assert gradients(A * 2.0, B) == [None]
    c = var(3, "bool")
    assert gradients(UOp("WHERE", (c, A, B)), c) == [None]
    assert gradients(A, A) == [D]


def test_gradients_of_inner_nodes() -> None:
    inner = A * B
    assert gradients(UOp("EXP", (inner,)), inner) == [D * UOp("EXP", (inner,))]


def test_only_what_leads_to_a_target_needs_a_rule() -> None:
    assert gradients(A + UOp("SQRT", (B,)), A) == [D]
    with pytest.raises(
        RewriteError, match=r"function gradient has no rule for SQRT:float32\(.*\): no gradient is defined there"
    ):
        gradients(A + UOp("SQRT", (B,)), B)


@pytest.mark.parametrize(
    ("root", "message"),
    [
        (UOp("SIN", (A,)), "another dtype than its source"),
        (UOp("COS", (A,)), "gives 2 gradients for COS.*, which has 1 sources: one for each"),
    ],
)
def test_wrong_gradients(root: UOp, message: str) -> None:
    with pytest.raises(RewriteError, match=message):
        gradients(root, A)


def test_shapes_of_gradients_are_checked() -> None:
    t = var(5, "float32", (1,))
    expanded = UOp("EXPAND", (t,), shape=(3,))
    with pytest.raises(RewriteError, match="another shape than its source"):
        gradients(expanded, t, seed=var(6, "float32", (3,)))
    with pytest.raises(RewriteError, match="another dtype or shape than the node"):
        gradients(expanded, t, seed=var(6, "float32", (4,)))
    with pytest.raises(RewriteError, match="another dtype or shape than the node"):
        gradients(A, A, seed=const(1, "int32"))


def test_gradients_of_a_deep_graph() -> None:
    node = A
    for _ in range(50_000):
        node = node + B
    found = gradients(node, A)
    assert found == [D]


def test_loops_and_indices_are_not_confused() -> None:
    assert loop(0, 3) != loop(0, 4) and loop(0, 3) != loop(0, 3, "reduce")
