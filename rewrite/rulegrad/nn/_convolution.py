"""Convolutions of one, two and three axes, and their transposes. Names, order and first values are PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.nn import init
from rulegrad.nn._arguments import require_sizes
from rulegrad.nn._module import Described, Layer, Module
from rulegrad.tensor.convolution import one_for_each_axis
from rulegrad.tensor.tensor import Tensor

Extents = int | Sequence[int]
PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]


def _check_channels(name: str, inputs: int, outputs: int, groups: int) -> None:
    require_sizes(name, in_channels=inputs, out_channels=outputs)
    require_sizes(name, 1, groups=groups)
    if inputs % groups or outputs % groups:
        raise ShapeError(
            f"{name}: in_channels={inputs}, out_channels={outputs}, groups={groups}; "
            "the groups must divide in_channels and out_channels"
        )


class _ConvNd(Module):
    """The base of all convolutions, as programs ask for it that treat them alike."""


class _Convolution(_ConvNd, Layer):
    """Base of Conv1d, Conv2d and Conv3d."""

    _rank: int
    transposed = False
    output_padding: tuple[int, ...]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents = 1,
        padding: Extents | str = 0,
        dilation: Extents = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        name = type(self).__name__
        _check_channels(name, in_channels, out_channels, groups)
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ConfigError(
                f"{name}: unknown padding_mode {padding_mode!r}; use zeros, reflect, replicate or circular"
            )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = one_for_each_axis(kernel_size, self._rank, name, "kernel_size", 1)
        self.stride, self.padding, self.dilation = _windows(name, self._rank, stride, padding, dilation)
        self.output_padding = (0,) * self._rank
        self.groups, self.padding_mode = groups, padding_mode
        bound = self._bound()
        self.weight = init.bounded((out_channels, in_channels // groups, *self.kernel_size), bound, device, dtype)
        self.bias = init.bounded((out_channels,), bound, device, dtype) if bias else None
        init.settle(self, _Convolution)

    def _bound(self) -> float:
        return init.inverse_root(self.in_channels // self.groups * math.prod(self.kernel_size))

    def reset_parameters(self) -> None:
        """Draw the first values of the parameters anew."""
        init.redraw(self, self._bound())

    def forward(self, x: Tensor) -> Tensor:
        padding: Extents | str = self.padding
        if self.padding_mode != "zeros":
            x, padding = self._surrounded(x), 0
        how = (self.weight, self.bias, self.stride, padding, self.dilation, self.groups)
        result: Tensor = getattr(x, f"conv{self._rank}d")(*how)
        return result

    def _surrounded(self, x: Tensor) -> Tensor:
        """The images with their own elements around them."""
        name = type(self).__name__
        if self.padding == "same":
            dilation = one_for_each_axis(self.dilation, self._rank, name, "dilation", 1)
            totals = [d * (k - 1) for d, k in zip(dilation, self.kernel_size)]
            pairs = [(total // 2, total - total // 2) for total in totals]
        elif isinstance(self.padding, str):
            return x
        else:
            pairs = [(n, n) for n in one_for_each_axis(self.padding, self._rank, name, "padding", 0)]
        every = [(0, 0)] * (x.ndim - self._rank) + pairs
        check_padding(x.shape, every, self.padding_mode)
        return x.pad(every, mode=self.padding_mode)


class Conv1d(_Convolution):
    """A convolution over (batch, in_channels, length); `Tensor.conv1d` says more.

    >>> from rulegrad import nn
    >>> nn.Conv1d(3, 8, 3, padding=1)(Tensor.ones(1, 3, 5)).shape
    (1, 8, 5)
    """

    _rank = 1


class Conv2d(_Convolution):
    """A convolution of images (batch, in_channels, height, width); `Tensor.conv2d` says more.

    weight: (out_channels, in_channels / groups, *kernel_size); bias: (out_channels,). Both are uniform within
    1 / sqrt(numbers that are added up) at first.

    >>> from rulegrad import Tensor, nn
    >>> nn.Conv2d(3, 8, 3, padding=1)(Tensor.ones(1, 3, 5, 5)).shape
    (1, 8, 5, 5)
    """

    _rank = 2


class Conv3d(_Convolution):
    """A convolution over (batch, in_channels, depth, height, width); `Tensor.conv3d` says more.

    >>> from rulegrad import nn
    >>> nn.Conv3d(3, 8, 2, stride=2)(Tensor.ones(1, 3, 4, 4, 4)).shape
    (1, 8, 2, 2, 2)
    """

    _rank = 3


class _Transposed(_ConvNd, Described):
    """Base of ConvTranspose1d, ConvTranspose2d and ConvTranspose3d."""

    _rank: int
    transposed = True
    __call__: Callable[..., Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents = 1,
        padding: Extents = 0,
        output_padding: Extents = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Extents = 1,
        padding_mode: Literal["zeros"] = "zeros",
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        name = type(self).__name__
        _check_channels(name, in_channels, out_channels, groups)
        if padding_mode != "zeros":
            raise ConfigError(f"{name}: padding_mode={padding_mode!r}; a transposed convolution pads with zeros only")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = one_for_each_axis(kernel_size, self._rank, name, "kernel_size", 1)
        self.stride, self.padding, self.dilation = _windows(name, self._rank, stride, padding, dilation)
        self.output_padding = one_for_each_axis(output_padding, self._rank, name, "output_padding", 0)
        self.groups, self.padding_mode = groups, padding_mode
        bound = self._bound()
        self.weight = init.bounded((in_channels, out_channels // groups, *self.kernel_size), bound, device, dtype)
        self.bias = init.bounded((out_channels,), bound, device, dtype) if bias else None
        init.settle(self, _Transposed)

    def _bound(self) -> float:
        return init.inverse_root(self.out_channels // self.groups * math.prod(self.kernel_size))

    def reset_parameters(self) -> None:
        """Draw the first values of the parameters anew."""
        init.redraw(self, self._bound())

    def forward(self, x: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra = self.output_padding if output_size is None else self._extra(x, tuple(output_size))
        how = (self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)
        result: Tensor = getattr(x, f"conv_transpose{self._rank}d")(*how)
        return result

    def _extra(self, x: Tensor, size: tuple[int, ...]) -> tuple[int, ...]:
        """The output padding that gives the last axes this size."""
        rank, name = self._rank, type(self).__name__
        stride = one_for_each_axis(self.stride, rank, name, "stride", 1)
        padding = one_for_each_axis(self.padding, rank, name, "padding", 0)
        dilation = one_for_each_axis(self.dilation, rank, name, "dilation", 1)
        least = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(x.shape[-rank:], stride, padding, dilation, self.kernel_size)
        ]
        extra = tuple(wanted - own for wanted, own in zip(size[-rank:], least))
        if len(size) < rank or any(not 0 <= e < max(s, 2) for e, s in zip(extra, stride)):
            raise ShapeError(f"{name}: output_size={size} does not fit; the smallest is {tuple(least)}")
        return extra


class ConvTranspose1d(_Transposed):
    """A transposed convolution over (batch, in_channels, length).

    >>> from rulegrad import nn
    >>> nn.ConvTranspose1d(8, 3, 2, stride=2)(Tensor.ones(1, 8, 5)).shape
    (1, 3, 10)
    """

    _rank = 1


class ConvTranspose2d(_Transposed):
    """A transposed convolution of images (batch, in_channels, height, width); `Tensor.conv_transpose2d` says more.

    weight: (in_channels, out_channels / groups, *kernel_size); bias: (out_channels,).

    >>> from rulegrad import Tensor, nn
    >>> nn.ConvTranspose2d(8, 3, 2, stride=2)(Tensor.ones(1, 8, 5, 5)).shape
    (1, 3, 10, 10)
    """

    _rank = 2


class ConvTranspose3d(_Transposed):
    """A transposed convolution over (batch, in_channels, depth, height, width).

    >>> from rulegrad import nn
    >>> nn.ConvTranspose3d(8, 3, 2, stride=2)(Tensor.ones(1, 8, 2, 2, 2)).shape
    (1, 3, 4, 4, 4)
    """

    _rank = 3


def _windows(name: str, rank: int, stride: Extents, padding: Extents | str, dilation: Extents) -> tuple[Any, Any, Any]:
    """Stride, padding and dilation for each axis. Raises ShapeError and ConfigError where no image fits."""
    steps = one_for_each_axis(stride, rank, name, "stride", 1)
    dilations = one_for_each_axis(dilation, rank, name, "dilation", 1)
    if not isinstance(padding, str):
        return steps, one_for_each_axis(padding, rank, name, "padding", 0), dilations
    if padding not in ("same", "valid"):
        raise ConfigError(f'{name}: padding={padding!r}; use "same", "valid" or numbers')
    if padding == "same" and max(steps) > 1:
        raise ConfigError(
            f'{name}: padding="same" keeps the size, which a stride of {stride} does not; use a stride of 1'
        )
    return steps, padding, dilations


def check_padding(shape: tuple[int, ...], pairs: Sequence[tuple[int, int]], mode: str) -> None:
    """Raises ShapeError where PyTorch does: "reflect" mirrors once, and "circular" goes round once."""
    for axis, (extent, pair) in enumerate(zip(shape, pairs)):
        if mode == "reflect" and max(pair) >= extent > 0 and max(pair):
            raise ShapeError(
                f"pad: reflect by {pair} along axis {axis} of the shape {shape}; it must be less than {extent}, or use "
                "Tensor.pad, which goes on mirroring"
            )
        if mode == "circular" and max(pair) > extent > 0:
            raise ShapeError(
                f"pad: circular by {pair} along axis {axis} of the shape {shape}; it must be at most {extent}, or use "
                "Tensor.pad, which goes on around"
            )
