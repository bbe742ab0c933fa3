"""Indexing: integers, slices, masks and integer arrays, for reading and for writing; take, take_along_axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

DTYPES = ("bool", "int8", "uint16", "int64", "float32", "float64", "complex64")
BASIC: list[Any] = [
    (), 0, -1, 1, slice(None), slice(1, None), slice(None, None, -1), slice(3, 0, -2), ..., None, (0, 1), (0, 1, 2),
    (slice(None), 1), (..., 2), (1, ...), (None, 0, slice(None, None, 2)), (..., None), (slice(0, 0),), (slice(5, 9), 0),
    (slice(None, None, 2), slice(None, -1), slice(-2, None)),
]  # fmt: skip


def counted(shape: Any, dtype: str = "int64") -> Any:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


# ---- reading ----


@pytest.mark.parametrize("index", BASIC, ids=repr)
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_basic_reading(lib: Any, index: Any, dtype: str):
    values = counted((2, 3, 4), dtype)
    lib.exactly(lib.array(values)[index], np.asarray(values[index]))


@pytest.mark.parametrize("index", [2, -3, (0, 3), (0, 0, 4), (0, 0, 0, 0)])
def test_reading_out_of_range(lib: Any, index: Any):
    with pytest.raises(IndexError):
        lib.values(lib.array(counted((2, 3, 4)))[index])


@given(data=st.data(), shape=hnp.array_shapes(min_dims=1, max_dims=3, max_side=4))
def test_any_basic_reading(lib: Any, data: Any, shape: Any):
    values = counted(shape)
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
    lib.exactly(lib.array(values)[index], np.asarray(values[index]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_masks(lib: Any, dtype: str):
    values = counted((3, 4), dtype)
    x, mask = lib.array(values), counted((3, 4)) % 3 == 0
    lib.exactly(x[lib.array(mask)], values[mask])
    rows = np.array([True, False, True])
    lib.exactly(x[lib.array(rows)], values[rows])
    none = np.zeros((3, 4), bool)
    lib.exactly(x[lib.array(none)], values[none])


def test_masks_of_little(lib: Any):
    lib.exactly(lib.array(5)[lib.array(True)], np.array([5]))
    lib.exactly(lib.array(5)[lib.array(False)], np.array([], np.int64))
    empty = np.zeros((0, 2))
    lib.exactly(lib.array(empty)[lib.array(np.zeros((0, 2), bool))], np.zeros(0))


def test_masks_of_some_axes(lib: Any):
    values = counted((2, 3, 2))
    x = lib.array(values)
    for mask in (np.array([[True, False, True]] * 2), np.array([False, True]), np.array(True), np.array(False)):
        lib.exactly(x[lib.array(mask)], values[mask])
    for shape in ((0,), (2, 0), (0, 3), (0, 0, 0)):
        none = np.zeros(shape, bool)
        lib.exactly(x[lib.array(none)], values[none])


@pytest.mark.parametrize("shape", [(3,), (2, 2), (2, 3, 1), (2, 3, 2, 1), (1, 3)])
def test_masks_that_do_not_fit(lib: Any, shape: Any):
    with pytest.raises(IndexError):
        lib.values(lib.array(counted((2, 3, 2)))[lib.array(np.ones(shape, bool))])


@pytest.mark.parametrize("dtype", DTYPES)
def test_integer_arrays(lib: Any, dtype: str):
    values = counted((3, 4), dtype)
    x = lib.array(values)
    rows, columns = np.array([0, 2, -1]), np.array([[1], [3]])
    lib.exactly(x[lib.array(rows), lib.array(columns)], values[rows, columns])
    lib.exactly(x[lib.array(rows), 1], values[rows, 1])
    lib.exactly(x[0, lib.array(columns)], values[0, columns])


@given(data=st.data())
def test_any_integer_arrays(lib: Any, data: Any):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=4))
    index = data.draw(hnp.integer_array_indices(shape, result_shape=hnp.array_shapes(max_dims=2, max_side=3)))
    values = counted(shape)
    lib.exactly(lib.array(values)[tuple(map(lib.array, index))], values[index])


# ---- writing ----


@pytest.mark.parametrize("index", [index for index in BASIC if index != ()], ids=repr)
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_basic_writing(lib: Any, index: Any, dtype: str):
    values = counted((2, 3, 4), dtype)
    x = lib.array(values)
    x[index] = 99
    values[index] = 99
    lib.exactly(x, values)


def test_writing_arrays(lib: Any):
    values = counted((2, 3, 4), "float64")
    x, row = lib.array(values), np.array([-1.0, -2.0, -3.0, -4.0])
    x[:, 1] = lib.array(row)
    values[:, 1] = row
    x[0, ::2, -1] = lib.array([7.0, np.nan])
    values[0, ::2, -1] = [7.0, np.nan]
    lib.exactly(x, values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_writing_through_masks(lib: Any, dtype: str):
    values = counted((3, 4), dtype)
    x, mask = lib.array(values), counted((3, 4)) % 3 == 0
    one: Any = True if dtype == "bool" else 1
    x[lib.array(mask)] = one
    values[mask] = one
    lib.exactly(x, values)


def test_writing_arrays_through_masks(lib: Any):
    values = counted((3, 4), "float64")
    x, mask = lib.array(values), values > 6
    x[lib.array(mask)] = lib.array(-1.0)
    values[mask] = -1.0
    lib.exactly(x, values)


def test_writing_scalars(lib: Any):
    x = lib.array(5.0)
    x[()] = 2.5
    lib.exactly(x, np.array(2.5))
    x[...] = 1
    lib.exactly(x, np.array(1.0))


def test_values_that_do_not_fit(lib: Any):
    x = lib.array(counted((2, 3)))
    with pytest.raises((ValueError, TypeError)):
        x[0] = lib.array([1, 2])


@given(data=st.data(), shape=hnp.array_shapes(min_dims=1, max_dims=3, max_side=4))
def test_any_writing(lib: Any, data: Any, shape: Any):
    values = counted(shape, "float32")
    index = data.draw(hnp.basic_indices(shape))
    x = lib.array(values)
    replaced = -1 - counted(np.shape(values[index]), "float32")
    x[index] = lib.array(replaced)
    values[index] = replaced
    lib.exactly(x, values)


# ---- take ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take(lib: Any, xp: Any, dtype: str, axis: int):
    values, places = counted((3, 4, 5), dtype), np.array([2, 0, 2])
    lib.exactly(xp.take(lib.array(values), lib.array(places), axis=axis), np.take(values, places, axis))


def test_take_of_a_vector(lib: Any, xp: Any):
    values = counted((5,))
    lib.exactly(xp.take(lib.array(values), lib.array([4, 1])), values[[4, 1]])
    lib.exactly(xp.take(lib.array(values), lib.array(np.zeros(0, np.int64))), values[:0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_along_axis(lib: Any, xp: Any, dtype: str, axis: int):
    values = counted((3, 4), dtype)
    places = counted((3, 4)) % values.shape[axis]
    lib.exactly(
        xp.take_along_axis(lib.array(values), lib.array(places), axis=axis), np.take_along_axis(values, places, axis)
    )
    few = places[:1] if axis == 0 else places[:, :2]
    lib.exactly(xp.take_along_axis(lib.array(values), lib.array(few), axis=axis), np.take_along_axis(values, few, axis))
