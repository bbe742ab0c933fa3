"""Running reductions and differences, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulegrad import Tensor, config
from rulegrad.errors import ShapeError

R = np.random.default_rng(0)
A = R.integers(-3, 4, (3, 5, 2))
F = R.normal(size=(4, 3)).astype(np.float32)


def test_rows_that_are_equal_start_anew() -> None:
    """Values without memory, and those that count the axis, do not depend on the rows: the reduction still does."""
    places = np.broadcast_to(np.arange(1.0, 5), (3, 4))
    x = (Tensor.arange(4, device="c") + 1.0).expand(3, 4)
    results = [Tensor.full((3, 4), 2, device="c").cumsum(1), Tensor.full((2, 3, 2), 2, device="c").cumprod(1)]
    results += [x.cumprod(1), x.cummax(1)[0]]
    results[0].realize(*results[1:])
    expected = [np.full((3, 4), 2).cumsum(1), np.full((2, 3, 2), 2).cumprod(1), places.cumprod(1), places]
    for found, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_sums_and_products(device, check):
    x = Tensor(A)
    check(
        (x.cumsum(1), A.cumsum(1)),
        (x.cumsum(), A.cumsum()),
        (x.cumprod(-1), A.cumprod(-1)),
        ((Tensor(F) * 2).cumsum(0) + 1, (F * 2).cumsum(0) + 1),
        (Tensor([True, True]).cumsum(0), np.array([1, 2])),
        (Tensor(F).cast("float16").cumsum(0), F.astype(np.float16).astype(np.float32).cumsum(0).astype(np.float16)),
        (x.cumulative_sum(2, include_initial=True), np.concatenate([np.zeros((3, 5, 1), int), A.cumsum(2)], 2)),
        (x.cumulative_prod(0, include_initial=True), np.concatenate([np.ones((1, 5, 2), int), A.cumprod(0)], 0)),
        (Tensor.zeros(0, 2).cumsum(0), np.zeros((0, 2), np.float32)),
        (Tensor([[4.0]]).cumsum(0), np.float32([[4]])),
    )


def test_extremes(device, check):
    places = np.array([0, 0, 2, 2, 4])
    largest, where = Tensor([2, 1, 2, 0, 5]).cummax(0)
    holes = np.float32([1, np.nan, 5])
    check(
        (largest, np.array([2, 2, 2, 2, 5])),
        (where, places),
        (Tensor(F).cummax(0)[0], np.maximum.accumulate(F, 0)),
        (Tensor(F).cummin(1)[0], np.minimum.accumulate(F, 1)),
        (Tensor(holes).cummax(0)[0], np.maximum.accumulate(holes)),
        (Tensor(F).logcumsumexp(0), np.logaddexp.accumulate(F, 0)),
        (Tensor([-np.inf, -np.inf, 1000, 1]).logcumsumexp(0), np.float32([-np.inf, -np.inf, 1000, 1000])),
    )


def test_differences(any_device, check):
    first = A[:, :1]
    check(
        (Tensor(A).diff(), np.diff(A)),
        (Tensor(A).diff(2, 1), np.diff(A, 2, 1)),
        (Tensor(A).diff(axis=1, prepend=Tensor(first)), np.diff(A, axis=1, prepend=first)),
        (Tensor([True, False, False]).diff(), np.diff([True, False, False])),
        (Tensor(A).diff(9, 0), np.diff(A, 9, 0)),
    )


@given(st.data())
def test_any_axis(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=5)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    array = np.arange(np.prod(shape)).reshape(shape)
    with config(device="numpy"):
        assert np.array_equal(
            (Tensor(array) + 1).cumsum(axis).flip(axis).numpy(), np.flip((array + 1).cumsum(axis), axis)
        )


def test_errors(any_device):
    with pytest.raises(ShapeError, match="name one of them"):
        Tensor(A).cumulative_sum()
    with pytest.raises(ShapeError, match="n=-1"):
        Tensor(A).diff(-1)
