"""Convolutions and pooling over the last two axes, by views: windows made of repeat, shrink and reshape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rulegrad.errors import ShapeError
from rulegrad.tensor.axes import integers
from rulegrad.tensor.operands import result_dtype
from rulegrad.tensor.products import Products
from rulegrad.tensor.reduce import accumulation_dtype

if TYPE_CHECKING:
    from typing_extensions import Self

    #: One number for both axes, or (height, width).
    Pair = int | Sequence[int]


class Convolution(Products):
    """conv2d, max_pool2d, avg_pool2d."""

    __slots__ = ()

    def conv2d(
        self,
        weight: Self,
        bias: Self | None = None,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
    ) -> Self:
        """Cross-correlation of images (batch, channels, height, width) with `weight`, as in PyTorch.

        weight: (outputs, channels / groups, kernel height, kernel width); bias: (outputs,). float16 adds up in
        float32. Raises ShapeError.
        """
        if self.ndim != 4 or weight.ndim != 4 or self.shape[1] != weight.shape[1] * groups or weight.shape[0] % groups:
            raise ShapeError(
                f"conv2d: images of shape {self.shape} and weights of shape {weight.shape} with groups={groups}; "
                "they need (batch, channels, height, width) and (outputs, channels / groups, height, width)"
            )
        result = result_dtype(self, weight)
        wide = accumulation_dtype(result)
        outputs, channels, high, wide_kernel = weight.shape
        rows, columns = _pair(padding, "padding")
        padded = self.pad([(0, 0), (0, 0), (rows, rows), (columns, columns)])
        windows = padded._windows((high, wide_kernel), _pair(stride, "stride"), _pair(dilation, "dilation"))
        batch, _, height, width = windows.shape[:4]
        # (batch, group, 1, height, width, channel, kernel row, kernel column) * the weights of the group's outputs
        images = windows.reshape(batch, groups, channels, height, width, high, wide_kernel)
        images = images.permute(0, 1, 3, 4, 2, 5, 6).unsqueeze(2)
        kernels = weight.reshape(1, groups, outputs // groups, 1, 1, channels, high, wide_kernel)
        total = (images.cast(wide) * kernels.cast(wide)).sum(axis=(-3, -2, -1), dtype=wide).cast(result)
        total = total.reshape(batch, outputs, height, width)
        return total if bias is None else total + bias.reshape(1, -1, 1, 1)

    def max_pool2d(self, kernel: Pair = 2, stride: Pair | None = None) -> Self:
        """The largest element of each window of the last two axes; the stride is the window by default."""
        return self._pooled(kernel, stride, "max_pool2d").max(axis=(-2, -1))

    def avg_pool2d(self, kernel: Pair = 2, stride: Pair | None = None) -> Self:
        """The mean of each window of the last two axes; the stride is the window by default."""
        return self._pooled(kernel, stride, "avg_pool2d").mean(axis=(-2, -1))

    def _pooled(self, kernel: Pair, stride: Pair | None, name: str) -> Self:
        if self.ndim < 2:
            raise ShapeError(f"{name}: the shape {self.shape} has no height and width; give at least two axes")
        size = _pair(kernel, "kernel")
        return self._windows(size, size if stride is None else _pair(stride, "stride"), (1, 1))

    def _windows(self, kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]) -> Self:
        """(…, height, width) as (…, out height, out width, kernel height, kernel width), a view."""
        view = self._windows_along(self.ndim - 1, kernel[1], stride[1], dilation[1])
        view = view._windows_along(self.ndim - 2, kernel[0], stride[0], dilation[0])
        lead = self.ndim - 2
        return view.permute(*range(lead), lead, lead + 2, lead + 1, lead + 3)

    def _windows_along(self, axis: int, kernel: int, stride: int, dilation: int) -> Self:
        """The axis as two: element (place, offset) is element `place * stride + offset * dilation` of it."""
        extent = self.shape[axis]
        count = (extent - dilation * (kernel - 1) - 1) // stride + 1
        if count < 1:
            raise ShapeError(
                f"windows: a kernel of {kernel} (dilation {dilation}) does not fit axis {axis} of the shape "
                f"{self.shape}; use padding, or a smaller kernel"
            )
        if kernel == 1 or (dilation == 1 and kernel <= stride):
            return self._separate_windows(axis, kernel, stride, count)
        # In a matrix with rows of `repeats * extent + dilation`, filled with the axis over and over, each row
        # starts `dilation` later than the one before.
        width = max(-(-(count * stride - dilation) // extent), 1) * extent + dilation
        view = self._along(axis, extent, -(-kernel * width // extent) * extent, (kernel, width))
        view = view._limited(axis + 1, count * stride)._split(axis + 1, (count, stride))._limited(axis + 2, 1)
        return view.squeeze(axis + 2).transpose(axis, axis + 1)

    def _separate_windows(self, axis: int, kernel: int, stride: int, count: int) -> Self:
        """Windows that do not overlap: a reshape."""
        missing = max(count * stride - self.shape[axis], 0)
        padded = self.pad([(0, missing if k == axis else 0) for k in range(self.ndim)])
        return padded._limited(axis, count * stride)._split(axis, (count, stride))._limited(axis + 1, kernel)

    def _along(self, axis: int, extent: int, whole: int, parts: tuple[int, int]) -> Self:
        """The axis repeated to `whole` elements, of which the first are taken as a matrix of shape `parts`."""
        repeated = self.repeat(*(whole // extent if k == axis else 1 for k in range(self.ndim)))
        return repeated._limited(axis, math.prod(parts))._split(axis, parts)

    def _limited(self, axis: int, end: int) -> Self:
        """The first `end` elements along the axis."""
        return self.shrink(*((0, end) if k == axis else None for k in range(self.ndim)))

    def _split(self, axis: int, parts: tuple[int, int]) -> Self:
        """The axis as two."""
        return self.reshape(self.shape[:axis] + parts + self.shape[axis + 1 :])


def _pair(value: Pair, name: str) -> tuple[int, int]:
    numbers = integers((value,), f"conv2d {name}")
    if len(numbers) == 1:
        numbers *= 2
    if len(numbers) != 2 or min(numbers) < (name != "padding"):
        raise ShapeError(f"conv2d: {name}={value!r}; give one number, or (height, width)")
    return numbers[0], numbers[1]
