"""rulegrad.fft under NumPy's and PyTorch's arguments, and rulegrad.signal.windows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft
import scipy.signal.windows

from rulegrad import Tensor, fft, grad, jit
from rulegrad.errors import ConfigError, DtypeError, ShapeError
from rulegrad.signal import windows

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
        np.testing.assert_allclose(first.numpy(), getattr(np.fft, name)(X, 6, 1, "ortho"), atol=1e-12)
        assert (first == second).all().item()
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
