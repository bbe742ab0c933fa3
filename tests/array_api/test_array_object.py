"""The array object: attributes, operators (reflected and in place), conversions, devices."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")

ARITHMETIC = {
    "add": (*INTEGERS, *FLOATS, *COMPLEX),
    "sub": (*INTEGERS, *FLOATS, *COMPLEX),
    "mul": (*INTEGERS, *FLOATS, *COMPLEX),
    "truediv": (*FLOATS, *COMPLEX),
    "floordiv": (*INTEGERS, *FLOATS),
    "mod": (*INTEGERS, *FLOATS),
    "pow": (*INTEGERS, *FLOATS, *COMPLEX),
    "and_": ("bool", *INTEGERS),
    "or_": ("bool", *INTEGERS),
    "xor": ("bool", *INTEGERS),
    "lshift": INTEGERS,
    "rshift": INTEGERS,
}
COMPARISON = {
    **dict.fromkeys(["lt", "le", "gt", "ge"], (*INTEGERS, *FLOATS)),
    **dict.fromkeys(["eq", "ne"], ("bool", *INTEGERS, *FLOATS, *COMPLEX)),
}
CASES = [(name, dtype) for name, dtypes in (ARITHMETIC | COMPARISON).items() for dtype in dtypes]
IN_PLACE = [(name, dtype) for name, dtypes in ARITHMETIC.items() for dtype in dtypes]


def operands(dtype: str) -> tuple[Any, Any]:
    first, second = np.array([[1, 2], [3, 5]]), np.array([1, 3])
    if dtype in FLOATS:
        return (first / 2).astype(dtype), second.astype(dtype)
    return (first % 2 == 0, second > 1) if dtype == "bool" else (first.astype(dtype), second.astype(dtype))


# ---- attributes ----


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 0, 4)])
def test_attributes(lib: Any, xp: Any, shape: Any):
    x = xp.ones(shape, dtype=xp.int16)
    assert (x.shape, x.ndim, x.size, x.dtype) == (shape, len(shape), int(np.prod(shape)), xp.int16)
    assert x.device in xp.__array_namespace_info__().devices()


def test_transposes(lib: Any, xp: Any):
    values = np.arange(12).reshape(2, 2, 3)
    lib.exactly(lib.array(values).mT, values.mT)
    lib.exactly(lib.array(values[0]).T, values[0].T)


def test_namespace(xp: Any):
    x = xp.asarray(1)
    for version in (None, xp.__array_api_version__):
        assert x.__array_namespace__(api_version=version) is xp
    with pytest.raises(ValueError):
        x.__array_namespace__(api_version="1999.01")


def test_moving_to_a_device(lib: Any, xp: Any):
    x = xp.asarray([1, 2])
    for device in xp.__array_namespace_info__().devices():
        y = x.to_device(device)
        assert y.device == device
        lib.exactly(y, np.array([1, 2]))


# ---- operators ----


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_operators(lib: Any, name: str, dtype: str):
    function = getattr(operator, name)
    a, b = operands(dtype)
    result = "bool" if name in COMPARISON else dtype
    lib.same(function(lib.array(a), lib.array(b)), function(a, b), result)


SCALAR_CASES = [(name, dtype) for name, dtype in CASES if dtype not in ("bool",)]


@pytest.mark.parametrize(("name", "dtype"), SCALAR_CASES)
def test_operators_with_python_scalars(lib: Any, name: str, dtype: str):
    function = getattr(operator, name)
    values, _ = operands(dtype)
    scalar = 2.0 if dtype in FLOATS else 2
    result = "bool" if name in COMPARISON else dtype
    lib.same(function(lib.array(values), scalar), function(values, scalar), result)
    lib.same(function(scalar, lib.array(values)), function(scalar, values), result)


@pytest.mark.parametrize(("name", "dtype"), IN_PLACE)
def test_operators_in_place(lib: Any, name: str, dtype: str):
    function = getattr(operator, "i" + name.rstrip("_"))
    a, b = operands(dtype)
    x = lib.array(a)
    result = function(x, lib.array(b))
    expected = a.copy()
    expected = function(expected, b)
    lib.same(result, expected, dtype)
    if dtype != "bool":
        scalar = 2.0 if dtype in FLOATS else 2
        lib.same(function(lib.array(a), scalar), function(a.copy(), scalar), dtype)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, *COMPLEX])
def test_signs(lib: Any, dtype: str):
    values, _ = operands(dtype)
    lib.exactly(-lib.array(values), -values)
    lib.exactly(+lib.array(values), +values)
    lib.same(abs(lib.array(values)), abs(values))


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS])
def test_inversion(lib: Any, dtype: str):
    values, _ = operands(dtype)
    lib.exactly(~lib.array(values), ~values)


@pytest.mark.parametrize(
    ("left", "right"), [((2, 3), (3, 4)), ((3,), (3, 2)), ((2, 3), (3,)), ((3,), (3,)), ((4, 1, 2, 3), (2, 3, 2))]
)
@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "float64", "complex128"])
def test_matrix_product(lib: Any, left: Any, right: Any, dtype: str):
    a, b = (np.arange(np.prod(shape)).reshape(shape).astype(dtype) for shape in (left, right))
    lib.same(lib.array(a) @ lib.array(b), a @ b, dtype)
    if left == right:
        return
    x = lib.array(np.eye(3), dtype)
    y = lib.array(np.arange(9).reshape(3, 3), dtype)
    x @= y
    lib.same(x, np.arange(9).reshape(3, 3).astype(dtype), dtype)


def test_comparison_is_no_identity(lib: Any, xp: Any):
    x = lib.array([1.0, np.nan])
    lib.exactly(x == x, np.array([True, False]))
    lib.exactly(x != x, np.array([False, True]))


# ---- conversions ----


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "bool"])
def test_to_python_numbers(lib: Any, dtype: str):
    x = lib.array(1, dtype)
    assert (bool(x), int(x), float(x), complex(x)) == (True, 1, 1.0, 1 + 0j)
    assert isinstance(bool(x), bool) and isinstance(int(x), int) and isinstance(float(x), float)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_indices(lib: Any, dtype: str):
    assert operator.index(lib.array(3, dtype)) == 3
    assert [10, 20, 30][lib.array(1, dtype)] == 20


def test_complex_to_python(lib: Any):
    assert complex(lib.array(1.5 - 2j)) == 1.5 - 2j
    assert bool(lib.array(2j)) is True
    for convert in (int, float):
        with pytest.raises(TypeError):
            convert(lib.array(1j))


def test_special_numbers_to_python(lib: Any):
    assert float(lib.array(np.inf)) == np.inf
    assert np.isnan(float(lib.array(np.nan)))
    assert bool(lib.array(np.nan)) is True
    with pytest.raises(OverflowError):
        int(lib.array(np.inf))


def test_what_is_no_number(lib: Any):
    for convert in (bool, int, float, complex):
        with pytest.raises((TypeError, ValueError)):
            convert(lib.array([1.0, 2.0]))
    with pytest.raises(TypeError):
        operator.index(lib.array(1.0))


def test_length_and_iteration(lib: Any):
    x = lib.array([[1, 2], [3, 4]])
    assert [int(row[0]) for row in x] == [1, 3]
    with pytest.raises(TypeError):
        iter(lib.array(1))
