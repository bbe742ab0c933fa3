"""Bounds of plans for all sizes: within them rules decide as they did for the sizes that kernels were made from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.compile.varying.pairs import DifferentError
from rulegrad.compile.varying.plans import general_plan
from rulegrad.compile.varying.templates import generalised

Array = np.ndarray[Any, Any]


def of(*sizes: int) -> list[Array]:
    rng = np.random.default_rng(sum(sizes))
    return [rng.standard_normal(size).astype(np.float32) for size in sizes]


def tensors(arrays: Sequence[Array]) -> list[Tensor]:
    return [Tensor(array, device="c").realize() for array in arrays]


#: What is computed, the same with NumPy, the sizes of its inputs, and some values of what varies: at one of them, or
#: between two, something is decided otherwise than at the rest.
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., tuple[int, ...]], list[Any]]] = {
    "a slice of the end of what is put before itself": (
        lambda x: x.pad([(3, 3)], "circular")[3:16] * 2, lambda x: np.pad(x, 3, mode="wrap")[3:16] * 2,
        lambda t: (t,), [11, 12, 13, 14, 40, 10],
    ),
    "a slice of either of two": (
        lambda x, y: x.cat(y)[50:70] * 2, lambda x, y: np.concatenate([x, y])[50:70] * 2,
        lambda t: (t, t), [40, 45, 49, 50, 51, 60, 70, 80, 900],
    ),
    "as many as one of two": (
        lambda c, x, y: c * x.cat(y)[:c.shape[0]], lambda c, x, y: c * np.concatenate([x, y])[:len(c)],
        lambda t, u: (t, u, t), [(5, 9), (6, 11), (20, 10), (10, 20), (50, 7), (9, 9)],
    ),
    "as many as the other of two": (
        lambda c, x, y: c * x.cat(y)[:c.shape[0]], lambda c, x, y: c * np.concatenate([x, y])[:len(c)],
        lambda t, u: (t, u, t), [(9, 5), (11, 6), (10, 20), (20, 10), (7, 50)],
    ),
    "padding that a slice ends in": (
        lambda x: x.pad([(0, 10)])[:20] + 1, lambda x: np.pad(x, (0, 10))[:20] + 1,
        lambda t: (t,), [11, 12, 19, 20, 21, 40, 10],
    ),
    "places before a number": (
        lambda x: x * (Tensor.arange(x.shape[0], device="c") < 30).float(), lambda x: x * (np.arange(len(x)) < 30),
        lambda t: (t,), [10, 11, 29, 30, 31, 500],
    ),
    "places before a size": (
        lambda x, y: x * (Tensor.arange(x.shape[0], device="c") < y.shape[0]).float() + y.sum(),
        lambda x, y: x * (np.arange(len(x)) < len(y)) + y.sum(),
        lambda t, u: (t, u), [(5, 9), (6, 11), (20, 10), (10, 20), (50, 7)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_decided_by_sizes_is_decided_for_all(name: str) -> None:
    compute, wanted, sizes_of, points = CASES[name]
    with rg.config(general_plans=1):
        for point in itertools.chain(points, points):
            arrays = of(*sizes_of(*point) if isinstance(point, tuple) else sizes_of(point))
            found = compute(*tensors(arrays)).numpy()
            np.testing.assert_allclose(found, wanted(*arrays), 1e-5, 1e-5, err_msg=str(point))


def bounds_of(
    compute: Callable[..., Tensor], sizes_of: Callable[..., tuple[int, ...]], *points: Any, within: Any = None
) -> Any:
    graphs = [[compute(*tensors(of(*sizes_of(*point)))).uop] for point in points]
    return general_plan(generalised(*graphs), "c", within).bounds


def test_bounds() -> None:
    assert bounds_of(lambda x: x * 2, lambda t: (t,), (5,), (6,)) == ((2, 4096),)
    compute, _, sizes_of, _ = CASES["a slice of the end of what is put before itself"]
    assert bounds_of(compute, sizes_of, (40,), (41,)) == ((13, 4096),)
    with pytest.raises(DifferentError, match="at a size of 12"):
        bounds_of(compute, sizes_of, (11,), (12,))
    compute, _, sizes_of, _ = CASES["a slice of either of two"]
    assert bounds_of(compute, sizes_of, (80,), (81,)) == ((70, 4096),)


@pytest.mark.parametrize("bounds", [(2, 60), (2, 69), (40, 45)])
def test_bounds_within_which_kernels_are_nowhere_right(bounds: tuple[int, int]) -> None:
    """They are made from larger sizes, where a slice is of one of two parts."""
    compute, _, sizes_of, _ = CASES["a slice of either of two"]
    with pytest.raises(DifferentError, match="is not what is computed at"):
        bounds_of(compute, sizes_of, (80,), (81,), within=(bounds,))


def test_kernels_for_one_order_of_sizes_may_be_for_both() -> None:
    compute, _, sizes_of, _ = CASES["as many as one of two"]
    for points in ([(5, 9), (6, 11)], [(9, 5), (11, 6)]):
        assert [least for least, _ in bounds_of(compute, sizes_of, *points)] == [2, 3]


def test_a_variable_whose_bounds_are_too_far_apart_has_plans_of_its_own() -> None:
    @rg.jit
    def compute(x: Tensor) -> Tensor:
        return x.pad([(3, 3)], "circular")[3:16] * 2

    for size in (40, 41, 12, 13, 300, 11):
        (x,) = of(size)
        for _ in range(2):
            found = compute(*tensors([x])).numpy()
            np.testing.assert_allclose(found, np.pad(x, 3, mode="wrap")[3:16] * 2)
