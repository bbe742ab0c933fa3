"""Hypothesis draws arrays of the namespace itself: what the public test suite is built on."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace


@pytest.fixture(scope="module")
def strategies(lib: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_strategies_namespace(lib.xp, api_version="2024.12")


@given(data=st.data())
def test_any_drawn_array(lib: Any, strategies: Any, data: Any):
    shape = strategies.array_shapes(min_dims=0, max_dims=3, max_side=3)
    x = data.draw(strategies.arrays(strategies.boolean_dtypes() | strategies.real_dtypes(), shape))
    values = lib.values(x)
    assert (values.shape, values.dtype.name) == (x.shape, lib.name_of(x.dtype))
    lib.exactly(lib.xp.asarray(values), values)
    lib.exactly(lib.xp.flip(x), np.flip(values))


@given(data=st.data())
def test_any_drawn_index(lib: Any, strategies: Any, data: Any):
    shape = data.draw(strategies.array_shapes(max_dims=3, max_side=4))
    x = lib.xp.reshape(lib.xp.arange(int(np.prod(shape))), shape)
    values = lib.values(x)
    index = data.draw(strategies.indices(shape, allow_newaxis=True))
    lib.exactly(x[index], np.asarray(values[index]))


@given(data=st.data())
def test_any_drawn_operands(lib: Any, strategies: Any, data: Any):
    shapes = data.draw(strategies.mutually_broadcastable_shapes(2, max_dims=3, max_side=3)).input_shapes
    x, y = (data.draw(strategies.arrays(lib.xp.float64, shape)) for shape in shapes)
    name = data.draw(st.sampled_from(["add", "subtract", "multiply", "divide", "maximum", "equal", "less", "pow"]))
    expected = getattr(np, name)(lib.values(x), lib.values(y))
    lib.same(getattr(lib.xp, name)(x, y), expected)


@given(data=st.data())
def test_any_drawn_integers(lib: Any, strategies: Any, data: Any):
    shape = data.draw(strategies.array_shapes(max_dims=2, max_side=4))
    dtype = data.draw(strategies.integer_dtypes() | strategies.unsigned_integer_dtypes())
    x, y = (data.draw(strategies.arrays(dtype, shape)) for _ in range(2))
    name = data.draw(st.sampled_from(["add", "subtract", "multiply", "bitwise_and", "bitwise_xor", "less", "minimum"]))
    lib.exactly(getattr(lib.xp, name)(x, y), getattr(np, name)(lib.values(x), lib.values(y)))
    lib.exactly(lib.xp.sort(x), np.sort(lib.values(x)))
