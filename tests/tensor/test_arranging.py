"""Repeating, turning, stacking, splitting, triangles, diagonals and coordinates, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulegrad import Tensor, config
from rulegrad.errors import ShapeError

A = np.arange(24).reshape(2, 3, 4)
M = np.arange(12).reshape(3, 4)
V = np.arange(3)


def test_repeated_and_turned(device, check):
    x = Tensor(A)
    check(
        (x.tile(2), np.tile(A, 2)),
        (x.tile((2, 1, 1, 2)), np.tile(A, (2, 1, 1, 2))),
        (x.repeat_interleave(2, 1), np.repeat(A, 2, 1)),
        (x.repeat_interleave([1, 0, 3], 1), np.repeat(A, [1, 0, 3], 1)),
        (x.repeat_interleave(2), np.repeat(A, 2)),
        (x.roll(5), np.roll(A, 5)),
        (x.roll((1, -1), (0, 2)), np.roll(A, (1, -1), (0, 2))),
        (x.roll(2, (1, 1)), np.roll(A, 2, (1, 1))),
        *((x.rot90(k, (0, 2)), np.rot90(A, k, (0, 2))) for k in range(-1, 4)),
        (x.moveaxis((0, 1), (-1, 0)), np.moveaxis(A, (0, 1), (-1, 0))),
        (x.expand_dims((0, -1)), np.expand_dims(A, (0, -1))),
    )


def test_stacks_and_splits(any_device, check):
    x, m, v = Tensor(A), Tensor(M), Tensor(V)
    check(
        (Tensor.hstack([m, m]), np.hstack([M, M])),
        (v.hstack(v), np.hstack([V, V])),
        (v.vstack(v), np.vstack([V, V])),
        (m.dstack(m), np.dstack([M, M])),
        (v.dstack(v), np.dstack([V, V])),
        (v.column_stack(m), np.column_stack([V, M])),
        (m.concat(v.reshape(1, 3), axis=None), np.concatenate([M.ravel(), V])),
        *zip(x.tensor_split(3, -1), np.array_split(A, 3, -1)),
        *zip(x.array_split([1, 2], 1), np.array_split(A, [1, 2], 1)),
        *zip(x.unbind(1), np.moveaxis(A, 1, 0)),
        *zip(x.unstack(), A),
        *zip(v.meshgrid(Tensor([5, 6]), Tensor([7])), np.meshgrid(V, [5, 6], [7])),
        *zip(v.meshgrid(Tensor([5, 6]), indexing="ij"), np.meshgrid(V, [5, 6], indexing="ij")),
        *zip(v.reshape(3, 1).broadcast_tensors(v), np.broadcast_arrays(V[:, None], V)),
    )


@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 3])
def test_triangles_and_diagonals(any_device, check, offset):
    x = Tensor(A)
    check(
        (x.tril(offset), np.tril(A, offset)),
        (x.triu(offset), np.triu(A, offset)),
        (Tensor.tril_indices(3, 4, offset), np.stack(np.tril_indices(3, offset, 4))),
        (Tensor.triu_indices(3, 4, offset), np.stack(np.triu_indices(3, offset, 4))),
        (x.diagonal(offset), np.diagonal(A, offset)),
        (x.diagonal(offset, 2, 1), np.diagonal(A, offset, 2, 1)),
        (x.trace(offset, 1, 2), np.trace(A, offset, 1, 2)),
        (Tensor(V).diag(offset), np.diag(V, offset)),
        (Tensor(M).diag(offset), np.diag(M, offset)),
    )


@given(st.data())
def test_any_roll(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)))
    axes = data.draw(st.lists(st.integers(-len(shape), len(shape) - 1), min_size=1, max_size=3))
    shifts = data.draw(st.lists(st.integers(-9, 9), min_size=len(axes), max_size=len(axes)))
    array = np.arange(np.prod(shape)).reshape(shape)
    with config(device="numpy"):
        assert np.array_equal(Tensor(array).roll(shifts, axes).numpy(), np.roll(array, shifts, axes))


def test_errors(any_device):
    x = Tensor(A)
    with pytest.raises(ShapeError, match="give one each"):
        x.roll((1, 2), (0, 1, 2))
    with pytest.raises(ShapeError, match="2 counts for axis 1"):
        x.repeat_interleave([1, 2], 1)
    with pytest.raises(ShapeError, match="0 parts"):
        x.tensor_split(0)
    with pytest.raises(ShapeError, match="no rows and columns"):
        Tensor(V).tril()
    with pytest.raises(ShapeError, match="vector or a matrix"):
        x.diag()
    with pytest.raises(ShapeError, match="twice"):
        x.rot90(1, (0, 0))
