"""The interpreter: tensor graphs and kernel graphs against NumPy."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulegrad.errors import DeviceError, GraphError
from rulegrad.interpreter import array_program
from rulegrad.interpreter.evaluation import KernelProgram, evaluate, run_kernel
from rulegrad.interpreter.products import sum_of_products
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype

Array = np.ndarray[Any, Any]
_ids = itertools.count(1)


def buffer(array: Array) -> UOp:
    dtype = as_dtype(array.dtype)
    return UOp("BUFFER", (), dtype, id=next(_ids), shape=array.shape, device="numpy")


def loop(extent: int, kind: str = "output") -> UOp:
    return UOp("RANGE", (number(extent),), id=next(_ids), kind=kind)


def number(value: int) -> UOp:
    return UOp.const(value, "index")


def parameter(slot: int, array: Array) -> UOp:
    return UOp("PARAM", (), as_dtype(array.dtype), slot=slot, shape=array.shape)


def load(memory: UOp, *indices: UOp) -> UOp:
    return UOp("LOAD", (UOp("INDEX", (memory, *indices)),))


def store(memory: UOp, indices: tuple[UOp, ...], value: UOp) -> UOp:
    return UOp("STORE", (UOp("INDEX", (memory, *indices)), value))


def kernel(*stores: tuple[UOp, tuple[UOp, ...]]) -> UOp:
    """SINK of stores, each with its loops closed."""
    return UOp("SINK", tuple(UOp("END", (s, *loops)) if loops else s for s, loops in stores))


def numbers(*shape: int, dtype: str = "float32") -> Array:
    values = np.random.default_rng(math.prod(shape)).integers(-5, 6, shape)
    return values.astype(as_dtype(dtype).numpy)


# ---- tensor graphs ----


def test_elementwise_and_scalars() -> None:
    a, b = numbers(3, 4), numbers(3, 4)
    x, y = buffer(a), buffer(b)
    np.testing.assert_array_equal(evaluate(x * y + 2.0, {x: a, y: b}), a * b + 2)
    np.testing.assert_array_equal(evaluate(x * y + 2.0, {x.attrs["id"]: a, y: b}), a * b + 2)


def test_movement() -> None:
    a = numbers(2, 3, 4)
    x = buffer(a)
    cases: list[tuple[UOp, Array]] = [
        (UOp("RESHAPE", (x,), shape=(4, 6)), a.reshape(4, 6)),
        (UOp("PERMUTE", (x,), order=(2, 0, 1)), a.transpose(2, 0, 1)),
        (UOp("FLIP", (x,), axes=(0, 2)), a[::-1, :, ::-1]),
        (UOp("SHRINK", (x,), begin=(0, 1, 1), end=(2, 3, 2)), a[0:2, 1:3, 1:2]),
        (UOp("PAD", (x,), before=(1, 0, 2), after=(0, 3, 0)), np.pad(a, ((1, 0), (0, 3), (2, 0)))),
        (UOp("EXPAND", (UOp("SHRINK", (x,), begin=(0, 0, 0), end=(2, 1, 4)),), shape=(2, 5, 4)),
         np.broadcast_to(a[:, :1], (2, 5, 4))),
    ]  # fmt: skip
    for node, expected in cases:
        result = evaluate(node, {x: a})
        assert result.shape == node.shape
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("node_op", ["MATERIALIZE", "DETACH"])
def test_ops_that_keep_the_value(node_op: str) -> None:
    a = numbers(3)
    x = buffer(a)
    np.testing.assert_array_equal(evaluate(UOp(node_op, (x,)), {x: a}), a)
    np.testing.assert_array_equal(evaluate(UOp("COPY", (x,), device="numpy"), {x: a}), a)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), (0, 1, 2), ()])
def test_reductions_keep_axes(axes: tuple[int, ...]) -> None:
    a = numbers(2, 3, 4)
    x = buffer(a)
    for op, function in (("ADD", np.sum), ("MAX", np.max), ("MUL", np.prod), ("MIN", np.min)):
        result = evaluate(UOp("REDUCE", (x,), op=op, axes=axes), {x: a})
        np.testing.assert_array_equal(result, function(a, axis=axes, keepdims=True))


def test_the_result_is_an_array_of_its_own() -> None:
    a = numbers(3)
    x = buffer(a)
    result = evaluate(x, {x: a})
    result[0] = 77
    assert a[0] != 77 and result.flags.writeable


def test_a_long_chain_needs_no_stack() -> None:
    a = np.zeros(2, np.int32)
    x = total = buffer(a)
    for _ in range(20_000):
        total = total + 1
    assert evaluate(total, {x: a}).tolist() == [20_000, 20_000]


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "float16", "bool"])
def test_small_dtypes(dtype: str) -> None:
    a = np.array([0, 1, 1.5, 3]).astype(as_dtype(dtype).numpy)
    x = buffer(a)
    result = evaluate(x + x, {x: a})
    assert result.dtype == a.dtype
    np.testing.assert_array_equal(result.astype(float), (a.astype(np.float32) + a.astype(np.float32)).astype(a.dtype))


def test_random_numbers() -> None:
    a = np.arange(4, dtype=np.uint64)
    x = buffer(a)
    key = UOp("EXPAND", (UOp("RESHAPE", (UOp.const(5, "uint64"),), shape=(1,)),), shape=(4,))
    result = evaluate(UOp("THREEFRY", (x, key)), {x: a})
    assert result.dtype == np.uint64 and len(set(result.tolist())) == 4


# ---- open loops ----


def test_an_index_expression_over_its_loops() -> None:
    i, j = loop(6), loop(4)
    result = evaluate((i * 4 + j) // 3 % 5, loops=(i, j))
    expected = (np.arange(6)[:, None] * 4 + np.arange(4)) // 3 % 5
    np.testing.assert_array_equal(result, expected)
    assert evaluate(i, loops=(j, i)).shape == (4, 6)


def test_an_open_loop_that_is_not_named() -> None:
    with pytest.raises(GraphError, match="a RANGE is open"):
        evaluate(loop(3) + 1)


# ---- kernels ----


def matmul(a: Array, b: Array, out: Array) -> UOp:
    i, j, k = loop(a.shape[0]), loop(b.shape[1]), loop(a.shape[1], "reduce")
    product = load(parameter(1, a), i, k) * load(parameter(2, b), k, j)
    total = UOp("REDUCE", (product, k), op="ADD")
    return kernel((store(parameter(0, out), (i, j), total), (i, j)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "float16"])
@pytest.mark.parametrize(("rows", "inner", "columns"), [(3, 4, 5), (40, 30, 50), (1, 300, 90)])
def test_matmul(rows: int, inner: int, columns: int, dtype: str) -> None:
    a, b = numbers(rows, inner, dtype=dtype), numbers(inner, columns, dtype=dtype)
    out = np.zeros((rows, columns), a.dtype)
    run_kernel(matmul(a, b, out), [out, a, b])
    wide = a.astype(float if dtype.startswith("float") else np.int64)
    np.testing.assert_array_equal(out, (wide @ b.astype(wide.dtype)).astype(a.dtype))


def test_matmul_of_a_training_step() -> None:
    a, b = numbers(128, 784), numbers(784, 256)
    out = np.zeros((128, 256), np.float32)
    program = KernelProgram(matmul(a, b, out))
    program.run(lambda node: [out, a, b][node.attrs["slot"]])
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)


def test_transpose_and_flat_indices() -> None:
    a = numbers(6, 4)
    flat, out = a.reshape(-1), np.zeros((4, 6), np.float32)
    i, j = loop(4), loop(6)
    run_kernel(kernel((store(parameter(0, out), (i, j), load(parameter(1, flat), j * 4 + i)), (i, j))), [out, flat])
    np.testing.assert_array_equal(out, a.T)
    out[:] = 0
    run_kernel(kernel((store(parameter(0, out), (i, j), load(parameter(1, a), j, i)), (i, j))), [out, a])
    np.testing.assert_array_equal(out, a.T)


def test_an_index_that_is_loaded() -> None:
    table, chosen = numbers(5, 3), np.array([4, 0, 0, 2], np.int32)
    out = np.zeros((4, 3), np.float32)
    i, j = loop(4), loop(3)
    row = UOp("CAST", (load(parameter(2, chosen), i),), "index")
    run_kernel(
        kernel((store(parameter(0, out), (i, j), load(parameter(1, table), row, j)), (i, j))), [out, table, chosen]
    )
    np.testing.assert_array_equal(out, table[chosen])


def test_a_read_without_load_and_without_loops() -> None:
    a, out = numbers(3), np.zeros((), np.float32)
    run_kernel(kernel((store(parameter(0, out), (), UOp("INDEX", (parameter(1, a), number(2)))), ())), [out, a])
    assert out == a[2]


def test_softmax_in_one_kernel() -> None:
    a = numbers(5, 7)
    out = np.zeros_like(a)
    i, j, k, m = loop(5), loop(7), loop(7, "reduce"), loop(7, "reduce")
    x = parameter(1, a)
    biggest = UOp("REDUCE", (load(x, i, k), k), op="MAX")
    total = UOp("REDUCE", (UOp("EXP", (load(x, i, m) - biggest,)), m), op="ADD")
    value = UOp("EXP", (load(x, i, j) - biggest,)) / total
    run_kernel(kernel((store(parameter(0, out), (i, j), value), (i, j))), [out, a])
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-6)


def test_a_sum_over_a_loop_that_the_value_does_not_use() -> None:
    a, out = numbers(4), np.zeros(4, np.float32)
    i, k = loop(4), loop(10, "reduce")
    total = UOp("REDUCE", (load(parameter(1, a), i), k), op="ADD")
    run_kernel(kernel((store(parameter(0, out), (i,), total), (i,))), [out, a])
    np.testing.assert_array_equal(out, a * 10)


def gated(index: UOp, gate: UOp) -> UOp:
    return UOp("WHERE", (gate, index, UOp("INVALID", (), "index")))


def test_padding_by_invalid_indices() -> None:
    a, out = numbers(4), np.full(8, 9, np.float32)
    i = loop(8)
    inside = UOp("AND", (UOp("CMPLE", (number(2), i)), UOp("CMPLT", (i, number(6)))))
    value = load(parameter(1, a), gated(i - 2, inside))
    run_kernel(kernel((store(parameter(0, out), (i,), value), (i,))), [out, a])
    np.testing.assert_array_equal(out, np.pad(a, 2))


def test_invalid_below_arithmetic_and_the_other_value() -> None:
    a, out = numbers(4, 3), np.zeros((8, 3), np.float32)
    i, j = loop(8), loop(3)
    inside = UOp("CMPLT", (i, number(4)))
    flat = gated(i, inside) * 3 + j
    address = UOp("INDEX", (parameter(1, a.reshape(-1)), flat))
    value = UOp("LOAD", (address, UOp.const(7.0, "float32"), UOp("CMPLE", (number(1), i))))
    run_kernel(kernel((store(parameter(0, out), (i, j), value), (i, j))), [out, a.reshape(-1)])
    expected = np.full((8, 3), 7, np.float32)
    expected[1:4] = a[1:4]
    np.testing.assert_array_equal(out, expected)


def test_a_store_that_does_not_happen() -> None:
    a, out = numbers(8), np.full(5, 9, np.float32)
    i = loop(8)
    inside = UOp("CMPLT", (i, number(5)))
    address = UOp("INDEX", (parameter(0, out), gated(i, inside)))
    odd = UOp("CMPEQ", (i % 2, number(1)))
    run_kernel(kernel((UOp("STORE", (address, load(parameter(1, a), i), odd)), (i,))), [out, a])
    np.testing.assert_array_equal(out, [9, a[1], 9, a[3], 9])


def test_several_outputs_share_their_loops() -> None:
    a, b, c, d = (numbers(4, 3) + k for k in range(4))
    out1, out2 = np.zeros((4, 3), np.float32), np.zeros((4, 3), np.float32)
    i, j = loop(4), loop(3)
    p = [parameter(slot, array) for slot, array in enumerate([out1, out2, a, b, c, d])]
    shared = load(p[2], i, j) + load(p[3], i, j)
    stores = [store(p[0], (i, j), shared + load(p[4], i, j)), store(p[1], (i, j), shared + load(p[5], i, j))]
    run_kernel(kernel(*((s, (i, j)) for s in stores)), [out1, out2, a, b, c, d])
    np.testing.assert_array_equal(out1, a + b + c)
    np.testing.assert_array_equal(out2, a + b + d)


def test_more_loops_inside_of_stores_than_an_array_has_axes() -> None:
    arrays = [numbers(4, 3 + k) for k in range(40)]
    out = np.zeros((40, 4), np.float32)
    i = loop(4)
    stores = []
    for k, array in enumerate(arrays):
        j = loop(array.shape[1], "reduce")
        total = UOp("REDUCE", (load(parameter(1 + k, array), i, j), j), op="ADD")
        stores.append((store(parameter(0, out), (number(k), i), total), (i,)))
    run_kernel(kernel(*stores), [out, *arrays])
    np.testing.assert_array_equal(out, [array.sum(1) for array in arrays])


def test_all_reads_come_before_the_stores() -> None:
    a, b = numbers(5), numbers(5) + 10
    old_a, old_b = a.copy(), b.copy()
    i = loop(5)
    p, q = parameter(0, a), parameter(1, b)
    swap = kernel((store(p, (i,), load(q, i)), (i,)), (store(q, (i,), load(p, i)), (i,)))
    run_kernel(swap, [a, b])
    np.testing.assert_array_equal(a, old_b)
    np.testing.assert_array_equal(b, old_a)


def test_nested_ends_and_separate_loops() -> None:
    a = numbers(4, 3)
    out, sums = np.zeros((4, 3), np.float32), np.zeros(4, np.float32)
    i, j, m, k = loop(4), loop(3), loop(4), loop(3, "reduce")
    inner = UOp("END", (store(parameter(0, out), (i, j), load(parameter(2, a), i, j) * 2.0), j))
    total = UOp("REDUCE", (load(parameter(2, a), m, k), k), op="ADD")
    graph = UOp("SINK", (UOp("END", (inner, i)), UOp("END", (store(parameter(1, sums), (m,), total), m))))
    run_kernel(graph, [out, sums, a])
    np.testing.assert_array_equal(out, a * 2)
    np.testing.assert_array_equal(sums, a.sum(1))


def test_windows_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = numbers(23, 40), numbers(40, 17)
    i, j, k = loop(23), loop(17), loop(40, "reduce")
    difference = load(parameter(1, a), i, k) - load(parameter(2, b), k, j)
    total = UOp("REDUCE", (UOp("ABS", (difference,)), k), op="ADD")
    out = np.zeros((23, 17), np.float32)
    graph = kernel((store(parameter(0, out), (i, j), total), (i, j)))
    expected = np.abs(a[:, :, None] - b).sum(1)
    for largest in (1 << 20, 5000, 400, 1):
        monkeypatch.setattr(array_program, "LARGEST_ARRAY", largest)
        out[:] = 0
        run_kernel(graph, [out, a, b])
        np.testing.assert_array_equal(out, expected)


# ---- sums of products ----


@given(st.data())
def test_sum_of_products(data: st.DataObject) -> None:
    rank = data.draw(st.integers(2, 5))
    sizes = data.draw(st.lists(st.sampled_from([2, 3, 9, 16]), min_size=rank, max_size=rank))
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, rank - 1), min_size=1))))
    operands = []
    for _ in range(2):
        shape = [size if data.draw(st.booleans()) else 1 for size in sizes]
        array = numbers(*shape, dtype="float64")
        operands.append(np.broadcast_to(array, sizes) if data.draw(st.booleans()) else array)
    a, b = operands
    a = np.broadcast_to(a, np.broadcast_shapes(a.shape, b.shape))
    result = sum_of_products(a, b, axes)
    if result is not None:
        wanted = (a * b).sum(axes, keepdims=True)
        # an axis that neither operand varies along may be left at size 1
        np.testing.assert_array_equal(np.broadcast_to(result, wanted.shape), wanted)


# ---- errors ----


def test_an_index_out_of_bounds_is_named() -> None:
    a, out = numbers(4), np.zeros(5, np.float32)
    i = loop(5)
    graph = kernel((store(parameter(0, out), (i,), load(parameter(1, a), i)), (i,)))
    with pytest.raises(DeviceError, match=r"add, reading PARAM 1: index 4 is out of bounds for axis 0 of size 4"):
        run_kernel(graph, [out, a], "add")
    graph = kernel((store(parameter(0, a), (i - 1,), load(parameter(1, out), i)), (i,)))
    with pytest.raises(DeviceError, match=r"writing PARAM 0: index -1 is out of bounds"):
        run_kernel(graph, [a, out])


def test_missing_and_unfitting_arrays() -> None:
    a = numbers(3)
    x = buffer(a)
    with pytest.raises(DeviceError, match="no array was given"):
        evaluate(x)
    with pytest.raises(DeviceError, match="it needs \\(3,\\) and float32"):
        evaluate(x, {x: a.astype(np.float64)})
    with pytest.raises(DeviceError, match="an array of shape \\(4,\\)"):
        evaluate(x, {x: np.zeros(4, np.float32)})


def test_graphs_that_cannot_be_interpreted() -> None:
    a = numbers(3)
    i = loop(3)
    with pytest.raises(GraphError, match="SINK has no value"):
        evaluate(kernel((store(parameter(0, a), (i,), UOp.const(0.0, "float32")), (i,))))
    with pytest.raises(DeviceError, match="expects stores below a SINK, not CONST"):
        run_kernel(UOp("SINK", (UOp.const(0.0, "float32"),)), [])
    local = UOp("BUFFER", (), "float32", id=1, shape=(3,), space="local")
    with pytest.raises(DeviceError, match="no local memory"):
        evaluate(load(local, number(0)))
