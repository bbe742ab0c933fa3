"""Elements by their rank, of long rows found by the bits of their keys: any dtype, axis and rank, against NumPy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, vmap
from rulegrad.errors import ShapeError
from rulegrad.tensor import order_statistics
from rulegrad.tensor.order_statistics import Chosen, in_order

DTYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
)  # fmt: skip


def values_of(dtype: str, *shape: int) -> Any:
    """Values over the whole range of a dtype, with both ends, and many equal ones in the last row."""
    numbers = np.random.default_rng(0)
    if dtype == "bool":
        array = numbers.random(shape) < 0.3
    elif dtype.startswith("float"):
        array = (numbers.standard_normal(shape) * 10.0 ** numbers.integers(-4, 4, shape)).astype(dtype)
        array[0, :5] = 0.0, -0.0, np.inf, -np.inf, np.finfo(dtype).max
    else:
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        array = numbers.integers(least, most, shape, dtype, endpoint=True)
        array[0, :3] = least, most, 0
    array[-1, : shape[1] // 2] = array[-1, 7]
    return array


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype: str) -> None:
    array = values_of(dtype, 3, 150)
    x, by_rank = Tensor(array), np.sort(array, 1)
    order = in_order(x, 1, 1)
    assert isinstance(order, Chosen)
    for rank in (0, 74, 149):
        places = order.place(rank).numpy()
        assert np.array_equal(np.take_along_axis(array, places, 1)[:, 0], by_rank[:, rank])
        assert np.array_equal(order.after(rank).numpy()[:, 0], by_rank[:, min(rank + 1, 149)])


def test_bfloat16() -> None:
    x = Tensor(np.random.default_rng(1).standard_normal((2, 200)).astype(np.float32)).cast("bfloat16")
    found = x.kthvalue(20, 1).values.float().numpy()
    assert np.array_equal(found, np.sort(x.float().numpy(), 1)[:, 19])


def test_along_other_axes_and_by_functions(device: str, check: Any) -> None:
    array = values_of("float32", 3, 400)[1:].reshape(2, 200, 2)
    x = Tensor(array, device=device)
    check(
        (x.quantile(0.3, 1), np.quantile(array, 0.3, 1)),
        (x.median(), np.median(array)),
        (x.quantile([0.0, 0.25, 1.0], (0, 1)), np.quantile(array, [0.0, 0.25, 1.0], (0, 1)).astype(np.float32)),
        (vmap(lambda row: row.quantile(0.7, 0))(x), np.quantile(array, 0.7, 1)),
    )
    found = x.kthvalue(50, 1, keepdim=True)
    assert np.array_equal(found.values.numpy(), np.sort(array, 1)[:, 49:50])
    assert np.array_equal(np.take_along_axis(array, found.indices.numpy(), 1), found.values.numpy())
    assert np.array_equal(x.median(dim=1).values.numpy(), np.sort(array, 1)[:, 99])


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_interpolations_of_long_rows(method: Any) -> None:
    array = values_of("float64", 4, 201)[1:]
    for share in (0.0, 0.1234, 0.5, 0.999, 1.0):
        wanted = np.quantile(array, share, 1, method=method)
        np.testing.assert_allclose(Tensor(array).quantile(share, 1, interpolation=method).numpy(), wanted)
    array[0, 3:100], array[1] = np.nan, np.nan
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        wanted = np.nanquantile(array, 0.4, 1, method=method)
    found = Tensor(array).nanquantile(0.4, 1, interpolation=method)
    np.testing.assert_allclose(found.numpy(), wanted)


def test_nan_and_infinities_of_long_rows() -> None:
    array = values_of("float32", 4, 300)
    array[1, 17], array[2, :299], array[3] = np.nan, np.nan, np.nan
    x = Tensor(array)
    assert np.array_equal(x.median(dim=1).values.isnan().numpy(), [False, True, True, True])
    assert np.array_equal(x.median(dim=1).indices.numpy()[1:3], [17, 0])
    smallest = x.nanmedian(dim=1).values.numpy()
    assert smallest[1] == np.sort(array[1])[149] and smallest[2] == array[2, 299] and np.isnan(smallest[3])
    assert np.array_equal(x.quantile(0.5, 1).isnan().numpy(), [False, True, True, True])
    assert Tensor(np.full(300, -np.inf, np.float32)).quantile(0.5).item() == -np.inf


def test_several_shares_without_nan() -> None:
    """Each has its own ranks, as each row has a last number of its own."""
    array = values_of("float32", 4, 300)[1:]
    array[0, ::3] = np.nan
    found = Tensor(array).nanquantile([0.25, 0.5, 0.75], 1)
    np.testing.assert_allclose(found.numpy(), np.nanquantile(array, [0.25, 0.5, 0.75], 1), rtol=1e-5)


def test_many_ranks_are_of_sorted_rows() -> None:
    array = values_of("float32", 2, 300)[1]
    shares = [float(share) for share in np.linspace(0, 1, order_statistics._FEW_RANKS + 1)]
    assert not isinstance(in_order(Tensor(array), 0, len(shares)), Chosen)
    np.testing.assert_allclose(Tensor(array).quantile(shares).numpy(), np.quantile(array, shares), rtol=1e-5)


def test_gradients_of_long_rows() -> None:
    array = values_of("float64", 2, 200)[1]
    x = Tensor(array, requires_grad=True)
    (x.quantile(0.77) + 3 * x.kthvalue(190).values).backward()
    order, place = np.argsort(array, kind="stable"), 0.77 * 199
    wanted = np.zeros(200)
    wanted[order[153]] += 154 - place
    wanted[order[154]] += place - 153
    wanted[order[189]] += 3
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-9)


def test_a_gradient_between_equal_elements_is_shared() -> None:
    x = Tensor(np.float32([1] * 99 + [2, 2] + [3] * 99), requires_grad=True)
    x.quantile(0.5).backward()
    assert x.grad is not None
    assert x.grad[98:102].tolist() == [0.0, 0.5, 0.5, 0.0]


def test_all_bits_are_one_kernel() -> None:
    x = Tensor(values_of("float32", 2, 1000)).realize()
    with rg.profile() as profile:
        x.kthvalue(300, 1).values.realize()
    names = [kernel.name for kernel in profile.kernels]
    assert len(names) > 32 and len(set(names)) < 8


def test_of_nothing() -> None:
    assert Tensor.ones(3, 2).quantile([], axis=0).shape == (0, 2)
    assert Tensor.ones(0, 2).median(dim=1).values.shape == (0,)
    with pytest.raises(ShapeError, match="median: there are no elements along"):
        Tensor.ones(0, 2).median(dim=0)
