"""Padding by what is in the tensor, windows, and interpolation: reading at computed places along an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from rulegrad.compile import backward
from rulegrad.errors import ConfigError, ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import float32, int64, uint8
from rulegrad.tensor.axes import extents, integers, one_axis, whole_number
from rulegrad.tensor.constants import filled
from rulegrad.tensor.convolution import sliding_windows, windows_along_axis
from rulegrad.tensor.gathering import taken_along
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.joining import repeat_axes
from rulegrad.tensor.kept_constants import built_with_constants, constant
from rulegrad.tensor.movement import pad_constant, padding_pairs, slice_axis
from rulegrad.tensor.reduce import accumulation_dtype
from rulegrad.tensor.transcendental import as_floating

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rulegrad.tensor.storage import Scalar
    from rulegrad.tensor.tensor import Tensor

_MODES = ("constant", "reflect", "replicate", "edge", "circular", "wrap", "symmetric")
_Interpolation = Literal["nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area"]


@built_once
def pad(self: Tensor, padding: Any, mode: str = "constant", value: Scalar = 0) -> Tensor:
    """Surrounded by `value`, or by the tensor's own elements: `padding` is a number, a pair, or a pair an axis.

    mode: "constant"; "reflect" (mirrored at the last element), "symmetric" (mirrored behind it), "replicate" or
    "edge" (the last element), "circular" or "wrap" (from the other end). Raises ShapeError, ConfigError.

    >>> from rulegrad import Tensor
    >>> Tensor([1, 2, 3]).pad(2, "reflect").tolist()
    [3, 2, 1, 2, 3, 2, 1]
    >>> Tensor([[1]]).pad([(0, 1), (1, 0)], value=9).tolist()
    [[9, 1], [9, 9]]
    """
    if mode not in _MODES:
        hint = "" if isinstance(mode, str) else "; give a number as value="
        raise ConfigError(f"pad: mode={mode!r}; use one of {', '.join(_MODES)}{hint}")
    if mode == "constant":
        return pad_constant(self, padding, value)
    result = self
    for axis, (before, after) in enumerate(padding_pairs(self, padding)):
        if before or after:
            result = _padded_by_itself(result, axis, before, after, mode)
    return result


def _padded_by_itself(self: Tensor, axis: int, before: int, after: int, mode: str) -> Tensor:
    extent = self.shape[axis]
    if not extent:
        raise ShapeError(f"pad: axis {axis} of the shape {self.shape} is empty; pad it with a constant")
    if mode in ("replicate", "edge"):
        first, last = slice_axis(self, axis, 0, 1), slice_axis(self, axis, extent - 1, extent)
        return _stretched(first, axis, before).cat(self, _stretched(last, axis, after), axis=axis)
    skipped = 1 if mode == "reflect" else 0
    if mode in ("reflect", "symmetric") and max(before, after) <= extent - skipped:
        # each side is mirrored once
        first = slice_axis(self, axis, skipped, skipped + before).flip(axis)
        last = slice_axis(self, axis, extent - skipped - after, extent - skipped).flip(axis)
        return first.cat(self, last, axis=axis)
    if mode in ("circular", "wrap") and max(before, after) <= extent:
        # each side comes in once from the other end
        first, last = slice_axis(self, axis, extent - before, extent), slice_axis(self, axis, 0, after)
        return first.cat(self, last, axis=axis)
    period: Tensor = self
    if mode in ("reflect", "symmetric") and extent > 1:
        period = self.cat(slice_axis(self.flip(axis), axis, skipped, extent - skipped), axis=axis)
    length = period.shape[axis]
    begin = -before % length
    end = begin + before + extent + after
    repeated = repeat_axes(period, tuple(-(-end // length) if k == axis else 1 for k in range(self.ndim)))
    return slice_axis(repeated, axis, begin, end)._same()


def _stretched(self: Tensor, axis: int, count: int) -> Tensor:
    """One element of an axis, `count` times."""
    return self.expand(tuple(count if k == axis else n for k, n in enumerate(self.shape)))


# ---- windows ----


def unfold(self: Tensor, dimension: int, size: int, step: int = 1) -> Tensor:
    """PyTorch's unfold: windows of `size` elements, `step` apart, along an axis; their elements are the last axis.

    A view; where windows overlap, it cannot be changed in place (AliasError).

    >>> from rulegrad import Tensor
    >>> Tensor([1, 2, 3, 4]).unfold(0, 2).tolist()
    [[1, 2], [2, 3], [3, 4]]
    """
    if not self.ndim:
        return self.reshape(1).unfold(dimension, size, step)[0]
    k = one_axis(dimension, self.ndim, "unfold")
    width, distance = whole_number(size, "unfold"), whole_number(step, "unfold")
    if not 0 <= width <= self.shape[k] or distance < 1:
        raise ShapeError(f"unfold: windows of {size}, {step} apart, along axis {k} of the shape {self.shape}")
    if not width:
        shape = (*self.shape[:k], self.shape[k] // distance + 1, *self.shape[k + 1 :], 0)
        return self._new(filled(shape, 0, self.dtype), None, self._device)
    if width + distance > self.shape[k]:  # one window, in which no element is there twice
        distance = max(distance, width)
    whole: Any = self
    windows: Tensor = windows_along_axis(whole, k, width, distance, 1, "unfold").moveaxis(k + 1, -1)
    return windows


def as_strided(self: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """PyTorch's as_strided, of the elements in C order: a view, in which neighbours along axis k are `stride[k]` apart.

    Of a view PyTorch counts in the memory of its base: give it what was viewed, or a contiguous tensor. Where the
    elements along an axis lie between those of another one, or are the same, it cannot be changed in place
    (AliasError). Raises ShapeError for strides that lead out of the tensor.

    >>> from rulegrad import Tensor
    >>> x = Tensor([1, 2, 3, 4])
    >>> x.as_strided((3, 2), (1, 1)).tolist()
    [[1, 2], [2, 3], [3, 4]]
    >>> _ = x.as_strided((2,), (2,)).zero_(); x.tolist()
    [0, 2, 0, 4]
    """
    shape, steps = extents((size,), "as_strided"), integers((stride,), "as_strided")
    first = 0 if storage_offset is None else whole_number(storage_offset, "as_strided")
    length = 1 + sum((n - 1) * step for n, step in zip(shape, steps))  # from the first element to the last
    inside = 0 in shape or first + length <= self.size
    if len(shape) != len(steps) or min(steps, default=0) < 0 or first < 0 or not inside:
        raise ShapeError(
            f"as_strided: the size {shape} with the strides {steps} from {first} on does not lie within the "
            f"{self.size} elements of the shape {self.shape}; give a stride of 0 or more for each axis"
        )
    if 0 in shape:
        return self.flatten()[:0].reshape(shape)
    moving = sorted((k for k, n in enumerate(shape) if n > 1 and steps[k]), key=lambda k: -steps[k])
    others = [k for k in range(len(shape)) if k not in moving]  # all whose elements are one
    view = self.flatten()[first : first + length]
    for k in moving:  # the windows of an axis have the elements of the axes with shorter strides
        length -= (shape[k] - 1) * steps[k]
        view = view.unfold(-1, length, steps[k])
    places: Any = np.argsort([*moving, *others])
    found = view.reshape(tuple(shape[k] for k in moving) + (1,) * len(others)).permute(*places.tolist())
    return found.expand(shape)


def im2col(self: Tensor, kernel: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1) -> Tensor:
    """The windows of images (batch, channels, height, width) as columns: (batch, channels * kernel, places).

    What PyTorch calls `nn.functional.unfold`; one image (channels, height, width) needs no batch. Raises ShapeError.

    >>> Tensor([[[[1, 2, 3], [4, 5, 6]]]]).im2col(2).tolist()
    [[[1, 2], [2, 3], [4, 5], [5, 6]]]
    """
    name = "unfold (im2col)"
    if self.ndim == 3:
        return im2col(self.unsqueeze(0), kernel, stride, padding, dilation)[0]
    if self.ndim != 4:
        raise ShapeError(f"{name}: the shape is {self.shape}; it needs (batch, channels, height, width)")
    given = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    size, step, border, spread = (_pair(name, value, key) for key, value in given.items())
    whole: Any = self.pad([(0, 0), (0, 0), *((count, count) for count in border)])
    found = sliding_windows(whole, size, step, spread, name)  # batch, channels, row, column, kernel row, kernel column
    shape = (self.shape[0], self.shape[1] * math.prod(size), math.prod(found.shape[2:4]))
    columns: Tensor = found.permute(0, 1, 4, 5, 2, 3).reshape(shape)
    return columns._same()


def col2im(self: Tensor, size: Any, kernel: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1) -> Tensor:
    """The transpose of `im2col`: columns added up to images of `size`; PyTorch's `nn.functional.fold`.

    Columns without a batch give one image. Raises ShapeError.

    >>> Tensor.ones(1, 4, 2).col2im((2, 3), 2).tolist()
    [[[[1.0, 2.0, 1.0], [1.0, 2.0, 1.0]]]]
    """
    name = "fold (col2im)"
    if self.ndim == 2:
        return col2im(self.unsqueeze(0), size, kernel, stride, padding, dilation)[0]
    high, wide = _pair(name, size, "size")
    taps = _taps(name, (high, wide), kernel, stride, padding, dilation)
    count = taps[0].shape[0] * taps[1].shape[0]
    if self.ndim != 3 or self.shape[1] % count or self.shape[2] != taps[0].shape[1] * taps[1].shape[1]:
        raise ShapeError(
            f"{name}: columns of shape {self.shape} for images of {(high, wide)}; they need (batch, a multiple of "
            f"{count}, {taps[0].shape[1] * taps[1].shape[1]})"
        )
    values = self.cast(accumulation_dtype(self.dtype))
    shape = (self.shape[0], self.shape[1] // count, high, wide)
    images = self._new(UOp("PARAM", (), values.dtype, slot=0, shape=shape))  # stands for any
    windows = images.im2col(kernel, stride, padding, dilation)
    (found,) = backward([windows.uop], [values.uop], [images.uop])
    assert found is not None
    return values._result(found).cast(self.dtype)


# ---- interpolation ----


@built_with_constants
def interpolate(
    self: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: _Interpolation = "nearest",
    align_corners: bool = False,
) -> Tensor:
    """PyTorch's interpolate: the axes behind (batch, channels) resized to `size`, or by `scale_factor`.

    mode: "nearest", "nearest-exact" (to the middle of the new element); "linear", "bilinear" and "trilinear", the
    same for one to three axes; "bicubic" (with a = -0.75, R. Keys: Cubic convolution interpolation, 1981); "area"
    (means). align_corners: the first and last elements keep their places, not the borders of their squares. Images
    of uint8 stay uint8, rounded. Raises ShapeError, ConfigError.

    >>> from rulegrad import Tensor
    >>> Tensor([[[0.0, 2.0]]]).interpolate(3, mode="linear", align_corners=True).tolist()
    [[[0.0, 1.0, 2.0]]]
    """
    if mode not in get_args(_Interpolation):
        raise ConfigError(f"interpolate: mode={mode!r}; use one of {', '.join(get_args(_Interpolation))}")
    spatial = self.ndim - 2
    if spatial < 1 or (size is None) == (scale_factor is None):
        raise ShapeError(f"interpolate: {self.shape}, size={size}, scale_factor={scale_factor}; give one of both")
    if isinstance(scale_factor, str):
        raise ShapeError(f"interpolate: scale_factor={scale_factor!r}; use a number, or one for each axis")
    factors: Any = scale_factor if isinstance(scale_factor, Sequence) else [scale_factor] * spatial
    if size is None:
        size = [math.floor(n * f) for n, f in zip(self.shape[2:], factors)]
    extents = integers((size,), "interpolate")
    extents = extents * spatial if len(extents) == 1 else extents
    if len(extents) != spatial or min(extents) < 1 or not self.size:
        raise ShapeError(f"interpolate: {extents} for the shape {self.shape}; give an extent for each later axis")
    nearest = mode in ("nearest", "nearest-exact")
    is_bytes = self.dtype == uint8 and mode in ("bilinear", "bicubic")
    result = self if nearest else self.cast(float32) if is_bytes else as_floating(self)
    for axis, extent, factor in zip(range(2, self.ndim), extents, factors):
        ratio = self.shape[axis] / extent if factor is None else 1 / factor
        if nearest and not extent % self.shape[axis] and ratio == self.shape[axis] / extent:
            result = result.repeat_interleave(extent // self.shape[axis], axis)
        elif nearest:
            result = _nearest(result, axis, extent, ratio, 0.5 if mode == "nearest-exact" else 0.0)
        elif extent != self.shape[axis] or (mode == "bicubic" and ratio != 1.0 and not align_corners):
            result = _mixed(result, axis, extent, ratio, mode, align_corners)
    return result.round().clip(0, 255).cast(uint8) if is_bytes else result


def _nearest(self: Tensor, axis: int, wanted: int, ratio: float, shift: float) -> Tensor:
    """Along an axis, the nearest elements."""
    extent = self.shape[axis]

    def places() -> NDArray[Any]:
        found: NDArray[Any] = np.minimum((np.arange(wanted) + shift) * ratio + 1e-9, extent - 1)
        return found

    return taken_along(self, constant(("nearest", extent, wanted, ratio, shift), self, places, int64), axis)


def _mixed(self: Tensor, axis: int, wanted: int, ratio: float, mode: str, align_corners: bool) -> Tensor:
    """Along an axis, weighted sums of the elements near each place."""
    wide, kind = accumulation_dtype(self.dtype), (self.shape[axis], wanted, ratio, mode, align_corners)
    places = constant(("places", *kind), self, lambda: _weights(*kind)[0], int64)
    weights = constant(("weights", *kind), self, lambda: _weights(*kind)[1], wide)
    shape = (*(1,) * axis, *places.shape, *(1,) * (self.ndim - axis - 1))
    near = taken_along(self.cast(wide), places, axis)
    return (near * weights.reshape(shape)).sum(axis + 1, dtype=wide).cast(self.dtype)


def _weights(
    extent: int, wanted: int, ratio: float, mode: str, align_corners: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The places that each element of the result is made of, and their weights."""
    if mode == "area":
        begin = np.arange(wanted) * extent // wanted
        end = -(-(np.arange(wanted) + 1) * extent // wanted)
        places = begin[:, None] + np.arange(int((end - begin).max()))
        inside = places < end[:, None]
        return np.where(inside, places, 0), inside / (end - begin)[:, None]
    if align_corners:
        at = np.arange(wanted) * ((extent - 1) / max(wanted - 1, 1))
    else:
        at = (np.arange(wanted) + 0.5) * ratio - 0.5
        at = at if mode == "bicubic" else np.maximum(at, 0)
    low = np.floor(at).astype(np.int64)
    share = (at - low)[:, None]
    if mode == "bicubic":
        places = low[:, None] + np.arange(-1, 3)
        distance = np.abs(share - np.arange(-1, 3))
        near = (1.25 * distance - 2.25) * distance**2 + 1
        far = -0.75 * (((distance - 5) * distance + 8) * distance - 4)
        weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0))
    else:
        places = low[:, None] + np.arange(2)
        weights = np.concatenate([1 - share, share], 1)
    return np.clip(places, 0, extent - 1), weights


def _taps(
    operation: str, sizes: Sequence[int], kernel: Any, stride: Any, padding: Any, dilation: Any
) -> list[NDArray[Any]]:
    """For each of the two axes, the places (in the padded image) of each element of the kernel, for each window."""
    found = []
    given = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    options = (_pair(operation, value, name) for name, value in given.items())
    for size, width, step, border, spread in zip(sizes, *options):
        count = (size + 2 * border - spread * (width - 1) - 1) // step + 1
        if count < 1:
            raise ShapeError(f"{operation}: a kernel of {width} (dilation {spread}) does not fit {size} elements")
        found.append(np.arange(width)[:, None] * spread + np.arange(count) * step)
    return found


def _pair(operation: str, value: Any, name: str) -> tuple[int, int]:
    numbers = integers((value,), f"{operation} {name}")
    numbers = numbers * 2 if len(numbers) == 1 else numbers
    if len(numbers) != 2 or min(numbers) < (name != "padding"):
        raise ShapeError(f"{operation}: {name}={value!r}; give one number, or (height, width)")
    return numbers[0], numbers[1]


def pairs_of_axes(pad: Sequence[int], shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """PyTorch's numbers of a padding, the last axis first, as a pair for each axis in order. Raises ShapeError."""
    numbers, rank = integers((pad,), "pad"), len(shape)
    count = len(numbers) // 2
    if len(numbers) % 2 or count > rank:
        raise ShapeError(f"pad: {numbers} for the shape {shape}; give a pair for each of the last axes")
    return [(0, 0)] * (rank - count) + [(numbers[2 * k], numbers[2 * k + 1]) for k in reversed(range(count))]


def constant_pad_nd(self: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """`nn.functional.pad` with a value: pairs (before, after) for the last axis, then for the one before it.

    >>> Tensor([[1, 2]]).constant_pad_nd((1, 0), 9).tolist()
    [[9, 1, 2]]
    """
    pairs = pairs_of_axes(pad, self.shape)
    # Elements that are cut off at one end are still there for the other.
    padded = self.pad([(max(before, 0), max(after, 0)) for before, after in pairs], "constant", value)
    cut = [(max(-before, 0), min(after, 0)) for before, after in pairs]
    if not any(map(any, cut)):
        return padded
    return padded.shrink(*((first, n + last) for (first, last), n in zip(cut, padded.shape)))
