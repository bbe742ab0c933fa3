"""Sorting, quantiles and searching, against NumPy: stable, nan last, any dtype, axis and size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rulegrad as rg
from rulegrad import Tensor, config, jit, vmap
from rulegrad.errors import ConfigError, ShapeError
from rulegrad.ir import UOp

R = np.random.default_rng(0)
SPECIAL = np.float32([3, np.nan, -np.inf, 0.0, -0.0, np.inf, np.nan, -1, 3])


@pytest.mark.parametrize("extent", [1, 2, 63, 64, 65, 300])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "int64", "uint64", "float16", "float32", "float64"])
def test_sort(any_device, extent, dtype):
    array = R.integers(0, 1 << 63, (2, extent), np.uint64) >> np.uint64(40)
    array = (array.astype(np.int64) % 50 - (0 if dtype[0] in "ub" else 25)).astype(dtype)
    if dtype == "uint64":
        array |= np.uint64(1 << 63)
    values, places = Tensor(array).sort()
    assert np.array_equal(places.numpy(), np.argsort(array, -1, kind="stable"))
    assert np.array_equal(values.numpy(), np.sort(array, -1))
    backwards = extent - 1 - np.argsort(array[:, ::-1], -1, kind="stable")[:, ::-1]
    assert np.array_equal(Tensor(array).argsort(descending=True).numpy(), backwards)


@pytest.mark.parametrize(
    ("extent", "count", "largest"),
    [
        (64, 3, True),
        (161, 10, False),
        (500, 1, False),
        (1000, 7, True),
        pytest.param(2049, 2, True, marks=pytest.mark.long_run),
        (2049, 2, False),
    ],
)
def test_first_elements_of_long_rows(extent, count, largest):
    """Of which blocks are looked at: with ties, nan, infinity, and the last of all numbers, which also pads."""
    few = R.integers(-3, 3, (4, extent)).astype(np.float32)
    few[0, ::7], few[1, 3], few[2] = np.nan, np.inf, np.nan
    last = np.full((2, extent), np.iinfo(np.int32).max)
    last[1, -1] = -5
    arrays = (
        few,
        R.normal(size=(3, extent)),
        few[3:] > 0,
        last,
        last.astype(np.int64) << 31,
        few[3:].astype(np.int8),
    )
    arrays = arrays if extent in (161, 2049) else arrays[:2]
    computed = [
        (
            Tensor(array).argsort(descending=largest),
            *Tensor(array).topk(count, largest=largest),
            Tensor(array.T).topk(count, 0, largest).indices,
            *(() if largest else (Tensor(array).kthvalue(count).indices,)),
        )
        for array in arrays
    ]
    Tensor.realize(*(result for results in computed for result in results))  # compiled together
    for array, results in zip(arrays, computed, strict=True):
        order, values, places, by_columns, *last = (result.numpy() for result in results)
        wanted = order[:, :count]
        assert np.array_equal(places, wanted)
        assert np.array_equal(values, np.take_along_axis(array, wanted, 1), equal_nan=array.dtype.kind == "f")
        assert np.array_equal(by_columns, wanted.T)
        assert all(np.array_equal(place, wanted[:, -1]) for place in last)


@pytest.mark.parametrize(
    "extent", [128, 1025, 2049, *(pytest.param(extent, marks=pytest.mark.long_run) for extent in (127, 1024))]
)
def test_long_rows_by_digits(device, check, extent):
    array = R.normal(size=(2, extent)).astype(np.float32)
    array[0, ::5], array[0, 1::5], array[1, ::4], array[1, 1::4] = np.nan, np.inf, 0.0, -0.0
    wide, small = R.integers(-(1 << 63), 1 << 63, extent), R.integers(0, 256, extent).astype(np.uint8)
    check(
        (Tensor(array).argsort(), np.argsort(array, kind="stable")),
        (Tensor(array.T).argsort(0), np.argsort(array.T, 0, kind="stable")),
        (Tensor(wide).argsort(descending=True), np.argsort(~wide, kind="stable")),
        (Tensor(small).argsort(descending=True), np.argsort(~small, kind="stable")),
        (Tensor(small > 99).argsort(), np.argsort(small > 99, kind="stable")),
    )


def test_sorting_of_other_sizes_and_in_functions(any_device):
    sort = jit(lambda x: x.sort().values)
    for extent in (*range(1, 40), 64, 65, 70, 500, 1030):
        array = R.normal(size=extent).astype(np.float32)
        assert np.array_equal(Tensor(array).sort().values.numpy(), np.sort(array))
        if extent in (65, 70):
            assert np.array_equal(sort(Tensor(array)).numpy(), np.sort(array))
            assert np.array_equal(sort(Tensor(-array)).numpy(), np.sort(-array))
    rows = R.normal(size=(3, 70)).astype(np.float32)
    assert np.array_equal(vmap(lambda row: row.sort().values)(Tensor(rows)).numpy(), np.sort(rows))
    assert np.array_equal(vmap(lambda row: row.argsort(), 1, 1)(Tensor(rows.T)).numpy(), np.argsort(rows.T, 0))


def test_gradient_of_a_long_sort(any_device):
    array, weights = R.normal(size=(2, 100)).astype(np.float32)
    x = Tensor(array, requires_grad=True)
    (x.sort().values * Tensor(weights)).sum().backward()
    wanted = np.empty_like(weights)
    wanted[np.argsort(array)] = weights
    assert np.array_equal(x.grad.numpy(), wanted)


def test_equal_elements_before(device, check):
    numbers = R.integers(0, 5, (3, 40, 2)).astype(np.int32)
    numbers[0, 0, 0], numbers[1, 3, 1] = -7, 9  # count as the nearest, 0 and 4
    inside, wanted = np.clip(numbers, 0, 4), np.zeros(numbers.shape, np.int32)
    for place in range(40):
        wanted[:, place] = (inside[:, :place] == inside[:, place : place + 1]).sum(1)
    x = Tensor(numbers)
    check((x._result(UOp("CUMCOUNT", (x.uop,), extent=5, axis=1)), wanted))


def test_on_devices(device, check):
    array = R.normal(size=(70, 2)).astype(np.float32)
    x = Tensor(array)
    check(
        (Tensor(SPECIAL).argsort(), np.argsort(SPECIAL, kind="stable")),
        (Tensor(SPECIAL).msort(), np.sort(SPECIAL)),
        (x.sort(0).values, np.sort(array, 0)),
        (x.argsort(1), np.argsort(array, 1)),
        (Tensor(2.0).sort().values, np.float32(2)),
        (Tensor.zeros(0, 3).argsort(0), np.zeros((0, 3), np.int64)),
    )


def test_selections(any_device, check):
    array = R.normal(size=(4, 9))
    x, order = Tensor(array), np.argsort(array, 1)
    check(
        (x.topk(3).values, np.sort(array, 1)[:, :-4:-1]),
        (x.topk(3, largest=False).indices, order[:, :3]),
        (x.topk(2, axis=0).values, np.sort(array, 0)[:-3:-1]),
        (x.kthvalue(2).values, np.sort(array, 1)[:, 1]),
        (x.kthvalue(2, keepdims=True).indices, order[:, 1:2]),
        (x.median(), np.median(array)),
        (x.median(1, keepdims=True), np.median(array, 1, keepdims=True)),
        (Tensor([1, 2, 4, 9]).median(), np.median([1, 2, 4, 9])),
        (Tensor([1.0, np.nan]).median(), np.float32(np.nan)),
        *((x.quantile(0.3, 1, interpolation=way), np.quantile(array, 0.3, 1, method=way))
          for way in ("linear", "lower", "higher", "midpoint", "nearest")),
        (x.quantile([0.0, 0.5, 1.0], 0), np.quantile(array, [0.0, 0.5, 1.0], 0)),
    )  # fmt: skip


def test_searchsorted(device, check):
    borders, values = np.sort(R.integers(0, 20, 30)), np.arange(-1, 22).reshape(1, 23)
    mixed = R.permutation(borders)
    places = np.argsort(mixed, kind="stable")
    x = Tensor(borders)
    check(
        (x.searchsorted(Tensor(values)), np.searchsorted(borders, values)),
        (x.searchsorted(Tensor(values), "right"), np.searchsorted(borders, values, "right")),
        (x.searchsorted(7), np.searchsorted(borders, 7)),
        (Tensor(mixed).searchsorted(Tensor(values), sorter=Tensor(places)), np.searchsorted(borders, values)),
        (Tensor(values / 3).bucketize(x), np.searchsorted(borders, values / 3)),
        (Tensor(SPECIAL).sort().values.searchsorted(Tensor(SPECIAL)), np.searchsorted(np.sort(SPECIAL), SPECIAL)),
        (x[:0].searchsorted(x[:3]), np.zeros(3, np.int64)),
        (Tensor(values[0]).bucketize(x, out_int32=True), np.searchsorted(borders, values[0]).astype(np.int32)),
    )


def test_searchsorted_in_rows(any_device, check):
    rows, values = R.normal(size=(2, 3, 6)).astype(np.float32), R.normal(size=(2, 3, 4)).astype(np.float32)
    ordered, places = np.sort(rows), np.argsort(rows)
    wanted = np.array([[np.searchsorted(*pair, "right") for pair in zip(*both)] for both in zip(ordered, values)])
    check(
        (Tensor(ordered).searchsorted(Tensor(values), right=True), wanted),
        (Tensor(rows).searchsorted(Tensor(values), "right", Tensor(places), out_int32=True), wanted.astype(np.int32)),
        (Tensor(ordered).searchsorted(Tensor(values[..., :0])), np.zeros((2, 3, 0), np.int64)),
    )


def test_quantiles_without_nan(any_device, check):
    array = np.float32([[1, np.nan, 4, 9, 2], [np.nan, np.nan, 7, np.nan, np.inf]])
    ways = ("linear", "lower", "higher", "nearest")
    check(
        *((Tensor(array[:1]).nanquantile([0.0, 0.4, 1.0], 1, interpolation=way),
           np.float32(np.nanquantile(array[:1], [0.0, 0.4, 1.0], 1, method=way))) for way in ways),
        (Tensor(array[:1]).nanquantile(0.4, 1, True, "midpoint"), np.float32([[3.0]])),
        (Tensor(array).nanquantile(0.5, keepdim=True), np.nanquantile(array, 0.5, keepdims=True).astype(np.float32)),
        (Tensor(array).nanquantile(1.0, 1), np.float32([9, np.inf])),
    )  # fmt: skip


@given(st.lists(st.floats(width=32), min_size=1, max_size=200))
def test_any_floats(numbers):
    array = np.float32(numbers)
    with config(device="numpy"):
        assert np.array_equal(Tensor(array).argsort().numpy(), np.argsort(array, kind="stable"))


def test_errors(any_device):
    with pytest.raises(ShapeError, match="k=4"):
        Tensor([1, 2, 3]).topk(4)
    with pytest.raises(ShapeError, match="k=0"):
        Tensor([1, 2, 3]).kthvalue(0)
    with pytest.raises(ShapeError, match="shares are numbers between"):
        Tensor([1.0]).quantile(2)
    with pytest.raises(ShapeError, match="must be a vector"):
        Tensor(1).searchsorted(1)
    with pytest.raises(ShapeError, match="for rows of shape"):
        Tensor([[1]]).searchsorted(1)
    with pytest.raises(ShapeError, match="boundaries of shape"):
        Tensor([1]).bucketize([[1]])
    with pytest.raises(ConfigError, match="interpolation='cubic'"):
        Tensor([1.0]).nanquantile(0.5, interpolation="cubic")
    with pytest.raises(ShapeError, match="side='both'"):
        Tensor([1]).searchsorted(1, "both")


def test_magnitudes_in_order(device: str) -> None:
    """Keys of numbers whose sign is known: a compiler takes what it is for granted."""
    values = np.random.default_rng(0).choice(np.array([0.5, -0.5, 0.25, 0, -0.0, 1, -1, -2], np.float32), (6, 10, 3))
    for dtype in ("float16", "float32", "float64"):
        found = Tensor(values.astype(dtype), device=device).abs().sort(0)[0]
        np.testing.assert_array_equal(found.numpy(), np.sort(np.abs(values), 0))


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int8, np.uint32, np.bool_])
@pytest.mark.parametrize(("shape", "count"), [((3, 64), 16), ((3, 1000), 10), ((2, 1024), 1), ((2, 5000), 9)])
def test_a_few_first_ones_are_found_in_turn(shape: tuple[int, int], count: int, dtype: Any) -> None:
    """Equal ones in their order, nan as the largest, by least words of a key and its place."""
    x = np.random.default_rng(0).integers(0, 50, shape).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x[:, :4] = [np.nan, np.inf, -np.inf, -0.0]
    order = np.argsort(-x.astype(np.float64), 1, kind="stable")
    order = np.concatenate([order[:, -1:], order[:, :-1]], 1) if np.dtype(dtype).kind == "f" else order
    values, places = Tensor(x, device="c").topk(count)
    np.testing.assert_array_equal(places.numpy(), order[:, :count])
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, order[:, :count], 1))


def test_a_few_first_ones_are_not_compared_with_all() -> None:
    tensor = Tensor(np.zeros((64, 100), np.float32), device="c").realize()
    with rg.profile() as p:
        tensor.topk(5).indices.realize()
    tactics = [kernel.schedule.partition(":")[0] for kernel in p.kernels]
    assert tactics[:2] == ["elementwise", "rows"] and len(tactics) == 3  # the last as the processor's vectors have it
