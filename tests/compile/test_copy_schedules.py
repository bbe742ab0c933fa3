"""Copies on target c: transposes by blocks, rows that are gathered by vectors."""

from __future__ import annotations

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((32, 64), (1, 0)),
        ((33, 65), (1, 0)),
        ((3, 40, 17), (0, 2, 1)),
        ((20, 5, 33), (2, 1, 0)),
        ((16, 3, 2, 21), (3, 1, 2, 0)),
    ],
)
def test_transposes(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    tensor = Tensor(x, device="c").realize()
    with rg.profile() as p:
        result = (tensor.permute(*order) * 2).numpy()
    assert p.kernels[-1].schedule.startswith("transposed")
    np.testing.assert_array_equal(result, x.transpose(order) * 2)


def test_several_operands_are_transposed() -> None:
    """Two are copied in turn, one lies as the result does."""
    r = np.random.default_rng(0)
    x, y, z = (r.integers(0, 9, s).astype(np.int32) for s in ((70, 40), (70, 40), (40, 70)))
    a, b, c = (Tensor(t, device="c").realize() for t in (x, y, z))
    with rg.profile() as p:
        result = (a.T * b.T + c).numpy()
    assert p.kernels[-1].schedule.startswith("transposed: ") and len(p.kernels) == 1
    np.testing.assert_array_equal(result, x.T * y.T + z)


def test_rows_that_are_gathered_are_vectors() -> None:
    """The index of a row is one number for all lanes: its dtype does not matter."""
    table, at = np.arange(50 * 37, dtype=np.float32).reshape(50, 37), np.array([3, 49, 0, 3], np.int64)
    tensors = [Tensor(table, device="c").realize(), Tensor(at, device="c").realize()]
    with rg.profile() as p:
        result = tensors[0][tensors[1]].numpy()
    assert p.kernels[-1].schedule.startswith("elementwise: ")
    np.testing.assert_array_equal(result, table[at])


def test_an_index_that_is_outside_is_an_error() -> None:
    table, at = np.ones((50, 37), np.float32), np.array([3, 50, 0, 3], np.int64)
    with pytest.raises(IndexError, match="50"):
        Tensor(table, device="c")[Tensor(at, device="c")].numpy()
