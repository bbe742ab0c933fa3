"""Padding modes, windows and interpolation: against NumPy, and PyTorch where it is installed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulegrad import Tensor, config, profile
from rulegrad.errors import ConfigError, ShapeError

R = np.random.default_rng(0)
MODES = {"reflect": "reflect", "symmetric": "symmetric", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("mode", MODES)
def test_modes(device, check, mode):
    array = R.normal(size=(3, 4)).astype(np.float32)
    pairs = ((1, 5), (0, 3))
    check((Tensor(array).pad(pairs, mode=mode) * 2, np.pad(array, pairs, MODES[mode]) * 2))


@given(st.data())
def test_any_padding(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    pairs = tuple((data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))) for _ in shape)
    mode = data.draw(st.sampled_from(sorted(MODES)))
    array = np.arange(np.prod(shape)).reshape(shape)
    with config(device="numpy"):
        assert np.array_equal(Tensor(array).pad(pairs, mode=mode).numpy(), np.pad(array, pairs, MODES[mode]))


@pytest.mark.parametrize("mode", MODES)
def test_gradient_of_a_padding_is_one_kernel(mode):
    array, pairs = R.normal(size=(6, 9)).astype(np.float32), ((2, 3), (1, 2))
    places = np.pad(np.arange(array.size).reshape(array.shape), pairs, MODES[mode])
    weights = R.normal(size=places.shape).astype(np.float32)
    x = Tensor(array, device="c", requires_grad=True)
    x.pad(pairs, mode).backward(Tensor(weights, device="c"))
    with profile() as found:
        gradient = x.grad.numpy()
    assert len(found.kernels) == 1
    assert np.allclose(gradient.ravel(), np.bincount(places.ravel(), weights.ravel()), atol=1e-5)


def test_windows_of_images_and_their_sums_are_one_kernel():
    options = {"kernel": (2, 3), "stride": 2, "padding": 1, "dilation": (1, 2)}
    x = Tensor(R.normal(size=(2, 3, 5, 6)), device="c", requires_grad=True)
    columns = x.im2col(**options)
    weights = Tensor(R.normal(size=columns.shape), device="c", requires_grad=True)
    columns.backward(weights.detach())
    images = weights.col2im((5, 6), **options)
    places = Tensor(np.arange(1, x.size + 1).reshape(x.shape)).im2col(**options).numpy()  # 0 is the padding
    expected = np.bincount(places.ravel(), weights.numpy().ravel(), x.size + 1)[1:].reshape(x.shape)
    for result in (x.grad, images.detach()):
        with profile() as found:
            values = result.numpy()
        assert len(found.kernels) == 1
        assert np.allclose(values, expected)
    images.backward(x.detach())
    assert np.array_equal(weights.grad.numpy(), columns.detach().numpy())


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_whole_factors_of_the_nearest_elements_repeat_them(mode):
    array, weights = R.normal(size=(2, 3, 4)), R.normal(size=(2, 3, 12))
    x = Tensor(array, device="c", requires_grad=True)
    larger = x.interpolate(scale_factor=3, mode=mode)
    assert np.array_equal(larger.numpy(), array.repeat(3, 2))
    x.interpolate(12, mode=mode).backward(Tensor(weights, device="c"))
    with profile() as found:
        gradient = x.grad.numpy()
    assert len(found.kernels) == 1
    assert np.allclose(gradient, weights.reshape(2, 3, 4, 3).sum(3))


def test_windows(device, check):
    array = R.normal(size=(2, 9))
    windows = np.lib.stride_tricks.sliding_window_view(array, 3, 1)[:, ::2]
    images = R.normal(size=(2, 3, 5, 6))
    columns = Tensor(images).im2col((2, 3), stride=2, padding=1, dilation=(1, 2))
    weights = R.normal(size=columns.shape)
    back = Tensor(weights).col2im((5, 6), (2, 3), stride=2, padding=1, dilation=(1, 2))
    # the one is the transpose of the other
    check(
        (Tensor(array).unfold(1, 3, 2), windows),
        ((columns * Tensor(weights)).sum(), (back.numpy() * images).sum()),
    )
    convolved = Tensor(images).conv2d(Tensor(images[:1, :, :2, :3]), stride=2, padding=1, dilation=(1, 2))
    product = Tensor(images[:1, :, :2, :3]).reshape(1, -1) @ columns
    check((product.reshape(convolved.shape), convolved.numpy()))


CASES = [
    ("nearest", {"size": (7, 2)}),
    ("nearest", {"scale_factor": 1.7}),
    ("bilinear", {"size": (7, 3)}),
    ("bilinear", {"size": (7, 3), "align_corners": True}),
    ("bilinear", {"scale_factor": 1.7}),
    ("bicubic", {"size": (9, 3)}),
    ("bicubic", {"size": (9, 3), "align_corners": True}),
    ("area", {"size": (3, 7)}),
]


@pytest.mark.parametrize(("mode", "options"), CASES)
def test_interpolation_is_pytorchs(any_device, check, mode, options):
    torch = pytest.importorskip("torch")
    array = R.normal(size=(2, 3, 5, 4))
    expected = torch.nn.functional.interpolate(torch.tensor(array), mode=mode, **options).numpy()
    check((Tensor(array).interpolate(mode=mode, **options), expected))


def test_interpolation(device, check):
    array = np.float32([[[0, 4, 8]]])
    x = Tensor(array)
    check(
        (x.interpolate(5, mode="linear", align_corners=True), np.float32([[[0, 2, 4, 6, 8]]])),
        (x.interpolate(6, mode="linear"), np.float32([[[0, 1, 3, 5, 7, 8]]])),
        (x.interpolate(scale_factor=2), np.float32([[[0, 0, 4, 4, 8, 8]]])),
        (x.interpolate(1, mode="area"), np.float32([[[4]]])),
        (Tensor([[[3, 4]]]).interpolate(3), np.array([[[3, 3, 4]]])),
    )


def test_weights(any_device):
    line = np.arange(10.0) * 3 + 1
    found = Tensor(line.reshape(1, 1, 1, 10)).interpolate((1, 25), mode="bilinear").numpy().reshape(-1)
    assert np.allclose(found[2:-2], (((np.arange(25) + 0.5) * 0.4 - 0.5) * 3 + 1)[2:-2])
    # a quarter behind the middle one of nine elements, by the cubic polynomials of Keys' article
    row = Tensor(np.eye(9)[None, :, None]).interpolate((1, 18), mode="bicubic").numpy()[0, :, 0, 9]
    assert np.allclose(row[3:7], [-0.10546875, 0.87890625, 0.26171875, -0.03515625])
    for mode in ("bilinear", "bicubic", "area"):
        assert np.allclose(Tensor.ones(1, 1, 4, 4).interpolate((3, 9), mode=mode).numpy(), 1)


GRADIENTS = {
    "reflect": lambda x: x.pad(2, mode="reflect"),
    "circular": lambda x: x.pad(3, mode="circular"),
    "unfold": lambda x: x.unfold(0, 2),
    "bicubic": lambda x: x.reshape(1, 1, 4, 3).interpolate((5, 7), mode="bicubic"),
    "im2col": lambda x: x.reshape(1, 1, 4, 3).im2col(2, padding=1),
    "einsum": lambda x: Tensor.einsum("ij,kj,kl->il", x, x, x),
    "tril": lambda x: x.tril() @ x.mT.triu(),
    "kron": lambda x: x.kron(x[:2]),
    "roll": lambda x: x.roll((1, 2), (0, 1)) * x.rot90(2),
    "interleave": lambda x: x.repeat_interleave([0, 1, 2, 3], 0),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(any_device, name):
    array = R.normal(size=(4, 3))
    x = Tensor(array, requires_grad=True)
    (GRADIENTS[name](x) ** 2).sum().backward()
    for place in [(0, 0), (2, 1), (3, 2)]:
        values = []
        for step in (-1e-6, 1e-6):
            moved = array.copy()
            moved[place] += step
            values.append((GRADIENTS[name](Tensor(moved)) ** 2).sum().item())
        assert x.grad.numpy()[place] == pytest.approx((values[1] - values[0]) / 2e-6, rel=1e-5, abs=1e-4)


def test_errors(any_device):
    x = Tensor.ones(2, 3)
    with pytest.raises(ConfigError, match="mode='mirror'"):
        x.pad(1, mode="mirror")
    with pytest.raises(ShapeError, match="is empty"):
        Tensor.zeros(0).pad(1, mode="edge")
    with pytest.raises(ShapeError, match="windows of 4"):
        x.unfold(1, 4)
    with pytest.raises(ShapeError, match="give one of both"):
        x.reshape(1, 2, 3).interpolate()
    with pytest.raises(ConfigError, match="mode='spline'"):
        x.reshape(1, 2, 3).interpolate(3, mode="spline")
    with pytest.raises(ShapeError, match="does not fit axis 2"):
        x.reshape(1, 1, 2, 3).im2col(3)
    with pytest.raises(ShapeError, match="columns of shape"):
        x.reshape(1, 2, 3).col2im(4, 2)
