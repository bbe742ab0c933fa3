"""Small floats on a target without them: bits in memory, float32 in between, the same values as ml_dtypes and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import engine
from rulegrad.interpreter.evaluation import run_kernel
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype

SMALL = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


def holder(dtype: str) -> str:
    return f"uint{as_dtype(dtype).bits}"


def every_code(dtype: str) -> np.ndarray:
    return np.arange(2 ** as_dtype(dtype).bits).astype(holder(dtype))


def same_floats(found: np.ndarray, wanted: np.ndarray) -> None:
    """Equal bits, but any nan is a nan."""
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found)[~np.isnan(found)], np.signbit(wanted)[~np.isnan(wanted)])


@pytest.mark.parametrize("dtype", SMALL)
def test_every_code_is_decoded(lower, compute, variable, dtype):
    codes = every_code(dtype)
    leaf = variable(0, codes)
    graph = UOp("CAST", (UOp("BITCAST", (leaf,), dtype),), "float32")
    with np.errstate(all="ignore"):
        same_floats(compute(lower(graph), {leaf: codes}), codes.view(as_dtype(dtype).numpy))


def values_to_round(dtype: str) -> np.ndarray:
    """Random bits; every value of the dtype; the middle between each two, and its neighbours."""
    with np.errstate(all="ignore"):
        exact = np.unique(every_code(dtype).view(as_dtype(dtype).numpy).astype(np.float64))
    exact = exact[np.isfinite(exact)]
    middle = ((exact[1:] + exact[:-1]) / 2).astype(np.float32)
    bits = np.random.default_rng(0).integers(0, 2**32, 300_000, dtype=np.uint32).view(np.float32)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, 448.0, 464.0, 61440.0, 65520.0], np.float32)
    neighbours = [np.nextafter(middle, np.float32(end)) for end in (np.inf, -np.inf)]
    return np.concatenate([special, bits, exact.astype(np.float32), middle, *neighbours])


@pytest.mark.parametrize("dtype", SMALL)
def test_rounding_to_the_nearest_value(lower, compute, variable, dtype):
    values = values_to_round(dtype)
    leaf = variable(0, values)
    graph = UOp("BITCAST", (UOp("CAST", (leaf,), dtype),), holder(dtype))
    found = compute(lower(graph), {leaf: values})
    back = compute(lower(UOp("CAST", (UOp("CAST", (leaf,), dtype),), "float32")), {leaf: values})
    with np.errstate(all="ignore"):
        wanted = values.astype(as_dtype(dtype).numpy)
        same_floats(found.view(wanted.dtype), wanted)
        same_floats(back, wanted)


@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize("source", ["float64", "int8", "int32", "uint64", "bool"])
def test_casts_from_other_dtypes(lower, compute, variable, dtype, source):
    generator = np.random.default_rng(0)
    if source == "float64":
        # between two values of float16, a little to one side
        middle = 1 + (2 * np.arange(1024) + 1) / 2**11 + generator.choice([-1, 0, 1], 1024) * 2.0**-40
        values = np.concatenate([generator.normal(size=20_000) * 2.0 ** generator.integers(-30, 20, 20_000), middle])
    elif source == "bool":
        values = np.array([False, True])
    else:
        limits = np.iinfo(source)
        values = generator.integers(limits.min, limits.max, 20_000, dtype=source, endpoint=True)
        values = values >> generator.integers(0, limits.bits, 20_000).astype(source)
    leaf = variable(0, values)
    graph = UOp("BITCAST", (UOp("CAST", (leaf,), dtype),), holder(dtype))
    found = compute(lower(graph, "flatten", "decompose"), {leaf: values})
    with np.errstate(all="ignore"):
        wanted = values.astype(as_dtype(dtype).numpy)
        same_floats(found.view(wanted.dtype), wanted)


def kernel(op: str, dtype: str, count: int) -> UOp:
    """data0[i] = op(data1[i], data2[i]), gated by data1's index for a WHERE."""
    i = UOp("RANGE", (UOp.const(count, "index"),), id=0, kind="output")
    out, a, b = (UOp("PARAM", (), dtype, slot=k, shape=(count,)) for k in range(3))
    x, y = (UOp("LOAD", (UOp("INDEX", (p, i)),)) for p in (a, b))
    sources = {"WHERE": (i < count // 2, x, y), "SQRT": (x,), "NEG": (x,), "ABS": (x,)}.get(op, (x, y))
    value = UOp(op, sources)
    return UOp("SINK", (UOp("END", (UOp("STORE", (UOp("INDEX", (out, i)), value)), i)),))


@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize("op", ["ADD", "MUL", "DIV", "MAX", "SQRT", "NEG", "ABS", "WHERE"])
def test_kernels_keep_bits_in_memory(dtype, op):
    """A kernel lowered for OpenCL reads and writes integers, and computes what the interpreter does with the dtype."""
    array = np.random.default_rng(0).integers(0, 2 ** as_dtype(dtype).bits, (3, 3000)).astype(holder(dtype))
    graph = kernel(op, dtype, array.shape[1])
    lowered = engine.rewrite(engine.rewrite(graph, "flatten", "opencl"), "decompose", "opencl")
    assert {n.dtype for n in lowered.toposort() if n.op == "PARAM"} == {holder(dtype)}
    assert dtype not in {n.dtype for n in lowered.toposort()}
    plain = [row.view(as_dtype(dtype).numpy).copy() for row in array]
    raw = [row.copy() for row in array]
    with np.errstate(all="ignore"):
        run_kernel(graph, plain)
        run_kernel(lowered, raw)
        same_floats(raw[0].view(plain[0].dtype), plain[0])


@pytest.mark.parametrize("op", ["MAX", "NEG", "FLOOR", "WHERE"])
def test_no_rounding_where_nothing_is_lost(op):
    """The largest of values of a dtype is a value of the dtype."""
    x = UOp("BUFFER", (), "float16", id=1, shape=(4,), device="numpy")
    value = UOp(op, {"MAX": (x, x + 1.0), "WHERE": (x < 1.0, x, x)}.get(op, (x,)))
    graph = engine.rewrite(UOp("CAST", (value,), "float32"), "flatten", "opencl")
    narrowed = [n for n in graph.toposort() if n.op == "CAST" and n.dtype == "float16"]
    assert len(narrowed) == (1 if op == "MAX" else 0)  # the sum is rounded


def test_sums_are_kept_in_float32():
    """1 + 1 + ... does not stop at 256, where bfloat16 has no odd numbers."""
    x = UOp("PARAM", (), "bfloat16", slot=1, shape=(1000,))
    r = UOp("RANGE", (UOp.const(1000, "index"),), id=0, kind="reduce")
    total = UOp("REDUCE", (UOp("LOAD", (UOp("INDEX", (x, r)),)), r), op="ADD")
    zero = UOp.const(0, "index")
    out = UOp("PARAM", (), "bfloat16", slot=0, shape=(1,))
    graph = UOp("SINK", (UOp("STORE", (UOp("INDEX", (out, zero)), total)),))
    lowered = engine.rewrite(graph, "flatten", "opencl")
    (reduce,) = [n for n in lowered.toposort() if n.op == "REDUCE"]
    assert reduce.dtype == "float32"
    arrays = [np.zeros(1, np.uint16), np.full(1000, 0x3F80, np.uint16)]
    run_kernel(engine.rewrite(lowered, "decompose", "opencl"), arrays)
    assert arrays[0].view(as_dtype("bfloat16").numpy)[0] == 1000
