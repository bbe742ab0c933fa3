"""The Fourier transform extension: all part of the graph (`rulegrad.tensor.fft`), so nothing synchronises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rulegrad.errors import DtypeError
from rulegrad.ir.dtype import as_dtype
from rulegrad.tensor import fft as tensors

from .operands import Array, array, inexact, real_float

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def fft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """X[k] = sum of x[j] exp(-2 pi i j k / n) over j, along `axis`; complex.

    n: the length; `x` is cut, or followed by zeros. norm: where the factor 1 / n is: "backward" (in the inverse),
    "forward", "ortho" (its root in both). Raises ShapeError for no elements, DtypeError, ValueError for another norm.

    >>> from rulegrad import array_api as xp
    >>> xp.fft.fft(xp.asarray([1.0, 1.0])).shape
    (2,)
    """
    return tensors.fft(inexact(x, "fft"), n, axis, norm)


def ifft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of `fft`; complex.

    >>> from rulegrad import array_api as xp
    >>> xp.fft.ifft(xp.asarray([1.0, 1.0])).shape
    (2,)
    """
    return tensors.ifft(inexact(x, "ifft"), n, axis, norm)


def fftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Array:
    """`fft` along several axes, with the lengths `s`; all axes by default. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.fft.fftn(xp.ones((2, 3))).shape
    (2, 3)
    """
    return tensors.fftn(inexact(x, "fftn"), s, axes, norm)


def ifftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Array:
    """The inverse of `fftn`.

    >>> from rulegrad import array_api as xp
    >>> xp.fft.ifftn(xp.ones((2, 3))).shape
    (2, 3)
    """
    return tensors.ifftn(inexact(x, "ifftn"), s, axes, norm)


def rfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The first n // 2 + 1 elements of the `fft` of real numbers; the others are their conjugates.

    >>> from rulegrad import array_api as xp
    >>> xp.fft.rfft(xp.ones(4)).shape
    (3,)
    """
    return tensors.rfft(real_float(x, "rfft"), n, axis, norm)


def irfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of `rfft`: n real numbers, by default an even number of them, 2 * (elements - 1).

    >>> from rulegrad import array_api as xp
    >>> xp.fft.irfft(xp.asarray([4.0, 0.0, 0.0])).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return tensors.irfft(inexact(x, "irfft"), n, axis, norm)


def rfftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Array:
    """`rfft` along the last of the axes, then `fft` along the others.

    >>> from rulegrad import array_api as xp
    >>> xp.fft.rfftn(xp.ones((3, 4))).shape
    (3, 3)
    """
    return tensors.rfftn(real_float(x, "rfftn"), s, axes, norm)


def irfftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Array:
    """The inverse of `rfftn`: real; the last axis has by default an even number of elements.

    >>> from rulegrad import array_api as xp
    >>> xp.fft.irfftn(xp.ones((3, 3))).shape
    (3, 4)
    """
    return tensors.irfftn(inexact(x, "irfftn"), s, axes, norm)


def hfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The `fft`, real, of a signal that is the conjugate of itself backwards, of which the first half is given.

    >>> from rulegrad import array_api as xp
    >>> xp.fft.hfft(xp.asarray([1.0, 0.0])).tolist()
    [1.0, 1.0]
    """
    return tensors.hfft(inexact(x, "hfft"), n, axis, norm)


def ihfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of `hfft`: the first n // 2 + 1 elements.

    >>> from rulegrad import array_api as xp
    >>> xp.fft.ihfft(xp.ones(4)).shape
    (3,)
    """
    return tensors.ihfft(real_float(x, "ihfft"), n, axis, norm)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Array:
    """The frequencies of the elements of `fft`, for samples at distances `d`; float32 by default.

    Raises ShapeError for n < 1, DtypeError for a dtype that is not a real floating-point one.

    >>> from rulegrad import array_api as xp
    >>> xp.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    result: Array = tensors.fftfreq(n, d, _real_dtype(dtype, "fftfreq"), device)
    return result


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Array:
    """The frequencies of the elements of `rfft`, for samples at distances `d`; float32 by default.

    Raises ShapeError for n < 1, DtypeError for a dtype that is not a real floating-point one.

    >>> from rulegrad import array_api as xp
    >>> xp.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    result: Array = tensors.rfftfreq(n, d, _real_dtype(dtype, "rfftfreq"), device)
    return result


def fftshift(x: Array, /, axes: int | Sequence[int] | None = None) -> Array:
    """The elements moved along the axes so that frequency 0 is in the middle.

    >>> from rulegrad import array_api as xp
    >>> xp.fft.fftshift(xp.asarray([0, 1, -2, -1])).tolist()
    [-2, -1, 0, 1]
    """
    return tensors.fftshift(array(x, "fftshift"), axes)


def ifftshift(x: Array, /, axes: int | Sequence[int] | None = None) -> Array:
    """The inverse of `fftshift`.

    >>> from rulegrad import array_api as xp
    >>> xp.fft.ifftshift(xp.asarray([-2, -1, 0, 1])).tolist()
    [0, 1, -2, -1]
    """
    return tensors.ifftshift(array(x, "ifftshift"), axes)


def _real_dtype(dtype: Any, operation: str) -> Any:
    if dtype is not None and not as_dtype(dtype).is_float:
        raise DtypeError(f"{operation}: frequencies are real floating-point numbers, which {dtype} does not hold")
    return dtype
