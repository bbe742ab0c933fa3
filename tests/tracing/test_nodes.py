"""The table of nodes, and the difference of two graphs in it."""

from __future__ import annotations

from rulegrad import UOp
from rulegrad.workbench.tracing.nodes import MOST_CHANGED, NodeTable, difference


def loop(number: int) -> UOp:
    return UOp("RANGE", (UOp.const(7, "index"),), id=number, kind="output")


def chain(root: UOp, length: int) -> UOp:
    for _ in range(length):
        root = UOp("NEG", (root,))
    return root


def test_sources_come_first() -> None:
    table = NodeTable()
    a, b = loop(0), loop(1)
    root = table.number(a * b + a)
    assert root == len(table.nodes) - 1
    assert all(source < number for number, sources in enumerate(table.sources) for source in sources)
    assert table.number(a * b + a) == root and len(table.nodes) == 5  # the constant, a, b, a * b, the sum
    assert [table.nodes[k] for k in table.below([root])] == table.nodes


def test_deep_graphs() -> None:
    table = NodeTable()
    assert table.number(chain(loop(0), 20_000)) == 20_001


def test_what_both_graphs_have_is_no_difference() -> None:
    table = NodeTable()
    shared = chain(loop(0), 1000)
    before, after = table.number(shared * loop(1) + 1), table.number(shared * loop(1))
    found = difference(table, [before], [after])
    assert [table.nodes[k].op for k in found.removed] == ["ADD", "CONST"] and found.added == ()
    assert found.complete


def test_consumers_come_first() -> None:
    table = NodeTable()
    before, after = table.number(loop(0)), table.number(chain(loop(0), 3))
    assert difference(table, [before], [after]).added == (after, after - 1, after - 2)


def test_a_large_difference_is_cut_off() -> None:
    table = NodeTable()
    before, after = table.number(chain(loop(0), 5 * MOST_CHANGED)), table.number(UOp.const(0, "index"))
    found = difference(table, [before], [after])
    assert len(found.removed) == MOST_CHANGED and found.removed[0] == before and not found.complete
