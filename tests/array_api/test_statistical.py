"""Statistical functions: axes, kept axes, result dtypes, cumulative sums and products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
AXES: list[Any] = [None, 0, 1, -1, (0, 2), (1,), (-1, 0, 1), ()]


def numbers(dtype: str, seed: int = 0) -> Any:
    generator = np.random.default_rng(seed)
    values = generator.uniform(-3, 3, (2, 3, 4))
    if np.dtype(dtype).kind in "iu":
        values = generator.integers(1, 4, (2, 3, 4))
    return (values + (1j * generator.uniform(-1, 1, (2, 3, 4)) if dtype in COMPLEX else 0)).astype(dtype)


def summed_dtype(lib: Any, dtype: str) -> str:
    """The standard's dtype of `sum` and `prod` where none is given."""
    if dtype in SIGNED or dtype in UNSIGNED:
        wide = lib.name_of(lib.xp.__array_namespace_info__().default_dtypes()["integral"])
        wide = wide if dtype in SIGNED else "u" + wide
        return wide if np.dtype(dtype).itemsize <= np.dtype(wide).itemsize else dtype
    return dtype


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED, *FLOATS, *COMPLEX])
@pytest.mark.parametrize("name", ["sum", "prod"])
def test_sums_and_products(lib: Any, xp: Any, name: str, dtype: str):
    values = numbers(dtype)
    result = summed_dtype(lib, dtype)
    for axis in AXES:
        for keepdims in (False, True):
            expected = getattr(np, name)(values.astype(result), axis=axis, keepdims=keepdims)
            lib.same(getattr(xp, name)(lib.array(values), axis=axis, keepdims=keepdims), expected, result)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float64", "complex128"])
def test_sums_in_a_dtype(lib: Any, xp: Any, dtype: str):
    values = numbers("int16")
    lib.same(xp.sum(lib.array(values), axis=1, dtype=lib.dtype(dtype)), values.astype(dtype).sum(1, dtype), dtype)
    lib.same(xp.prod(lib.array(values), axis=1, dtype=lib.dtype(dtype)), values.astype(dtype).prod(1, dtype), dtype)


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED, *FLOATS])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes(lib: Any, xp: Any, name: str, dtype: str):
    values = numbers(dtype)
    for axis in AXES:
        for keepdims in (False, True):
            expected = getattr(np, name)(values, axis=axis, keepdims=keepdims)
            lib.same(getattr(xp, name)(lib.array(values), axis=axis, keepdims=keepdims), expected, dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX])
def test_means(lib: Any, xp: Any, dtype: str):
    values = numbers(dtype)
    for axis in AXES:
        expected = np.mean(values, axis=axis, keepdims=True)
        lib.same(xp.mean(lib.array(values), axis=axis, keepdims=True), expected, dtype)
    lib.same(xp.mean(lib.array(values)), np.mean(values), dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["std", "var"])
def test_deviations(lib: Any, xp: Any, name: str, dtype: str):
    values = numbers(dtype)
    for axis in AXES:
        for correction in (0, 1.0, 0.5):
            if axis == () and correction:
                continue
            expected = getattr(np, name)(values, axis=axis, ddof=correction)
            lib.same(getattr(xp, name)(lib.array(values), axis=axis, correction=correction), expected, dtype)
    lib.same(xp.var(lib.array(values), keepdims=True), np.var(values, keepdims=True), dtype)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "std", "var"])
def test_scalars_and_arrays_without_elements(lib: Any, xp: Any, name: str):
    scalar = np.float64(2.5)
    lib.same(getattr(xp, name)(lib.array(scalar)), getattr(np, name)(scalar))
    none = np.zeros((0, 3))
    lib.same(getattr(xp, name)(lib.array(none), axis=1), getattr(np, name)(none, axis=1))


@pytest.mark.parametrize("name", ["sum", "max", "mean"])
def test_an_axis_that_does_not_exist(lib: Any, xp: Any, name: str):
    with pytest.raises((ValueError, IndexError)):
        getattr(xp, name)(xp.ones((2, 2)), axis=2)


@given(data=st.data(), shape=hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
def test_any_sums(lib: Any, data: Any, shape: Any):
    values = data.draw(hnp.arrays(np.int64, shape, elements=st.integers(-99, 99)))
    axis = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    lib.exactly(lib.xp.sum(lib.array(values), axis=axis), np.sum(values, axis=axis))


# ---- cumulative ----


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED, *FLOATS, *COMPLEX])
@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_cumulative(lib: Any, xp: Any, name: str, dtype: str):
    values = numbers(dtype)
    result = summed_dtype(lib, dtype)
    reference = np.cumsum if name == "cumulative_sum" else np.cumprod
    for axis in (0, 1, -1):
        lib.same(getattr(xp, name)(lib.array(values), axis=axis), reference(values.astype(result), axis), result)


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_cumulative_options(lib: Any, xp: Any, name: str):
    function, vector = getattr(xp, name), np.array([3, 1, 2], np.int16)
    reference = (np.cumsum if name == "cumulative_sum" else np.cumprod)(vector)
    lib.same(function(lib.array(vector)), reference, "int64")
    lib.same(function(lib.array(vector), dtype=xp.float64), reference, "float64")
    first = int(name == "cumulative_prod")
    lib.same(function(lib.array(vector), include_initial=True), np.array([first, *reference]), "int64")
    table = np.arange(6.0).reshape(2, 3)
    with_first = function(lib.array(table), axis=0, include_initial=True)
    assert tuple(with_first.shape) == (3, 3)
    none = function(lib.array(np.zeros((2, 0))), axis=1)
    assert tuple(none.shape) == (2, 0)
    with pytest.raises(ValueError):
        function(lib.array(table))
