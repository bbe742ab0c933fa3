"""Vectors of elements that are a few places apart: every second column, windows that do not overlap, coordinates of points."""

from __future__ import annotations

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor


def on_c(array: np.ndarray) -> Tensor:
    return Tensor(array, device="c").realize()


@pytest.mark.usefixtures("constant_sizes")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("stride", [2, 3, 4])
@pytest.mark.parametrize("columns", [16, 33, 500])
def test_largest_of_each_window(columns: int, stride: int, dtype: type) -> None:
    x = (np.random.default_rng(0).standard_normal((5, columns, stride)) * 100).astype(dtype)
    with rg.profile() as p:
        result = on_c(x).amax(2).numpy()
    assert p.kernels[-1].schedule.startswith("strided_windows: ")
    np.testing.assert_array_equal(result, x.max(2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("stride", [2, 3, 4, 5])
@pytest.mark.parametrize("columns", [70, 401])
def test_values_of_every_few_columns(columns: int, stride: int, dtype: type) -> None:
    x = np.random.default_rng(0).standard_normal((7, columns)).astype(dtype)
    with rg.profile() as p:
        result = on_c(x)[:, 1::stride].exp().numpy()
    assert p.kernels[-1].schedule.startswith("elementwise: ") == (stride < 5)
    np.testing.assert_allclose(result, np.exp(x[:, 1::stride]), rtol=1e-6)


def test_sums_that_an_outer_loop_does_not_change() -> None:
    """Overlaps of boxes: areas of the columns' boxes stand in the kernel."""
    r = np.random.default_rng(0)
    x, y = (np.sort(r.random((n, 2, 2)).astype(np.float32), 1).reshape(n, 4) for n in (30, 41))
    a, b = on_c(x), on_c(y)
    low, high = rg.maximum(a[:, None, :2], b[None, :, :2]), rg.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(2)
    result = shared / ((a[:, 2:] - a[:, :2]).prod(1)[:, None] + (b[:, 2:] - b[:, :2]).prod(1) - shared)
    overlap = np.minimum(x[:, None, 2:], y[:, 2:]) - np.maximum(x[:, None, :2], y[:, :2])
    wanted = overlap.clip(0).prod(2)
    areas = (x[:, 2:] - x[:, :2]).prod(1)[:, None] + (y[:, 2:] - y[:, :2]).prod(1)
    np.testing.assert_allclose(result.numpy(), wanted / (areas - wanted), rtol=1e-4, atol=1e-7)
