"""Reductions of an element of a row and one of a column, as distances, have the tiles of products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor

REDUCED: dict[str, Callable[[Any, Any], Any]] = {
    "squares": lambda a, b: ((a - b) * (a - b)).sum(-1),
    "differences": lambda a, b: abs(a - b).sum(-1),
    "largest": lambda a, b: abs(a - b).max(-1),
    "least sum": lambda a, b: (a + b).min(-1),
    "weighted": lambda a, b: ((a - b) * (a - b) * (a + 1)).sum(-1) + 1,
}


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name in REDUCED for dtype in (np.float32, np.float64)]
    # sums of int32 are int64
    + [("largest", np.int32), ("least sum", np.int32)],
)
@pytest.mark.parametrize(("rows", "columns", "depth"), [(64, 128, 16), (37, 51, 13), (9, 200, 3), (12, 48, 7)])
def test_values(name: str, rows: int, columns: int, depth: int, dtype: type) -> None:
    r = np.random.default_rng(0)
    x, y = (r.integers(-50, 50, (n, depth)).astype(dtype) for n in (rows, columns))
    a, b = (Tensor(array, device="c").realize() for array in (x, y))
    with rg.profile() as p:
        result = REDUCED[name](a[:, None], b[None]).numpy()
    assert [kernel.schedule.partition(":")[0] for kernel in p.kernels] == ["pairs"]
    np.testing.assert_array_equal(result, REDUCED[name](x[:, None], y[None]))


def test_batches_and_columns_along_memory() -> None:
    r = np.random.default_rng(0)
    x, y = r.standard_normal((3, 20, 30)), r.standard_normal((3, 30, 47))
    a, b = (Tensor(array, device="c").realize() for array in (x, y))
    with rg.profile() as p:
        result = abs(a[..., None] - b[:, None]).sum(2).numpy()
    assert p.kernels[-1].schedule.startswith("pairs: ")
    np.testing.assert_allclose(result, abs(x[..., None] - y[:, None]).sum(2), rtol=1e-12)


def test_nearest_neighbours() -> None:
    """Keys that are sorted are computed with the distances, and so is whether one is nan."""
    r = np.random.default_rng(0)
    x, y = r.standard_normal((50, 8)), r.standard_normal((70, 8))
    a, b = (Tensor(array, device="c").realize() for array in (x, y))
    with rg.profile() as p:
        result = a.cdist(b).topk(3, largest=False).indices.numpy()
    assert any(kernel.schedule.startswith("pairs: ") for kernel in p.kernels)
    wanted = ((x[:, None] - y[None]) ** 2).sum(-1).argsort(-1, stable=True)[:, :3]
    np.testing.assert_array_equal(result, wanted)


def test_two_results_of_one_distance() -> None:
    r = np.random.default_rng(0)
    x, y = r.standard_normal((50, 8)).astype(np.float32), r.standard_normal((70, 8)).astype(np.float32)
    a, b = (Tensor(array, device="c").realize() for array in (x, y))
    squares = ((a[:, None] - b[None]) ** 2).sum(-1)
    near = squares < 9
    with rg.profile() as p:
        Tensor.realize(squares, near)
    assert p.kernels[-1].schedule.startswith("pairs: ") and len(p.kernels) == 1
    wanted = ((x[:, None] - y[None]) ** 2).sum(-1)
    np.testing.assert_allclose(squares.numpy(), wanted, rtol=1e-5)
    np.testing.assert_array_equal(near.numpy(), squares.numpy() < 9)
