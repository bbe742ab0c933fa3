"""Programs with registers are run statement by statement: what they compute, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import engine
from rulegrad.errors import DeviceError
from rulegrad.interpreter import statements
from rulegrad.interpreter.numerics import Array
from rulegrad.interpreter.statements import Statements
from rulegrad.ir import UOp


def number(value: int) -> UOp:
    return UOp.const(value, "int32")


def row_sums(gated: bool = False, register: str = "register", columns: int = 3) -> UOp:
    """Each of four work-items adds up a row of a 4 by 3 array in a register."""
    result, given = (UOp("PARAM", (), "int32", slot=k, shape=(n,)) for k, n in enumerate((4, 12)))
    item = UOp("SPECIAL", (number(4),), axis=0, name="item")
    column = UOp("RANGE", (number(columns),), id=1, kind="reduce")
    total = UOp("BUFFER", (), "int32", id=0, shape=(), space=register)
    start = UOp("STORE", (UOp("AFTER", (total, item)), number(0)))
    address = UOp("INDEX", (given, item * 3 + column))
    element = UOp("LOAD", (address, number(100), item > 1) if gated else (address,))
    current = UOp("LOAD", (UOp("AFTER", (total, start, column)),))
    done = UOp("END", (UOp("STORE", (total, current + element)), column))
    value = UOp("LOAD", (UOp("AFTER", (total, done)),))
    gate = (item < 3,) if gated else ()
    return UOp("SINK", (UOp("STORE", (UOp("INDEX", (result, item)), value, *gate)),))


def run(graph: UOp) -> Array:
    arrays = [np.full(4, -1, np.int32), np.arange(12, dtype=np.int32)]
    Statements(engine.program().order("linearize", graph)).run(lambda node: arrays[node.attrs["slot"]])
    return arrays[0]


def test_a_loop_around_a_register() -> None:
    assert run(row_sums()).tolist() == [3, 12, 21, 30]


def test_gates() -> None:
    assert run(row_sums(gated=True)).tolist() == [300, 300, 21, -1]


def test_an_index_out_of_bounds() -> None:
    with pytest.raises(DeviceError, match="out of its bounds"):
        run(row_sums(columns=4))


def test_what_cannot_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError, match="no texture memory"):
        run(row_sums(register="texture"))
    monkeypatch.setattr(statements, "MOST_STEPS", 10)
    with pytest.raises(DeviceError, match="too many to run one by one"):
        run(row_sums())


def of_subgroups(*, inside_segment: bool = False, numbered: bool = True, end: int = 3) -> UOp:
    """Each of four work-items of a group stores the sum of what its subgroup reads, ten times its subgroup's number added."""
    result, given = (UOp("PARAM", (), "int32", slot=k, shape=(n,)) for k, n in enumerate((4, 12)))
    local = UOp("SPECIAL", (number(4),), axis=0, name="local")
    place = UOp("RANGE", (UOp("SEGMENT", (number(4), local)),), id=1, kind="segment") if inside_segment else local
    value = UOp("SUBGROUP_REDUCE", (UOp("LOAD", (UOp("INDEX", (given, place)),)),), op="ADD", name="sum")
    if numbered:
        counted = UOp("SUBGROUP", (number(4),), name="count")
        value = value + UOp("SUBGROUP", (number(end),), name="number") * 10 + (counted - 2)
    store = UOp("STORE", (UOp("INDEX", (result, place)), value))
    return UOp("SINK", (UOp("END", (store, place)) if inside_segment else store,))


def test_subgroups_are_fewer_than_there_may_be_and_not_of_neighbours() -> None:
    assert run(of_subgroups()).tolist() == [2, 14, 2, 14]


@pytest.mark.parametrize(
    ("graph", "problem"),
    [
        (of_subgroups(inside_segment=True), "SUBGROUP.* stands where not all work-items get to"),
        (of_subgroups(numbered=False), r"numbers the subgroups of a group below one number, not \[\]"),
        (of_subgroups(end=7), r"SUBGROUP.* is 6 here"),
    ],
)
def test_programs_that_have_no_subgroups(graph: UOp, problem: str) -> None:
    with pytest.raises(DeviceError, match=problem):
        run(graph)
