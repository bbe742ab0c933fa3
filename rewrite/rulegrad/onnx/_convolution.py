"""Convolutions, and columns."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rulegrad.onnx._graph import Call
from rulegrad.onnx._shapes import padded
from rulegrad.onnx._table import op
from rulegrad.tensor.tensor import Tensor


def automatic_pads(
    auto_pad: str, pads: list[int] | None, sizes: Any, kernel: list[int], strides: list[int], dilations: list[int]
) -> list[int]:
    """The pads of the spatial axes: all beginnings, then all ends."""
    rank = len(kernel)
    if auto_pad == "NOTSET":
        return list(pads or [0] * (2 * rank))
    if auto_pad == "VALID":
        return [0] * (2 * rank)
    begins, ends = [], []
    for n, k, s, d in zip(sizes, kernel, strides, dilations):
        more = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
        less = more // 2
        begins.append(less if auto_pad == "SAME_UPPER" else more - less)
        ends.append(more - less if auto_pad == "SAME_UPPER" else less)
    return begins + ends


def convolved(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    auto_pad: str,
    dilations: list[int] | None,
    group: int,
    pads: list[int] | None,
    strides: list[int] | None,
) -> Tensor:
    """A convolution over all axes after the second."""
    rank, kernel = x.ndim - 2, list(weight.shape[2:])
    step, spread = strides or [1] * rank, dilations or [1] * rank
    edges = automatic_pads(auto_pad, pads, x.shape[2:], kernel, step, spread)
    if edges[:rank] == edges[rank:] and min(edges) >= 0:
        padding = tuple(edges[:rank])
    else:
        x, padding = padded(x, [0, 0, *edges[:rank], 0, 0, *edges[rank:]], "constant", 0), (0,) * rank
    function = {1: x.conv1d, 2: x.conv2d, 3: x.conv3d}[rank]
    return function(weight, bias, tuple(step), padding, tuple(spread), group)


@op("Conv")
def conv(
    call: Call,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str,
    dilations: list[int] | None = None,
    group: int,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    if x.ndim not in (3, 4, 5):
        raise call.error(f"convolutions have 1 to 3 axes, and the input is of shape {x.shape}")
    return convolved(x, weight, bias, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)


@op("ConvTranspose")
def conv_transpose(
    call: Call,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str,
    dilations: list[int] | None = None,
    group: int,
    kernel_shape: list[int] | None = None,
    output_padding: list[int] | None = None,
    output_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    rank, kernel = x.ndim - 2, list(weight.shape[2:])
    step, spread, more = strides or [1] * rank, dilations or [1] * rank, output_padding or [0] * rank
    full = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(x.shape[2:], step, spread, kernel)]
    edges = list(pads or [0] * (2 * rank))
    if output_shape is not None or auto_pad.startswith("SAME"):
        wanted = output_shape or [n * s for n, s in zip(x.shape[2:], step)]
        total = [one + extra - size for one, extra, size in zip(full, more, wanted[-rank:])]
        halves = [one // 2 for one in total]
        rest = [one - half for one, half in zip(total, halves)]
        edges = halves + rest if auto_pad == "SAME_UPPER" else rest + halves
    function = {1: x.conv_transpose1d, 2: x.conv_transpose2d, 3: x.conv_transpose3d}[rank]
    if edges[:rank] == edges[rank:] and min(edges) >= 0 and not any(more):
        return function(weight, bias, tuple(step), tuple(edges[:rank]), 0, group, tuple(spread))
    whole = function(weight, None, tuple(step), 0, 0, group, tuple(spread))
    crop = [-one for one in edges[:rank]] + [extra - one for extra, one in zip(more, edges[rank:])]
    whole = padded(whole, [0, 0, *crop[:rank], 0, 0, *crop[rank:]], "constant", 0)
    return whole if bias is None else whole + bias.reshape(-1, *[1] * rank)


@op("Col2Im", host=(1, 2))
def col2im(
    call: Call,
    x: Tensor,
    image_shape: Any,
    block_shape: Any,
    *,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    sizes, kernel = [int(one) for one in image_shape], [int(one) for one in block_shape]
    rank = len(sizes)
    step, spread, edges = strides or [1] * rank, dilations or [1] * rank, pads or [0] * (2 * rank)
    counts = [
        (n + edges[a] + edges[rank + a] - spread[a] * (kernel[a] - 1) - 1) // step[a] + 1 for a, n in enumerate(sizes)
    ]
    # The place in the padded image of each element of each column.
    whole = [n + edges[a] + edges[rank + a] for a, n in enumerate(sizes)]
    axes = [np.arange(kernel[a])[:, None] * spread[a] + np.arange(counts[a])[None, :] * step[a] for a in range(rank)]
    place = np.zeros((1,) * (2 * rank), np.int64)
    for a in range(rank):
        shape = [1] * (2 * rank)
        shape[a], shape[rank + a] = kernel[a], counts[a]
        place = place * whole[a] + axes[a].reshape(shape)
    channels = x.shape[1] // int(np.prod(kernel))
    flat = x.reshape(x.shape[0], channels, -1)
    index = np.broadcast_to(place.reshape(1, 1, -1), flat.shape)
    image = Tensor.zeros(x.shape[0], channels, int(np.prod(whole)), dtype=x.dtype, device=x.device)
    image = image.scatter_add(2, Tensor(np.ascontiguousarray(index), device=x.device), flat)
    image = image.reshape(x.shape[0], channels, *whole)
    inside = (slice(None), slice(None), *(slice(edges[a], edges[a] + n) for a, n in enumerate(sizes)))
    return image[inside]


def _bilinear(planes: Tensor, y: Tensor, x: Tensor, height: int, width: int) -> Tensor:
    """Planes (n, groups, channels, height * width) at the places (n, groups, taps, rows, columns); 0 outside them."""
    n, groups, channels = planes.shape[:3]
    parts = []
    for dy in (0, 1):
        for dx in (0, 1):
            row, column = y.floor() + dy, x.floor() + dx
            share = (1 - (y - row).abs()) * (1 - (x - column).abs())
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            index = row.clip(0, height - 1) * width + column.clip(0, width - 1)
            index = index.cast("int64").reshape(n, groups, 1, -1).expand(n, groups, channels, prod(y.shape[2:]))
            read = planes.gather(3, index).reshape(n, groups, channels, *y.shape[2:])
            parts.append(read * inside.where(share, share.zeros_like()).unsqueeze(2))
    return parts[0] + parts[1] + parts[2] + parts[3]


@op("DeformConv")
def deform_conv(
    call: Call,
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: list[int] | None = None,
    group: int,
    kernel_shape: list[int] | None = None,
    offset_group: int,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    if x.ndim != 4:
        raise call.error(f"deformable convolutions have 2 axes, and the input is of shape {x.shape}")
    step, spread, edges = strides or [1, 1], dilations or [1, 1], pads or [0] * 4
    (n, c, height, width), (kh, kw), (oh, ow) = x.shape, weight.shape[2:], offset.shape[2:]
    moved = offset.reshape(n, offset_group, kh * kw, 2, oh, ow)
    ys = (np.arange(oh) * step[0] - edges[0])[None, :, None] + np.repeat(np.arange(kh) * spread[0], kw)[:, None, None]
    xs = (np.arange(ow) * step[1] - edges[1])[None, None, :] + np.tile(np.arange(kw) * spread[1], kh)[:, None, None]
    y = moved[:, :, :, 0] + Tensor(ys.astype(x.dtype.numpy), device=x.device)
    at = moved[:, :, :, 1] + Tensor(xs.astype(x.dtype.numpy), device=x.device)
    planes = x.reshape(n, offset_group, c // offset_group, height * width)
    total = _bilinear(planes, y, at, height, width)
    if mask is not None:
        total = total * mask.reshape(n, offset_group, 1, kh * kw, oh, ow)
    columns = total.reshape(n, group, c // group * kh * kw, oh * ow)
    rows = weight.reshape(1, group, weight.shape[0] // group, -1)
    found = (rows @ columns).reshape(n, weight.shape[0], oh, ow)
    return found if bias is None else found + bias.reshape(1, -1, 1, 1)
