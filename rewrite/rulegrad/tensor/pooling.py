"""Pooling: the largest element or the mean of each window of the last axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.ir.dtype import int64
from rulegrad.ir.limits import extremes
from rulegrad.tensor.axes import integers
from rulegrad.tensor.convolution import one_for_each_axis, split_axis
from rulegrad.tensor.custom_gradient import with_gradient
from rulegrad.tensor.gathering import taken
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.movement import slice_axis
from rulegrad.tensor.pooling_windows import PoolingWindows, need_axes
from rulegrad.tensor.transcendental import as_floating

if TYPE_CHECKING:
    from rulegrad.tensor.convolution import Extents
    from rulegrad.tensor.tensor import Tensor

    #: An output size: one number for all axes, or one for each, of which None keeps the extent.
    Sizes = int | Sequence[int | None]


# ---- the largest ----


@overload
def max_pool1d(
    self: Tensor,
    kernel_size: Extents = 2,
    stride: Extents | None = None,
    padding: Extents = 0,
    dilation: Extents = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool1d(self: Tensor, *arguments: Any, return_indices: Literal[True], **more: Any) -> tuple[Tensor, Tensor]: ...
@built_once
def max_pool1d(self: Tensor, *arguments: Any, **more: Any) -> Tensor | tuple[Tensor, Tensor]:
    """`max_pool2d` over the last axis.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, 3.0, 2.0, 5.0]).max_pool1d(2).tolist()
    [3.0, 5.0]
    """
    return _max_pool(self, 1, *arguments, **more)


@overload
def max_pool2d(
    self: Tensor,
    kernel_size: Extents = 2,
    stride: Extents | None = None,
    padding: Extents = 0,
    dilation: Extents = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool2d(self: Tensor, *arguments: Any, return_indices: Literal[True], **more: Any) -> tuple[Tensor, Tensor]: ...
@built_once
def max_pool2d(self: Tensor, *arguments: Any, **more: Any) -> Tensor | tuple[Tensor, Tensor]:
    """The largest element of each window of the last two axes, with PyTorch's arguments.

    The stride is the window by default. Around the image is nothing (-inf); with `ceil_mode` a window may begin
    inside and end outside. With `return_indices` also where the (first) largest is in the flattened image
    (int64). Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> Tensor([[1.0, 2.0], [4.0, 3.0]]).max_pool2d(2, return_indices=True)[1].tolist()
    [[2]]
    """
    return _max_pool(self, 2, *arguments, **more)


@overload
def max_pool3d(
    self: Tensor,
    kernel_size: Extents = 2,
    stride: Extents | None = None,
    padding: Extents = 0,
    dilation: Extents = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool3d(self: Tensor, *arguments: Any, return_indices: Literal[True], **more: Any) -> tuple[Tensor, Tensor]: ...
@built_once
def max_pool3d(self: Tensor, *arguments: Any, **more: Any) -> Tensor | tuple[Tensor, Tensor]:
    """`max_pool2d` over the last three axes.

    >>> Tensor.arange(8).reshape(2, 2, 2).max_pool3d(2).tolist()
    [[[7]]]
    """
    return _max_pool(self, 3, *arguments, **more)


def _max_pool(
    self: Tensor,
    rank: int,
    kernel_size: Extents = 2,
    stride: Extents | None = None,
    padding: Extents = 0,
    dilation: Extents = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    windows = PoolingWindows(self.shape, rank, f"max_pool{rank}d", kernel_size, stride, padding, dilation, ceil_mode)
    axes = tuple(range(-rank, 0))
    parts: Tensor = windows.of(self, extremes(self.dtype)[0])
    largest = parts.max(axes)
    if windows.overlap:
        largest = with_gradient(largest, self, windows.gradient_of_largest, windows.key)
    if not return_indices:
        return largest
    extents = self.shape[-rank:]
    count = math.prod(extents)
    places = self.arange(count, device=self._device or None).reshape(extents)
    hit = parts.detach() == largest.detach().reshape(*largest.shape, *(1,) * rank)
    hit = hit | parts.detach().isnan()
    found: Tensor = hit.where(windows.of(places, count), count)
    return largest, found.min(axes).cast(int64)


def max_unpool1d(
    self: Tensor,
    indices: Tensor,
    kernel_size: Extents = 2,
    stride: Extents | None = None,
    padding: Extents = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """`max_unpool2d` for the last axis.

    >>> largest, places = Tensor([1.0, 2.0, 4.0, 3.0]).max_pool1d(2, return_indices=True)
    >>> largest.max_unpool1d(places, 2).tolist()
    [0.0, 2.0, 4.0, 0.0]
    """
    return _max_unpool(self, 1, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    self: Tensor,
    indices: Tensor,
    kernel_size: Extents = 2,
    stride: Extents | None = None,
    padding: Extents = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Zeros, with each element put where `max_pool2d(return_indices=True)` found it: `indices`, of this shape.

    The other arguments are those of the pooling. output_size: the last two axes of the result (or its shape), where
    the smallest image that gives so many windows is not the one that is meant. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> largest, places = Tensor([[1.0, 2.0], [4.0, 3.0]]).max_pool2d(2, return_indices=True)
    >>> largest.max_unpool2d(places, 2).tolist()
    [[0.0, 0.0], [4.0, 0.0]]
    """
    return _max_unpool(self, 2, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    self: Tensor,
    indices: Tensor,
    kernel_size: Extents = 2,
    stride: Extents | None = None,
    padding: Extents = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """`max_unpool2d` for the last three axes.

    >>> largest, places = Tensor.arange(8).reshape(2, 2, 2).max_pool3d(2, return_indices=True)
    >>> largest.max_unpool3d(places, 2).tolist()
    [[[0, 0], [0, 0]], [[0, 0], [0, 7]]]
    """
    return _max_unpool(self, 3, indices, kernel_size, stride, padding, output_size)


def _max_unpool(
    self: Tensor,
    rank: int,
    indices: Tensor,
    kernel_size: Extents,
    stride: Extents | None,
    padding: Extents,
    output_size: Sequence[int] | None,
) -> Tensor:
    name = f"max_unpool{rank}d"
    need_axes(self.shape, rank, name)
    if indices.shape != self.shape:
        raise ShapeError(f"{name}: indices of shape {indices.shape} for the shape {self.shape}; they must agree")
    kernel = one_for_each_axis(kernel_size, rank, name, "kernel_size", 1)
    step = one_for_each_axis(kernel if stride is None else stride, rank, name, "stride", 1)
    border = one_for_each_axis(padding, rank, name, "padding", 0)
    extents = tuple((n - 1) * s + k - 2 * p for n, s, k, p in zip(self.shape[-rank:], step, kernel, border))
    if output_size is not None:
        extents = integers((output_size,), name)[-rank:]
    if len(extents) != rank or min(extents) < 1:
        raise ShapeError(f"{name}: {extents} is not a size of an image; give {rank} extents of 1 or more")
    lead, count = self.shape[:-rank], math.prod(self.shape[-rank:])
    image = self.zeros((*lead, math.prod(extents)), dtype=self.dtype, device=self._device or None)
    filled = image.scatter(-1, indices.reshape(*lead, count), self.reshape(*lead, count))
    return filled.reshape(*lead, *extents)


# ---- the mean ----


@built_once
def avg_pool1d(
    self: Tensor,
    kernel_size: Extents = 2,
    stride: Extents | None = None,
    padding: Extents = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """`avg_pool2d` over the last axis.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, 3.0, 2.0, 5.0]).avg_pool1d(2).tolist()
    [2.0, 3.5]
    """
    return _avg_pool(self, 1, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@built_once
def avg_pool2d(
    self: Tensor,
    kernel_size: Extents = 2,
    stride: Extents | None = None,
    padding: Extents = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of the last two axes, with PyTorch's arguments; the stride is the window by default.

    The padding counts as zeros unless `count_include_pad` is False; what `ceil_mode` adds behind it never counts.
    divisor_override: divide by this instead of the count. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> Tensor([[1.0, 2.0], [4.0, 3.0]]).avg_pool2d(2).tolist()
    [[2.5]]
    """
    return _avg_pool(self, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@built_once
def avg_pool3d(
    self: Tensor,
    kernel_size: Extents = 2,
    stride: Extents | None = None,
    padding: Extents = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """`avg_pool2d` over the last three axes.

    >>> Tensor.arange(8).reshape(2, 2, 2).avg_pool3d(2).tolist()
    [[[3.5]]]
    """
    return _avg_pool(self, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _avg_pool(
    self: Tensor,
    rank: int,
    kernel_size: Extents,
    stride: Extents | None,
    padding: Extents,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Tensor:
    windows = PoolingWindows(self.shape, rank, f"avg_pool{rank}d", kernel_size, stride, padding, 1, ceil_mode)
    if divisor == 0:
        raise ConfigError(f"avg_pool{rank}d: divisor_override=0; use another number, or None for the count")
    axes = tuple(range(-rank, 0))
    if divisor is None and not windows.is_padded:
        parts: Tensor = windows.of(self, 0)
        return parts.mean(axes)
    padded: Tensor = windows.of(as_floating(self), 0)
    total = padded.sum(axes)
    if divisor is not None:
        return total / divisor
    for axis in range(rank):
        total = total / windows.counts(self, axis, count_include_pad).cast(total.dtype)
    return total


# ---- windows that fit the result ----


@built_once
def adaptive_avg_pool1d(self: Tensor, output_size: Sizes) -> Tensor:
    """`adaptive_avg_pool2d` over the last axis.

    >>> Tensor([1.0, 3.0, 5.0, 7.0]).adaptive_avg_pool1d(2).tolist()
    [2.0, 6.0]
    """
    return _adaptive_pool(self, 1, output_size, "mean", "adaptive_avg_pool1d")


@built_once
def adaptive_avg_pool2d(self: Tensor, output_size: Sizes) -> Tensor:
    """Means over windows such that the last two axes get the size `output_size`; None keeps an axis.

    Window i of n goes from `i * extent // n` to `ceil((i + 1) * extent / n)`, as in PyTorch.

    >>> from rulegrad import Tensor
    >>> Tensor.ones(2, 8, 7, 7).adaptive_avg_pool2d(1).shape
    (2, 8, 1, 1)
    """
    return _adaptive_pool(self, 2, output_size, "mean", "adaptive_avg_pool2d")


@built_once
def adaptive_avg_pool3d(self: Tensor, output_size: Sizes) -> Tensor:
    """`adaptive_avg_pool2d` over the last three axes.

    >>> Tensor.ones(2, 8, 4, 4, 4).adaptive_avg_pool3d((1, 2, None)).shape
    (2, 8, 1, 2, 4)
    """
    return _adaptive_pool(self, 3, output_size, "mean", "adaptive_avg_pool3d")


@overload
def adaptive_max_pool1d(self: Tensor, output_size: Sizes, return_indices: Literal[False] = False) -> Tensor: ...
@overload
def adaptive_max_pool1d(self: Tensor, output_size: Sizes, return_indices: bool) -> Any: ...
def adaptive_max_pool1d(self: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """`adaptive_max_pool2d` over the last axis.

    >>> Tensor([1.0, 3.0, 5.0, 7.0]).adaptive_max_pool1d(2).tolist()
    [3.0, 7.0]
    """
    return _adaptive_max(self, 1, output_size, return_indices)


@overload
def adaptive_max_pool2d(self: Tensor, output_size: Sizes, return_indices: Literal[False] = False) -> Tensor: ...
@overload
def adaptive_max_pool2d(self: Tensor, output_size: Sizes, return_indices: bool) -> Any: ...
def adaptive_max_pool2d(self: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """The largest elements of the windows of `adaptive_avg_pool2d`.

    With `return_indices` also where the (first) largest is in the flattened image (int64).

    >>> Tensor([[1.0, 2.0], [4.0, 3.0]]).adaptive_max_pool2d(1).tolist()
    [[4.0]]
    """
    return _adaptive_max(self, 2, output_size, return_indices)


@overload
def adaptive_max_pool3d(self: Tensor, output_size: Sizes, return_indices: Literal[False] = False) -> Tensor: ...
@overload
def adaptive_max_pool3d(self: Tensor, output_size: Sizes, return_indices: bool) -> Any: ...
def adaptive_max_pool3d(self: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """`adaptive_max_pool2d` over the last three axes.

    >>> Tensor.arange(8).reshape(2, 2, 2).adaptive_max_pool3d((2, 1, 1)).tolist()
    [[[3]], [[7]]]
    """
    return _adaptive_max(self, 3, output_size, return_indices)


def _adaptive_max(self: Tensor, rank: int, output_size: Sizes, return_indices: bool) -> Any:
    name = f"adaptive_max_pool{rank}d"
    if not return_indices:
        return _adaptive_pool(self, rank, output_size, "max", name)
    sizes = _adaptive_sizes(self, rank, output_size, name)
    places, inside = np.zeros((), np.int64), np.ones((), np.bool_)
    for axis, (extent, size) in enumerate(zip(self.shape[-rank:], sizes)):
        _need_windows(self.shape, extent, size, name)
        begin, end = np.arange(size) * extent // size, -(-np.arange(1, size + 1) * extent // size)
        own = begin[:, None] + np.arange((end - begin).max())
        # Axes of the result in front, those of the window behind.
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = own.shape
        places = places * extent + np.minimum(own, extent - 1).reshape(shape)
        inside = inside & (own < end[:, None]).reshape(shape)
    device = self._device or None
    shape = [*sizes, places.size // math.prod(sizes)]
    index = type(self)(places.reshape(shape), device=device)
    return largest_at(self, rank, index, type(self)(inside.reshape(shape), device=device))


def largest_at(self: Tensor, rank: int, places: Tensor, inside: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The largest of the elements at `places` of the flattened image, and where the first of them is.

    places: (…, windows, elements of a window), the axes in front those of this tensor, or none of them; inside:
    which of these elements there are.
    """
    lead, count = self.shape[:-rank], math.prod(self.shape[-rank:])
    windows, width = places.shape[-rank - 1 : -1], places.shape[-1]
    index = places.expand(*lead, *windows, width)
    flat, number = self.reshape(*lead, count), math.prod(windows)
    parts = taken(flat.detach(), index.reshape(*lead, number * width), len(lead)).reshape(index.shape)
    if inside is not None:
        parts = inside.where(parts, extremes(self.dtype)[0])
    best = taken(index, parts.argmax(-1).unsqueeze(-1), index.ndim - 1).squeeze(-1)
    largest = taken(flat, best.reshape(*lead, number), len(lead))
    return largest.reshape(best.shape), best


def _adaptive_pool(self: Tensor, rank: int, output_size: Sizes, kind: str, name: str) -> Tensor:
    result, kept = self, kind == "max" or self.dtype.is_inexact
    for axis, size in zip(range(self.ndim - rank, self.ndim), _adaptive_sizes(self, rank, output_size, name)):
        if not kept or size != self.shape[axis]:
            result = _adaptive_along(result, axis, size, kind, name)
    return result


def _adaptive_sizes(self: Tensor, rank: int, output_size: Sizes, name: str) -> list[int]:
    """How many windows there are along each of the last axes."""
    need_axes(self.shape, rank, name)
    sizes = list(output_size) if isinstance(output_size, Sequence) else [output_size] * rank
    if len(sizes) != rank:
        raise ShapeError(f"{name}: output_size={output_size!r}; give one number, or {rank} of them")
    extents = self.shape[self.ndim - rank :]
    return [n if size is None else integers((size,), name)[0] for n, size in zip(extents, sizes)]


def _adaptive_along(self: Tensor, axis: int, size: int, kind: str, name: str) -> Tensor:
    extent = self.shape[axis]
    _need_windows(self.shape, extent, size, name)
    if extent % size == 0:
        parts = split_axis(self, axis, (size, extent // size))
        return parts.mean(axis + 1) if kind == "mean" else parts.max(axis + 1)
    results = []
    for k in range(size):
        part = slice_axis(self, axis, k * extent // size, -(-(k + 1) * extent // size))
        results.append(part.mean(axis, keepdims=True) if kind == "mean" else part.max(axis, keepdims=True))
    return type(self).cat(results, axis=axis)


def _need_windows(shape: tuple[int, ...], extent: int, size: int, name: str) -> None:
    if size < 1 or not extent:
        raise ShapeError(f"{name}: {size} windows of {extent} elements (shape {shape}); both must be above 0")
