"""Searching functions: places of extremes and of non-zero elements, sorted places, selection."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

REAL = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
ALL = ("bool", *REAL, "complex64", "complex128")


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extremes(lib: Any, xp: Any, name: str, dtype: str):
    values = np.array([[3, 1, 3], [0, 5, 5]]).astype(dtype)
    for axis in (None, 0, 1, -1):
        for keepdims in (False, True):
            expected = np.asarray(getattr(np, name)(values, axis=axis, keepdims=keepdims))
            lib.same(getattr(xp, name)(lib.array(values), axis=axis, keepdims=keepdims), expected, "int64")


@pytest.mark.parametrize("dtype", ALL)
def test_counts(lib: Any, xp: Any, dtype: str):
    values = np.array([[[0, 1], [2, 0]], [[0, 0], [1, 3]]]).astype(dtype)
    for axis in (None, 0, -1, (0, 1)):
        expected = np.asarray(np.count_nonzero(values, axis=axis))
        lib.same(xp.count_nonzero(lib.array(values), axis=axis), expected, "int64")
    assert tuple(xp.count_nonzero(lib.array(values), axis=1, keepdims=True).shape) == (2, 1, 2)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", [(6,), (2, 3), (0,), (2, 0), (1, 2, 3)])
def test_places_of_nonzero_elements(lib: Any, xp: Any, dtype: str, shape: Any):
    values = (np.arange(np.prod(shape)) % 3).reshape(shape).astype(dtype)
    found = xp.nonzero(lib.array(values))
    assert isinstance(found, tuple)
    for x, places in zip(found, np.nonzero(values), strict=True):
        lib.same(x, places, "int64")


def test_a_scalar_has_no_places(xp: Any):
    with pytest.raises(ValueError):
        xp.nonzero(xp.asarray(1))


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("side", ["left", "right"])
def test_sorted_places(lib: Any, xp: Any, dtype: str, side: str):
    ordered = np.array([1, 3, 3, 7]).astype(dtype)
    wanted = np.array([[0, 1, 2, 3], [4, 7, 8, 3]]).astype(dtype)
    expected = np.searchsorted(ordered, wanted, side)  # type: ignore[call-overload]
    lib.same(xp.searchsorted(lib.array(ordered), lib.array(wanted), side=side), expected, "int64")
    order = np.array([2, 0, 3, 1])
    mixed = np.empty_like(ordered)
    mixed[order] = ordered
    found = xp.searchsorted(lib.array(mixed), lib.array(wanted), side=side, sorter=lib.array(order))
    lib.same(found, expected, "int64")


def test_sorted_places_of_nothing(lib: Any, xp: Any):
    lib.same(xp.searchsorted(lib.array(np.zeros(0)), lib.array([1.0, 2.0])), np.array([0, 0]), "int64")
    assert tuple(xp.searchsorted(lib.array([1.0]), lib.array(np.zeros((0, 2)))).shape) == (0, 2)


@pytest.mark.parametrize(
    ("first", "second"), [("int8", "int16"), ("float32", "float64"), ("bool", "bool"), ("uint8", "int8")]
)
def test_selection(lib: Any, xp: Any, first: str, second: str):
    condition = np.array([[True, False], [False, True]])
    a, b = np.array([1, 0]).astype(first), np.array([[5], [1]]).astype(second)
    lib.exactly(xp.where(lib.array(condition), lib.array(a), lib.array(b)), np.where(condition, a, b))


def test_selection_of_scalars(lib: Any, xp: Any):
    condition = np.array([True, False])
    lib.exactly(xp.where(lib.array(condition), lib.array([1, 2], "int8"), 0), np.array([1, 0], "int8"))
    lib.exactly(xp.where(lib.array(condition), 2.5, lib.array([1, 2], "float32")), np.array([2.5, 2], "float32"))
    lib.exactly(xp.where(lib.array(condition), lib.array([np.nan, 1.0]), 0.0), np.array([np.nan, 0.0]))


@given(data=st.data())
def test_any_sorted_places(lib: Any, data: Any):
    integers = st.integers(-9, 9)
    ordered = np.sort(np.array(data.draw(st.lists(integers, min_size=1, max_size=9))))
    wanted = np.array(data.draw(st.lists(integers, min_size=1, max_size=5)))
    side: Any = data.draw(st.sampled_from(["left", "right"]))
    found = lib.xp.searchsorted(lib.array(ordered), lib.array(wanted), side=side)
    lib.same(found, np.searchsorted(ordered, wanted, side), "int64")
