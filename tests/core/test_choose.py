"""Choose passes: candidates that actions lead to, of which one that costs less takes the graph's place."""

from __future__ import annotations

import pytest
from rule_programs import compile_bytes, const, loop, one_pass, var

from rulegrad import _core
from rulegrad.errors import RewriteError, RuleError
from rulegrad.ir import UOp

WEIGHT = """
function weight(n):
    leaf: weight(n@BUFFER()) -> {n.id}
    all: weight(n@_) -> {1 + sum([weight(s) for s in srcs(n)])}
"""


def steps(*lines: str) -> str:
    """Actions between buffers, such as `9 7`; a buffer costs its id."""
    rules = (line.split() for line in lines)
    return "\n".join(f"from{a}to{b}: b@BUFFER[id={a}]() -> BUFFER[..b, id={b}]()" for a, b in rules)


def fired(kind: str, rules: str, root: UOp, before: str = WEIGHT) -> tuple[UOp, list[str]]:
    """The result of the pass, and the rules that fired."""
    program = one_pass(rules, kind, before)
    result, info = program.rewrite("p", root, trace=True)
    names = [firing[0].removeprefix("p.") for firing in info["firings"]]
    assert info["fired"] == len(names)
    return result, names


def test_best_and_first() -> None:
    rules = "cost weight\n" + steps("9 12", "9 7", "9 5", "7 2")
    assert fired("choose best", rules, var(9)) == (var(5), ["from9to5"])
    assert fired("choose first", rules, var(9)) == (var(2), ["from9to7", "from7to2"])


def test_without_improvement_the_graph_stays() -> None:
    root = var(5) + 1
    assert fired("choose best", "cost weight\n" + steps("5 5", "5 6", "5 8"), root) == (root, [])


def test_of_equal_costs_the_first_counts() -> None:
    rules = "cost weight\n" + steps("9 3", "8 2")
    root = var(9) - var(8)
    assert fired("choose best", "cost weight\nfuel 2\n" + steps("9 3", "8 2"), root)[1] == ["from9to3"]
    assert fired("choose best", rules, root) == (var(3) - var(2), ["from9to3", "from8to2"])


@pytest.mark.parametrize(("fuel", "expected"), [(1, 9), (2, 7), (3, 5), (4, 5), (5, 5), (6, 1)])
def test_fuel_counts_candidates(fuel: int, expected: int) -> None:
    rules = f"cost weight\nfuel {fuel}\n" + steps("9 12", "9 7", "9 5", "5 11", "5 10", "5 1")
    assert fired("choose best", rules, var(9))[0] == var(expected)


def test_candidates_are_normalised() -> None:
    before = f"""{WEIGHT}
ruleset down:
    three: b@BUFFER[id=12]() -> BUFFER[..b, id=3]()
ruleset zeros:
    zero: x + 0 -> x
"""
    rules = "cost weight\n" + steps("9 12")
    assert fired("choose best", rules, var(9), before) == (var(9), [])
    result, names = fired("choose best", "use down + zeros\n" + rules, var(9) + (const(4) + 0), before)
    assert result == var(3) + const(4)
    assert sorted(names) == ["down.three", "from9to12", "zeros.zero"]


def test_what_a_template_holds_of_the_graph_stays() -> None:
    before = """
function tall(n):
    all: tall(n@_) -> {0 - len([s for s in srcs(n)]) - sum([tall(s) for s in srcs(n)])}
"""
    program = one_pass("cost tall\nfuel 3\nmore: n@NEG(_) -> -(-n)", "choose best", before)
    result, info = program.rewrite("p", -var(0))
    assert str(result.count_nodes()) == str(1 + 1 + 2 * info["fired"])


def test_operands_in_each_order_are_candidates() -> None:
    before = """
function bound(n):
    sum: bound(x + y) -> {vmax(x) * 100 + bound(y)}
    all: bound(n@_) -> {vmax(n)}
"""
    i, j, k = loop(1, 9), loop(2, 5), loop(3, 3)
    result, _ = fired("choose best", "cost bound\nturned: (x + y) + z -> x + (y + z)", (i + j) + k, before)
    assert result in (j + (i + k), k + (i + j), i + (j + k), (i + j) + k)


COSTLY = """
function cost(n):
    known: cost(n@BUFFER[id=k]()) -> {k}
        if k < 20
"""


def test_candidates_without_a_cost_are_dropped() -> None:
    rules = "cost cost\n" + steps("9 30", "9 8")
    assert fired("choose best", rules, var(9), COSTLY) == (var(8), ["from9to8"])


def test_the_given_graph_must_have_a_cost() -> None:
    program = one_pass("cost cost\n" + steps("9 8"), "choose best", COSTLY)
    with pytest.raises(
        RewriteError, match=r"pass p cannot start: the cost of BUFFER.* by cost must be a number, not none"
    ):
        program.rewrite("p", var(30))


def test_costs_are_numbers() -> None:
    before = """
function cost(n):
    known: cost(n@BUFFER[id=k]()) -> {k} if k > 8 else n
"""
    program = one_pass("cost cost\n" + steps("9 8"), "choose best", before)
    with pytest.raises(
        RewriteError, match=r"rule p.from9to8 \(test.rules:\d+\) on BUFFER.*the cost of its candidate by cost"
    ):
        program.rewrite("p", var(9))
    with pytest.raises(RewriteError, match="pass p cannot start"):
        program.rewrite("p", var(7))


def test_normalising_that_does_not_end_names_the_action() -> None:
    before = f"""{WEIGHT}
ruleset circle:
    there: b@BUFFER[id=12]() -> BUFFER[..b, id=13]()
    back: b@BUFFER[id=13]() -> BUFFER[..b, id=12]()
"""
    program = one_pass("cost weight\nuse circle\n" + steps("9 12"), "choose best", before)
    with pytest.raises(RewriteError, match=r"rule p.from9to12 .*cannot be judged: pass rules circle does not end"):
        program.rewrite("p", var(9))


def test_deep_graphs() -> None:
    root = var(9)
    for _ in range(20_000):
        root = -root
    before = """
function lowest(n):
    leaf: lowest(BUFFER[id=k]()) -> {k}
    all: lowest(-x) -> lowest(x)
"""
    result, names = fired("choose first", "cost lowest\n" + steps("9 7", "7 3"), root, before)
    assert names == ["from9to7", "from7to3"]
    assert result.count_nodes() == 20_001


def test_followed_nodes_lead_to_what_became_of_them() -> None:
    program = one_pass("cost weight\n" + steps("9 7", "7 3"), "choose best", WEIGHT)
    inner = var(9) * 2
    _, info = program.rewrite("p", inner + 1, follow=[inner, var(9)])
    assert info["followed"] == [var(3) * 2, var(3)]


def test_after_a_limit_rules_are_left_out() -> None:
    before = f"{WEIGHT}\nruleset zeros:\n    zero: x + 0 -> x\n"
    program = one_pass("cost weight\nuse zeros\n" + steps("9 7", "7 3"), "choose best", before)
    root = (var(9) + 0) * 2
    for limit, expected in ((0, root), (1, (var(7) + 0) * 2), (2, var(7) * 2), (3, var(3) * 2)):
        result, info = program.rewrite("p", root, limit=limit)
        assert (result, info["fired"]) == (expected, limit)


DIVISIONS = """
function divisions(n):
    division[f: {FLOORDIV, FLOORMOD}]: divisions(f(a, b)) -> {1 + divisions(a) + divisions(b)}
    other: divisions(n@_) -> {sum([divisions(s) for s in srcs(n)])}
ruleset tidy:
    merged: (x // a:const) // b:const -> x // {a * b}
        if a > 0 and b > 0
"""
FEWER = """
    cost divisions
    fuel 500
    use tidy
    joined: x // n:const + y -> (x + y * n) // n
        if n > 0
    whole: (x // n:const) * n + x % n -> x
"""


def test_an_index_of_few_divisions() -> None:
    i, j = loop(1, 64), loop(2, 8)
    index = ((i // 4) // 2) * 8 + (i // 4 * 4 + i % 4) % 8 + j
    result, names = fired("choose best", FEWER, index, DIVISIONS)
    divisions = sum(n.op in ("FLOORDIV", "FLOORMOD") for n in result.toposort())
    assert divisions < sum(n.op in ("FLOORDIV", "FLOORMOD") for n in index.toposort())
    assert "whole" in names


def test_programs_that_are_refused() -> None:
    good = compile_bytes(
        f"{WEIGHT}\nruleset zeros:\n    zero: x + 0 -> x\npass p choose best:\n    cost weight\n    use zeros\n    a: -(-x) -> x\n"
    )
    _core.Program(good)
    name = b"\x01\x00\x00\x00p"
    at = good.rindex(name) + len(name)
    for offset, value, message in (
        (0, 11, "an unknown kind of pass"),
        (4, -1, "needs a function that gives the cost"),
        (4, 9, "a function is out of range"),
        (8, 2, "only a rewrite pass can normalise"),
        (8, 1, "only a rewrite pass can normalise"),
    ):
        damaged = bytearray(good)
        damaged[at + offset : at + offset + 4] = value.to_bytes(4, "little", signed=True)
        with pytest.raises(RuleError, match=message):
            _core.Program(bytes(damaged))
