"""Subgraphs without an op that has rules are not looked at, by functions that fold over a graph and by passes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from random_graphs import graphs
from rule_programs import compile_rules, const, var

from rulegrad.ir import UOp

FOLDS = """
function has_product(n) any:
    product: has_product(MUL(_, _)) -> {true}
function without(n) all:
    product: without(MUL(_, _)) -> {false}
function products(n) total:
    product: products(MUL(a, b)) -> {1 + products(a) + products(b)}
function operands(n) distinct:
    product: operands(MUL(a, b)) -> {[a, b]}
function deepest(n) max - 1:
    product: deepest(MUL(a, b)) -> {1 + max(deepest(a), deepest(b))}
function as_sums(n) rebuild:
    product: as_sums(MUL(a, b)) -> as_sums(a) + as_sums(b)
function collected(n):
    product: collected(n@MUL(_, _)) -> SINK(n)
    other: collected(n@_) -> SINK(distinct([srcs(collected(x)) for x in srcs(n)])...)
        fallback
"""
NAMES = ("has_product", "without", "products", "operands", "deepest", "as_sums", "collected")
PLAIN, COUNTED = compile_rules(FOLDS), compile_rules(FOLDS)
COUNTED.count(True)  # each rule that is tried is counted, so none is left out


@pytest.mark.parametrize(
    ("name", "value"),
    [("has_product", False), ("without", True), ("products", 0), ("operands", ()), ("deepest", -1)],
)
def test_folds_over_nothing(name: str, value: object) -> None:
    graph = -(var(1) + 2) + var(3)
    assert PLAIN.call(name, graph) == value == COUNTED.call(name, graph)
    assert PLAIN.call("as_sums", graph) == graph and PLAIN.call("collected", graph) == UOp("SINK", ())


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_folds_are_what_they_are_by_their_rules(graph: UOp) -> None:
    for name in NAMES:
        assert PLAIN.call(name, graph) == COUNTED.call(name, graph), name


def test_a_fold_whose_last_rule_is_off_has_no_value() -> None:
    program = compile_rules(FOLDS)
    program.disable("has_product.otherwise")
    assert program.call("has_product", var(1)) is None
    assert program.call("has_product", var(1) * 2) is True


@pytest.mark.parametrize("kind", ["children_first", "parents_first", "walk"])
def test_passes_leave_out_what_no_rule_is_for(kind: str) -> None:
    program = compile_rules(f"pass p rewrite {kind}:\n    twice: -x:int32 -> x * 2\n")
    sums = (var(1) + 3) * (var(2) + var(1))
    result, did = program.rewrite("p", sums)
    assert result == sums and did["visited"] == 0
    result, did = program.rewrite("p", sums + -var(3))
    assert result == sums + var(3) * const(2) and did["fired"] == 1 and did["visited"] <= 3
    assert program.rewrite("p", sums, trace=True)[1]["visited"] > 0  # somebody looks on


def test_nodes_that_are_followed_are_found_in_what_is_left_out() -> None:
    program = compile_rules("pass p rewrite children_first:\n    twice: -x:int32 -> x * 2\n")
    inner = var(1) + 3
    _, did = program.rewrite("p", inner * var(2), follow=[inner])
    assert did["followed"] == [inner]


@pytest.mark.parametrize("kind", ["collect", "flow consumers_first"])
def test_collect_and_flow_passes_leave_a_graph_alone_that_no_rule_is_for(kind: str) -> None:
    dataflow = {
        "collect": "fact sums(x) count: n@(x + _)",
        "flow consumers_first": "state sums = 0 sum\n    send all: n@(_ + _) -> [1, 1]",
    }
    program = compile_rules(
        f"pass p {kind}:\n    {dataflow[kind]}\n    twice: -x:int32 -> x * 2\n        if sums(x) > 0\n"
    )
    sums = (var(1) + 3) * (var(2) + var(1))
    result, did = program.rewrite("p", sums)
    assert result == sums and did["visited"] == 0
    result, did = program.rewrite("p", sums + -var(2))
    assert result == sums + var(2) * const(2) and did["fired"] == 1
