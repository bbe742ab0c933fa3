"""Floats that a device only stores: running reductions and updates of them are computed in float32, or refused."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import Tensor, config
from rulegrad.compile.kernels import _require_arithmetic
from rulegrad.errors import RewriteError
from rulegrad.interpreter.elements import storage_key
from rulegrad.interpreter.numerics import Array
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType
from rulegrad.workbench.diagnosis.checking import _told
from rulegrad.workbench.proof.outcome import outcome

SMALL = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
VALUES = np.array([[1, 3, 2, 5], [2, 0, 1, 1]], np.float32)
PLACES = np.array([[0, 2, 2, 1], [3, 3, 0, 0]])


def results(device: str) -> dict[str, Array]:
    """Every op of SCAN and SCATTER, on every small float, the updates read from memory or a constant."""
    found = {}
    for dtype in SMALL:
        x, places = Tensor(VALUES, device=device).cast(dtype), Tensor(PLACES, device=device)
        for op in ("ADD", "MUL", "MAX", "MIN"):
            found[f"{dtype} SCAN {op}"] = Tensor(UOp("SCAN", (x.uop,), op=op, axis=1))
        for op in ("ADD", "MUL", "MAX", "MIN", "STORE"):
            for name, updates in ("array", x), ("constant", Tensor.full((2, 4), 1.5, dtype=dtype, device=device)):
                node = UOp("SCATTER", (x.uop, places.uop, updates.uop), op=op, axis=1)
                found[f"{dtype} SCATTER {op} {name}"] = Tensor(node)
    first, *others = found.values()
    first.realize(*others)
    return {name: tensor.numpy() for name, tensor in found.items()}


def test_running_reductions_and_updates() -> None:
    expected = results("numpy")
    for name, found in results("c").items():
        np.testing.assert_array_equal(found, expected[name], err_msg=name)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_and_extremes(dtype: str) -> None:
    values = Tensor(np.ones(4, np.float32), device="c").cast(dtype)
    x = values.realize().detach()
    x.requires_grad = True
    x.gather(0, Tensor([0, 1, 2, 2], device="c")).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1, 1, 2, 0]
    y = Tensor([1.0, 3.0, 2.0, 5.0], device="c").cast(dtype)
    assert y.cummax(0)[0].tolist() == [1, 3, 3, 5] and y.cummin(0)[0].tolist() == [1, 1, 1, 1]


def test_arithmetic_on_what_is_only_stored_is_refused() -> None:
    """The text of such a program would be right C that adds the bits."""
    x = UOp("PARAM", (), "float16", slot=0, shape=(1,))
    place = UOp("INDEX", (x, UOp.const(0, "int32")))
    program = UOp("SINK", (UOp("STORE", (place, UOp("ADD", (UOp("LOAD", (place,)), UOp("LOAD", (place,)))))),))
    with pytest.raises(RewriteError, match="the rules leave ADD of float16 in a program for c, which only stores"):
        _require_arithmetic(program, "c")


def test_updates_are_compared_after_each_pass(capsys: pytest.CaptureFixture[str]) -> None:
    """Before `accumulate` an UPDATE is what a kernel stores, then a loop that reads again what it has stored."""
    _told.clear()
    with config(check=2, debug=1):
        x, places = Tensor([1.0, 2.0, 3.0], device="c"), Tensor([0, 2, 2], device="c")
        assert x.scatter_add(0, places, x).tolist() == [2, 2, 8]
    assert "does not compare" not in capsys.readouterr().err


def test_a_reduction_is_rounded_once_by_elements_too() -> None:
    """512 is too large for float8_e4m3fn, 128 is not: what the prover compares rules with, one element at a time."""
    x = UOp("PARAM", (), "float8_e4m3fn", slot=0, shape=(4,))
    loop = UOp("RANGE", (UOp.const(4, "index"),), id=1, kind="reduce")
    load = UOp("LOAD", (UOp("INDEX", (x, loop)),))
    memory = {storage_key(x): np.array([8, 64, 0.5, 0.5], np.float32).astype(DType(x.dtype).numpy)}
    assert outcome(UOp("REDUCE", (load, loop), op="MUL"), memory, ()).arrays[0].astype(np.float32) == 128


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_float64_is_rounded_twice_everywhere(dtype: str) -> None:
    """By way of float32, whatever the version of ml_dtypes: half between two values, and a little more."""
    halves = [1 + 2.0**-8, 1 + 2.0**-4, 1 + 2.0**-3, 72.0]
    values = np.array([sign * x * (1 + 2.0**-40) for x in halves for sign in (1, -1)])
    expected = Tensor(values.astype(np.float32), device="numpy").cast(dtype).cast("float32").tolist()
    for device in ("numpy", "c"):
        assert Tensor(values, device=device).cast(dtype).cast("float32").tolist() == expected
