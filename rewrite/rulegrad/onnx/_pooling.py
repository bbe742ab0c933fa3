"""Pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rulegrad.onnx._convolution import automatic_pads
from rulegrad.onnx._graph import Call
from rulegrad.onnx._shapes import padded
from rulegrad.onnx._table import op
from rulegrad.tensor.tensor import Tensor


class Windows:
    """The windows of a pooling: sizes, steps, and pads that make every window whole."""

    def __init__(
        self,
        x: Tensor,
        kernel: list[int],
        auto_pad: str,
        ceil_mode: int,
        dilations: list[int] | None,
        pads: list[int] | None,
        strides: list[int] | None,
    ) -> None:
        rank = len(kernel)
        self.kernel, self.rank = kernel, rank
        self.strides, self.dilations = strides or [1] * rank, dilations or [1] * rank
        sizes = x.shape[2:]
        edges = automatic_pads(auto_pad, pads, sizes, kernel, self.strides, self.dilations)
        self.begins, self.ends = edges[:rank], edges[rank:]
        self.counts, self.more = [], []
        for axis, size in enumerate(sizes):
            reach = self.dilations[axis] * (kernel[axis] - 1) + 1
            room = size + self.begins[axis] + self.ends[axis] - reach
            count = room // self.strides[axis] + 1
            if ceil_mode:
                count = -(-room // self.strides[axis]) + 1
                # No window begins in the padding at the end.
                if (count - 1) * self.strides[axis] >= size + self.begins[axis]:
                    count -= 1
            self.counts.append(count)
            self.more.append(max((count - 1) * self.strides[axis] + reach - size - self.begins[axis], 0))

    def pad(self, x: Tensor, value: Any) -> Tensor:
        ends = [max(end, more) for end, more in zip(self.ends, self.more)]
        x = padded(x, [0, 0, *self.begins, 0, 0, *ends], "constant", value)
        # Nothing after the last window.
        sizes = zip(self.counts, self.strides, self.dilations, self.kernel)
        used = (slice(None), slice(None), *(slice(0, (n - 1) * s + d * (k - 1) + 1) for n, s, d, k in sizes))
        return x[used]

    def sum(self, x: Tensor) -> Tensor:
        """Sums over the windows."""
        if any(one != 1 for one in self.dilations):
            whole = self.pad(x, 0)
            flat = whole.reshape(-1, 1, *whole.shape[2:])
            ones = Tensor.ones(1, 1, *self.kernel, dtype=x.dtype, device=x.device)
            convolve = {1: flat.conv1d, 2: flat.conv2d, 3: flat.conv3d}[self.rank]
            found = convolve(ones, None, tuple(self.strides), 0, tuple(self.dilations))
            return found.reshape(*x.shape[:2], *found.shape[2:])
        whole = self.pad(x, 0)
        pool: Callable[..., Tensor] = {1: whole.avg_pool1d, 2: whole.avg_pool2d, 3: whole.avg_pool3d}[self.rank]
        return pool(tuple(self.kernel), tuple(self.strides)) * int(np.prod(self.kernel))

    def members(self, sizes: Any, padding_counts: bool) -> Any:
        """How many elements each window has: those of the tensor, and of the padding where it counts."""
        found = np.ones((), np.float64)
        for axis, size in enumerate(sizes):
            starts = np.arange(self.counts[axis]) * self.strides[axis] - self.begins[axis]
            places = starts[:, None] + np.arange(self.kernel[axis]) * self.dilations[axis]
            low, high = (-self.begins[axis], size + self.ends[axis]) if padding_counts else (0, size)
            found = found[..., None] * ((places >= low) & (places < high)).sum(1)
        return found


@op("AveragePool")
def average_pool(
    call: Call,
    x: Tensor,
    *,
    auto_pad: str,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: list[int] | None = None,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    windows = Windows(x, kernel_shape, auto_pad, ceil_mode, dilations, pads, strides)
    members = windows.members(x.shape[2:], bool(count_include_pad))
    if members.min() == members.max():
        return windows.sum(x) / float(members.max())
    return windows.sum(x) / Tensor(members.astype(x.dtype.numpy), device=x.device)


@op("LpPool")
def lp_pool(
    call: Call,
    x: Tensor,
    *,
    auto_pad: str,
    ceil_mode: int = 0,
    dilations: list[int] | None = None,
    kernel_shape: list[int],
    p: int,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    windows = Windows(x, kernel_shape, auto_pad, ceil_mode, dilations, pads, strides)
    return windows.sum(x.abs() ** p) ** (1 / p)


@op("MaxPool")
def max_pool(
    call: Call,
    x: Tensor,
    *,
    auto_pad: str,
    ceil_mode: int = 0,
    dilations: list[int] | None = None,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    storage_order: int = 0,
    strides: list[int] | None = None,
) -> Any:
    windows = Windows(x, kernel_shape, auto_pad, ceil_mode, dilations, pads, strides)
    least = -np.inf if x.dtype.is_float else np.iinfo(x.dtype.numpy).min
    whole = windows.pad(x, least if x.dtype.is_float else int(least))
    pool: Callable[..., Any] = {1: whole.max_pool1d, 2: whole.max_pool2d, 3: whole.max_pool3d}[windows.rank]
    more = {"stride": tuple(windows.strides), "dilation": tuple(windows.dilations)}
    if not call.wants(1):
        return pool(tuple(windows.kernel), **more)
    found, places = pool(tuple(windows.kernel), **more, return_indices=True)
    return found, _places_unpadded(places.cast("int64"), x, whole, windows, bool(storage_order))


def _places_unpadded(places: Tensor, x: Tensor, whole: Tensor, windows: Windows, columns: bool) -> Tensor:
    """Places in a padded plane as places in the whole tensor without padding."""
    parts = []
    for axis in reversed(range(windows.rank)):
        size = whole.shape[2 + axis]
        parts.append(places % size - windows.begins[axis])
        places = places // size
    order = list(reversed(range(windows.rank)))
    coordinates = dict(zip(order, parts))
    flat, stride = places.zeros_like(), 1
    for axis in range(windows.rank) if columns else order:
        flat, stride = flat + coordinates[axis] * stride, stride * x.shape[2 + axis]
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * windows.rank) * stride
    return flat + Tensor(planes, device=x.device)


@op("MaxUnpool", host=(2,))
def max_unpool(
    call: Call,
    x: Tensor,
    places: Tensor,
    shape: Any = None,
    *,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    rank = len(kernel_shape)
    step, edges = strides or [1] * rank, pads or [0] * (2 * rank)
    natural = [
        (n - 1) * s - edges[a] - edges[rank + a] + k for a, (n, s, k) in enumerate(zip(x.shape[2:], step, kernel_shape))
    ]
    sizes = [*x.shape[:2], *natural]
    count = int(np.prod(sizes))
    found = Tensor.zeros(count, dtype=x.dtype, device=x.device).scatter(0, places.reshape(-1), x.reshape(-1))
    found = found.reshape(sizes)
    if shape is None or list(shape) == sizes:
        return found
    wanted = [int(one) for one in shape]
    return padded(found, [0] * len(sizes) + [w - n for w, n in zip(wanted, sizes)], "constant", 0)


@op("GlobalAveragePool")
def global_average_pool(call: Call, x: Tensor) -> Tensor:
    return x.mean(axis=tuple(range(2, x.ndim)), keepdims=True)


@op("GlobalMaxPool")
def global_max_pool(call: Call, x: Tensor) -> Tensor:
    return x.max(axis=tuple(range(2, x.ndim)), keepdims=True)


@op("GlobalLpPool")
def global_lp_pool(call: Call, x: Tensor, *, p: int) -> Tensor:
    return (x.abs() ** p).sum(axis=tuple(range(2, x.ndim)), keepdims=True) ** (1 / p)
