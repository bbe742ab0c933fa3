"""Views: reshape, permute, expand, pad, shrink, flip, and what is made of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulegrad import Tensor, array_api, config
from rulegrad.errors import IndexRangeError, ShapeError

A = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
SPECIAL = np.array([[np.nan, np.inf], [-np.inf, -0.0]], np.float32)


def test_views(device, check):
    x = Tensor(A)
    check(
        (x.reshape(4, 6), A.reshape(4, 6)),
        (x.reshape((-1, 2)), A.reshape(-1, 2)),
        (x.reshape(24), A.reshape(24)),
        (x.permute(2, 0, 1), A.transpose(2, 0, 1)),
        (x.permute((-1, 0, 1)), A.transpose(2, 0, 1)),
        (x.T, A.T),
        (x.mT, A.swapaxes(-1, -2)),
        (x.transpose(0, 2), A.swapaxes(0, 2)),
        (x.swapaxes(1, 2), A.swapaxes(1, 2)),
        (x.moveaxis(0, -1), np.moveaxis(A, 0, -1)),
        (x.unsqueeze(0).expand(3, -1, 3, 4), np.broadcast_to(A, (3, 2, 3, 4))),
        (Tensor(5).expand(2, 2), np.full((2, 2), 5)),
        (x[:, :1].broadcast_to((5, 2, 3, 4)), np.broadcast_to(A[:, :1], (5, 2, 3, 4))),
        (x.shrink((0, 1), None, (1, 3)), A[0:1, :, 1:3]),
        (x.flip(0), A[::-1]),
        (x.flip((0, -1)), A[::-1, :, ::-1]),
        (x.flip(), A[::-1, ::-1, ::-1]),
        (x.unsqueeze(-1), A[..., None]),
        (x.unsqueeze(1).squeeze(1), A),
        (x.unsqueeze(0).unsqueeze(0).squeeze(), A),
        (x.flatten(), A.reshape(-1)),
        (x.flatten(1), A.reshape(2, 12)),
        (x.contiguous() + 1, A + 1),
    )


def test_padding(device, check):
    x = Tensor(A[0])
    check(
        (x.pad(1), np.pad(A[0], 1)),
        (x.pad((1, 2)), np.pad(A[0], (1, 2))),
        (x.pad([(0, 1), (2, 0)]), np.pad(A[0], [(0, 1), (2, 0)])),
        (x.pad([(0, 1), (2, 0)], value=-7), np.pad(A[0], [(0, 1), (2, 0)], constant_values=-7)),
        (Tensor(SPECIAL).pad(1), np.pad(SPECIAL, 1)),
        (Tensor(SPECIAL).pad(1, value=2.5), np.pad(SPECIAL, 1, constant_values=2.5)),
        (Tensor(SPECIAL).pad(1, value=-np.inf), np.pad(SPECIAL, 1, constant_values=-np.inf)),
        (Tensor(A[0] > 3).pad(1, value=True), np.pad(A[0] > 3, 1, constant_values=True)),
    )


def test_views_that_change_nothing_are_the_same_graph():
    x = Tensor.ones(2, 3)
    same = [x.reshape(2, 3), x.permute(0, 1), x.expand(2, 3), x.pad(0), x.shrink(None, (0, 3))]
    assert all(view.uop == x.uop for view in same)


@given(st.data())
def test_chains_of_views_are_numpys(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    expected = np.arange(np.prod(shape)).reshape(shape)
    with config(device="numpy"):
        tensor = Tensor(expected)
        for _ in range(data.draw(st.integers(1, 5))):
            kind = data.draw(st.sampled_from(["permute", "flip", "pad", "shrink", "flatten", "unsqueeze"]))
            rank = expected.ndim
            if kind == "permute":
                order = data.draw(st.permutations(range(rank)))
                tensor, expected = tensor.permute(order), expected.transpose(order)
            elif kind == "flip":
                axis = data.draw(st.integers(-rank, rank - 1))
                tensor, expected = tensor.flip(axis), np.flip(expected, axis)
            elif kind == "pad":
                pairs = [data.draw(st.tuples(st.integers(0, 2), st.integers(0, 2))) for _ in range(rank)]
                tensor, expected = tensor.pad(pairs), np.pad(expected, pairs)
            elif kind == "shrink":
                bounds = [data.draw(st.tuples(st.integers(0, n - 1), st.just(n))) for n in expected.shape]
                tensor = tensor.shrink(*bounds)
                expected = expected[tuple(slice(*bound) for bound in bounds)]
            elif kind == "flatten":
                tensor, expected = tensor.flatten(), expected.reshape(-1)
            else:
                axis = data.draw(st.integers(0, rank))
                tensor, expected = tensor.unsqueeze(axis), np.expand_dims(expected, axis)
        np.testing.assert_array_equal(tensor.numpy(), expected)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda x: x.reshape(5, 5), ShapeError, r"\(2, 3, 4\) has 24 elements and does not fit \(5, 5\)"),
        (lambda x: x.reshape(-1, -1), ShapeError, "at most one -1"),
        (lambda x: x.reshape(-1, 7), ShapeError, "24 elements"),
        (lambda x: x.permute(0, 1), ShapeError, r"not an order of the 3 axes of shape \(2, 3, 4\)"),
        (lambda x: x.permute(0, 1, 5), IndexRangeError, "axis 5 does not exist"),
        (lambda x: x.expand(2, 5, 4), ShapeError, r"expand: the shape \(2, 3, 4\).*\(2, 5, 4\)"),
        (lambda x: x.pad([(1, 1)]), ShapeError, r"pad: .*\(2, 3, 4\)"),
        (lambda x: x.pad(-1), ShapeError, "0 or more"),
        (lambda x: x.shrink((0, 1)), ShapeError, "1 bounds for 3 axes"),
        (lambda x: x.shrink((0, 3), None, None), ShapeError, r"not within the shape \(2, 3, 4\)"),
        (lambda x: np.squeeze(x, 0), ShapeError, "not of size 1"),
        (lambda x: array_api.squeeze(x, 0), ShapeError, "not of size 1"),
        (lambda x: x.flip(3), IndexRangeError, "axis 3 does not exist"),
        (lambda x: x.flip((0, 0)), ShapeError, "twice"),
        (lambda x: x.flatten(2, 1), ShapeError, "comes after"),
    ],
)
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make(Tensor.ones(2, 3, 4))
