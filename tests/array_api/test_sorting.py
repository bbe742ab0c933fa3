"""Sorting functions: order, direction, stability, axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

REAL = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")


def stable_order(values: Any, axis: int, descending: bool) -> Any:
    """The places in order; equal elements keep theirs in both directions."""
    if not descending:
        return np.argsort(values, axis, kind="stable")
    last = values.shape[axis] - 1
    return np.flip(last - np.argsort(np.flip(values, axis), axis, kind="stable"), axis)


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sort(lib: Any, xp: Any, dtype: str, axis: int):
    values = np.array([[3, 1, 3, 2], [0, 5, 1, 5], [3, 1, 0, 0]]).astype(dtype)
    lib.exactly(xp.sort(lib.array(values), axis=axis), np.sort(values, axis))
    lib.same(xp.argsort(lib.array(values), axis=axis, stable=True), stable_order(values, axis, False), "int64")


@pytest.mark.parametrize("dtype", REAL)
def test_sort_descending(lib: Any, xp: Any, dtype: str):
    values = np.array([[3, 1, 3, 2], [0, 5, 1, 5]]).astype(dtype)
    lib.exactly(xp.sort(lib.array(values), descending=True), -np.sort(-values.astype(float)).astype(dtype))
    lib.same(xp.argsort(lib.array(values), descending=True), stable_order(values, -1, True), "int64")


def test_sort_of_infinities_and_nan(lib: Any, xp: Any):
    values = np.array([np.nan, 1.0, -np.inf, np.inf, -1.0])
    lib.exactly(xp.sort(lib.array(values)), np.array([-np.inf, -1.0, 1.0, np.inf, np.nan]))


@pytest.mark.parametrize("shape", [(0,), (2, 0), (1,), (1, 1, 1)])
def test_sort_of_little(lib: Any, xp: Any, shape: Any):
    values = np.zeros(shape)
    lib.exactly(xp.sort(lib.array(values)), values)
    assert tuple(xp.argsort(lib.array(values)).shape) == shape


@given(data=st.data(), shape=hnp.array_shapes(min_dims=1, max_dims=2, max_side=9))
def test_any_sort(lib: Any, data: Any, shape: Any):
    values = data.draw(hnp.arrays(np.int32, shape, elements=st.integers(-5, 5)))
    lib.exactly(lib.xp.sort(lib.array(values)), np.sort(values))
    lib.same(lib.xp.argsort(lib.array(values), stable=True), np.argsort(values, kind="stable"), "int64")


def test_a_longer_vector(lib: Any, xp: Any):
    values = np.random.default_rng(3).integers(0, 50, 300).astype(np.float32)
    lib.exactly(xp.sort(lib.array(values)), np.sort(values))
    lib.same(xp.argsort(lib.array(values), stable=True), np.argsort(values, kind="stable"), "int64")
