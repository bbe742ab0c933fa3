"""Elementwise functions: values against NumPy for every dtype, promotion, broadcasting, Python scalars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
REAL = (*INTEGERS, *FLOATS)
NUMERIC = (*REAL, *COMPLEX)
BITS = ("bool", *INTEGERS)
ALL = ("bool", *NUMERIC)
INEXACT = (*FLOATS, *COMPLEX)

UNARY = {
    **dict.fromkeys(["abs", "negative", "positive", "sign", "square"], NUMERIC),
    **dict.fromkeys(["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1"], INEXACT),
    **dict.fromkeys(["log", "log10", "log1p", "log2", "reciprocal", "sin", "sinh", "sqrt", "tan", "tanh"], INEXACT),
    **dict.fromkeys(["ceil", "floor", "trunc"], REAL),
    **dict.fromkeys(["isfinite", "isinf", "isnan", "round"], NUMERIC),
    **dict.fromkeys(["conj", "real"], NUMERIC),
    "imag": COMPLEX,
    "signbit": FLOATS,
    "bitwise_invert": BITS,
    "logical_not": ("bool",),
}
BINARY = {
    **dict.fromkeys(["add", "multiply", "subtract", "equal", "not_equal"], NUMERIC),
    **dict.fromkeys(["atan2", "copysign", "hypot", "logaddexp", "nextafter"], FLOATS),
    **dict.fromkeys(["bitwise_and", "bitwise_or", "bitwise_xor"], BITS),
    **dict.fromkeys(["bitwise_left_shift", "bitwise_right_shift"], INTEGERS),
    "divide": INEXACT,
    **dict.fromkeys(["floor_divide", "remainder", "maximum", "minimum"], REAL),
    **dict.fromkeys(["greater", "greater_equal", "less", "less_equal"], REAL),
    **dict.fromkeys(["logical_and", "logical_or", "logical_xor"], ("bool",)),
    "pow": NUMERIC,
}
BOOL_RESULT = {
    "isfinite", "isinf", "isnan", "signbit", "logical_not", "equal", "not_equal", "greater", "greater_equal", "less",
    "less_equal", "logical_and", "logical_or", "logical_xor",
}  # fmt: skip
REAL_RESULT = {"abs", "real", "imag"}


def values_of(dtype: str, name: str, seed: int, shape: tuple[int, ...]) -> Any:
    """Values of a dtype in the domain of a function."""
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype in INTEGERS:
        low, high = (1, 7) if name in ("bitwise_left_shift", "bitwise_right_shift", "pow") else (-100, 100)
        numbers = generator.integers(max(low, 1 if dtype in UNSIGNED else low), high, shape)
        return np.where(numbers == 0, 3, numbers).astype(dtype)
    spread = {"acosh": (1, 20), "log": (0.1, 50), "log2": (0.1, 50), "log10": (0.1, 50), "sqrt": (0, 50)}
    spread |= {"acos": (-1, 1), "asin": (-1, 1), "atanh": (-0.95, 0.95), "log1p": (-0.9, 20), "exp": (-5, 5)}
    spread |= {"expm1": (-5, 5), "sinh": (-5, 5), "cosh": (-5, 5), "pow": (0.2, 4), "reciprocal": (0.5, 9)}
    low, high = spread.get(name, (-20, 20))
    numbers = generator.uniform(low, high, shape)
    if dtype in COMPLEX:
        numbers = numbers + 1j * generator.uniform(0.1, 1, shape)
    return numbers.astype(dtype)


def expected_dtype(name: str, dtype: str) -> str:
    if name in BOOL_RESULT:
        return "bool"
    return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype) if name in REAL_RESULT else dtype


CASES_1 = [(name, dtype) for name, dtypes in UNARY.items() for dtype in dtypes]
CASES_2 = [(name, dtype) for name, dtypes in BINARY.items() for dtype in dtypes]


@pytest.mark.parametrize(("name", "dtype"), CASES_1)
def test_functions_of_one_array(lib: Any, xp: Any, name: str, dtype: str):
    values = values_of(dtype, name, 1, (2, 5))
    if name == "round" and dtype in COMPLEX:
        values = values * 10
    expected = getattr(np, name)(values)
    lib.same(getattr(xp, name)(lib.array(values)), expected, expected_dtype(name, dtype))


@pytest.mark.parametrize(("name", "dtype"), CASES_2)
def test_functions_of_two_arrays(lib: Any, xp: Any, name: str, dtype: str):
    first, second = values_of(dtype, name, 2, (2, 1, 4)), values_of(dtype, name, 3, (3, 1))
    expected = getattr(np, name)(first, second)
    lib.same(getattr(xp, name)(lib.array(first), lib.array(second)), expected, expected_dtype(name, dtype))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_arrays_without_axes_or_elements(lib: Any, xp: Any, name: str, shape: tuple[int, ...]):
    dtypes = (UNARY | BINARY)[name]
    for dtype in {dtypes[0], "float64" if "float64" in dtypes else dtypes[-1]}:
        values = values_of(dtype, name, 4, shape)
        operands = [values] * (2 if name in BINARY else 1)
        expected = getattr(np, name)(*operands)
        lib.same(getattr(xp, name)(*map(lib.array, operands)), expected, expected_dtype(name, dtype))


# ---- promotion ----


def promoted(first: str, second: str) -> str:
    return str(np.result_type(first, second))


SAME_KIND = [
    (first, second)
    for kind in (SIGNED, UNSIGNED, INTEGERS, FLOATS, INEXACT)
    for first in kind
    for second in kind
    if first < second and {first, second} & {"uint64"} == set()
]


@pytest.mark.parametrize(("first", "second"), sorted(set(SAME_KIND)))
@pytest.mark.parametrize("name", ["add", "multiply", "less", "pow"])
def test_operands_are_promoted(lib: Any, xp: Any, name: str, first: str, second: str):
    if name == "less" and {first, second} & set(COMPLEX):
        return
    a, b = values_of(first, "pow", 5, (3,)), values_of(second, "pow", 6, (3,))
    dtype = "bool" if name == "less" else promoted(first, second)
    expected = getattr(np, name)(a.astype(promoted(first, second)), b.astype(promoted(first, second)))
    lib.same(getattr(xp, name)(lib.array(a), lib.array(b)), expected, dtype)
    lib.same(
        getattr(xp, name)(lib.array(b), lib.array(a)),
        getattr(np, name)(b.astype(promoted(first, second)), a.astype(promoted(first, second))),
        dtype,
    )


SCALARS: list[tuple[str, Any]] = [
    *[(dtype, 2) for dtype in REAL],
    *[(dtype, 2.5) for dtype in FLOATS],
    *[(dtype, 1.5 + 2j) for dtype in COMPLEX],
    *[(dtype, 2) for dtype in COMPLEX],
    *[(dtype, 2.5) for dtype in COMPLEX],
]


@pytest.mark.parametrize(("dtype", "scalar"), SCALARS)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "equal", "pow"])
def test_python_scalars_take_the_arrays_dtype(lib: Any, xp: Any, name: str, dtype: str, scalar: Any):
    values = values_of(dtype, "pow", 7, (3,))
    function, reference = getattr(xp, name), getattr(np, name)
    result = "bool" if name == "equal" else dtype
    lib.same(function(lib.array(values), scalar), reference(values, scalar), result)
    lib.same(function(scalar, lib.array(values)), reference(np.asarray(scalar, dtype), values), result)


@pytest.mark.parametrize("name", ["bitwise_and", "logical_or", "bitwise_xor"])
def test_python_bools_with_bools(lib: Any, xp: Any, name: str):
    values = np.array([True, False])
    lib.same(getattr(xp, name)(lib.array(values), True), getattr(np, name)(values, True))


# ---- clip ----


@pytest.mark.parametrize("dtype", REAL)
def test_clip(lib: Any, xp: Any, dtype: str):
    values = np.arange(6).reshape(2, 3).astype(dtype)
    x = lib.array(values)
    lib.same(xp.clip(x, 1, 4), np.clip(values, 1, 4), dtype)
    lib.same(xp.clip(x, min=2), np.maximum(values, 2), dtype)
    lib.same(xp.clip(x, max=2), np.minimum(values, 2), dtype)
    lib.same(xp.clip(x), values, dtype)
    low, high = np.array([0, 2, 2], dtype), np.array([[3], [4]], dtype)
    lib.same(xp.clip(x, lib.array(low), lib.array(high)), np.clip(values, low, high), dtype)
    lib.same(xp.clip(x, lib.array(low), 3), np.clip(values, low, np.asarray(3, dtype)), dtype)


def test_clip_passes_nan_on(lib: Any, xp: Any):
    lib.same(xp.clip(lib.array([np.nan, 2.0, -5.0]), -1.0, 1.0), np.array([np.nan, 1.0, -1.0]))
    assert np.isnan(lib.values(xp.clip(lib.array([1.0]), lib.array([np.nan]), 2.0))).all()


# ---- exact arithmetic ----


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_around(lib: Any, xp: Any, dtype: str):
    ends = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 1], dtype)
    x = lib.array(ends)
    lib.exactly(xp.add(x, x), ends + ends)
    lib.exactly(xp.multiply(x, x), ends * ends)
    lib.exactly(xp.subtract(x, lib.array(ends[::-1])), ends - ends[::-1])
    lib.exactly(xp.square(x), ends * ends)


@pytest.mark.parametrize("dtype", SIGNED)
def test_integer_division_rounds_down(lib: Any, xp: Any, dtype: str):
    a = np.array([7, -7, 7, -7, 0], dtype)
    b = np.array([2, 2, -2, -2, 3], dtype)
    lib.exactly(xp.floor_divide(lib.array(a), lib.array(b)), np.array([3, -4, -4, 3, 0], dtype))
    lib.exactly(xp.remainder(lib.array(a), lib.array(b)), np.array([1, 1, -1, -1, 0], dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_division_rounds_down(lib: Any, xp: Any, dtype: str):
    generator = np.random.default_rng(8)
    a, b = (generator.uniform(-30, 30, 50).astype(dtype) for _ in range(2))
    lib.same(xp.floor_divide(lib.array(a), lib.array(b)), np.floor_divide(a, b))
    lib.same(xp.remainder(lib.array(a), lib.array(b)), np.remainder(a, b))


@pytest.mark.parametrize("dtype", FLOATS)
def test_next_numbers(lib: Any, xp: Any, dtype: str):
    tiny = np.finfo(dtype).smallest_subnormal
    a = np.array([0.0, 0.0, 1.0, 1.0, -1.0, tiny, np.inf, np.finfo(dtype).max, 2.0], dtype)
    b = np.array([1.0, -1.0, 2.0, 0.0, 0.0, -1.0, 0.0, np.inf, 2.0], dtype)
    lib.exactly(xp.nextafter(lib.array(a), lib.array(b)), np.nextafter(a, b))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["expm1", "log1p", "asinh", "atanh", "sinh", "tanh", "asin", "atan", "sin", "tan"])
def test_small_numbers_keep_their_digits(lib: Any, xp: Any, name: str, dtype: str):
    values = np.array([1e-20, -1e-10, 1e-5, 1e-3], dtype)
    result = lib.values(getattr(xp, name)(lib.array(values)))
    np.testing.assert_allclose(result, getattr(np, name)(values), rtol=np.finfo(dtype).eps * 8)


@pytest.mark.parametrize("dtype", FLOATS)
def test_large_numbers_do_not_overflow_on_the_way(lib: Any, xp: Any, dtype: str):
    large = np.array([np.finfo(dtype).max / 4, np.finfo(dtype).smallest_normal * 8], dtype)
    lib.same(xp.hypot(lib.array(large), lib.array(large)) / lib.array(large), np.sqrt([2.0, 2.0]), dtype)
    far = np.array([1000.0, -1000.0], dtype)
    lib.same(xp.logaddexp(lib.array(far), lib.array(far)), far + np.log(2.0).astype(dtype), dtype)
    lib.same(xp.asinh(lib.array(large[:1])), np.arcsinh(large[:1]), dtype)


# ---- any shapes and values ----


@given(data=st.data(), shapes=hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3))
def test_any_shapes_broadcast(lib: Any, data: Any, shapes: Any):
    name = data.draw(st.sampled_from(["add", "multiply", "equal", "atan2", "maximum", "copysign", "hypot"]))
    numbers = st.floats(-100, 100, width=32)
    a, b = (data.draw(hnp.arrays(np.float32, shape, elements=numbers)) for shape in shapes.input_shapes)
    expected = getattr(np, name)(a, b)
    lib.same(getattr(lib.xp, name)(lib.array(a), lib.array(b)), expected)


@given(data=st.data(), shape=hnp.array_shapes(min_dims=0, max_dims=3, max_side=3))
def test_any_values(lib: Any, data: Any, shape: Any):
    name = data.draw(st.sampled_from(["abs", "ceil", "floor", "trunc", "round", "sign", "isfinite", "signbit", "sqrt"]))
    values = data.draw(hnp.arrays(np.float64, shape, elements=st.floats(allow_subnormal=False)))
    expected = getattr(np, name)(values)
    lib.same(getattr(lib.xp, name)(lib.array(values)), expected)
