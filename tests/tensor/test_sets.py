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
        (found.hist, counts.astype(np.float64)),
        (found.bin_edges, borders),
        (Tensor(floats).histogram(3, (-1, 0.5)).hist, np.histogram(floats, 3, (-1, 0.5))[0].astype(np.float64)),
    )


def test_histograms(any_device, check):
    numbers, points, weights = R.integers(0, 9, 40), R.normal(size=(30, 2)), R.normal(size=30)
    x, edges = Tensor(points[:, 0].copy()), [-1.0, 0.0, 0.25, 2.0]
    weighed, dense = x.histogram(4, weight=weights), x.histogram(edges, density=True)
    grid = Tensor(points).histogramdd([3, edges], [-1.0, 1.0, 0.0, 0.0], weight=weights)
    whole = Tensor(points).histogramdd(2, density=True)
    check(
        *zip(Tensor(numbers).histogram(5), np.histogram(numbers, 5)),
        *zip(weighed, np.histogram(points[:, 0], 4, weights=weights)),
        *zip(dense, np.histogram(points[:, 0], edges, density=True)),
        (grid.hist, np.histogramdd(points, [np.linspace(-1, 1, 4), edges], weights=weights)[0]),
        (whole.hist, np.histogramdd(points, 2, density=True)[0]),
        *zip(whole.bin_edges, np.histogramdd(points, 2)[1]),
        (Tensor([], dtype="float32").histogram(2).hist, np.zeros(2, np.float32)),
        (Tensor([np.nan, 1.0]).histogram(2, (0, 2)).hist, np.float32([0, 1])),
    )
    for wrong, text in (
        (lambda: x.histogram([1.0]), "borders of shape"),
        (lambda: x.histogram(0), "0 intervals"),
        (lambda: x.histogram(2, weights=[1.0]), "weights for 1 elements"),
        (lambda: x.histogramdd(2), "coordinates"),
        (lambda: Tensor(points).histogramdd([2]), "1 bins"),
    ):
        with pytest.raises(ShapeError, match=text):
            wrong()


def test_errors(any_device):
    with pytest.raises(ShapeError, match="negative"):
        Tensor([-1]).bincount()
    with pytest.raises(DtypeError, match="numbers of float32"):
        Tensor([1.0]).bincount()
    assert [part.tolist() for part in Tensor(1).nonzero(as_tuple=True)] == [[0]]
    assert Tensor([0, 5]).nonzero_static(size=2).tolist() == [[1], [-1]]
    assert Tensor(1).nonzero_static(size=2).shape == (2, 0)
