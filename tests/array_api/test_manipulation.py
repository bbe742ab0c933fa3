"""Manipulation functions: shapes, order of axes, joining and taking apart."""

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


def counted(shape: Any, dtype: str = "int64") -> Any:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


# ---- shapes ----


@pytest.mark.parametrize(
    ("shape", "new"),
    [((6,), (2, 3)), ((2, 3), (-1,)), ((2, 3), (3, -1)), ((), (1, 1)), ((1,), ()), ((0, 2), (5, 0)), ((0,), (0, 3))],
)
@pytest.mark.parametrize("copy", [None, True])
def test_reshape(lib: Any, xp: Any, shape: Any, new: Any, copy: Any):
    values = counted(shape)
    lib.exactly(xp.reshape(lib.array(values), new, copy=copy), values.reshape(new))


def test_reshape_that_does_not_fit(xp: Any):
    for shape in ((4,), (2, -1, -1), (-1, 4)):
        with pytest.raises(ValueError):
            xp.reshape(xp.ones((2, 3)), shape)


@pytest.mark.parametrize(
    ("shape", "new"), [((3,), (2, 3)), ((2, 1), (2, 4)), ((), (2, 2)), ((1, 0), (3, 0)), ((2,), (2,))]
)
def test_broadcast_to(lib: Any, xp: Any, shape: Any, new: Any):
    values = counted(shape)
    lib.exactly(xp.broadcast_to(lib.array(values), new), np.broadcast_to(values, new))


def test_broadcast_that_does_not_fit(xp: Any):
    for shape in ((2,), (3, 2), ()):
        with pytest.raises(ValueError):
            xp.broadcast_to(xp.ones(3), shape)
    with pytest.raises(ValueError):
        xp.broadcast_arrays(xp.ones(3), xp.ones(2))


@given(shapes=hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3))
def test_broadcast_arrays(lib: Any, shapes: Any):
    arrays = [counted(shape) for shape in shapes.input_shapes]
    found = lib.xp.broadcast_arrays(*map(lib.array, arrays))
    for x, expected in zip(found, np.broadcast_arrays(*arrays), strict=True):
        lib.exactly(x, expected)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_expand_dims(lib: Any, xp: Any, axis: int):
    values = counted((2, 3))
    lib.exactly(xp.expand_dims(lib.array(values), axis=axis), np.expand_dims(values, axis))


def test_expand_dims_out_of_range(xp: Any):
    for axis in (3, -4):
        with pytest.raises(IndexError):
            xp.expand_dims(xp.ones((2, 3)), axis=axis)


@pytest.mark.parametrize("axis", [0, 2, -1, (0, 2), ()])
def test_squeeze(lib: Any, xp: Any, axis: Any):
    values = counted((1, 3, 1))
    lib.exactly(xp.squeeze(lib.array(values), axis), np.squeeze(values, axis))


def test_squeeze_of_a_larger_axis(xp: Any):
    with pytest.raises(ValueError):
        xp.squeeze(xp.ones((1, 3)), 1)


# ---- order ----


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 0, 4)])
def test_flip(lib: Any, xp: Any, shape: Any, axis: Any):
    values = counted(shape)
    lib.exactly(xp.flip(lib.array(values), axis=axis), np.flip(values, axis))


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 0, 1), (1, 0, 2), (-1, 0, 1)])
def test_permute_dims(lib: Any, xp: Any, axes: Any):
    values = counted((2, 3, 4))
    lib.exactly(xp.permute_dims(lib.array(values), axes), np.transpose(values, axes))


@pytest.mark.parametrize(
    ("source", "destination"), [(0, 2), (2, 0), (-1, 0), ((0, 1), (2, 0)), ((0, 1), (-1, -2)), ((), ())]
)
def test_moveaxis(lib: Any, xp: Any, source: Any, destination: Any):
    values = counted((2, 3, 4))
    lib.exactly(xp.moveaxis(lib.array(values), source, destination), np.moveaxis(values, source, destination))


@pytest.mark.parametrize(
    ("shift", "axis"),
    [(1, None), (-7, None), (1, 0), (2, -1), ((1, -1), (0, 1)), (1, (0, 1)), ((1, 2), (0, 0)), (5, 1), (0, 0)],
)
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 2), (0, 3)])
def test_roll(lib: Any, xp: Any, shape: Any, shift: Any, axis: Any):
    values = counted(shape)
    lib.exactly(xp.roll(lib.array(values), shift, axis=axis), np.roll(values, shift, axis))


def test_roll_of_a_scalar(lib: Any, xp: Any):
    lib.exactly(xp.roll(lib.array(5), 3), np.array(5))


# ---- joining and taking apart ----


@pytest.mark.parametrize("dtype", ALL)
def test_concat_and_stack(lib: Any, xp: Any, dtype: str):
    first, second = counted((2, 3), dtype), counted((2, 3), dtype)[::-1]
    pair = [lib.array(first), lib.array(second)]
    for axis in (0, 1, -1, None):
        lib.exactly(xp.concat(pair, axis=axis), np.concatenate([first, second], axis))
    for axis in (0, 1, 2, -1):
        lib.exactly(xp.stack(pair, axis=axis), np.stack([first, second], axis))


def test_concat_of_different_sizes_and_dtypes(lib: Any, xp: Any):
    arrays = [counted((2, 3), "int8"), counted((0, 3), "int16"), counted((1, 3), "uint8")]
    lib.exactly(xp.concat([*map(lib.array, arrays)]), np.concatenate(arrays))
    lib.exactly(xp.concat((lib.array(counted((2, 3))),), axis=1), counted((2, 3)))
    numbers = [np.array([-0.0, np.nan]), np.array([np.inf])]
    lib.exactly(xp.concat([*map(lib.array, numbers)]), np.concatenate(numbers))


def test_what_cannot_be_joined(xp: Any):
    with pytest.raises(ValueError):
        xp.concat([xp.ones((2, 3)), xp.ones((2, 2))])
    with pytest.raises(ValueError):
        xp.stack([xp.ones(2), xp.ones(3)])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unstack(lib: Any, xp: Any, axis: int):
    values = counted((2, 3, 4))
    found = xp.unstack(lib.array(values), axis=axis)
    assert isinstance(found, tuple)
    for x, expected in zip(found, np.moveaxis(values, axis, 0), strict=True):
        lib.exactly(x, expected)


@pytest.mark.parametrize("repetitions", [(2,), (2, 3), (1, 1), (2, 1, 2), (0,), (), (3, 0)])
@pytest.mark.parametrize("shape", [(2,), (2, 3), ()])
def test_tile(lib: Any, xp: Any, shape: Any, repetitions: Any):
    values = counted(shape)
    lib.exactly(xp.tile(lib.array(values), repetitions), np.tile(values, repetitions))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_repeat(lib: Any, xp: Any, axis: Any):
    values = counted((2, 3))
    lib.exactly(xp.repeat(lib.array(values), 2, axis=axis), np.repeat(values, 2, axis))
    lib.exactly(xp.repeat(lib.array(values), 0, axis=axis), np.repeat(values, 0, axis))
    counts = np.arange(values.size if axis is None else values.shape[axis]) % 3
    lib.exactly(xp.repeat(lib.array(values), lib.array(counts), axis=axis), np.repeat(values, counts, axis))


@given(data=st.data(), shape=hnp.array_shapes(min_dims=1, max_dims=3, max_side=3))
def test_any_chain_of_views(lib: Any, data: Any, shape: Any):
    values = counted(shape)
    x = lib.array(values)
    axes = data.draw(st.permutations(range(len(shape))))
    x, values = lib.xp.permute_dims(x, tuple(axes)), np.transpose(values, axes)
    axis = data.draw(st.integers(0, len(shape) - 1))
    x, values = lib.xp.flip(x, axis=axis), np.flip(values, axis)
    shift = data.draw(st.integers(-4, 4))
    x, values = lib.xp.roll(x, shift, axis=axis), np.roll(values, shift, axis)
    lib.exactly(lib.xp.reshape(x, (-1,)), values.reshape(-1))
