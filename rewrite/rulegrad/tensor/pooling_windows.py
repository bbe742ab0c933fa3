"""The windows of a pooling, and the gradient of the largest element of each."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from rulegrad.errors import ShapeError
from rulegrad.ir.dtype import int32
from rulegrad.ir.limits import extremes
from rulegrad.tensor.convolution import one_for_each_axis, sliding_windows, windows_along_axis

if TYPE_CHECKING:
    from rulegrad.tensor.convolution import Extents
    from rulegrad.tensor.tensor import Tensor


class PoolingWindows:
    """The windows of one pooling: what is added around the axes, and how the windows lie."""

    def __init__(
        self,
        shape: tuple[int, ...],
        rank: int,
        name: str,
        kernel_size: Extents,
        stride: Extents | None,
        padding: Extents,
        dilation: Extents,
        ceil_mode: bool,
    ) -> None:
        need_axes(shape, rank, name)
        self.name = name
        self.kernel = one_for_each_axis(kernel_size, rank, name, "kernel_size", 1)
        # () is how PyTorch's own functions leave the stride out.
        given = self.kernel if stride is None or stride == () else stride
        self.stride = one_for_each_axis(given, rank, name, "stride", 1)
        self.dilation = one_for_each_axis(dilation, rank, name, "dilation", 1)
        self.padding = one_for_each_axis(padding, rank, name, "padding", 0)
        self.extents = shape[len(shape) - rank :]
        if any(2 * p > k for p, k in zip(self.padding, self.kernel)):
            raise ShapeError(f"{name}: padding={padding!r} is more than half of kernel_size={kernel_size!r}")
        self.after = [self._after(k, ceil_mode) for k in range(rank)]
        self.is_padded = any(self.padding) or any(self.after)

    def _after(self, k: int, ceil_mode: bool) -> int:
        """The elements added behind axis k: the padding, and with `ceil_mode` those that the last window needs."""
        extent, pad, stride = self.extents[k], self.padding[k], self.stride[k]
        reach = self.dilation[k] * (self.kernel[k] - 1) + 1
        if not ceil_mode:
            return pad
        last = max(-(-(extent + 2 * pad - reach) // stride), 0)
        if last * stride >= extent + pad:
            # Such a window would begin behind the image.
            last -= 1
        return max(pad, last * stride + reach - extent - pad)

    def of(self, tensor: Any, value: Any) -> Any:
        """The windows of `tensor`, with `value` around it."""
        lead = [(0, 0)] * (tensor.ndim - len(self.kernel))
        padded = tensor.pad([*lead, *zip(self.padding, self.after)], value=value)
        return sliding_windows(padded, self.kernel, self.stride, self.dilation, self.name)

    @property
    def overlap(self) -> bool:
        """Whether windows of neighbouring elements share some, along any axis."""
        return any(k > s for k, s in zip(self.kernel, self.stride)) and all(d == 1 for d in self.dilation)

    @property
    def key(self) -> Hashable:
        """The parameters that the windows depend on beside the shape."""
        return self.name, self.kernel, self.stride, self.padding, tuple(self.after)

    def gradient_of_largest(self, d: Tensor, x: Tensor) -> Tensor:
        """The gradient by x of the largest element of each window, where d is that by the largest.

        Equal elements share it. With stride s, element `s * j + r` of an axis (r < s) is in the windows j, j - 1, … as
        their element r, s + r, …: it is compared with the largest of each, so no sum over views of windows is needed.
        """
        rank = len(self.kernel)
        axes = tuple(range(-rank, 0))
        parts: Tensor = self.of(x, extremes(x.dtype)[0])
        largest = parts.amax(axes, keepdim=True)
        equal = ((parts == largest) | parts.isnan()).cast(x.dtype).sum(axes)
        share, largest = d / equal, largest.reshape(d.shape)
        reached = [-(-k // s) for k, s in zip(self.kernel, self.stride)]  # windows that an element can be in
        rows = [count + most - 1 for count, most in zip(d.shape[-rank:], reached)]
        elements = self._by_strides(x, rows)
        lead = [(0, 0)] * (x.ndim - rank)
        of_rows = (*x.shape[:-rank], *(part for n in rows for part in (n, 1)))
        total: Tensor = elements.zeros_like()
        for back in itertools.product(*map(range, reached)):
            moved = [*lead, *((q, most - 1 - q) for q, most in zip(back, reached))]
            hit = (elements == largest.pad(moved).reshape(of_rows)) | elements.isnan()
            for k, q in enumerate(back):
                inside = self.kernel[k] - q * self.stride[k]
                if inside < self.stride[k]:
                    offsets = x.arange(self.stride[k], dtype=int32, device=x._device or None)
                    hit = hit & (offsets < inside).reshape(-1, *(1,) * (2 * (rank - 1 - k)))
            total = total + hit.where(share.pad(moved).reshape(of_rows), 0)
        flat = total.reshape(*x.shape[:-rank], *(n * s for n, s in zip(rows, self.stride)))
        missing = [max(p + e - n, 0) for p, e, n in zip(self.padding, self.extents, flat.shape[-rank:])]
        ends = ((p, p + e) for p, e in zip(self.padding, self.extents))
        return flat.pad([*lead, *((0, n) for n in missing)]).shrink(*[None] * len(lead), *ends)

    def _by_strides(self, x: Tensor, rows: list[int]) -> Tensor:
        """Each of the last axes as two, (rows, stride), from where the first window begins."""
        rank = len(rows)
        lead = x.shape[:-rank]
        wanted = [n * s for n, s in zip(rows, self.stride)]
        after = [max(n - e - p, 0) for n, e, p in zip(wanted, self.extents, self.padding)]
        padded = x.pad([*[(0, 0)] * len(lead), *zip(self.padding, after)])
        whole = padded.shrink(*[None] * len(lead), *((0, n) for n in wanted))
        return whole.reshape(*lead, *(part for pair in zip(rows, self.stride) for part in pair))

    def counts(self, like: Any, k: int, include_padding: bool) -> Any:
        """How many elements each window has along axis k, ready to be broadcast."""
        pad, after = self.padding[k], self.after[k]
        # The padding of both sides counts; what was added so that the last window fits does not.
        inside = (pad, pad) if include_padding else (0, 0)
        ones = like.ones(self.extents[k] + sum(inside), device=like._device or None)
        ones = ones.pad([(pad - inside[0], max(after - inside[1], 0))])
        counts = windows_along_axis(ones, 0, self.kernel[k], self.stride[k], 1, self.name).sum(1)
        return counts.reshape(-1, *(1,) * (len(self.kernel) - 1 - k))


def need_axes(shape: tuple[int, ...], rank: int, name: str) -> None:
    """Raises ShapeError for a shape of fewer axes than are pooled."""
    if len(shape) < rank:
        axes = ("depth, height and width", "height and width", "length")[3 - rank]
        raise ShapeError(f"{name}: the shape {shape} has no {axes}; give at least {rank} axes")
