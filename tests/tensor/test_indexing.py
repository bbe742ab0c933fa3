"""Integers, slices, None and Ellipsis in `tensor[...]`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulegrad import Tensor, config
from rulegrad.errors import IndexRangeError, ShapeError

A = np.arange(60, dtype=np.int32).reshape(3, 4, 5)


def test_indices(device, check):
    x = Tensor(A)
    indices = [
        1,
        -1,
        (2, 3, -5),
        (slice(None), 1),
        (..., 0),
        (0, ..., 2),
        None,
        (slice(1, 3), None, ..., None),
        slice(None, None, -1),
        (slice(None, None, 2), slice(None, None, 3)),
        (slice(2, 0, -1), slice(None, None, -2), slice(4, None, -3)),
        (slice(5, 9), 0),
        (slice(-2, None), slice(-100, 100)),
        np.int64(2),
        (),
        ...,
    ]
    check(*((x[index], A[index]) for index in indices))


def test_length_and_iteration(any_device):
    x = Tensor(A)
    assert len(x) == 3
    assert [row.tolist() for row in x[0]] == A[0].tolist()
    a, b = Tensor([1, 2])
    assert (a + b).item() == 3
    assert A[0].tolist()[Tensor(1)] == A[0, 1].tolist()  # __index__


def _index(extent: int) -> st.SearchStrategy[int | slice]:
    return st.one_of(st.integers(-extent, extent - 1), st.slices(extent))


@given(st.data())
def test_any_index_is_numpys(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    array = np.arange(np.prod(shape)).reshape(shape)
    index = tuple(data.draw(_index(n)) for n in shape[: data.draw(st.integers(0, len(shape)))])
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(index)))
        index = (*index[:place], data.draw(st.sampled_from([None, ...])), *index[place:])
        if Ellipsis in index:
            index = index[: index.index(Ellipsis) + 1]
    with config(device="numpy"):
        np.testing.assert_array_equal(Tensor(array)[index].numpy(), array[index])


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (3, r"3 is out of range for axis 0 of size 3 \(shape \(3, 4, 5\)\)"),
        ((0, -5), "-5 is out of range for axis 1 of size 4"),
        ((0, 0, 0, 0), "4 indices for a tensor of shape"),
        ((..., ...), "more than one Ellipsis"),
        (1.5, "float at axis 0"),
        (slice(None, None, 0), "step"),
        ("a", "str at axis 0"),
    ],
)
def test_errors(index, text):
    with pytest.raises(IndexRangeError, match=text) as caught:
        Tensor.ones(3, 4, 5)[index]
    assert isinstance(caught.value, IndexError)
    assert isinstance(caught.value, ShapeError)


def test_scalars_have_no_length():
    with pytest.raises(ShapeError, match="no length"):
        len(Tensor(1))
    with pytest.raises(ShapeError, match="iterated"):
        iter(Tensor(1))
