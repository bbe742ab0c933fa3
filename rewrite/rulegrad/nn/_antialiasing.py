"""`interpolate(…, antialias=True)`: each new element is a weighted mean of all elements that it covers.

Along each axis the image is multiplied by a matrix of weights, which depends on the sizes only. Where the image grows
these are the weights of interpolation; where it shrinks the filter is as many times wider, as in Pillow and in PyTorch.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rulegrad.errors import ConfigError, DtypeError, ShapeError
from rulegrad.tensor.reduce import accumulation_dtype
from rulegrad.tensor.tensor import Tensor

#: How far the filter of each mode reaches to either side, in elements of the smaller image.
_REACH: Final = {"bilinear": 1.0, "bicubic": 2.0}


def resized(images: Tensor, size: Any, scale_factor: Any, mode: str, align_corners: bool) -> Tensor:
    """Images (batch, channels, height, width) with another height and width.

    Raises ConfigError for other modes than bilinear and bicubic, ShapeError for other images, DtypeError for integers.

    >>> resized(Tensor([[[[0.0, 4.0, 4.0, 0.0]]]]), (1, 2), None, "bilinear", False).round(decimals=2).tolist()
    [[[[2.2899999618530273, 2.2899999618530273]]]]
    """
    if mode not in _REACH:
        raise ConfigError(f"interpolate: antialias=True with mode={mode!r}; use bilinear or bicubic")
    if images.ndim != 4 or not images.size:
        raise ShapeError(f"interpolate: antialias=True and the shape {images.shape}; give (batch, channels, y, x)")
    if not images.dtype.is_float:
        raise DtypeError(f"interpolate: antialias=True and {images.dtype}; cast to a float first")
    before = images.shape[2:]
    factors = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * 2
    if size is None:
        after = tuple(int(n * factor) for n, factor in zip(before, factors, strict=True))
    else:
        after, factors = (tuple(size) if isinstance(size, (tuple, list)) else (size,) * 2), (None, None)
    x = images.cast(accumulation_dtype(images.dtype))
    rows, columns = (
        Tensor(_weights(n, m, factor, mode, align_corners), dtype=x.dtype, device=x.device)
        for n, m, factor in zip(before, after, factors, strict=True)
    )
    return (rows @ (x @ columns.T)).cast(images.dtype)


def _weights(before: int, after: int, factor: float | None, mode: str, align_corners: bool) -> NDArray[Any]:
    """The matrix whose rows are the shares of the old elements in each new one."""
    if align_corners:
        scale = (before - 1) / (after - 1) if after > 1 else 0.0
    else:
        scale = 1 / factor if factor else before / after
    wider = max(scale, 1.0)
    reach = _REACH[mode] * wider
    matrix = np.zeros((after, before))
    for row in range(after):
        middle = scale * (row + 0.5)
        first = max(math.floor(middle - reach + 0.5), 0)
        last = min(math.floor(middle + reach + 0.5), before)
        shares = _filter((np.arange(first, last) - middle + 0.5) / wider, mode)
        total = shares.sum()
        matrix[row, first:last] = shares / total if total else shares
    return matrix


def _filter(x: NDArray[Any], mode: str) -> NDArray[Any]:
    """A triangle, or Keys' cubic with a = -0.5."""
    x = np.abs(x)
    if mode == "bilinear":
        return np.maximum(1.0 - x, 0.0)
    near = (1.5 * x - 2.5) * x * x + 1.0
    far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))
