"""Conversions between dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from rulegrad import Tensor

FLOATS = np.array([-1.75, -0.5, 0.0, 0.5, 1.75, 100.25], np.float32)
INTS = np.array([-129, -1, 0, 1, 255, 70000], np.int32)


def test_casts(device, check):
    x, n = Tensor(FLOATS), Tensor(INTS)
    check(
        (x.cast("int32"), FLOATS.astype(np.int32)),
        (x.astype(np.float64), FLOATS.astype(np.float64)),
        (x.bool(), FLOATS.astype(np.bool_)),
        (x.half(), FLOATS.astype(np.float16)),
        (x.bfloat16(), FLOATS.astype(ml_dtypes.bfloat16)),
        (x.cast("float8_e5m2"), FLOATS.astype(ml_dtypes.float8_e5m2)),
        (n.cast("int8"), INTS.astype(np.int8)),
        (n.cast("uint16"), INTS.astype(np.uint16)),
        (n.float(), INTS.astype(np.float32)),
        (n.double(), INTS.astype(np.float64)),
        (n.long(), INTS.astype(np.int64)),
        (Tensor(FLOATS > 0).int(), (FLOATS > 0).astype(np.int32)),
        (x.bitcast("int32"), FLOATS.view(np.int32)),
        (n.bitcast("uint32"), INTS.view(np.uint32)),
    )


def test_floats_that_fit_no_integer(device, check):
    """NumPy's and PyTorch's results on x86: the least int32, whose low bits small integers have, or the least int64."""
    values = np.array(
        [3e9, -3e9, 1e20, np.inf, -np.inf, np.nan, 2.0**31, 2.0**31 - 128, -(2.0**31), 300.7, -1.5], np.float32
    )
    x, wide = Tensor(values), Tensor(values.astype(np.float64))
    least = -(2**31)
    narrow = np.array([*[least] * 7, 2**31 - 128, least, 300, -1], np.int64)
    whole = np.array([3e9, -3e9, *[-(2.0**63)] * 4, 2.0**31, 2.0**31 - 128, -(2.0**31), 300, -1]).astype(np.int64)
    for number in (x, wide):
        check(
            (number.int(), narrow.astype(np.int32)),
            (number.cast("int16"), narrow.astype(np.int16)),
            (number.cast("uint8"), narrow.astype(np.uint8)),
            (number.long(), whole),
            (number.cast("uint32"), whole.astype(np.uint32)),
        )
    halves = np.array([np.inf, np.nan, 65504, -7.5], np.float16)
    check(
        (Tensor(halves).int(), np.array([least, least, 65504, -7], np.int32)),
        (Tensor(halves).cast("int8"), np.array([0, 0, -32, -7], np.int8)),
    )
    folded = Tensor.full((), 1e20).int()  # computed by the rules, not by a device
    assert folded.item() == least


def test_a_cast_to_the_same_dtype_is_the_same_graph():
    x = Tensor.ones(2)
    assert x.cast("float32").uop == x.uop
    assert x.bitcast("float32").uop == x.uop
