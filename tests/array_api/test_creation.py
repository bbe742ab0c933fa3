"""Creation functions: shapes, dtypes, values, copies, memory of others."""

from __future__ import annotations

import array as python_array
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
ALL = ("bool", *INTEGERS, *FLOATS, *COMPLEX)
SHAPES: list[Any] = [(), 0, 3, (0,), (2, 3), (2, 0, 3), (1, 1, 1)]


def default(xp: Any, kind: str) -> Any:
    return xp.__array_namespace_info__().default_dtypes()[kind]


def as_tuple(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


# ---- constants ----


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
def test_default_dtype_is_a_float(xp: Any, name: str, shape: Any):
    x = getattr(xp, name)(shape)
    assert tuple(x.shape) == as_tuple(shape)
    assert x.dtype == default(xp, "real floating")


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize(("name", "value"), [("zeros", 0), ("ones", 1)])
def test_zeros_and_ones(lib: Any, xp: Any, name: str, value: int, dtype: str):
    lib.exactly(getattr(xp, name)((2, 3), dtype=lib.dtype(dtype)), np.full((2, 3), value, dtype))
    like = getattr(xp, name + "_like")
    x = lib.array(np.ones((2, 2)), dtype)
    lib.exactly(like(x), np.full((2, 2), value, dtype))
    lib.exactly(like(x, dtype=xp.int16), np.full((2, 2), value, "int16"))


@pytest.mark.parametrize("dtype", ALL)
def test_empty_has_a_shape_and_a_dtype(lib: Any, xp: Any, dtype: str):
    x = xp.empty((2, 0, 3), dtype=lib.dtype(dtype))
    assert (tuple(x.shape), lib.name_of(x.dtype)) == ((2, 0, 3), dtype)
    like = xp.empty_like(x, dtype=xp.int8)
    assert (tuple(like.shape), lib.name_of(like.dtype)) == ((2, 0, 3), "int8")


@pytest.mark.parametrize(
    ("value", "kind"), [(True, "bool"), (3, "integral"), (2.5, "real floating"), (1 + 2j, "complex floating")]
)
def test_full_takes_the_kind_of_its_value(lib: Any, xp: Any, value: Any, kind: str):
    x = xp.full((2,), value)
    assert x.dtype == (xp.bool if kind == "bool" else default(xp, kind))
    assert lib.values(x).tolist() == [value, value]


@pytest.mark.parametrize("dtype", ALL)
def test_full(lib: Any, xp: Any, dtype: str):
    value: Any = {"b": True, "i": 5, "u": 5, "f": 2.5, "c": 1 - 2j}[np.dtype(dtype).kind]
    lib.exactly(xp.full((2, 2), value, dtype=lib.dtype(dtype)), np.full((2, 2), value, dtype))
    lib.exactly(xp.full_like(lib.array(np.zeros((0, 2)), dtype), value), np.full((0, 2), value, dtype))
    lib.exactly(xp.full((), value, dtype=lib.dtype(dtype)), np.full((), value, dtype))


def test_full_of_special_numbers(lib: Any, xp: Any):
    for value in (np.nan, np.inf, -np.inf, -0.0):
        lib.exactly(xp.full(2, value, dtype=xp.float64), np.full(2, value))


# ---- ranges ----


@pytest.mark.parametrize(
    "arguments", [(5,), (2, 7), (0, 10, 3), (10, 0, -3), (5, 5), (3, 1), (-4,), (0, 300), (0, 70000, 7), (1, 0, -1)]
)
@pytest.mark.parametrize("dtype", [None, "int16", "int64", "float32"])
def test_arange_of_integers(lib: Any, xp: Any, arguments: Any, dtype: str | None):
    expected = np.arange(*arguments)
    if dtype is None:
        x = xp.arange(*arguments)
        assert x.dtype == default(xp, "integral")
        assert lib.values(x).tolist() == expected.tolist()
    elif dtype != "int16" or arguments[-1] != 7:
        lib.exactly(xp.arange(*arguments, dtype=lib.dtype(dtype)), expected.astype(dtype))


@pytest.mark.parametrize("arguments", [(2.5,), (0.5, 3.0), (0.0, 1.0, 0.25), (1.0, 0.0, -0.3), (3.0, 1.0)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_arange_of_floats(lib: Any, xp: Any, arguments: Any, dtype: str):
    lib.same(xp.arange(*arguments, dtype=lib.dtype(dtype)), np.arange(*arguments), dtype)
    assert xp.arange(*arguments).dtype == default(xp, "real floating")


@given(start=st.integers(-50, 50), stop=st.integers(-50, 50), step=st.integers(-7, 7).filter(bool))
def test_any_arange(lib: Any, start: int, stop: int, step: int):
    assert lib.values(lib.xp.arange(start, stop, step)).tolist() == list(range(start, stop, step))


@pytest.mark.parametrize("arguments", [(0, 1, 5), (-1.5, 2.5, 9), (3, 3, 4), (0, 1, 1), (0, 1, 0), (5, -5, 300)])
@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX])
def test_linspace(lib: Any, xp: Any, arguments: Any, endpoint: bool, dtype: str):
    x = xp.linspace(*arguments, dtype=lib.dtype(dtype), endpoint=endpoint)
    lib.same(x, np.linspace(*arguments, endpoint=endpoint), dtype)
    values = lib.values(x)
    if values.size and endpoint and arguments[2] > 1:
        assert values[-1] == np.asarray(arguments[1], dtype)
    assert not values.size or values[0] == np.asarray(arguments[0], dtype)
    assert xp.linspace(0, 1, 3).dtype == default(xp, "real floating")


def test_linspace_of_complex_numbers(lib: Any, xp: Any):
    x = xp.linspace(1 + 2j, 3 - 1j, 5, dtype=xp.complex128)
    lib.same(x, np.linspace(1 + 2j, 3 - 1j, 5))


# ---- matrices ----


@pytest.mark.parametrize("arguments", [(3,), (2, 4), (4, 2), (0,), (0, 3), (1, 1)])
@pytest.mark.parametrize("k", [-2, 0, 1, 5])
@pytest.mark.parametrize("dtype", ["int8", "float32", "bool", "complex64"])
def test_eye(lib: Any, xp: Any, arguments: Any, k: int, dtype: str):
    lib.exactly(xp.eye(*arguments, k=k, dtype=lib.dtype(dtype)), np.eye(*arguments, k=k, dtype=dtype))
    assert xp.eye(2).dtype == default(xp, "real floating")


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2), (2, 3, 2), (0, 2), (2, 0, 3)])
@pytest.mark.parametrize("k", [-3, -1, 0, 2])
@pytest.mark.parametrize("name", ["tril", "triu"])
def test_triangles(lib: Any, xp: Any, name: str, shape: Any, k: int):
    values = np.arange(np.prod(shape)).reshape(shape) + 1
    lib.exactly(getattr(xp, name)(lib.array(values), k=k), getattr(np, name)(values, k))


def test_triangles_have_zeros_where_there_was_nan(lib: Any, xp: Any):
    lib.exactly(xp.tril(lib.array([[np.inf, np.nan], [1.0, 2.0]])), np.array([[np.inf, 0.0], [1.0, 2.0]]))


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("sizes", [(), (3,), (2, 3), (2, 3, 4), (2, 0)])
def test_meshgrid(lib: Any, xp: Any, sizes: Any, indexing: str):
    vectors = [np.arange(size, dtype=np.float32) for size in sizes]
    found = xp.meshgrid(*map(lib.array, vectors), indexing=indexing)
    expected = np.meshgrid(*vectors, indexing=indexing)  # type: ignore[call-overload]
    assert len(found) == len(expected)
    for x, values in zip(found, expected, strict=True):
        lib.exactly(x, values)


# ---- asarray ----


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (True, "bool"), (3, "integral"), (-2.5, "real floating"), (1 + 2j, "complex floating"),
        ([True, False], "bool"), ([[1, 2], [3, 4]], "integral"), ([1, 2.5], "real floating"), ([1, 1j], "complex floating"),
        ([], "real floating"), ([[], []], "real floating"), ((1, 2), "integral"), (range(3), "integral"),
    ],
)  # fmt: skip
def test_python_data(lib: Any, xp: Any, data: Any, kind: str):
    x = xp.asarray(data)
    assert x.dtype == (xp.bool if kind == "bool" else default(xp, kind))
    np.testing.assert_array_equal(lib.values(x), np.asarray(data))


@pytest.mark.parametrize("dtype", ALL)
def test_data_in_a_dtype(lib: Any, xp: Any, dtype: str):
    lib.exactly(xp.asarray([0, 1, 1], dtype=lib.dtype(dtype)), np.array([0, 1, 1], dtype))
    lib.exactly(xp.asarray(1, dtype=lib.dtype(dtype)), np.array(1, dtype))
    values = np.arange(6).reshape(2, 3).astype(dtype)
    lib.exactly(xp.asarray(values), values)
    lib.exactly(xp.asarray(lib.array(values)), values)


def test_memory_that_can_be_read(lib: Any, xp: Any):
    lib.exactly(xp.asarray(python_array.array("d", [1.5, 2.5])), np.array([1.5, 2.5]))
    lib.exactly(xp.asarray(python_array.array("h", [1, 2])), np.array([1, 2], np.int16))
    lib.exactly(xp.asarray(memoryview(np.arange(6, dtype="f4").reshape(2, 3))), np.arange(6, dtype="f4").reshape(2, 3))


def test_ragged_lists_are_refused(xp: Any):
    with pytest.raises(ValueError):
        xp.asarray([[1, 2], [3]])


def test_copies_are_apart(lib: Any, xp: Any):
    for copy in (True, None, False):
        x = xp.asarray([1, 2, 3])
        y = xp.asarray(x, copy=copy)
        x[0] = 9
        if copy is not None:
            assert lib.values(y).tolist() == ([1, 2, 3] if copy else [9, 2, 3])


def test_copies_of_numpys_memory(lib: Any, xp: Any):
    values = np.array([1.0, 2.0])
    copied = xp.asarray(values, copy=True)
    values[0] = 5
    assert lib.values(copied).tolist() == [1.0, 2.0]


def test_a_copy_that_is_needed_and_forbidden(xp: Any):
    with pytest.raises(ValueError):
        xp.asarray([1, 2], copy=False)
    with pytest.raises(ValueError):
        xp.asarray(xp.asarray([1, 2]), dtype=xp.float32, copy=False)


# ---- from_dlpack ----


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, *COMPLEX])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)])
def test_from_dlpack(lib: Any, xp: Any, dtype: str, shape: Any):
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    lib.exactly(xp.from_dlpack(values), values)
    lib.exactly(xp.from_dlpack(lib.array(values)), values)
    lib.exactly(xp.from_dlpack(lib.array(values), copy=True), values)
    np.testing.assert_array_equal(np.from_dlpack(lib.array(values)), values)


def test_from_dlpack_needs_an_array(xp: Any):
    with pytest.raises((AttributeError, TypeError)):
        xp.from_dlpack([1, 2])


def test_results_are_on_the_device_that_is_named(xp: Any):
    for device in xp.__array_namespace_info__().devices():
        for x in (xp.ones(2, device=device), xp.arange(3, device=device), xp.asarray([1], device=device)):
            assert x.device == device
        assert xp.zeros_like(xp.ones(2, device=device)).device == device
