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


def explained(
    graph: UOp, name: str = "p", function: str = "", probe: str = "probe"
) -> tuple[list[Any], list[Any], str]:
    attempts: list[Any] = []
    program = compile_rules(PROGRAM)
    firings, error = program.explain(name, probe, graph, lambda *attempt: attempts.append(attempt), function, [ADDED])
    return attempts, firings, error


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
    attempts: list[Any] = []
    firings, error = program.explain("p", "probe", var(0) - var(1), lambda *attempt: attempts.append(attempt))
    assert "does not end" in error and len(attempts) == len(firings) == 2


def test_unknown_names() -> None:
    program = compile_rules(PROGRAM)
    for names in (("p", "prob"), ("pp", "probe")):
        with pytest.raises(RewriteError, match="is called"):
            program.explain(*names, GRAPH, print)
