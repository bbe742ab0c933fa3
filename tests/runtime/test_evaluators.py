"""The evaluators against plain Python arithmetic, for every op and dtype, on special values."""

from __future__ import annotations

import ast
import itertools
import math
import operator
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rulegrad.errors import DeviceError, GraphError
from rulegrad.interpreter.evaluators import Evaluators, evaluators
from rulegrad.ir.dtype import ALL as EVERY
from rulegrad.ir.dtype import DType, as_dtype, index
from rulegrad.lang.evaluated import evaluated
from rulegrad.lang.parser import parse_file

# Complex numbers are looked at in tests/tensor/test_complex.py.
ALL = [d for d in EVERY if not d.is_complex]
FLOATS = [d for d in ALL if d.is_float]
INTEGERS = [d for d in ALL if d.is_integer]
SMALL = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


# ---- exact integer arithmetic, wrapped to the dtype ----


def wrap(value: int, dtype: DType) -> int:
    if dtype.kind == "bool":
        return int(value != 0)
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.is_signed and value >> (dtype.bits - 1) else value


def c_division(a: int, b: int) -> int:
    return 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def integer_power(a: int, b: int, bits: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << bits)
    return 0 if a == 0 else c_division(1, a ** min(-b, 99 if abs(a) > 1 else -b))


INTEGER_BINARY: dict[str, Callable[[int, int, int], int]] = {
    "ADD": lambda a, b, n: a + b,
    "SUB": lambda a, b, n: a - b,
    "MUL": lambda a, b, n: a * b,
    "FLOORDIV": lambda a, b, n: a // b if b else 0,
    "FLOORMOD": lambda a, b, n: a % b if b else 0,
    "TRUNCDIV": lambda a, b, n: c_division(a, b),
    "TRUNCMOD": lambda a, b, n: a - b * c_division(a, b) if b else 0,
    "POW": integer_power,
    "MAX": lambda a, b, n: max(a, b),
    "MIN": lambda a, b, n: min(a, b),
    "AND": lambda a, b, n: a & b,
    "OR": lambda a, b, n: a | b,
    "XOR": lambda a, b, n: a ^ b,
    "SHL": lambda a, b, n: a << b if 0 <= b < n else 0,
    "SHR": lambda a, b, n: a >> b if 0 <= b < n else (-1 if a < 0 else 0),
}
INTEGER_UNARY: dict[str, Callable[[int], int]] = {
    "NEG": operator.neg,
    "NOT": operator.invert,
    "ABS": abs,
}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "CMPLT": operator.lt,
    "CMPLE": operator.le,
    "CMPEQ": operator.eq,
    "CMPNE": operator.ne,
}
BOOL_BINARY = ("ADD", "MUL", "MAX", "MIN", "AND", "OR", "XOR")


def integers_of(dtype: DType) -> list[int]:
    if dtype.kind == "bool":
        return [0, 1]
    limits = np.iinfo(dtype.numpy)
    near = [0, 1, 2, 3, 5, 7, 8, 13, 31, 32, 63, 64, 100, 127]
    values = {*near, *(-v for v in near), limits.min, limits.max, limits.min + 1, limits.max - 1, limits.max // 2}
    return sorted(v for v in values if limits.min <= v <= limits.max)


def run(op: str, result: str, *columns: list[Any], dtype: DType) -> list[Any]:
    arrays = [np.array(column, dtype.numpy) for column in columns]
    with np.errstate(all="ignore"):
        value = evaluators().evaluate(op, result, arrays)
    assert value.dtype == as_dtype(result).numpy
    return list(value.tolist())


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", INTEGER_BINARY)
def test_integer_binary_ops(op: str, dtype: DType) -> None:
    pairs = list(itertools.product(integers_of(dtype), repeat=2))
    expected = [wrap(INTEGER_BINARY[op](a, b, dtype.bits), dtype) for a, b in pairs]
    assert run(op, dtype, *map(list, zip(*pairs, strict=True)), dtype=dtype) == expected


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", INTEGER_UNARY)
def test_integer_unary_ops(op: str, dtype: DType) -> None:
    values = integers_of(dtype)
    expected = [wrap(INTEGER_UNARY[op](v), dtype) for v in values]
    assert run(op, dtype, values, dtype=dtype) == expected


@pytest.mark.parametrize("op", BOOL_BINARY)
def test_bool_binary_ops(op: str) -> None:
    boolean = as_dtype("bool")
    pairs = [(False, False), (False, True), (True, False), (True, True)]
    expected = [bool(INTEGER_BINARY[op](a, b, 1)) for a, b in pairs]
    assert run(op, "bool", *map(list, zip(*pairs, strict=True)), dtype=boolean) == expected


def test_not_of_bool() -> None:
    assert run("NOT", "bool", [False, True], dtype=as_dtype("bool")) == [True, False]


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons(op: str, dtype: DType) -> None:
    values: list[Any] = floats_of(dtype) if dtype.is_float else integers_of(dtype)
    pairs = list(itertools.product(values, repeat=2))
    expected = [COMPARISONS[op](a, b) for a, b in pairs]
    assert run(op, "bool", *map(list, zip(*pairs, strict=True)), dtype=dtype) == expected


@pytest.mark.parametrize("dtype", ALL)
def test_where(dtype: DType) -> None:
    values = special_values(dtype)
    condition = np.arange(len(values)) % 2 == 0
    result = evaluators().evaluate("WHERE", dtype, [condition, values, values[::-1]])
    expected = [a if c else b for c, a, b in zip(condition, values, values[::-1], strict=True)]
    assert result.dtype == dtype.numpy
    np.testing.assert_array_equal(result.astype(float), np.array(expected, dtype.numpy).astype(float))


@pytest.mark.parametrize("dtype", [d for d in ALL if d.kind != "bool"])
def test_mulacc(dtype: DType) -> None:
    a, b, c = (np.array([1, 2, 3], dtype.numpy) for _ in range(3))
    assert evaluators().evaluate("MULACC", dtype, [a, b, c]).tolist() == [2, 6, 12]


# ---- floats: the double-precision result, rounded ----


def floats_of(dtype: DType) -> list[float]:
    wanted = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 7.25, -0.1, 100.0, 1e-3, 250.0, 1e5, -1e30]
    limits = [float(np.finfo(dtype.numpy).max), float(np.finfo(dtype.numpy).tiny)] if dtype == "float32" else []
    with np.errstate(all="ignore"):
        stored = np.array([*wanted, *limits, math.inf, -math.inf, math.nan]).astype(dtype.numpy)
    return [float(v) for v in stored]


def special_values(dtype: DType) -> np.ndarray[Any, Any]:
    return np.array(floats_of(dtype) if dtype.is_float else integers_of(dtype), dtype.numpy)


def rounded(values: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """Through float32 for the small floats, which are computed in it."""
    with np.errstate(all="ignore"):
        exact = np.asarray(values, np.float64)
        return (exact.astype(np.float32) if dtype in SMALL else exact).astype(dtype.numpy)


FLOAT_BINARY: dict[str, Callable[..., Any]] = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "DIV": np.divide,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "POW": np.power,
}
FLOAT_UNARY: dict[str, Callable[..., Any]] = {
    "NEG": np.negative, "RECIPROCAL": np.reciprocal, "SQRT": np.sqrt, "ABS": np.abs,
    "EXP": np.exp, "EXP2": np.exp2, "LOG": np.log, "LOG2": np.log2,
    "SIN": np.sin, "COS": np.cos, "TANH": np.tanh,
    "TRUNC": np.trunc, "FLOOR": np.floor, "CEIL": np.ceil, "ROUND": np.rint,
}  # fmt: skip
INEXACT = {"EXP", "EXP2", "LOG", "LOG2", "SIN", "COS", "TANH", "POW"}


def assert_close(op: str, got: Any, expected: Any, dtype: DType) -> None:
    a, b = np.asarray(got).astype(np.float64), expected.astype(np.float64)
    if op in INEXACT:
        np.testing.assert_allclose(a, b, rtol=4 * 2.0 ** -(dtype.mantissa + 1), atol=1e-300)
    else:
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a)[~np.isnan(b)], np.signbit(b)[~np.isnan(b)])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", FLOAT_BINARY)
def test_float_binary_ops(op: str, dtype: DType) -> None:
    x, y = (np.array(v) for v in zip(*itertools.product(floats_of(dtype), repeat=2), strict=True))
    with np.errstate(all="ignore"):
        got = evaluators().evaluate(op, dtype, [x.astype(dtype.numpy), y.astype(dtype.numpy)])
        expected = rounded(FLOAT_BINARY[op](x, y), dtype)
    if op in ("MAX", "MIN"):  # which zero it is does not matter
        got, expected = np.asarray(got) + dtype.numpy.type(0), expected + dtype.numpy.type(0)
    assert_close(op, got, expected, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", FLOAT_UNARY)
def test_float_unary_ops(op: str, dtype: DType) -> None:
    x = np.array([v for v in floats_of(dtype) if abs(v) < 1e6 or op not in ("SIN", "COS")])
    with np.errstate(all="ignore"):
        got = evaluators().evaluate(op, dtype, [x.astype(dtype.numpy)])
        expected = rounded(FLOAT_UNARY[op](x), dtype)
    assert_close(op, got, expected, dtype)


# ---- casts ----


@pytest.mark.parametrize("target", [*INTEGERS, index])
@pytest.mark.parametrize("source", FLOATS)
def test_floats_to_integers_truncate_and_wrap(source: DType, target: DType) -> None:
    values = [*floats_of(source), 3e9 if source.exponent == 8 else 3.0]
    stored = np.array(values).astype(source.numpy)
    with np.errstate(all="ignore"):
        got = evaluators().bind("CAST", target, [source])(stored)

    def convert(v: float) -> int:
        if target == "uint64" and 2.0**63 <= v < 2.0**64:
            return int(v)
        last = 2.0 ** (31 if target in ("int8", "int16", "int32", "uint8", "uint16") else 63)
        return wrap(int(v) if -last - 1 < v < last else -int(last), target)

    assert got.tolist() == [convert(float(v)) for v in stored]


@pytest.mark.parametrize(("source", "target"), list(itertools.product([*INTEGERS, as_dtype("bool")], INTEGERS)))
def test_integers_to_integers_wrap(source: DType, target: DType) -> None:
    values = integers_of(source)
    got = evaluators().bind("CAST", target, [source])(np.array(values, source.numpy))
    assert got.tolist() == [wrap(v, target) for v in values]


@pytest.mark.parametrize("source", ALL)
def test_anything_to_bool_is_not_zero(source: DType) -> None:
    values = special_values(source)
    got = evaluators().evaluate("CAST", "bool", [values])
    assert got.tolist() == [float(v) != 0 for v in values]


@pytest.mark.parametrize(("source", "target"), list(itertools.product(ALL, FLOATS)))
def test_to_floats_rounds(source: DType, target: DType) -> None:
    values = special_values(source)
    with np.errstate(all="ignore"):
        got = evaluators().evaluate("CAST", target, [values]).astype(np.float64)
        expected = values.astype(target.numpy).astype(np.float64)
    np.testing.assert_array_equal(got, expected)


def test_an_index_takes_no_more_than_64_bits() -> None:
    with pytest.raises(GraphError, match="does not fit in 64 bits"):
        evaluators().bind("CAST", "index", ["uint64"])(np.array([2**63], np.uint64))


@pytest.mark.parametrize(("source", "target"), [p for p in itertools.product(ALL, repeat=2) if p[0].bits == p[1].bits])
def test_bitcast_keeps_the_bits(source: DType, target: DType) -> None:
    values = np.array([0, 1, 0, 1] if source.kind == "bool" else [0, 1, 2, 77]).astype(source.numpy)
    got = evaluators().evaluate("BITCAST", target, [values])
    expected = values.view(f"u{source.itemsize}") != 0 if target.kind == "bool" else values.view(target.numpy)
    assert got.tobytes() == expected.tobytes() and got.dtype == target.numpy


# ---- index: exact, or an error ----


@pytest.mark.parametrize("op", ["ADD", "SUB", "MUL"])
def test_index_overflow_is_an_error(op: str) -> None:
    function = evaluators().bind(op, index, [index, index])
    large = {"ADD": (2**62, 2**62), "SUB": (-(2**62), 2**63 - 1), "MUL": (2**32, 2**31)}[op]
    with pytest.raises(GraphError, match="does not fit in 64 bits"):
        function(np.array([1, large[0]]), np.array([1, large[1]]))
    with pytest.raises(GraphError, match="does not fit in 64 bits"):
        evaluators().bind("NEG", index, [index])(np.array([-(2**63)]))


def test_index_without_overflow_where_the_ends_alone_would() -> None:
    multiply = evaluators().bind("MUL", index, [index, index])
    assert multiply(np.array([2**62, 1]), np.array([1, 2**62])).tolist() == [2**62, 2**62]


def test_index_of_empty_arrays() -> None:
    add = evaluators().bind("ADD", index, [index, index])
    assert add(np.zeros(0, np.int64), np.zeros(0, np.int64)).shape == (0,)


# ---- reductions ----


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("op", ["ADD", "MUL", "MAX", "MIN"])
def test_reductions(op: str, dtype: DType) -> None:
    array = np.array([[1, 0, 3], [2, 2, 1]]).astype(dtype.numpy)
    names = {"ADD": np.add, "MUL": np.multiply, "MAX": np.maximum, "MIN": np.minimum}
    wide = array.astype(bool if dtype.kind == "bool" else np.float64)
    got = evaluators().reduce(op, dtype, array, (1,))
    assert got.dtype == dtype.numpy and got.shape == (2, 1)
    expected = names[op].reduce(wide, axis=1, keepdims=True, dtype=wide.dtype)
    np.testing.assert_array_equal(got.astype(wide.dtype), expected)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("op", ["ADD", "MUL", "MAX", "MIN"])
def test_reducing_nothing_gives_the_identity(op: str, dtype: DType) -> None:
    identity = evaluators().reduce(op, dtype, np.zeros((2, 0), dtype.numpy), (1,))
    assert identity.shape == (2, 1)
    for value in [0, 1] if dtype.kind == "bool" else [0, 1, 100]:
        array = np.full((2, 1), value).astype(dtype.numpy)
        np.testing.assert_array_equal(evaluators().evaluate(op, dtype, [array, identity]), array)


@pytest.mark.parametrize("op", ["AND", "OR", "XOR"])
def test_bit_reductions(op: str) -> None:
    array = np.array([[12, 10, 255]], np.uint8)
    names = {"AND": 8, "OR": 255, "XOR": 12 ^ 10 ^ 255}
    assert evaluators().reduce(op, "uint8", array, (1,)).tolist() == [[names[op]]]
    assert evaluators().identity(op, "uint8") == (255 if op == "AND" else 0)


def test_integer_sums_wrap_and_small_floats_are_summed_in_float32() -> None:
    assert evaluators().reduce("ADD", "int8", np.full(3, 100, np.int8), (0,)).tolist() == [44]
    many = np.ones(4099, as_dtype("float16").numpy)
    assert evaluators().reduce("ADD", "float16", many, (0,)).tolist() == [4100]
    assert evaluators().reduce("ADD", "bfloat16", many.astype(as_dtype("bfloat16").numpy), (0,)).tolist() == [4096]


# ---- what cannot be evaluated ----


def test_ops_without_an_evaluator() -> None:
    assert "ADD" in evaluators() and "THREEFRY" in evaluators() and "RESHAPE" not in evaluators()
    with pytest.raises(DeviceError, match="cannot run RESHAPE"):
        evaluators().bind("RESHAPE", "float32", ["float32"])
    with pytest.raises(DeviceError, match="SUB cannot reduce"):
        evaluators().identity("SUB", "float32")
    with pytest.raises(DeviceError, match="WHERE cannot reduce"):
        evaluators().reduce("WHERE", "float32", np.zeros(3, np.float32), (0,))


def test_ops_that_a_rule_file_declares() -> None:
    text = (
        "op RELU(a: float32) -> float32\n"
        "    class     Elementwise\n"
        "    eval      a if a > 0 else 0.0\n"
        "op NEITHER(a: int32, b: int32) -> bool\n"
        "    class     Elementwise\n"
        "    eval      not (a < 0 or b < 0) and max(a, b, 1) <= 3\n"
    )
    table = Evaluators({op.name: evaluated(op) for op in parse_file(text, "more.rules").declarations})
    assert table.evaluate("RELU", "float32", [np.array([-1, 2], np.float32)]).tolist() == [0, 2]
    a, b = np.array([-1, 2, 2, 4], np.int32), np.array([1, 1, 3, 1], np.int32)
    assert table.evaluate("NEITHER", "bool", [a, b]).tolist() == [False, True, True, False]


MIXED = """op MIXED_SUM(a: int8, b: int8, c: int32) -> int32
    class     Elementwise
    eval      a * b + c
op MIXED_MOST(a: int8, b: int32) -> int32
    class     Elementwise
    eval      max(a * a, b)
op MIXED_LAST(a: int32, b: int8) -> int32
    class     Elementwise
    eval      a * b
op MIXED_RESULT(a: int8, b: int8) -> int32
    class     Elementwise
    eval      a * b
op MIXED_CAST(a: int8, b: int8, c: int32) -> int32
    class     Elementwise
    eval      convert(a) * convert(b) + c
op MIXED_SIGNS(a: uint64, b: int8) -> uint64
    class     Elementwise
    eval      max(a, b)
op MIXED_KINDS(a: int8, b: float32) -> float32
    class     Elementwise
    eval      a * a + b
op MIXED_INDEX(a: int32, b: index) -> index
    class     Elementwise
    eval      a * a + b
op NEXT_OF(a: int64, b: int64) -> int64
    class     Elementwise
    eval      min(max(a, b) + 1, dtype_max() + 1, (dtype_max() + 0) + (1 + 0))
"""
ON_MIXED = [
    ("MIXED_SUM", "int32", ("int8", "int8", "int32"), (100, -100, 5), -9995),
    ("MIXED_MOST", "int32", ("int8", "int32"), (100, 0), 10000),
    ("MIXED_LAST", "int32", ("int32", "int8"), (1000, 100), 100000),
    ("MIXED_RESULT", "int32", ("int8", "int8"), (100, -100), -10000),
    ("MIXED_CAST", "int32", ("int8", "int8", "int32"), (100, 100, 5), 10005),
    ("MIXED_SIGNS", "uint64", ("uint64", "int8"), (2**63 + 1, -1), 2**63 + 1),
    ("MIXED_KINDS", "float32", ("int8", "float32"), (100, 0.5), 10000.5),
    ("MIXED_INDEX", "index", ("int32", "index"), (100000, 1), 10000000001),
    ("NEXT_OF", "int64", ("int64", "int64"), (3, 2), 4),
    ("NEXT_OF", "int64", ("int64", "int64"), (2**63 - 1, 2), -(2**63)),
]


@pytest.fixture(scope="module")
def engine_on_mixed(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """What the engine computes, in a process in which the ops are in force."""
    path = tmp_path_factory.mktemp("mixed") / "mixed.rules"
    path.write_text(MIXED)
    cases = [(op, result, values) for op, result, _, values, _ in ON_MIXED]
    code = (
        "from rulegrad import _core, engine\n"
        "engine.install_op_table()\n"
        f"print([_core.evaluate(op, result, *values) for op, result, values in {cases}])"
    )
    environment = os.environ | {"RULEGRAD_RULES": str(path)}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    found: list[float] = ast.literal_eval(ended.stdout)
    return found


@pytest.mark.parametrize("number", range(len(ON_MIXED)))
def test_the_engine_and_the_interpreter_agree_on_sources_of_several_dtypes(
    number: int, engine_on_mixed: list[float]
) -> None:
    op, result, dtypes, values, wanted = ON_MIXED[number]
    table = Evaluators({one.name: evaluated(one) for one in parse_file(MIXED, "mixed.rules").declarations})
    function = table.bind(op, result, dtypes)
    sources = [np.array(value).astype(as_dtype(dtype).numpy) for value, dtype in zip(values, dtypes)]
    found = [function(*sources), function(*(source.reshape(1, 1) for source in sources))]
    assert [array.dtype for array in found] == [as_dtype(result).numpy] * 2
    assert [array.item() for array in found] == [wanted] * 2
    assert engine_on_mixed[number] == wanted
