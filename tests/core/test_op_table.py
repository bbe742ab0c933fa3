"""The op table as the engine has it: evaluators against Python and NumPy, identities, dtypes of results."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401  its dtypes become NumPy's
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from random_graphs import FLOATS, SIGNED, UNSIGNED, limits, same_value
from rule_programs import const, op_table, rewritten, var

from rulegrad import _core
from rulegrad.errors import GraphError
from rulegrad.interpreter.evaluators import evaluators
from rulegrad.ir import UOp
from rulegrad.ir.dtype import ALL, as_dtype
from rulegrad.lang.optable import OpTable
from rulegrad.lang.syntax import OpDeclaration

EVALUATORS = evaluators()
TABLE = OpTable.from_declarations(op_table().declarations)
FIXED = (*SIGNED, *UNSIGNED)


def wrap(value: int, dtype: str) -> int:
    low, high = limits(dtype)
    return (value - low) % (high - low + 1) + low


def test_every_op_says_what_it_is() -> None:
    for op in TABLE.ops.values():
        d: OpDeclaration = op.declaration
        assert d.doc or d.evaluator is not None or "Movement" in d.classes or d.result == "void" or op.name in (
            "STACK", "COPY", "END", "BARRIER", "SINK", "REDUCE"), op.name  # fmt: skip
        if "Elementwise" in d.classes and "Composite" not in d.classes:
            assert op.name in EVALUATORS, f"{op.name} has no evaluator"
        if "Reduction" in d.classes:
            assert d.identity is not None and op.commutative and op.associative, op.name


# ---- integers: exact, then wrapped ----

INTEGER: dict[str, Callable[[int, int, str], int]] = {
    "ADD": lambda a, b, t: a + b,
    "SUB": lambda a, b, t: a - b,
    "MUL": lambda a, b, t: a * b,
    "MAX": lambda a, b, t: max(a, b),
    "MIN": lambda a, b, t: min(a, b),
    "AND": lambda a, b, t: a & b,
    "OR": lambda a, b, t: a | b,
    "XOR": lambda a, b, t: a ^ b,
    "FLOORDIV": lambda a, b, t: a // b if b else 0,
    "FLOORMOD": lambda a, b, t: a % b if b else 0,
    "TRUNCDIV": lambda a, b, t: (abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)) if b else 0,
    "TRUNCMOD": lambda a, b, t: (abs(a) % abs(b) * (-1 if a < 0 else 1)) if b else 0,
    "SHL": lambda a, b, t: a << b if 0 <= b < as_dtype(t).bits else 0,
}


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", FIXED)
@pytest.mark.parametrize("op", INTEGER)
@given(st.data())
def test_integers(op: str, dtype: str, data: st.DataObject) -> None:
    low, high = limits(dtype)
    edge = st.sampled_from([low, low + 1, high, high - 1, high // 2, *([-1, -2] if low else []), 0, 1, 2, 7])
    a, b = (data.draw(st.integers(low, high) | edge) for _ in range(2))
    assert _core.evaluate(op, dtype, a, b) == wrap(INTEGER[op](a, b, dtype), dtype)


@pytest.mark.parametrize("op", sorted(INTEGER.keys() - {"SHL"}))
@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
@example(2**63 - 1, 2**63 - 1)
@example(-(2**63), -1)
def test_index_arithmetic_is_exact_or_an_error(op: str, a: int, b: int) -> None:
    exact = INTEGER[op](a, b, "index")
    if -(2**63) <= exact < 2**63:
        assert _core.evaluate(op, "index", a, b) == exact
    else:
        with pytest.raises(GraphError, match="does not fit in 64 bits"):
            _core.evaluate(op, "index", a, b)


@pytest.mark.parametrize("dtype", FIXED)
def test_all_integer_pairs_of_interest(dtype: str) -> None:
    low, high = limits(dtype)
    values = sorted({low, low + 1, high, high - 1, 0, 1, 2, 3, 5, max(low, -1), max(low, -2), max(low, -7), high // 2})
    for op, (a, b) in itertools.product(INTEGER, itertools.product(values, repeat=2)):
        assert _core.evaluate(op, dtype, a, b) == wrap(INTEGER[op](a, b, dtype), dtype), (op, a, b)


@pytest.mark.parametrize("dtype", FIXED)
def test_shifts_and_powers(dtype: str) -> None:
    low, high = limits(dtype)
    bits = as_dtype(dtype).bits
    for a in (low, high, 1, 5, max(low, -3)):
        for b in (0, 1, bits - 1, bits, 100):
            assert _core.evaluate("SHR", dtype, a, b) == a >> b
        for b in (0, 1, 2, 3, 9, 64):
            assert _core.evaluate("POW", dtype, a, b) == wrap(a**b, dtype)
    if low < 0:
        assert _core.evaluate("SHR", dtype, 1, -1) is None and _core.evaluate("POW", dtype, 2, -1) is None
        assert _core.evaluate("SHL", dtype, 1, -1) == 0


@pytest.mark.parametrize("dtype", FIXED)
def test_unary_integers(dtype: str) -> None:
    low, high = limits(dtype)
    for a in (low, low + 1, 0, 1, 5, high):
        assert _core.evaluate("NEG", dtype, a) == wrap(-a, dtype)
        assert _core.evaluate("NOT", dtype, a) == wrap(~a, dtype)
        assert _core.evaluate("ABS", dtype, a) == wrap(abs(a), dtype)
        assert _core.evaluate("MULACC", dtype, a, high, low) == wrap(a * high + low, dtype)


@pytest.mark.parametrize(("a", "b"), list(itertools.product([False, True], repeat=2)))
def test_bools(a: bool, b: bool) -> None:
    expected = {
        "AND": a and b,
        "OR": a or b,
        "XOR": a != b,
        "ADD": a or b,
        "MUL": a and b,
        "MAX": a or b,
        "MIN": a and b,
    }
    for op, value in expected.items():
        assert _core.evaluate(op, "bool", a, b) is value
    comparisons = {"CMPLT": a < b, "CMPLE": a <= b, "CMPEQ": a == b, "CMPNE": a != b}
    for op, value in comparisons.items():
        assert _core.evaluate(op, "bool", a, b) is value
    assert _core.evaluate("NOT", "bool", a) is (not a)
    assert _core.evaluate("WHERE", "int8", a, 3, 4) == (3 if a else 4)


# ---- floats: computed in double precision, rounded once ----


def numpy_of(dtype: str) -> Any:
    return as_dtype(dtype).numpy.type


def rounded(value: float, dtype: str) -> float:
    """A double as the dtype stores it, by the nearest of its values, halves to even."""
    if dtype in ("float64", "float32", "float16"):
        with np.errstate(all="ignore"):
            return float(numpy_of(dtype)(value))
    if math.isnan(value):
        return value
    table = stored_values(dtype)
    if math.isinf(value):
        return value if dtype != "float8_e4m3fn" else math.nan
    place = int(np.searchsorted(table, abs(value)))
    if place == len(table):  # above the greatest finite value: halfway to the next it rounds up
        gap = table[-1] - table[-2]
        below = abs(value) < table[-1] + gap / 2 or (
            abs(value) == table[-1] + gap / 2 and is_even(dtype, len(table) - 1)
        )
        top = table[-1] if below else (math.nan if dtype == "float8_e4m3fn" else math.inf)
        return math.copysign(float(top), value)
    if table[place] == abs(value):
        return value
    low, high = float(table[place - 1]), float(table[place])
    down = abs(value) - low < high - abs(value) or (abs(value) - low == high - abs(value) and is_even(dtype, place - 1))
    return math.copysign(low if down else high, value)


def is_even(dtype: str, place: int) -> bool:
    return place % 2 == 0  # the table is in the order of the bit patterns


_tables: dict[str, Any] = {}


def stored_values(dtype: str) -> Any:
    """All finite values that are not negative, in order."""
    if dtype not in _tables:
        bits = as_dtype(dtype).bits
        patterns = np.arange(2 ** (bits - 1), dtype=f"uint{bits}")
        with np.errstate(invalid="ignore"):  # of signalling nans
            values = patterns.view(as_dtype(dtype).numpy).astype(np.float64)
        _tables[dtype] = values[np.isfinite(values)]
    return _tables[dtype]


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"])
def test_small_floats_hold_what_they_hold(dtype: str) -> None:
    for value in stored_values(dtype).tolist():
        assert const(value, dtype).attrs["value"] == value
        assert math.copysign(1, const(-value, dtype).attrs["value"]) == -1


@pytest.mark.parametrize("dtype", FLOATS)
@given(st.floats() | st.floats(-1e3, 1e3) | st.floats(-1e-6, 1e-6))
@example(464.0)
@example(465.0)
@example(61440.0)
@example(65520.0)
@example(65519.99)
@example(2.0**-149 / 2)
@example(-0.0)
def test_constants_are_rounded_once(dtype: str, value: float) -> None:
    assert same_value(const(value, dtype).attrs["value"], rounded(value, dtype))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"])
def test_halfway_between_all_small_floats(dtype: str) -> None:
    table = stored_values(dtype)
    for k in range(0, len(table) - 1, max(1, len(table) // 400)):
        half = (float(table[k]) + float(table[k + 1])) / 2
        even = float(table[k] if is_even(dtype, k) else table[k + 1])
        assert const(half, dtype).attrs["value"] == even
        assert const(math.nextafter(half, 0), dtype).attrs["value"] == float(table[k])
        assert const(math.nextafter(half, math.inf), dtype).attrs["value"] == float(table[k + 1])


@pytest.mark.parametrize("dtype", FLOATS)
@given(st.integers(-(2**64), 2**64) | st.integers(0, 64).flatmap(lambda k: st.integers(2**k - 3, 2**k + 3)))
@example((2**24 + 1) * 2**30 + 1)
@example((2**11 + 1) * 2**50 + 1)
@example(2**64 - 1)
def test_integers_become_floats_rounded_once(dtype: str, value: int) -> None:
    from fractions import Fraction

    found = const(value, dtype).attrs["value"]
    if dtype == "float64":
        assert found == float(value)
    elif not math.isfinite(found):
        assert abs(value) > stored_max(dtype)
    else:  # no neighbour is nearer
        for neighbour in neighbours(found, dtype):
            assert abs(Fraction(found) - value) <= abs(Fraction(neighbour) - value)


def stored_max(dtype: str) -> float:
    return float(np.finfo(np.float32).max) if dtype == "float32" else float(stored_values(dtype)[-1])


def neighbours(value: float, dtype: str) -> list[float]:
    if dtype == "float32":
        return [float(np.nextafter(np.float32(value), np.float32(s * np.inf))) for s in (-1, 1)]
    table = stored_values(dtype)
    place = int(np.searchsorted(table, abs(value)))
    return [math.copysign(float(table[p]), value) for p in (place - 1, place + 1) if 0 <= p < len(table)]


FLOAT_BINARY: dict[str, Callable[[float, float], float]] = {
    "ADD": lambda a, b: a + b,
    "SUB": lambda a, b: a - b,
    "MUL": lambda a, b: a * b,
    "DIV": lambda a, b: float(np.divide(a, b)),
    "MAX": lambda a, b: float(np.maximum(a, b)),
    "MIN": lambda a, b: float(np.minimum(a, b)),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", FLOAT_BINARY)
@given(st.data())
def test_floats(op: str, dtype: str, data: st.DataObject) -> None:
    numbers = st.floats() | st.floats(-100, 100) | st.sampled_from([0.0, -0.0, 1.0, math.inf, -math.inf, math.nan])
    a, b = (const(data.draw(numbers), dtype).attrs["value"] for _ in range(2))
    with np.errstate(all="ignore"):
        expected = rounded(FLOAT_BINARY[op](a, b), dtype)
    found = _core.evaluate(op, dtype, a, b)
    if op in ("MAX", "MIN") and found == 0:  # which zero it is does not matter
        assert expected == 0
    else:
        assert same_value(found, expected), (a, b)


UNARY: dict[str, Callable[[Any], Any]] = {
    "NEG": np.negative, "ABS": np.abs, "SQRT": np.sqrt, "RECIPROCAL": np.reciprocal, "TRUNC": np.trunc, "FLOOR": np.floor,
    "CEIL": np.ceil, "ROUND": np.rint, "EXP": np.exp, "EXP2": np.exp2, "LOG": np.log, "LOG2": np.log2, "SIN": np.sin,
    "COS": np.cos, "TANH": np.tanh,
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", UNARY)
def test_unary_floats(op: str, dtype: str) -> None:
    values = [0.0, -0.0, 0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.25, 10.0, -87.0, 300.0, 1e-4, math.inf, -math.inf, math.nan]
    for value in values:
        x = const(value, dtype).attrs["value"]
        with np.errstate(all="ignore"):
            expected = rounded(float(UNARY[op](np.float64(x))), dtype)
        found = _core.evaluate(op, dtype, x)
        if (
            op in ("EXP", "EXP2", "LOG", "LOG2", "SIN", "COS", "TANH")
            and math.isfinite(expected)
            and math.isfinite(found)
        ):
            assert found == pytest.approx(expected, rel=2.0 ** -as_dtype(dtype).mantissa, abs=1e-300), x
        else:
            assert same_value(found, expected), x


@pytest.mark.parametrize("op", ["CMPLT", "CMPLE", "CMPEQ", "CMPNE"])
def test_comparisons_of_floats(op: str) -> None:
    compare = {"CMPLT": np.less, "CMPLE": np.less_equal, "CMPEQ": np.equal, "CMPNE": np.not_equal}[op]
    for a, b in itertools.product([0.0, -0.0, 1.0, -1.0, math.inf, math.nan], repeat=2):
        assert _core.evaluate(op, "bool", a, b) is bool(compare(a, b))


def test_comparisons_of_large_numbers_are_exact() -> None:
    assert _core.evaluate("CMPEQ", "bool", 2**53 + 1, float(2**53)) is False
    assert _core.evaluate("CMPLT", "bool", 2**63, 2**63 + 1) is True


# ---- casts ----


@pytest.mark.parametrize("dtype", FIXED)
@given(st.floats() | st.floats(-1e20, 1e20) | st.floats(-300, 300))
def test_floats_to_integers_truncate_and_wrap(dtype: str, value: float) -> None:
    if dtype == "uint64" and 2.0**63 <= value < 2.0**64:
        expected = int(value)
    else:
        last = 2.0 ** (63 if dtype in ("int64", "uint64", "uint32") else 31)
        expected = wrap(int(value) if -last - 1 < value < last else -int(last), dtype)
    assert _core.evaluate("CAST", dtype, value) == expected


@given(st.integers(-(2**64), 2**64))
def test_integers_to_integers_wrap(value: int) -> None:
    for dtype in FIXED:
        assert _core.evaluate("CAST", dtype, value) == wrap(value, dtype)
    assert _core.evaluate("CAST", "bool", value) is (value != 0)


@pytest.mark.parametrize(("float_dtype", "int_dtype"), [
    ("float64", "uint64"), ("float32", "uint32"), ("float16", "uint16"), ("bfloat16", "uint16"),
    ("float8_e4m3fn", "uint8"), ("float8_e5m2", "uint8"),
])  # fmt: skip
def test_bit_casts(float_dtype: str, int_dtype: str) -> None:
    rules = "b[T, U]: BITCAST[T](c:const:U) -> {bitcast(c, U, T)}"
    bits = as_dtype(int_dtype).bits
    for pattern in {0, 1, 5, 1 << (bits - 1), (1 << bits) - 1, (1 << (bits - 1)) - 1, 0x3C, 1 << (bits - 2)}:
        as_float = np.array(pattern, int_dtype).view(as_dtype(float_dtype).numpy)
        result = rewritten(rules, UOp("BITCAST", (const(pattern, int_dtype),), float_dtype))
        assert same_value(result.attrs["value"], float(as_float)), pattern
        if not np.isnan(float(as_float)):
            back = rewritten(rules, UOp("BITCAST", (result,), int_dtype))
            assert back == const(pattern, int_dtype)


# ---- identities, results, arguments ----


def reductions() -> list[str]:
    return [op.name for op in TABLE.ops.values() if "Reduction" in op.declaration.classes]


@pytest.mark.parametrize("dtype", [d for d in ALL if not d.is_complex])
@pytest.mark.parametrize("op", reductions())
def test_identity_elements(op: str, dtype: str) -> None:
    try:
        x = var(0, dtype)
        UOp(op, (x, x))
    except GraphError:
        return  # the op does not take this dtype
    program = f"p[f: {{{op}}}]: n@f(_, _) -> {{identity(f, dtype(n))}}"
    identity = rewritten(program, UOp(op, (x, x))).attrs["value"]
    low_high: list[Any] = (
        [-3.5, 2.0, 0.0] if dtype in FLOATS else [False, True] if dtype == "bool" else [*limits(dtype), 0, 3]
    )
    for value in [*low_high, *([math.inf, -math.inf] if dtype in FLOATS else [])]:
        stored = const(value, dtype).attrs["value"]
        assert same_value(_core.evaluate(op, dtype, stored, identity), stored) or stored == 0
        assert same_value(_core.evaluate(op, dtype, identity, stored), stored) or stored == 0


def test_dtypes_of_results() -> None:
    assert (var(0, "int8") + var(1, "int8")).dtype == "int8"
    assert (var(0, "float16") < var(1, "float16")).dtype == "bool"
    assert UOp("STORE", (var(0), var(1))).dtype == "void"
    assert UOp("WHERE", (var(0, "bool"), var(1, "uint8"), var(2, "uint8"))).dtype == "uint8"
    assert UOp("CAST", (var(0),), "float64").dtype == "float64"
    assert UOp("REDUCE", (var(0, "bfloat16", (3,)),), op="ADD", axes=(0,)).dtype == "bfloat16"


@pytest.mark.parametrize(
    ("op", "arguments"), [("ADD", (1,)), ("ADD", (1, 2, 3)), ("NEG", ()), ("WHERE", (True, 1)), ("SINK", (1,))]
)
def test_wrong_numbers_of_arguments_have_no_value(op: str, arguments: tuple[Any, ...]) -> None:
    assert _core.evaluate(op, "int32", *arguments) is None


def test_unknown_names() -> None:
    with pytest.raises(GraphError, match="no op NOPE"):
        _core.evaluate("NOPE", "int32", 1)
    with pytest.raises(GraphError, match="no dtype called int33"):
        _core.evaluate("ADD", "int33", 1, 2)
    with pytest.raises(GraphError):
        _core.evaluate("ADD", "int32", object(), 2)
