"""Running reductions and differences, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulegrad import Tensor, config, grad, hessian, profile, vmap
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


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_equal_zeros_have_the_sign_of_the_last_one(any_device, dtype):
    """The value is that of its place, as in PyTorch, on every device: NumPy's `maximum` takes the first of halves."""
    array = R.choice(np.float32([0.0, -0.0, np.nan, -1.0]), (4, 9), p=[0.4, 0.4, 0.05, 0.15])
    x = Tensor(array).cast(dtype)
    for method in ("cummax", "cummin"):
        values, places = getattr(x, method)(1)
        expected = np.take_along_axis(array, places.numpy(), 1)
        signs = np.signbit(values.cast("float32").numpy())
        found = np.isnan(expected) | (signs == np.signbit(expected))
        assert found.all(), method


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


def _gradient(method, array, axis, device):
    """The values, the gradient of a weighted sum of them, and the number of kernels that the gradient takes."""
    x = Tensor(array, device=device, requires_grad=True)
    found = getattr(x, method)(axis)
    result = found[0] if isinstance(found, tuple) else found
    weights = np.cos(np.arange(result.size)).reshape(result.shape).astype(result.dtype.numpy)
    result.backward(Tensor(weights, device=device))
    values = result.numpy()
    del found, result
    with profile() as recorded:
        slope = x.grad.numpy()
    return values, slope, weights, len(recorded.kernels)


@pytest.mark.parametrize(("method", "kernels"), [("cumprod", 3), ("logcumsumexp", 5), ("cummax", 4), ("cumsum", 1)])
def test_gradients_of_running_reductions(method, kernels):
    torch = pytest.importorskip("torch")
    generator = np.random.default_rng(0)
    array = generator.normal(size=(5, 40)) * (30 if method == "logcumsumexp" else 1)
    if method == "cumprod":
        array[0, 3] = array[1, 3] = array[1, 5] = 0
    for axis in (0, 1):
        for device in ("c", "numpy"):
            values, slope, weights, count = _gradient(method, array, axis, device)
            leaf = torch.tensor(array, requires_grad=True)
            found = getattr(leaf, method)(axis)
            wanted = found[0] if isinstance(found, tuple) else found
            wanted.backward(torch.tensor(weights))
            np.testing.assert_allclose(values, wanted.detach().numpy(), rtol=1e-12, atol=1e-12)
            scale = leaf.grad.abs().max().item()
            np.testing.assert_allclose(slope, leaf.grad.numpy(), rtol=1e-10, atol=1e-13 * scale)
            assert count <= kernels


def test_gradients_of_complex_running_products():
    torch = pytest.importorskip("torch")
    generator = np.random.default_rng(0)
    array = generator.normal(size=(3, 7)) + 1j * generator.normal(size=(3, 7))
    array[1, 2] = 0
    for axis in (0, 1):
        _, slope, weights, _ = _gradient("cumprod", array, axis, "numpy")
        leaf = torch.tensor(array, requires_grad=True)
        leaf.cumprod(axis).backward(torch.tensor(weights))
        np.testing.assert_allclose(slope, leaf.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_products_that_underflow_have_gradients():
    """PyTorch divides by the elements, and gives 1 for the first one: 1 + b + b c + b c d + b c d e is 10."""
    x = Tensor([1e-200, 1e-200, 1e200, 2.0, 3.0], dtype="float64", requires_grad=True)
    x.cumprod(0).sum().backward()
    assert x.grad[0].item() == pytest.approx(10.0)


def test_running_products_can_be_differentiated_again_and_mapped():
    x = Tensor([2.0, 0.0, 3.0, 0.5], dtype="float64")
    found = hessian(lambda t: t.cumprod(0).sum())(x).numpy()
    a, b, c, d = x.tolist()
    above = [[0, 1 + c + c * d, b + b * d, b * c], [0, 0, a + a * d, a * c], [0, 0, 0, a * b], [0, 0, 0, 0]]
    assert np.allclose(found, np.array(above) + np.array(above).T)
    rows = Tensor(np.linspace(-1, 2, 6).reshape(2, 3))
    each = vmap(grad(lambda t: t.logcumsumexp(0).sum()))(rows)
    alone = [grad(lambda t: t.logcumsumexp(0).sum())(row).tolist() for row in rows]
    assert np.allclose(each.numpy(), alone)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_logcumsumexp_of_infinities_halves_and_nothing():
    inf, nan = np.inf, np.nan
    array = np.array([[-inf, -inf, 1, 2, inf, 3], [1, 2, -inf, 3, 4, 5], [1, nan, 3, 4, 5, 6], [-inf] * 6])
    x = Tensor(array, requires_grad=True)
    result = x.logcumsumexp(1)
    assert np.allclose(result.numpy(), np.logaddexp.accumulate(array, 1), equal_nan=True)
    result.sum().backward()
    assert np.allclose(x.grad.numpy()[1], [1.67162825, 1.82567487, 0, 0.98825232, 0.87803592, 0.63640865])
    assert np.allclose(x.grad.numpy()[0], [0, 0, 1.26894142, 0.73105858, 0, 0])
    ramp = np.linspace(0, 8, 200)
    for dtype, tolerance in (("float16", 1e-3), ("bfloat16", 1e-2)):
        half = Tensor(ramp).cast(dtype)
        exact = np.logaddexp.accumulate(half.cast("float64").numpy())
        assert half.logcumsumexp(0).dtype == dtype
        assert np.abs(half.logcumsumexp(0).cast("float64").numpy() / exact - 1)[1:].max() < tolerance
    assert Tensor(np.ones((0, 3))).logcumsumexp(0).shape == (0, 3)
    assert Tensor(np.ones((2, 0))).logcumsumexp(1).shape == (2, 0)


@pytest.mark.parametrize("method", ["cummax", "cummin"])
def test_nan_has_the_gradient_of_the_running_extremes_behind_it(method):
    torch = pytest.importorskip("torch")
    array = np.array([1, 3, np.nan, 2, 5, 3])
    _, slope, weights, _ = _gradient(method, array, 0, "numpy")
    leaf = torch.tensor(array, requires_grad=True)
    getattr(leaf, method)(0)[0].backward(torch.tensor(weights))
    np.testing.assert_allclose(slope, leaf.grad.numpy())
    with profile() as recorded:
        Tensor(array, device="c").cummax(0)[0].realize()
    assert len(recorded.kernels) == 1


@pytest.mark.parametrize(
    ("shape", "axis"), [((9, 48), 0), ((2, 7, 3, 16), 1), ((1, 5, 130), 1), ((33, 256), 0), ((2, 16, 9), 2)]
)
def test_rows_that_go_together(device: str, shape: tuple[int, ...], axis: int) -> None:
    """A work-item goes along several rows together on processors; the results are those of each by itself."""
    x = np.random.default_rng(len(shape)).integers(-9, 10, shape).astype(np.float32)
    a = Tensor(x, device=device, requires_grad=True)
    found = a.cumsum(axis)
    np.testing.assert_array_equal(found.numpy(), x.cumsum(axis))
    np.testing.assert_array_equal(a.cummax(axis)[0].numpy(), np.maximum.accumulate(x, axis))
    (found * a.detach()).sum().backward()
    assert a.grad is not None
    np.testing.assert_array_equal(a.grad.numpy(), np.flip(np.flip(x, axis).cumsum(axis), axis))


@pytest.mark.parametrize("shape", [(1 << 16,), (3, (1 << 16) + 64)])
def test_running_sums_of_long_rows(device: str, shape: tuple[int, ...]) -> None:
    """In blocks on processors."""
    x = np.random.default_rng(1).integers(-9, 10, shape).astype(np.float32)
    a = Tensor(x, device=device, requires_grad=True)
    found = a.cumsum(-1)
    np.testing.assert_array_equal(found.numpy(), x.cumsum(-1))
    found.sum().backward()
    assert a.grad is not None
    np.testing.assert_array_equal(a.grad.numpy(), np.broadcast_to(np.arange(shape[-1], 0, -1), shape))
