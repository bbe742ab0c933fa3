"""Images in other sizes: channels as pixels, pixels as channels, and interpolation."""

from __future__ import annotations

from typing import Any

from rulegrad.errors import ShapeError
from rulegrad.nn import functional
from rulegrad.nn._arguments import require_numbers
from rulegrad.nn._module import Layer
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.tensor import Tensor


@built_once
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """`nn.PixelShuffle` as a function.

    >>> import rulegrad.nn.functional as F
    >>> F.pixel_shuffle(Tensor.arange(4).reshape(4, 1, 1), 2).tolist()
    [[[0, 1], [2, 3]]]
    """
    x, r = input, upscale_factor
    if x.ndim < 3 or r < 1 or x.shape[-3] % (r * r):
        raise ShapeError(f"pixel_shuffle({r}): the shape {x.shape}; it needs (…, a multiple of {r * r}, height, width)")
    *lead, channels, height, width = x.shape
    k = len(lead)
    parts = x.reshape(*lead, channels // (r * r), r, r, height, width)
    parts = parts.permute(*range(k + 1), k + 3, k + 1, k + 4, k + 2)
    return parts.reshape(*lead, channels // (r * r), height * r, width * r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """`nn.PixelUnshuffle` as a function.

    >>> import rulegrad.nn.functional as F
    >>> F.pixel_unshuffle(Tensor([[[0, 1], [2, 3]]]), 2).tolist()
    [[[0]], [[1]], [[2]], [[3]]]
    """
    x, r = input, downscale_factor
    if x.ndim < 3 or r < 1 or x.shape[-2] % r or x.shape[-1] % r:
        raise ShapeError(f"pixel_unshuffle({r}): the shape {x.shape}; {r} must divide its height and width")
    *lead, channels, height, width = x.shape
    k = len(lead)
    parts = x.reshape(*lead, channels, height // r, r, width // r, r)
    parts = parts.permute(*range(k + 1), k + 2, k + 4, k + 1, k + 3)
    return parts.reshape(*lead, channels * r * r, height // r, width // r)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """`nn.ChannelShuffle` as a function.

    >>> import rulegrad.nn.functional as F
    >>> F.channel_shuffle(Tensor([[[1], [2], [3], [4]]]), 2).tolist()
    [[[1], [3], [2], [4]]]
    """
    x = input
    if x.ndim < 3 or groups < 1 or x.shape[1] % groups:
        raise ShapeError(f"channel_shuffle: the shape {x.shape}; {groups} groups must divide its channels")
    parts = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    return parts.transpose(1, 2).reshape(x.shape)


class PixelShuffle(Layer):
    """(…, channels * r * r, height, width) as (…, channels, height * r, width * r), for r = `upscale_factor`.

    From Shi et al. 2016, "Real-Time Single Image and Video Super-Resolution". Raises ShapeError.

    >>> from rulegrad import Tensor, nn
    >>> nn.PixelShuffle(2)(Tensor.arange(4).reshape(1, 4, 1, 1)).tolist()
    [[[[0, 1], [2, 3]]]]
    """

    def __init__(self, upscale_factor: int) -> None:
        self.upscale_factor = upscale_factor

    def forward(self, x: Tensor) -> Tensor:
        return pixel_shuffle(x, self.upscale_factor)


class PixelUnshuffle(Layer):
    """The inverse of `PixelShuffle`: (…, channels, height * r, width * r) as (…, channels * r * r, height, width).

    >>> from rulegrad import nn
    >>> nn.PixelUnshuffle(2)(Tensor([[[[0, 1], [2, 3]]]])).tolist()
    [[[[0]], [[1]], [[2]], [[3]]]]
    """

    def __init__(self, downscale_factor: int) -> None:
        self.downscale_factor = downscale_factor

    def forward(self, x: Tensor) -> Tensor:
        return pixel_unshuffle(x, self.downscale_factor)


class ChannelShuffle(Layer):
    """The channels (axis -3) of `groups` groups, dealt out in turn. From Zhang et al. 2018, "ShuffleNet".

    >>> from rulegrad import nn
    >>> nn.ChannelShuffle(2)(Tensor([[[1], [2], [3], [4]]])).tolist()
    [[[1], [3], [2], [4]]]
    """

    def __init__(self, groups: int) -> None:
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        return channel_shuffle(x, self.groups)


class Upsample(Layer):
    """The axes behind (batch, channels) resized to `size`, or by `scale_factor`; `Tensor.interpolate` says more.

    >>> from rulegrad import Tensor, nn
    >>> nn.Upsample(scale_factor=2)(Tensor.ones(1, 3, 2, 2)).shape
    (1, 3, 4, 4)
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: Any = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        for factor in scale_factor if isinstance(scale_factor, (tuple, list)) else [scale_factor]:
            if factor is not None:
                require_numbers(type(self).__name__, scale_factor=factor)
        self.size, self.scale_factor, self.mode, self.align_corners = size, scale_factor, mode, bool(align_corners)
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, x: Tensor) -> Tensor:
        how = (self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor)
        return functional.interpolate(x, *how)


class UpsamplingNearest2d(Upsample):
    """Images resized to `size`, or by `scale_factor`, by the nearest element.

    >>> from rulegrad import nn
    >>> nn.UpsamplingNearest2d(scale_factor=2)(Tensor([[[[1, 2]]]])).tolist()
    [[[[1, 1, 2, 2], [1, 1, 2, 2]]]]
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor)


class UpsamplingBilinear2d(Upsample):
    """Images resized to `size`, or by `scale_factor`, by bilinear interpolation; corners keep their places.

    >>> from rulegrad import nn
    >>> nn.UpsamplingBilinear2d(size=(1, 3))(Tensor([[[[1.0, 2.0]]]])).tolist()
    [[[[1.0, 1.5, 2.0]]]]
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class Unfold(Layer):
    """The windows of images as columns: `Tensor.im2col`.

    >>> from rulegrad import nn
    >>> nn.Unfold((1, 2))(Tensor([[[[1, 2], [3, 4]]]])).tolist()
    [[[1, 3], [2, 4]]]
    """

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, x: Tensor) -> Tensor:
        return x.im2col(self.kernel_size, self.stride, self.padding, self.dilation)


class Fold(Layer):
    """Columns added up to images of `output_size`: `Tensor.col2im`.

    >>> from rulegrad import nn
    >>> nn.Fold((2, 2), (1, 2))(Tensor([[[1, 3], [2, 4]]])).tolist()
    [[[[1, 2], [3, 4]]]]
    """

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, x: Tensor) -> Tensor:
        return x.col2im(self.output_size, self.kernel_size, self.stride, self.padding, self.dilation)
