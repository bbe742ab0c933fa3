"""The Fourier transform extension: all part of the graph (`rulegrad.tensor.fft`), so nothing synchronises."""

from __future__ import annotations

from typing import Any

from rulegrad.errors import DtypeError
from rulegrad.ir.dtype import as_dtype
from rulegrad.tensor import fft as tensors

from .operands import Array, inexact, of_arrays, real_float

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


fft = of_arrays(tensors.fft, "* n axis norm", inexact, norm="backward")
ifft = of_arrays(tensors.ifft, "* n axis norm", inexact, norm="backward")
rfft = of_arrays(tensors.rfft, "* n axis norm", real_float, norm="backward")
irfft = of_arrays(tensors.irfft, "* n axis norm", inexact, norm="backward")
hfft = of_arrays(tensors.hfft, "* n axis norm", inexact, norm="backward")
ihfft = of_arrays(tensors.ihfft, "* n axis norm", real_float, norm="backward")
fftn = of_arrays(tensors.fftn, "* s axes norm", inexact, norm="backward")
ifftn = of_arrays(tensors.ifftn, "* s axes norm", inexact, norm="backward")
rfftn = of_arrays(tensors.rfftn, "* s axes norm", real_float, norm="backward")
irfftn = of_arrays(tensors.irfftn, "* s axes norm", inexact, norm="backward")
fftshift = of_arrays(tensors.fftshift, "axes")
ifftshift = of_arrays(tensors.ifftshift, "axes")


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


def _real_dtype(dtype: Any, operation: str) -> Any:
    if dtype is not None and not as_dtype(dtype).is_float:
        raise DtypeError(f"{operation}: frequencies are real floating-point numbers, which {dtype} does not hold")
    return dtype
