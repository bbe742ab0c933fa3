"""Utility functions: all, any, diff."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

ALL = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64",
    "complex128",
)  # fmt: skip


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("name", ["all", "any"])
def test_all_and_any(lib: Any, xp: Any, name: str, dtype: str):
    values = np.array([[[0, 1], [1, 1]], [[0, 0], [1, 1]]]).astype(dtype)
    for axis in (None, 0, -1, (0, 2), (0, 1, 2)):
        for keepdims in (False, True):
            expected = np.asarray(getattr(np, name)(values, axis=axis, keepdims=keepdims))
            lib.exactly(getattr(xp, name)(lib.array(values), axis=axis, keepdims=keepdims), expected)


def test_of_nothing_and_of_nan(lib: Any, xp: Any):
    lib.exactly(xp.all(xp.zeros((0, 2)), axis=0), np.array([True, True]))
    lib.exactly(xp.any(xp.zeros((0, 2)), axis=0), np.array([False, False]))
    lib.exactly(xp.all(lib.array([np.nan, np.inf])), np.array(True))
    lib.exactly(xp.any(lib.array(5)), np.array(True))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float32", "complex128"])
def test_differences(lib: Any, xp: Any, dtype: str):
    values = np.array([[1, 4, 9, 16], [2, 3, 5, 8]]).astype(dtype)
    x = lib.array(values)
    for axis in (0, 1, -1):
        for n in (0, 1, 2):
            lib.exactly(xp.diff(x, axis=axis, n=n), np.diff(values, n, axis))
    edge = values[:, :1]
    lib.exactly(xp.diff(x, prepend=lib.array(edge)), np.diff(values, prepend=edge))
    lib.exactly(xp.diff(x, append=lib.array(edge), n=2), np.diff(values, 2, append=edge))
    lib.exactly(xp.diff(x, n=9), np.diff(values, 9))


def test_differences_of_bools(lib: Any, xp: Any):
    values = np.array([True, True, False])
    lib.exactly(xp.diff(lib.array(values)), np.diff(values))
