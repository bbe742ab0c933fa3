"""Graphs with other nodes in the places of some."""

from __future__ import annotations

from collections.abc import Mapping

from rulegrad._core import GraphFunction, UOp


def substituted(root: UOp, nodes: Mapping[UOp, UOp]) -> UOp:
    """The graph with other nodes in the places of these; what stands for a node is not looked into.

    >>> from rulegrad.ir import UOp
    >>> two, three = UOp.const(2.0, "float32"), UOp.const(3.0, "float32")
    >>> x = UOp("PARAM", (), "float32", slot=0, shape=())
    >>> substituted(x * two, {two: three}) == x * three
    True
    """
    (found,) = GraphFunction([root], list(nodes)).apply(list(nodes.values()))
    _ = found.shape  # of all nodes, which is checked by it
    return found
