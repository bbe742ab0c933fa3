"""Convolutions over any number of axes, by views: windows made of repeat, shrink and reshape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.tensor.axes import integers
from rulegrad.tensor.operands import as_tensor, result_dtype
from rulegrad.tensor.products import Products
from rulegrad.tensor.reduce import accumulation_dtype

if TYPE_CHECKING:
    from typing_extensions import Self

    from rulegrad.tensor.operands import Operand

    #: One number for all axes of the images, or one for each.
    Extents = int | Sequence[int]


class Convolution(Products):
    """conv1d, conv2d, conv3d, and their transposes."""

    __slots__ = ()

    # ---- convolutions ----

    def conv1d(
        self,
        weight: Operand,
        bias: Operand | None = None,
        stride: Extents = 1,
        padding: Extents | str = 0,
        dilation: Extents = 1,
        groups: int = 1,
    ) -> Self:
        """`conv2d` over one axis: (batch, channels, length) with weights (outputs, channels / groups, length).

        >>> from rulegrad import Tensor
        >>> Tensor([[[1.0, 2.0, 3.0]]]).conv1d(Tensor([[[1.0, 1.0]]])).tolist()
        [[[3.0, 5.0]]]
        """
        return self._convolution(1, weight, bias, stride, padding, dilation, groups)

    def conv2d(
        self,
        weight: Operand,
        bias: Operand | None = None,
        stride: Extents = 1,
        padding: Extents | str = 0,
        dilation: Extents = 1,
        groups: int = 1,
    ) -> Self:
        """Cross-correlation of images (batch, channels, height, width) with `weight`, as in PyTorch.

        weight: (outputs, channels / groups, kernel height, kernel width); bias: (outputs,). padding: numbers, "valid"
        (none) or "same" (the result has the size of the image, for a stride of 1). The batch axis may be left out.
        float16 adds up in float32. Raises ShapeError and ConfigError.

        >>> from rulegrad import Tensor
        >>> Tensor.ones(1, 2, 5, 5).conv2d(Tensor.ones(4, 2, 3, 3), padding=1, stride=2).shape
        (1, 4, 3, 3)
        """
        return self._convolution(2, weight, bias, stride, padding, dilation, groups)

    def conv3d(
        self,
        weight: Operand,
        bias: Operand | None = None,
        stride: Extents = 1,
        padding: Extents | str = 0,
        dilation: Extents = 1,
        groups: int = 1,
    ) -> Self:
        """`conv2d` over three axes: (batch, channels, depth, height, width).

        >>> from rulegrad import Tensor
        >>> Tensor.ones(1, 1, 2, 3, 4).conv3d(Tensor.ones(1, 1, 2, 2, 2)).shape
        (1, 1, 1, 2, 3)
        """
        return self._convolution(3, weight, bias, stride, padding, dilation, groups)

    def _convolution(
        self,
        rank: int,
        weight: Operand,
        bias: Operand | None,
        stride: Extents,
        padding: Extents | str,
        dilation: Extents,
        groups: int,
    ) -> Self:
        name = f"conv{rank}d"
        weight = as_tensor(self, weight, name)
        if self.ndim == rank + 1:
            batch = self.unsqueeze(0)
            return batch._convolution(rank, weight, bias, stride, padding, dilation, groups).squeeze(0)
        if (
            self.ndim != rank + 2
            or weight.ndim != rank + 2
            or self.shape[1] != weight.shape[1] * groups
            or weight.shape[0] % groups
        ):
            axes = ("depth, height, width", "height, width", "length")[3 - rank]
            raise ShapeError(
                f"{name}: images of shape {self.shape} and weights of shape {weight.shape} with groups={groups}; "
                f"they need (batch, channels, {axes}) and (outputs, channels / groups, {axes})"
            )
        strides = one_for_each_axis(stride, rank, name, "stride", 1)
        dilations = one_for_each_axis(dilation, rank, name, "dilation", 1)
        pairs = _padding(padding, weight.shape[2:], strides, dilations, name)
        offset = self._offset(bias, weight.shape[0], name)
        padded = self.pad([(0, 0), (0, 0), *pairs])
        return padded._correlated(weight, offset, strides, dilations, groups, name)

    def _offset(self, bias: Operand | None, outputs: int, name: str) -> Self | None:
        """The bias as a tensor. Raises ShapeError where it has not one number for each output."""
        if bias is None:
            return None
        found = as_tensor(self, bias, name)
        if found.shape != (outputs,):
            raise ShapeError(
                f"{name}: a bias of shape {found.shape} for {outputs} outputs; give one number for each, {(outputs,)}"
            )
        return found

    def _correlated(
        self,
        weight: Self,
        bias: Self | None,
        stride: tuple[int, ...],
        dilation: tuple[int, ...],
        groups: int,
        name: str,
    ) -> Self:
        """The windows times the weights, added up over channels and kernel."""
        result = result_dtype(self, weight)
        wide = accumulation_dtype(result)
        outputs, channels, *kernel = weight.shape
        rank = len(kernel)
        windows = self._windows(tuple(kernel), stride, dilation, name)
        batch, _, *extents = windows.shape[: rank + 2]
        # (batch, group, 1, *extents, channel, *kernel) * the weights of the group's outputs
        images = windows.reshape(batch, groups, channels, *extents, *kernel)
        images = images.moveaxis(2, 2 + rank).unsqueeze(2)
        kernels = weight.reshape(1, groups, outputs // groups, *(1,) * rank, channels, *kernel)
        axes = tuple(range(-rank - 1, 0))
        total = (images.cast(wide) * kernels.cast(wide)).sum(axis=axes, dtype=wide).cast(result)
        total = total.reshape(batch, outputs, *extents)
        return total if bias is None else total + bias.reshape(1, -1, *(1,) * rank)

    # ---- transposed convolutions ----

    def conv_transpose1d(
        self,
        weight: Operand,
        bias: Operand | None = None,
        stride: Extents = 1,
        padding: Extents = 0,
        output_padding: Extents = 0,
        groups: int = 1,
        dilation: Extents = 1,
    ) -> Self:
        """`conv_transpose2d` over one axis: (batch, channels, length).

        >>> from rulegrad import Tensor
        >>> Tensor([[[1.0, 2.0]]]).conv_transpose1d(Tensor([[[1.0, 10.0]]]), stride=2).tolist()
        [[[1.0, 10.0, 2.0, 20.0]]]
        """
        return self._transposed(1, weight, bias, stride, padding, output_padding, groups, dilation)

    def conv_transpose2d(
        self,
        weight: Operand,
        bias: Operand | None = None,
        stride: Extents = 1,
        padding: Extents = 0,
        output_padding: Extents = 0,
        groups: int = 1,
        dilation: Extents = 1,
    ) -> Self:
        """What `conv2d` does to gradients: every element spreads the kernel over the result, `stride` apart.

        weight: (channels, outputs / groups, kernel height, kernel width); bias: (outputs,). `padding` is cut off on all
        sides and `output_padding` is kept at the ends; the order of the arguments is PyTorch's. Raises ShapeError.

        >>> from rulegrad import Tensor
        >>> Tensor.ones(1, 2, 3, 3).conv_transpose2d(Tensor.ones(2, 4, 3, 3), stride=2, padding=1).shape
        (1, 4, 5, 5)
        """
        return self._transposed(2, weight, bias, stride, padding, output_padding, groups, dilation)

    def conv_transpose3d(
        self,
        weight: Operand,
        bias: Operand | None = None,
        stride: Extents = 1,
        padding: Extents = 0,
        output_padding: Extents = 0,
        groups: int = 1,
        dilation: Extents = 1,
    ) -> Self:
        """`conv_transpose2d` over three axes: (batch, channels, depth, height, width).

        >>> Tensor.ones(1, 1, 2, 2, 2).conv_transpose3d(Tensor.ones(1, 1, 2, 2, 2), stride=2).shape
        (1, 1, 4, 4, 4)
        """
        return self._transposed(3, weight, bias, stride, padding, output_padding, groups, dilation)

    def _transposed(
        self,
        rank: int,
        weight: Operand,
        bias: Operand | None,
        stride: Extents,
        padding: Extents,
        output_padding: Extents,
        groups: int,
        dilation: Extents,
    ) -> Self:
        name = f"conv_transpose{rank}d"
        weight = as_tensor(self, weight, name)
        if self.ndim == rank + 1:
            batch = self.unsqueeze(0)
            how = (stride, padding, output_padding, groups, dilation)
            return batch._transposed(rank, weight, bias, *how).squeeze(0)
        if (
            self.ndim != rank + 2
            or weight.ndim != rank + 2
            or self.shape[1] != weight.shape[0]
            or self.shape[1] % groups
        ):
            raise ShapeError(
                f"{name}: images of shape {self.shape} and weights of shape {weight.shape} with groups={groups}; "
                f"they need (batch, channels, …) and (channels, outputs / groups, …), with {rank} axes behind"
            )
        strides = one_for_each_axis(stride, rank, name, "stride", 1)
        dilations = one_for_each_axis(dilation, rank, name, "dilation", 1)
        cuts = one_for_each_axis(padding, rank, name, "padding", 0)
        extra = one_for_each_axis(output_padding, rank, name, "output_padding", 0)
        if any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations)):
            raise ShapeError(f"{name}: output_padding={output_padding!r}; it must be below the stride or the dilation")
        channels, outputs, *kernel = weight.shape
        offset = self._offset(bias, outputs * groups, name)
        reach = [d * (k - 1) for d, k in zip(dilations, kernel)]
        pairs = [(r - c, r - c + e) for r, c, e in zip(reach, cuts, extra)]
        # The kernels mirrored, with inputs and outputs exchanged within each group.
        kernels = weight.reshape(groups, channels // groups, outputs, *kernel).transpose(1, 2)
        kernels = kernels.reshape(groups * outputs, channels // groups, *kernel).flip(tuple(range(2, rank + 2)))
        spread = self._set_apart(strides)._padded_or_cut([(0, 0), (0, 0), *pairs], name)
        return spread._correlated(kernels, offset, (1,) * rank, dilations, groups, name)

    def _set_apart(self, strides: tuple[int, ...]) -> Self:
        """The elements of the last axes `strides` apart, with zeros between them."""
        if all(stride == 1 for stride in strides):
            return self
        lead, extents = self.shape[: -len(strides)], self.shape[-len(strides) :]
        pairs = [part for extent in extents for part in (extent, 1)]
        gaps = [part for stride in strides for part in ((0, 0), (0, stride - 1))]
        view = self.reshape(*lead, *pairs).pad([(0, 0)] * len(lead) + gaps)
        view = view.reshape(*lead, *(n * s for n, s in zip(extents, strides)))
        ends = [(0, max((n - 1) * s + 1, 0)) for n, s in zip(extents, strides)]
        return view.shrink(*[None] * len(lead), *ends)

    def _padded_or_cut(self, pairs: list[tuple[int, int]], name: str) -> Self:
        """`pad` that cuts off where a number is negative."""
        padded = self.pad([(max(b, 0), max(a, 0)) for b, a in pairs])
        ends = [(max(-b, 0), n - max(-a, 0)) for (b, a), n in zip(pairs, padded.shape)]
        if any(end < begin for begin, end in ends):
            raise ShapeError(f"{name}: the padding cuts off more than there is of the shape {padded.shape}")
        return padded.shrink(*ends)

    # ---- windows ----

    def _windows(self, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], name: str) -> Self:
        """(…, *extents) as (…, *places, *kernel), a view: the windows along the last axes."""
        view, rank = self, len(kernel)
        lead = self.ndim - rank
        for k in reversed(range(rank)):
            view = view._windows_along(lead + k, kernel[k], stride[k], dilation[k], name)
        places = [lead + 2 * k for k in range(rank)]
        return view.permute(*range(lead), *places, *(place + 1 for place in places))

    def _windows_along(self, axis: int, kernel: int, stride: int, dilation: int, name: str) -> Self:
        """The axis as two: element (place, offset) is element `place * stride + offset * dilation` of it."""
        extent = self.shape[axis]
        count = (extent - dilation * (kernel - 1) - 1) // stride + 1
        if count < 1:
            raise ShapeError(
                f"{name}: a kernel of {kernel} (dilation {dilation}) does not fit axis {axis} of the shape "
                f"{self.shape}; use padding, or a smaller kernel"
            )
        if kernel == 1 or (dilation == 1 and kernel <= stride):
            return self._separate_windows(axis, kernel, stride, count)
        # In a matrix with rows of `repeats * extent + dilation`, filled with the axis over and over, each row
        # starts `dilation` later than the one before.
        width = max(-(-(count * stride - dilation) // extent), 1) * extent + dilation
        view = self._along(axis, extent, -(-kernel * width // extent) * extent, (kernel, width))
        view = view._between(axis + 1, 0, count * stride)._split(axis + 1, (count, stride))._between(axis + 2, 0, 1)
        return view.squeeze(axis + 2).transpose(axis, axis + 1)

    def _separate_windows(self, axis: int, kernel: int, stride: int, count: int) -> Self:
        """Windows that do not overlap: a reshape."""
        missing = max(count * stride - self.shape[axis], 0)
        after = tuple(missing if k == axis else 0 for k in range(self.ndim))
        padded = self._viewed("PAD", before=(0,) * self.ndim, after=after) if missing else self
        return padded._between(axis, 0, count * stride)._split(axis, (count, stride))._between(axis + 1, 0, kernel)

    def _along(self, axis: int, extent: int, whole: int, parts: tuple[int, int]) -> Self:
        """The axis repeated to `whole` elements, of which the first are taken as a matrix of shape `parts`."""
        repeated = self._repeated(tuple(whole // extent if k == axis else 1 for k in range(self.ndim)))
        return repeated._between(axis, 0, math.prod(parts))._split(axis, parts)

    def _split(self, axis: int, parts: tuple[int, int]) -> Self:
        """The axis as two."""
        return self.reshape(self.shape[:axis] + parts + self.shape[axis + 1 :])


def one_for_each_axis(value: Extents, rank: int, operation: str, name: str, least: int) -> tuple[int, ...]:
    """`value` as `rank` numbers of `least` or more. Raises ShapeError."""
    numbers = integers((value,), f"{operation} {name}")
    if len(numbers) == 1:
        numbers *= rank
    if len(numbers) != rank or min(numbers) < least:
        raise ShapeError(f"{operation}: {name}={value!r}; give one number of {least} or more, or {rank} of them")
    return numbers


def _padding(
    padding: Extents | str,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    name: str,
) -> list[tuple[int, int]]:
    """What is added before and after each axis."""
    if not isinstance(padding, str):
        return [(n, n) for n in one_for_each_axis(padding, len(kernel), name, "padding", 0)]
    if padding == "valid":
        return [(0, 0)] * len(kernel)
    if padding != "same" or any(n != 1 for n in stride):
        raise ConfigError(
            f'{name}: padding={padding!r} with stride={stride}; use numbers, "valid", or "same" at stride 1'
        )
    totals = [d * (k - 1) for d, k in zip(dilation, kernel)]
    return [(total // 2, total - total // 2) for total in totals]
