"""Program.explain: a rule's alternatives are run on the nodes of a pass, and nothing of that is seen in its result."""

from __future__ import annotations

from typing import Any

import pytest
from rule_programs import compile_rules, const, loop, var

from rulegrad.errors import RewriteError
from rulegrad.ir import UOp

PROGRAM = """
    function probe(n):
        zero: probe(x + c:const) -> {vmin(x)}
            if c > slot(x)
        other: probe(x * y) -> x
    function depth(n):
        leaf: depth(BUFFER()) -> {0}
        node: depth(n@_) -> {1 + max(depth(s) for s in srcs(n))}
            if len(srcs(n)) > 0
    function second(n, k):
        bigger: second(x + c:const, k) -> {c + k}
    pass p rewrite children_first:
        numbered: x + c:const -> x ^ {slot(x)}
        nothing: x * y -> y
    pass q rewrite walk:
        deep: n@-x -> x
            if depth(x) > 1 and second(x, 3) > 5
"""
ADDED = var(0) + 5
GRAPH = UOp("SINK", (ADDED, (var(1) + 5) * ADDED, loop(1, 4) + const(-1, "index")))


class Watcher:
    """The events, in order; of the rewriting inside, its beginnings and ends."""

    def __init__(self) -> None:
        self.attempts: list[Any] = []
        self.inside: list[Any] = []

    def attempt(self, *attempt: Any) -> None:
        self.attempts.append(attempt)

    def enter(self, *what: Any) -> None:
        self.inside.append(what)

    def leave(self, information: Any, error: str) -> None:
        self.inside.append(([firing[0] for firing in information["firings"]], error))


def explained(
    graph: UOp, name: str = "p", function: str = "", probe: str = "probe"
) -> tuple[list[Any], list[Any], str]:
    watcher = Watcher()
    information, error = compile_rules(PROGRAM).explain(name, probe, graph, watcher, function, [ADDED])
    return watcher.attempts, information["firings"], error


def test_attempts_on_every_node_with_the_root_op() -> None:
    attempts, _, error = explained(GRAPH)
    assert not error
    assert [(node.op, alternative, done) for node, alternative, done, *_ in attempts] == [
        ("ADD", 0, True),
        ("ADD", 0, True),
        ("MUL", 1, True),
        ("MUL", 2, True),
        ("ADD", 0, False),
    ]
    assert [attempt[4] for attempt in attempts[:2]] == [-(1 << 31), -(1 << 31)]


def test_registers_of_the_nodes_that_are_asked_about() -> None:
    attempts, *_ = explained(GRAPH)
    registers = [attempt[5] for attempt in attempts]
    assert registers[0][0] == ADDED and var(0) in registers[0]
    assert registers[1:] == [[]] * 4


def test_the_pass_is_as_without() -> None:
    program = compile_rules(PROGRAM)
    _, information = program.rewrite("p", GRAPH, trace=True)
    assert explained(GRAPH)[1] == information["firings"]


def test_rules_of_functions() -> None:
    graph = UOp("SINK", (-(-var(0)),))
    attempts, *_ = explained(graph, "q", "depth", "depth")
    assert [(attempt[0].op, attempt[2]) for attempt in attempts if attempt[1] == 1] == [
        ("BUFFER", False),
        ("NEG", True),
    ]
    attempts, *_ = explained(UOp("SINK", (-(ADDED * 1 + 4),)), "q", "second", "second")
    assert attempts == []


def test_an_error_ends_the_pass_and_is_told() -> None:
    program = compile_rules(
        "pass p rewrite children_first:\n    flip: x - y -> y - x\nfunction probe(n):\n    a: probe(x - y) -> x\n"
    )
    watcher = Watcher()
    information, error = program.explain("p", "probe", var(0) - var(1), watcher)
    assert "does not end" in error and len(watcher.attempts) == len(information["firings"]) == 2


INSIDE = """
    function probe(n):
        twice: probe(-(-x)) -> x
    ruleset signs:
        twice: -(-x) -> x
    pass p rewrite children_first:
        pull: ABS(x) -> y
            let y = rewritten(-x, signs)
            if op(y) != NEG
    function weight(n):
        leaf: weight(BUFFER[id=k]()) -> {k}
        all: weight(n@_) -> {1 + sum([weight(s) for s in srcs(n)])}
    pass q choose best:
        cost weight
        use signs
        other: b@BUFFER[id=9]() -> -b
"""


def test_rewriting_inside_is_told() -> None:
    program = compile_rules(INSIDE)
    watcher = Watcher()
    root = UOp("ABS", (-var(0),))
    information, _ = program.explain("p", "probe", root, watcher, inside=["rules signs"])
    assert [attempt[:3] for attempt in watcher.attempts] == [(-var(0), 0, False), (-(-var(0)), 0, True)]
    ((name, rule, place, at, graph), end) = watcher.inside
    assert (name, rule, at, graph) == ("rewritten rules signs", "p.pull", root, -(-var(0)))
    assert place.startswith("test.rules:") and end == (["signs.twice"], "")
    (inside,) = information["inside"]
    assert [(one["name"], one["verdict"], one["after"]) for one in inside] == [
        ("rewritten rules signs", "done", var(0))
    ]


def test_candidates_are_told() -> None:
    watcher = Watcher()
    information, _ = compile_rules(INSIDE).explain("q", "probe", -var(9), watcher, inside=["rules signs"])
    assert [what[:4] for what in watcher.inside[::2]] == [("", "q.other", watcher.inside[0][2], var(9))]
    assert [attempt[2] for attempt in watcher.attempts] == [False, True]
    assert [firing[0] for firing in information["firings"]] == ["q.other", "signs.twice"]


def test_an_error_keeps_what_was_done() -> None:
    up = "ruleset up:\n    grow: SQRT(x) -> SQRT(x + 1.0)\npass p rewrite children_first:\n    zero: x + 0 -> x\n"
    program = compile_rules(up + "    a: ABS(x) -> rewritten(x, up)\n")
    x = var(0, "float32")
    failed: dict[str, Any] = {}
    with pytest.raises(RewriteError, match="did not end"):
        program.rewrite("p", UOp("ABS", (UOp("SQRT", (x + 0,)),)), trace=True, failed=failed)
    assert [firing[0] for firing in failed["firings"]] == ["p.zero"]
    (inside,) = failed["remaining"]
    assert (inside["name"], inside["verdict"], inside["after"]) == ("rewritten rules up", "failed", None)
    after, left_out = inside["omitted"]
    assert len(inside["firings"]) == 200 and after == 100 and left_out > 1000


def test_unknown_names() -> None:
    program = compile_rules(PROGRAM)
    for names in (("p", "prob"), ("pp", "probe")):
        with pytest.raises(RewriteError, match="is called"):
            program.explain(*names, GRAPH, Watcher())
    with pytest.raises(RewriteError, match="no pass is called other"):
        program.explain("p", "probe", GRAPH, Watcher(), inside=["other"])
