"""Distinct values, places that are not zero, and counts, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import DtypeError, ShapeError

R = np.random.default_rng(0)
A = R.integers(-4, 5, (5, 20))


def test_unique(device, check):
    values, first, inverse, counts = np.unique(A, return_index=True, return_inverse=True, return_counts=True)
    inverse = inverse.reshape(A.shape)
    x = Tensor(A)
    found = x.unique_all()
    check(*zip(found, (values, first, inverse, counts)))
    check(
        (x.unique_values(), values),
        *zip(x.unique_counts(), (values, counts)),
        *zip(x.unique_inverse(), (values, inverse)),
        *zip(x.unique(return_counts=True), (values, counts)),
        (Tensor([np.nan, 1, np.nan]).unique(), np.float32([1, np.nan, np.nan])),
        (Tensor([0.0, -0.0]).unique_counts().counts, np.array([2])),
        (Tensor.zeros(0).unique_all().inverse_indices, np.zeros(0, np.int64)),
    )


def test_not_zero(device, check):
    x = Tensor(A)
    check(
        (x.nonzero(), np.argwhere(A)),
        *zip(x.nonzero(as_tuple=True), A.nonzero()),
        ((x * 0).argwhere(), np.zeros((0, 2), np.int64)),
        (Tensor(3).nonzero(), np.zeros((1, 0), np.int64)),
        (x.count_nonzero(), np.count_nonzero(A)),
        (x.count_nonzero(0), np.count_nonzero(A, 0)),
    )


def test_isin(any_device, check):
    many = np.arange(0, 99, 2)
    check(
        (Tensor(A).isin([1, -3]), np.isin(A, [1, -3])),
        (Tensor(A).isin(Tensor(many), invert=True), np.isin(A, many, invert=True)),
        (Tensor(A).isin(2), np.isin(A, 2)),
        (Tensor(A).isin(Tensor(many[:0])), np.isin(A, [])),
    )


def test_counting(device, check):
    numbers, weights = R.integers(0, 9, 40), R.normal(size=40)
    floats = R.normal(size=50)
    counts, borders = np.histogram(floats, 7)
    found = Tensor(floats).histogram(7)
    check(
        (Tensor(numbers).bincount(), np.bincount(numbers)),
        (Tensor(numbers).bincount(Tensor(weights), 12), np.bincount(numbers, weights, 12)),
        (Tensor(numbers[:0]).bincount(minlength=2), np.zeros(2, np.int64)),
        (found.hist, counts),
        (found.bin_edges, borders),
        (Tensor(floats).histogram(3, (-1, 0.5)).hist, np.histogram(floats, 3, (-1, 0.5))[0]),
    )


def test_errors(any_device):
    with pytest.raises(ShapeError, match="negative"):
        Tensor([-1]).bincount()
    with pytest.raises(DtypeError, match="numbers of float32"):
        Tensor([1.0]).bincount()
    with pytest.raises(ShapeError, match="no axes"):
        Tensor(1).nonzero(as_tuple=True)
