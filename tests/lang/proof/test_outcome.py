"""Graphs with effects are run as devices run them, element by element."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad.ir import UOp
from rulegrad.workbench.proof.outcome import NoMeaningError, outcome


def const(value: int, dtype: str = "index") -> UOp:
    return UOp.const(value, dtype)


def parameter(slot: int, *shape: int) -> UOp:
    return UOp("PARAM", (), "float32", slot=slot, shape=shape)


def loop(number: int, extent: int) -> UOp:
    return UOp("RANGE", (const(extent),), id=number, kind="output")


MEMORY = {("PARAM", 0): np.arange(6, dtype=np.float32), ("PARAM", 1): np.zeros(2, np.float32)}


def accumulated() -> UOp:
    """Sums of the rows of a 2 by 3 matrix, by an accumulator in a register."""
    a, b, i, j = parameter(0, 2, 3), parameter(1, 2), loop(0, 2), loop(1, 3)
    acc = UOp("BUFFER", (), "float32", id=9, shape=(), space="register")
    start = UOp("STORE", (UOp("AFTER", (acc, i)), const(0, "float32")))
    current = UOp("LOAD", (UOp("AFTER", (acc, start, j)),))
    step = UOp("STORE", (acc, UOp("ADD", (current, UOp("LOAD", (UOp("INDEX", (a, i, j)),))))))
    total = UOp("LOAD", (UOp("AFTER", (acc, UOp("END", (step, j)))),))
    return UOp("END", (UOp("STORE", (UOp("INDEX", (b, i)), total)), i))


def test_an_accumulator_starts_anew_in_each_row() -> None:
    memory = {**MEMORY, ("BUFFER", 9, "register"): np.full(1, 7, np.float32)}
    left = outcome(UOp("SINK", (accumulated(),)), memory, ()).arrays
    assert left[-1].tolist() == [3, 12]


def test_the_same_by_a_reduction() -> None:
    a, b, i, j = parameter(0, 2, 3), parameter(1, 2), loop(0, 2), loop(1, 3)
    total = UOp("REDUCE", (UOp("LOAD", (UOp("INDEX", (a, i, j)),)), j), op="ADD")
    left = outcome(UOp("END", (UOp("STORE", (UOp("INDEX", (b, i)), total)), i)), MEMORY, ()).arrays
    assert left[-1].tolist() == [3, 12]


def test_an_index_out_of_bounds_has_no_meaning() -> None:
    store = UOp("STORE", (UOp("INDEX", (parameter(1, 2), const(2))), const(1, "float32")))
    with pytest.raises(NoMeaningError, match="bounds"):
        outcome(store, MEMORY, ())


def test_a_gate_that_is_false_stores_nothing() -> None:
    gate = UOp.const(False, "bool")
    store = UOp("STORE", (UOp("INDEX", (parameter(1, 2), const(0))), const(1, "float32"), gate))
    assert outcome(store, MEMORY, ()).arrays[-1].tolist() == [0, 0]


def test_values_that_depend_on_invalid_are_not_certain() -> None:
    i = loop(0, 4)
    invalid = UOp("INVALID", (), "index")
    value = UOp("WHERE", (UOp("CMPLT", (i, const(2))), i, invalid))
    found = outcome(value, {}, (i,))
    assert found.certain is not None and found.certain.tolist() == [True, True, False, False]
