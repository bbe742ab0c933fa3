"""Set functions: distinct elements, their places and counts. Their order is not the standard's, so it is sorted here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

ALL = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64",
    "complex128",
)  # fmt: skip
SHAPES: list[Any] = [(7,), (2, 3), (0,), (), (2, 1, 2)]


def numbers(dtype: str, shape: Any) -> Any:
    return (np.arange(np.prod(shape, dtype=int)) * 3 % 4).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", SHAPES)
def test_distinct_elements(lib: Any, xp: Any, dtype: str, shape: Any):
    values = numbers(dtype, shape)
    found = xp.unique_values(lib.array(values))
    assert lib.name_of(found.dtype) == dtype
    np.testing.assert_array_equal(np.sort(lib.values(found)), np.unique(values))


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", SHAPES)
def test_places_and_counts(lib: Any, xp: Any, dtype: str, shape: Any):
    values = numbers(dtype, shape)
    x = lib.array(values)
    found = xp.unique_all(x)
    assert type(found)._fields == ("values", "indices", "inverse_indices", "counts")
    distinct, places, inverse, counts = (lib.values(part) for part in found)
    assert [lib.name_of(part.dtype) for part in found[1:]] == ["int64"] * 3
    np.testing.assert_array_equal(values.ravel()[places], distinct)
    assert inverse.shape == values.shape
    np.testing.assert_array_equal(distinct[inverse], values)
    assert counts.tolist() == [int((values == value).sum()) for value in distinct]
    assert places.tolist() == [int(np.flatnonzero(values.ravel() == value)[0]) for value in distinct]


def test_names_of_the_parts(lib: Any, xp: Any):
    x = lib.array([3, 1, 3])
    counts, inverse = xp.unique_counts(x), xp.unique_inverse(x)
    assert type(counts)._fields == ("values", "counts")
    assert type(inverse)._fields == ("values", "inverse_indices")
    assert dict(zip(lib.values(counts.values).tolist(), lib.values(counts.counts).tolist(), strict=True)) == {
        1: 1,
        3: 2,
    }
    assert lib.values(inverse.values)[lib.values(inverse.inverse_indices)].tolist() == [3, 1, 3]


@pytest.mark.parametrize("name", ["unique_values", "unique_counts", "unique_inverse", "unique_all"])
def test_each_nan_is_distinct_and_zeros_are_equal(lib: Any, xp: Any, name: str):
    found = getattr(xp, name)(lib.array([np.nan, 0.0, -0.0, np.nan, 1.0]))
    distinct = lib.values(found if name == "unique_values" else found.values)
    assert np.isnan(distinct).sum() == 2
    assert len(distinct) == 4
    if name in ("unique_counts", "unique_all"):
        assert lib.values(found.counts)[np.isnan(distinct)].tolist() == [1, 1]


@given(values=hnp.arrays(np.int16, hnp.array_shapes(max_dims=2, max_side=6), elements=st.integers(-3, 3)))
def test_any_set(lib: Any, values: Any):
    found = lib.xp.unique_all(lib.array(values))
    distinct, places, inverse, counts = (lib.values(part) for part in found)
    np.testing.assert_array_equal(np.sort(distinct), np.unique(values))
    np.testing.assert_array_equal(distinct[inverse], values)
    np.testing.assert_array_equal(values.ravel()[places], distinct)
    assert counts.sum() == values.size
