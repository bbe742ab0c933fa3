"""The Fourier transform extension: values against NumPy for many lengths, norms, axes; frequencies and shifts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
COMPLEX_OF = {"float32": "complex64", "float64": "complex128", "complex64": "complex64", "complex128": "complex128"}
REAL_OF = {"complex64": "float32", "complex128": "float64", "float32": "float32", "float64": "float64"}
NORMS = ("backward", "ortho", "forward")
FROM_REAL = ("rfft", "ihfft", "rfftn")
TO_REAL = ("irfft", "hfft", "irfftn")


def signal(shape: Any, dtype: str) -> Any:
    generator = np.random.default_rng(5)
    values = generator.uniform(-1, 1, shape)
    return (values + 1j * generator.uniform(-1, 1, shape) if dtype in COMPLEX else values).astype(dtype)


def near(lib: Any, found: Any, expected: Any, dtype: str) -> None:
    """Within a part of the largest value, as is usual for sums of many terms."""
    expected = np.asarray(expected)
    assert tuple(found.shape) == expected.shape
    assert lib.name_of(found.dtype) == dtype
    largest = np.abs(expected).max() if expected.size else 1
    allowed = (1e-5 if REAL_OF[dtype] == "float32" else 1e-12) * max(largest, 1)
    np.testing.assert_allclose(lib.values(found), expected, atol=allowed)


def result(name: str, dtype: str) -> str:
    return REAL_OF[dtype] if name in TO_REAL else COMPLEX_OF[dtype]


CASES = [
    (name, dtype)
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    for dtype in (FLOATS if name in FROM_REAL else (*FLOATS, *COMPLEX) if name in ("fft", "ifft") else COMPLEX)
]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_one_axis(lib: Any, xp: Any, name: str, dtype: str):
    function, reference = getattr(xp.fft, name), getattr(np.fft, name)
    values = signal((3, 4, 5), dtype)
    x = lib.array(values)
    for axis in (0, 1, -1):
        near(lib, function(x, axis=axis), reference(values, axis=axis), result(name, dtype))
    for norm in NORMS:
        near(lib, function(x, norm=norm), reference(values, norm=norm), result(name, dtype))
    for n in (1, 4, 7):
        near(lib, function(x, n=n), reference(values, n=n), result(name, dtype))


@pytest.mark.parametrize("length", [1, 2, 3, 4, 8, 12, 17, 31, 32, 45, 61, 64, 67, 96, 128, 134, 251, 360])
def test_lengths(lib: Any, xp: Any, length: int):
    real, number = signal((length,), "float64"), signal((length,), "complex128")
    near(lib, xp.fft.fft(lib.array(number)), np.fft.fft(number), "complex128")
    near(lib, xp.fft.ifft(lib.array(number)), np.fft.ifft(number), "complex128")
    near(lib, xp.fft.rfft(lib.array(real)), np.fft.rfft(real), "complex128")
    near(lib, xp.fft.irfft(lib.array(number), n=length), np.fft.irfft(number, n=length), "float64")


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@pytest.mark.parametrize("precision", [0, 1])
def test_several_axes(lib: Any, xp: Any, name: str, precision: int):
    dtype = (FLOATS if name in FROM_REAL else COMPLEX)[precision]
    function, reference = getattr(xp.fft, name), getattr(np.fft, name)
    values = signal((3, 4, 5), dtype)
    x = lib.array(values)
    near(lib, function(x), reference(values), result(name, dtype))
    for axes in ((0,), (1, 2), (2, 0)):
        for norm in NORMS:
            near(lib, function(x, axes=axes, norm=norm), reference(values, axes=axes, norm=norm), result(name, dtype))
        s = (4, 3)[: len(axes)]
        near(lib, function(x, s=s, axes=axes), reference(values, s=s, axes=axes), result(name, dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_there_and_back(lib: Any, xp: Any, dtype: str):
    values = signal((2, 9), dtype)
    x = lib.array(values)
    near(lib, xp.fft.irfft(xp.fft.rfft(x), n=9), values, dtype)
    near(lib, xp.real(xp.fft.ifft(xp.fft.fft(x))), values, dtype)
    near(lib, xp.fft.hfft(xp.fft.ihfft(x), n=9), values, dtype)


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies(lib: Any, xp: Any, name: str):
    function, reference = getattr(xp.fft, name), getattr(np.fft, name)
    default = lib.name_of(xp.ones(1).dtype)
    for n in (1, 2, 5, 8):
        lib.same(function(n), reference(n), default)
        lib.same(function(n, d=0.1), reference(n, 0.1), default)


def test_frequencies_in_a_dtype(lib: Any, xp: Any):
    for name in ("fftfreq", "rfftfreq"):
        for dtype in FLOATS:
            assert lib.name_of(getattr(xp.fft, name)(4, dtype=lib.dtype(dtype)).dtype) == dtype


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
@pytest.mark.parametrize("shape", [(4,), (5,), (2, 3), (0, 3)])
def test_shifts(lib: Any, xp: Any, name: str, shape: Any):
    values = np.arange(np.prod(shape)).reshape(shape).astype(np.float32)
    function, reference = getattr(xp.fft, name), getattr(np.fft, name)
    lib.exactly(function(lib.array(values)), reference(values))
    lib.exactly(function(lib.array(values), axes=-1), reference(values, -1))
    lib.exactly(function(lib.array(values), axes=(0,)), reference(values, (0,)))


def test_what_is_refused(xp: Any):
    with pytest.raises(ValueError):
        xp.fft.fft(xp.ones(4), n=0)
    with pytest.raises(ValueError):
        xp.fft.fft(xp.ones(4), norm="none")
    with pytest.raises(TypeError):
        xp.fft.rfft(xp.ones(4, dtype=xp.complex64))
