"""Reductions against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulegrad import Tensor, config
from rulegrad.errors import IndexRangeError, ShapeError

A = np.array([[[3, -1, 2], [0, 5, 5]], [[-7, 2, 2], [1, 1, -4]]], np.int32)
F = (A * 0.37).astype(np.float32)


def test_reductions(device, check):
    pairs = []
    for name in ("sum", "prod", "max", "min", "mean", "var", "std"):
        for axis in (None, 0, (0, 2), -1):
            pairs.append((getattr(Tensor(F), name)(axis), getattr(np, name)(F, axis)))
    check(*pairs, tolerance=5e-6)


def test_integers_and_bools(device, check):
    b = A > 1
    check(
        (Tensor(A).sum(), A.sum()),
        (Tensor(A).prod(axis=2), A.prod(axis=2)),
        (Tensor(A.astype(np.uint8)).sum(axis=0), A.astype(np.uint8).sum(axis=0)),
        (Tensor(A).max(axis=1), A.max(axis=1)),
        (Tensor(A).min(axis=(1, 2)), A.min(axis=(1, 2))),
        (Tensor(A).mean(axis=0), A.mean(axis=0)),
        (Tensor(A).sum(axis=0, dtype="float32"), A.sum(axis=0, dtype=np.float32)),
        (Tensor(b).sum(axis=0), b.sum(axis=0)),
        (Tensor(b).any(axis=2), b.any(axis=2)),
        (Tensor(b).all(axis=2), b.all(axis=2)),
        (Tensor(A).any(), A.any()),
        (Tensor(A).all(axis=0), A.all(axis=0)),
        (Tensor(b).max(axis=0), b.max(axis=0)),
    )


def test_axes_are_kept_on_request_under_both_names(device, check):
    x = Tensor(F)
    check(
        (x.sum(axis=1, keepdims=True), F.sum(axis=1, keepdims=True)),
        (x.sum(dim=1, keepdim=True), F.sum(axis=1, keepdims=True)),
        (x.max(dim=(0, 2), keepdim=True), F.max(axis=(0, 2), keepdims=True)),
        (x.var(dim=2, correction=0), F.var(axis=2)),
        (x.var(dim=2), F.var(axis=2, ddof=1)),
        (x.std(dim=(0, 2), keepdim=True), F.std(axis=(0, 2), ddof=1, keepdims=True)),
        (x.std(2, keepdim=True), F.std(axis=2, ddof=1, keepdims=True)),
        (x.std(2, keepdims=True), F.std(axis=2, keepdims=True)),
        (x.max(2, keepdim=True)[0], F.max(axis=2, keepdims=True)),
        (x.min(axis=-1, keepdim=False)[1], F.argmin(axis=-1)),
        (x.median(2, keepdim=True).values, np.sort(F, 2)[:, :, (F.shape[2] - 1) // 2, None]),
        (x.nanmedian(2, keepdim=False)[0], np.sort(F, 2)[:, :, (F.shape[2] - 1) // 2]),
        (x.var_mean(2, keepdim=True)[0], F.var(axis=2, ddof=1, keepdims=True)),
        (x.var_mean(dim=2)[0], F.var(axis=2, ddof=1)),
        (x.std(axis=0, correction=1), F.std(axis=0, ddof=1)),
        (x.argmax(dim=1, keepdim=True), F.argmax(axis=1, keepdims=True)),
        (x.sum(axis=()), F),
        (Tensor(2.0).sum(), np.float32(2)),
    )


def test_places_are_the_first_ones(device, check):
    special = np.array([[1, np.nan, 3, np.nan], [np.inf, 1, np.inf, 0], [-np.inf] * 4], np.float32)
    check(
        (Tensor(A).argmax(), A.argmax()),
        (Tensor(A).argmin(axis=2), A.argmin(axis=2)),
        (Tensor(A).argmax(axis=0), A.argmax(axis=0)),
        (Tensor(A).argmax(keepdims=True), A.argmax(keepdims=True)),
        (Tensor(special).argmax(axis=1), special.argmax(axis=1)),
        (Tensor(special).argmin(axis=1), special.argmin(axis=1)),
    )


def test_nan_wins(device, check):
    special = np.array([1.0, np.nan, np.inf], np.float32)
    check(
        (Tensor(special).max(), special.max()),
        (Tensor(special).min(), special.min()),
        (Tensor(special[::2]).sum(), np.float32(np.inf)),
        (Tensor(-special[::2]).max(), np.float32(-1)),
    )


def test_small_floats_add_up_in_float32(device, check):
    ones = np.ones(4096, np.float16)
    many = np.full(1000, 0.1, ml_dtypes.bfloat16)
    check(
        (Tensor(ones).sum(), np.float16(4096)),
        (Tensor(many).sum(), many.astype(np.float32).sum().astype(ml_dtypes.bfloat16)),
        (Tensor(many).mean(), many[0]),
        tolerance=4e-3,
    )


def test_reductions_fuse_with_what_is_around_them(device, check):
    check(
        (((Tensor(F) * 2 + 1).sum(axis=2, keepdims=True) - Tensor(F)).max(axis=0),
         ((F * 2 + 1).sum(axis=2, keepdims=True) - F).max(axis=0)),
    )  # fmt: skip


@given(st.data())
def test_any_shape_and_axes(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    axes = tuple(data.draw(st.sets(st.integers(0, len(shape) - 1))))
    keepdims = data.draw(st.booleans())
    array = np.arange(np.prod(shape)).reshape(shape) % 7
    with config(device="numpy"):
        for name in ("sum", "max"):
            result = getattr(Tensor(array), name)(axes, keepdims)
            np.testing.assert_array_equal(result.numpy(), getattr(np, name)(array, axes, keepdims=keepdims))


def test_errors():
    with pytest.raises(IndexRangeError, match="sum: axis 3 does not exist, the tensor has 3 axes"):
        Tensor(A).sum(axis=3)
    with pytest.raises(ShapeError, match="twice"):
        Tensor(A).sum(axis=(0, -3))
    with pytest.raises(ShapeError, match=r"max: there are no elements along .* of the shape \(2, 0\)"):
        Tensor.zeros(2, 0).max(axis=1)
    with pytest.raises(ShapeError, match="argmax"):
        Tensor.zeros(2, 0).argmax()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_computed_value_equals_its_own_maximum_somewhere(device, dtype):
    """Computed in two loops, it may be rounded in two ways; the gradient of a maximum needs the elements."""
    values = np.random.default_rng(1).standard_normal((32, 63, 16)).astype(dtype)
    for function in (Tensor.exp, lambda x: x * x + x):
        x = Tensor(values, device=device, requires_grad=True)
        y = function(x)
        assert (y == y.amax(1, keepdim=True)).any(1).all().item()
        y.max(1).sum().backward()
        assert ((x.grad.numpy() != 0).sum(1) == 1).all()


def test_what_a_loop_does_not_change_is_not_reduced_in_it(any_device: str) -> None:
    """2 ** 61 equal terms, and sizes at which all can be compared."""
    wide = (2**41, 2**20)
    one, third = Tensor.ones(*wide), Tensor.full(wide, 3, dtype="int32")
    assert (one.sum().item(), one.max().item(), one.mean().item(), one.prod().item()) == (2.0**61, 1.0, 1.0, 1.0)
    assert third.min().item() == 3 and third.sum(dtype="int32").item() == 0  # integers wrap
    line = Tensor([1.5, -2.0, float("inf"), float("nan")]).realize()
    x, array = line.reshape(4, 1).expand(4, 7), np.tile(line.numpy()[:, None], 7)
    for name in ("sum", "prod", "max", "min"):
        np.testing.assert_allclose(getattr(x, name)(1).numpy(), getattr(array, name)(1), rtol=1e-6)
    whole = Tensor([3, 200], dtype="uint8").realize().reshape(2, 1).expand(2, 35)
    assert whole.prod(1, dtype="uint8").tolist() == [pow(n, 35, 256) for n in (3, 200)]
    assert whole.sum(1, dtype="uint8").tolist() == [n * 35 % 256 for n in (3, 200)]
