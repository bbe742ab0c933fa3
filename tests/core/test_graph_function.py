"""Graphs with parameters: built again on other nodes."""

from __future__ import annotations

import pytest

from rulegrad._core import GraphFunction
from rulegrad.errors import GraphError
from rulegrad.ir import UOp


def test_graphs_on_other_nodes() -> None:
    one, x, y = UOp.const(1.0, "float32"), *(UOp("PARAM", (), "float32", slot=k, shape=()) for k in range(2))
    function = GraphFunction([(x + one) * y + (x + one)], [x, y])
    assert function.apply([y, x]) == [(y + one) * x + (y + one)]
    assert function.apply([one, x]) == [(one + one) * x + (one + one)]
    assert GraphFunction([one, x], [x]).apply([y]) == [one, y]
    with pytest.raises(GraphError, match="2 parameters was given 1 nodes"):
        function.apply([x])
    with pytest.raises(GraphError, match="two parameters"):
        GraphFunction([x], [x, x])


def test_a_graph_of_many_nodes_and_shared_parts() -> None:
    """Deep, and each node used twice: 2 ** 20,000 paths."""
    x, y = (UOp("PARAM", (), "float32", slot=k, shape=()) for k in range(2))

    def squared(node: UOp) -> UOp:
        for _ in range(20_000):
            node = node * node
        return node

    assert GraphFunction([squared(x)], [x]).apply([y]) == [squared(y)]
