"""Signatures: equal exactly when graphs become equal by renaming buffers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_graphs import graphs

from rulegrad import _core
from rulegrad.errors import GraphError
from rulegrad.ir import UOp


def buffer(number: int, shape: tuple[int, ...] = (4,), dtype: str = "float32", device: str = "numpy") -> UOp:
    return UOp("BUFFER", (), dtype, id=number, shape=shape, device=device)


A, B, C, D = (buffer(number) for number in (11, 12, 13, 14))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([A + B], [C + D]),
        ([A + B], [B + A]),
        ([A + A], [B + B]),
        ([A * 2.0, A + B], [D * 2.0, D + A]),
        ([UOp("REDUCE", (A,), op="ADD", axes=(0,))], [UOp("REDUCE", (B,), op="ADD", axes=(0,))]),
    ],
)
def test_renamed_buffers_do_not_matter(first: list[UOp], second: list[UOp]) -> None:
    assert _core.signature(first)[0] == _core.signature(second)[0]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([A + B], [A + A]),
        ([A + B], [A - B]),
        ([A - B, B - A], [A - B, A - B]),
        ([A + B], [A + B, A + B]),
        ([A * 2.0], [A * 3.0]),
        ([A * 0.0], [A * -0.0]),
        ([A + B], [buffer(11, (1,)) + buffer(12, (1,))]),
        ([A], [buffer(11, dtype="int32")]),
        ([A], [buffer(11, device="opencl:0")]),
        ([UOp("REDUCE", (A,), op="ADD", axes=(0,))], [UOp("REDUCE", (A,), op="MUL", axes=(0,))]),
        ([UOp("RESHAPE", (A,), shape=(2, 2))], [UOp("RESHAPE", (A,), shape=(4, 1))]),
        ([UOp("CAST", (A,), "float64")], [UOp("CAST", (A,), "float16")]),
    ],
)
def test_everything_else_does(first: list[UOp], second: list[UOp]) -> None:
    assert _core.signature(first)[0] != _core.signature(second)[0]


def test_buffers_are_in_the_order_of_the_graph_and_each_once() -> None:
    assert _core.signature([(B + A) * B, C])[1] == [12, 11, 13]
    assert _core.signature([UOp.const(1, "int32")])[1] == []
    assert _core.signature([])[1] == []


@given(st.data())
def test_random_graphs_with_renamed_leaves(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    again, other = data.draw(graphs()), data.draw(graphs())
    assert _core.signature([graph])[0] == _core.signature([graph])[0]
    assert (_core.signature([again])[0] == _core.signature([other])[0]) == (again == other)


def test_another_number() -> None:
    assert _core.renumbered(A, 12) == B
    with pytest.raises(GraphError, match="is not a buffer"):
        _core.renumbered(A + B, 12)
