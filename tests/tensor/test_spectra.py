"""rulegrad.fft under NumPy's and PyTorch's arguments, and rulegrad.signal.windows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft
import scipy.signal.windows

from rulegrad import Tensor, Variable, config, fft, grad, jit, vmap
from rulegrad.errors import ConfigError, DtypeError, ShapeError
from rulegrad.signal import windows

R = np.random.default_rng(0)
X = np.cos(np.arange(60.0) ** 2).reshape(3, 4, 5)


def test_transforms_of_several_axes(any_device):
    x = Tensor(X)
    for name in ("fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2", "hfftn", "ihfftn", "fftn", "irfftn"):
        function, wanted = getattr(fft, name), getattr(scipy.fft, name)
        for found, expected in (
            (function(x), wanted(X)),
            (function(x, s=(3, 6), dim=(0, 2), norm="ortho"), wanted(X, s=(3, 6), axes=(0, 2), norm="ortho")),
            (function(x, axes=(1, 0), norm="forward"), wanted(X, axes=(1, 0), norm="forward")),
        ):
            np.testing.assert_allclose(found.numpy(), expected, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(fft.fft2(x, dim=0).numpy(), np.fft.fft(X, axis=0), atol=1e-12)


#: In one product, in steps, with a large prime factor; even and odd.
LENGTHS = [1, 2, 31, 32, 33, 34, 64, 67, 100, 134, 201, 512, 1000]


@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(any_device, length):
    x = R.normal(size=(2, length))
    z, half = x + 1j * R.normal(size=(2, length)), R.normal(size=(2, length // 2 + 1, 2)) @ np.array([1, 1j])
    for found, expected in (
        (fft.fft(Tensor(x)), np.fft.fft(x)),
        (fft.fft(Tensor(z)), np.fft.fft(z)),
        (fft.ifft(Tensor(z)), np.fft.ifft(z)),
        (fft.rfft(Tensor(x)), np.fft.rfft(x)),
        (fft.irfft(Tensor(half), length), np.fft.irfft(half, length)),
    ):
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-13 * length**0.5 * 10)


@pytest.mark.parametrize("length", [20, 134, 201, 256])
def test_gradients_of_transforms_are_adjoint(any_device, length):
    """f is linear, so <gradient of f, x> is f(x), wherever the gradient is taken."""
    x, d = R.normal(size=(2, length)), R.normal(size=(2, length // 2 + 1))

    def of_reals(t):
        return (fft.rfft(t).real * Tensor(d)).sum() + (fft.rfft(t).imag * Tensor(d[::-1].copy())).sum()

    def to_reals(t):
        return (fft.irfft(fft.fft(t)[:, : length // 2 + 1] * Tensor(d), length) * Tensor(x)).sum()

    for function in (of_reals, to_reals):
        slope = grad(function)(Tensor(x[::-1].copy()))
        assert (slope * Tensor(x)).sum().item() == pytest.approx(function(Tensor(x)).item(), rel=1e-10)


def test_transforms_of_other_dtypes_of_batches_and_twice_differentiated(any_device):
    x = R.integers(-8, 9, (3, 34))
    for dtype in ("float16", "bfloat16", "float32", "int8"):
        np.testing.assert_allclose(fft.rfft(Tensor(x).cast(dtype)).numpy(), np.fft.rfft(x), atol=1e-4)
    assert fft.fft(Tensor(np.zeros((0, 34)))).shape == (0, 34) and fft.rfft(Tensor(np.zeros((0, 34)))).shape == (0, 18)
    z = Tensor(x + 1j * x[::-1])
    np.testing.assert_allclose(vmap(fft.fft)(z).numpy(), np.fft.fft(z.numpy()), atol=1e-10)
    captured = jit(lambda t: fft.irfft(fft.rfft(t) * 2, 34), dynamic={"t": {0: Variable("batch", 1, 9)}})
    for rows in (3, 2, 1, 5):
        y = R.normal(size=(rows, 34))
        np.testing.assert_allclose(captured(Tensor(y)).numpy(), 2 * y, atol=1e-12)
    # the sum of |F x|^4 has the second derivative 12 n^2 along a constant x of ones
    twice = grad(lambda t: (grad(lambda t: fft.rfft(t).abs().square().square().sum())(t)).sum())(Tensor(np.ones(34)))
    np.testing.assert_allclose(twice.sum().item(), 12 * 34.0**4, rtol=1e-10)


@pytest.mark.parametrize("shape", [(3, 400), (2, 64), (5, 2048)])
def test_kernels(device, shape):
    x = R.normal(size=shape).astype(np.float32)
    with config(device=device):
        found = fft.rfft(Tensor(x))
        back = fft.irfft(found, shape[1])
        np.testing.assert_allclose(found.numpy(), np.fft.rfft(x), atol=3e-4)
        np.testing.assert_allclose(back.numpy(), x, atol=1e-5)


def test_captured_transforms_share_their_constants():
    x = Tensor(X)
    for name in ("fft2", "rfft", "fft2"):  # each time a trace of its own
        captured = jit(lambda x, name=name: getattr(fft, name)(x).abs())
        for _ in range(3):
            np.testing.assert_allclose(captured(x).numpy(), np.abs(getattr(scipy.fft, name)(X)), atol=1e-12)


def test_arguments_of_both_libraries():
    x = Tensor(X)
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        function = getattr(fft, name)
        first, second = function(x, 6, 1, "ortho"), function(x, n=6, dim=1, norm="ortho")
        assert first.uop == second.uop  # one computation, whose kernels may be rounded otherwise in a general plan
        np.testing.assert_allclose(first.numpy(), getattr(np.fft, name)(X, 6, 1, "ortho"), atol=1e-12)
        np.testing.assert_allclose(first.numpy(), second.numpy(), atol=1e-14)
        assert function(x, norm=None).shape == function(x).shape
    assert fft.fftshift(x, dim=(0, 2)).tolist() == np.fft.fftshift(X, (0, 2)).tolist()
    assert fft.ifftshift(x, dim=1).tolist() == np.fft.ifftshift(X, 1).tolist()
    with pytest.raises(ConfigError, match="axis=0 and dim=1"):
        fft.fft(x, axis=0, dim=1)
    slope = grad(lambda t: fft.rfft2(t).abs().square().sum())(x)
    assert slope.shape == x.shape and abs(slope).max().item() > 0


WINDOWS = {
    "bartlett": {}, "blackman": {}, "cosine": {}, "exponential": {"tau": 2.5}, "gaussian": {"std": 1.5},
    "general_cosine": {"a": [0.4, 0.5, 0.1]}, "general_hamming": {"alpha": 0.6}, "hamming": {}, "hann": {},
    "kaiser": {"beta": 9.0}, "nuttall": {},
}  # fmt: skip


def test_windows(any_device):
    for name, options in WINDOWS.items():
        window, positional = getattr(windows, name), list(options.values())
        reference = getattr(scipy.signal.windows, name)
        if name == "exponential":
            positional = [None, *positional]
        for count in (0, 1, 2, 7, 8):
            for sym in (True, False):
                wanted = reference(count, *positional, sym=sym)
                found = window(count, **options, sym=sym, dtype="float64")
                np.testing.assert_allclose(found.numpy(), wanted, atol=1e-14, err_msg=f"{name} {count} {sym}")
        half = window(7, **options, dtype="float16")
        assert half.dtype == "float16" and window(7, **options).dtype == "float32"
        assert (half == window(7, **options).half()).all().item()
    assert windows.exponential(3, center=0.0, sym=False).tolist()[0] == 1.0
    assert windows.hann(4, requires_grad=True).requires_grad


def test_wrong_windows():
    for error, wrong in (
        (ShapeError, lambda: windows.hann(-1)),
        (DtypeError, lambda: windows.hann(3, dtype="int32")),
        (ConfigError, lambda: windows.gaussian(3, std=0)),
        (ConfigError, lambda: windows.exponential(3, tau=-1.0)),
        (ConfigError, lambda: windows.exponential(3, center=1.0)),
        (ConfigError, lambda: windows.kaiser(3, beta=-1.0)),
        (ConfigError, lambda: windows.general_cosine(3, a=[])),
    ):
        with pytest.raises(error):
            wrong()


def test_numpys_transforms_of_tensors_are_tensors():
    x = Tensor(X, requires_grad=True)
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "rfft2", "irfftn", "fftshift", "ifftshift"):
        found, wanted = getattr(np.fft, name)(x), getattr(np.fft, name)(X)
        assert isinstance(found, Tensor) and found.requires_grad
        np.testing.assert_allclose(found.detach().numpy(), wanted, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(
        np.fft.rfft(a=x, n=4, axis=1, norm="ortho").detach().numpy(), np.fft.rfft(X, 4, 1, "ortho"), atol=1e-12
    )
    out = np.zeros(X.shape, complex)
    assert np.fft.fft(x.detach(), out=out) is out and out.any()


def test_graphs_that_are_kept_serve_other_tensors_devices_and_traces():
    captured = jit(lambda x: fft.irfft(fft.rfft(x) * 2) + fft.fft(x).real)
    for k in range(4):
        values = np.random.default_rng(k).normal(size=(3, 40)).astype(np.float32)
        wanted = np.fft.fft(values)
        for device in ("c", "numpy"):
            x = Tensor(values, device=device, requires_grad=True)
            found = fft.fft(x)
            assert found.device == device
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-4)
            found.abs().square().sum().backward()  # Parseval
            np.testing.assert_allclose(x.grad.numpy(), 2 * 40 * values, rtol=1e-3, atol=1e-2)
        np.testing.assert_allclose(captured(Tensor(values)).numpy(), 2 * values + wanted.real, rtol=1e-4, atol=1e-4)
        planes = fft.fft2(Tensor(values), dim=[0, 1], norm="ortho")
        np.testing.assert_allclose(planes.numpy(), np.fft.fft2(values, norm="ortho"), rtol=1e-4, atol=1e-4)
