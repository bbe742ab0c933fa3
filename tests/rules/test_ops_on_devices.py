"""Every elementwise op with every dtype on every device, against the op table's evaluators."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import engine
from rulegrad.compile.realize import realize
from rulegrad.errors import DtypeError
from rulegrad.interpreter.evaluation import evaluate
from rulegrad.ir import UOp
from rulegrad.ir.dtype import ALL, DType
from rulegrad.lang import syntax
from rulegrad.runtime import devices
from rulegrad.runtime.buffer import Buffer
from rulegrad.workbench.conformance.values import differs, first_difference, operands

DTYPES = [d for d in ALL if d.kind not in ("void", "index", "complex")]
SIZE = 2048  # elements: every pair of special values, and random bits
COMPARISONS = ("CMPLT", "CMPLE", "CMPEQ", "CMPNE")
BOOL_OPS = ("ADD", "MUL", "MAX", "MIN", "AND", "OR", "XOR")
INTEGER_OPS = (*BOOL_OPS, "SUB", "FLOORDIV", "FLOORMOD", "TRUNCDIV", "TRUNCMOD", "POW", "SHL", "SHR")
FLOAT_OPS = ("ADD", "SUB", "MUL", "DIV", "POW", "MAX", "MIN", "ATAN2", "HYPOT", "FMOD")
FUNCTIONS = (
    *("EXP", "EXP2", "EXPM1", "LOG", "LOG2", "LOG10", "LOG1P", "SIN", "COS", "TAN", "ASIN", "ACOS", "ATAN"),
    *("SINH", "COSH", "TANH", "ASINH", "ACOSH", "ATANH", "ERF", "ERFC"),
)
UNARY = {
    "bool": ("NOT",),
    "integer": ("NEG", "NOT", "ABS"),
    "float": ("NEG", "ABS", "RECIPROCAL", "SQRT", *FUNCTIONS, "TRUNC", "FLOOR", "CEIL", "ROUND"),
}
MANTISSA = {"float16": 10, "bfloat16": 7, "float8_e4m3fn": 3, "float8_e5m2": 2}
ULP = {d.name: d.ulp for d in engine.loaded().sources.declarations() if isinstance(d, syntax.OpDeclaration)}


def kind(dtype: DType) -> str:
    return "bool" if dtype.kind == "bool" else "float" if dtype.is_float else "integer"


def on_device(device: str, *arrays: np.ndarray) -> list[Buffer]:
    found = []
    for array in arrays:
        buffer = Buffer(array.shape, DType(array.dtype.name), device)
        buffer.copy_in(array)
        found.append(buffer)
    return found


def computes(device: str, dtype: DType) -> bool:
    """Whether the device has the dtype."""
    facts = engine.target(devices.target_of(device))
    return devices.get(device).interprets or str(dtype) in facts.dtypes


def stacked(values: list[UOp], rows: UOp) -> UOp:
    """One tensor of several of one shape, which one kernel computes; `rows` has the row's number everywhere."""
    result = None
    for k, value in enumerate(values):
        row = UOp("EXPAND", (UOp("RESHAPE", (value,), shape=(1, *value.shape)),), shape=rows.shape)
        result = row if result is None else UOp("WHERE", (UOp("CMPEQ", (rows, UOp.const(k, "int32"))), row, result))
    return result


def compare(found: np.ndarray, wanted: np.ndarray, dtype: DType, what: str, sources: list[np.ndarray]) -> None:
    op = what.partition("[")[0]
    # which zero is the larger is open
    wrong = differs(found, wanted, dtype, ULP[op], op in ("MAX", "MIN"))
    if wrong.any():
        pytest.fail(first_difference(what, sources, found, wanted, wrong))


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_op(device, dtype):
    if not computes(device, dtype):
        (buffer,) = on_device(device, np.ones(4, dtype.numpy))
        with pytest.raises(DtypeError, match=f"have no {dtype}, which this kernel computes with"):
            realize([UOp("NEG", (buffer.uop,))])
        return
    arrays = operands([dtype, dtype], SIZE)
    buffers = on_device(device, *arrays)
    leaves = [buffer.uop for buffer in buffers]
    given = dict(zip(leaves, arrays, strict=True))
    binary = {"bool": BOOL_OPS, "integer": INTEGER_OPS, "float": FLOAT_OPS}[kind(dtype)]
    groups = [(dtype, [*((op, 2) for op in binary), *((op, 1) for op in UNARY[kind(dtype)])])]
    groups.append((DType("bool"), [(op, 2) for op in COMPARISONS]))
    kernels, graphs, kept = [], [], []
    for _, ops in groups:
        graphs.append([UOp(op, tuple(leaves[:count])) for op, count in ops])
        rows = np.repeat(np.arange(len(ops), dtype=np.int32), arrays[0].size).reshape(len(ops), -1)
        kept.extend(on_device(device, rows))
        kernels.append(stacked(graphs[-1], kept[-1].uop))
    for (result, ops), graph, buffer in zip(groups, graphs, realize(kernels), strict=True):
        found = buffer.numpy()
        for (op, count), node, row in zip(ops, graph, found, strict=True):
            with np.errstate(all="ignore"):
                wanted = evaluate(node, given)
            compare(row, wanted, result, op, arrays[:count])


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("op", ["CAST", "BITCAST"])
def test_every_cast(device, op, source):
    array = operands([source, source], SIZE)[0]
    kept = [d for d in DTYPES if computes(device, d)]
    targets = [d for d in kept if d != source and (op == "CAST" or d.bits == source.bits)]
    if source not in kept or not targets:
        pytest.skip(f"{device} has no {source}")
    rows = np.repeat(np.arange(len(targets), dtype=np.int32), array.size).reshape(len(targets), -1)
    buffer, counts = on_device(device, array, rows)
    graphs = [UOp(op, (buffer.uop,), target) for target in targets]
    # one kernel for all: the bits of the results
    bits = [UOp("BITCAST", (g,), f"uint{t.bits}") for t, g in zip(targets, graphs, strict=True)]
    (result,) = realize([stacked([UOp("CAST", (b,), "uint64") for b in bits], counts.uop)])
    for target, graph, row in zip(targets, graphs, result.numpy(), strict=True):
        with np.errstate(all="ignore"):
            wanted = evaluate(graph, {buffer.uop: array})
        found = row.astype(f"uint{target.bits}").view(target.numpy)
        compare(found, wanted, target, f"{op}[{target}]", [array])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_sums_of_small_floats(device, dtype):
    array = np.random.default_rng(0).normal(size=(8, 500)).astype(DType(dtype).numpy)
    (buffer,) = on_device(device, array)
    graph = UOp("REDUCE", (buffer.uop,), op="ADD", axes=(1,))
    exact = array.astype(np.float64).sum(1, keepdims=True).astype(np.float32)
    found = realize([graph])[0].numpy().astype(np.float32)
    # the sum is rounded once, at the end
    np.testing.assert_allclose(found, exact.astype(array.dtype).astype(np.float32), rtol=2.0 ** -MANTISSA[dtype])


@pytest.mark.parametrize("op", ["FLOORDIV", "FLOORMOD", "TRUNCDIV", "TRUNCMOD", "SHL", "SHR"])
def test_every_pair_of_int8(device, op):
    values = np.arange(-128, 128).astype(np.int8)
    arrays = [side.ravel() for side in np.meshgrid(values, values)]
    buffers = on_device(device, *arrays)
    graph = UOp(op, tuple(buffer.uop for buffer in buffers))
    wanted = evaluate(graph, {buffer.uop: array for buffer, array in zip(buffers, arrays, strict=True)})
    compare(realize([graph])[0].numpy(), wanted, DType("int8"), op, arrays)
