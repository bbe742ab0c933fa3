"""Convolutions over any number of axes, by views: windows made of repeat, shrink and reshape."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.tensor.axes import integers
from rulegrad.tensor.custom_gradient import with_gradients
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.operands import as_tensor, result_dtype
from rulegrad.tensor.reduce import accumulation_dtype

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor

    #: One number for all axes of the images, or one for each.
    Extents = int | Sequence[int]


# ---- convolutions ----


@built_once
def conv1d(
    self: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    stride: Extents = 1,
    padding: Extents | str = 0,
    dilation: Extents = 1,
    groups: int = 1,
) -> Tensor:
    """`conv2d` over one axis: (batch, channels, length) with weights (outputs, channels / groups, length).

    >>> from rulegrad import Tensor
    >>> Tensor([[[1.0, 2.0, 3.0]]]).conv1d(Tensor([[[1.0, 1.0]]])).tolist()
    [[[3.0, 5.0]]]
    """
    return _convolution(self, 1, weight, bias, stride, padding, dilation, groups)


@built_once
def conv2d(
    self: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    stride: Extents = 1,
    padding: Extents | str = 0,
    dilation: Extents = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of images (batch, channels, height, width) with `weight`, as in PyTorch.

    weight: (outputs, channels / groups, kernel height, kernel width); bias: (outputs,). padding: numbers, "valid"
    (none) or "same" (the result has the size of the image, for a stride of 1). The batch axis may be left out.
    float16 adds up in float32. Raises ShapeError and ConfigError.

    >>> from rulegrad import Tensor
    >>> Tensor.ones(1, 2, 5, 5).conv2d(Tensor.ones(4, 2, 3, 3), padding=1, stride=2).shape
    (1, 4, 3, 3)
    """
    return _convolution(self, 2, weight, bias, stride, padding, dilation, groups)


@built_once
def conv3d(
    self: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    stride: Extents = 1,
    padding: Extents | str = 0,
    dilation: Extents = 1,
    groups: int = 1,
) -> Tensor:
    """`conv2d` over three axes: (batch, channels, depth, height, width).

    >>> from rulegrad import Tensor
    >>> Tensor.ones(1, 1, 2, 3, 4).conv3d(Tensor.ones(1, 1, 2, 2, 2)).shape
    (1, 1, 1, 2, 3)
    """
    return _convolution(self, 3, weight, bias, stride, padding, dilation, groups)


def _convolution(
    self: Tensor,
    rank: int,
    weight: Operand,
    bias: Operand | None,
    stride: Extents,
    padding: Extents | str,
    dilation: Extents,
    groups: int,
) -> Tensor:
    name = f"conv{rank}d"
    weight = as_tensor(self, weight, name)
    if self.ndim == rank + 1:
        batch = self.unsqueeze(0)
        return _convolution(batch, rank, weight, bias, stride, padding, dilation, groups).squeeze(0)
    _check_shapes(self, weight, rank, groups, name)
    strides = one_for_each_axis(stride, rank, name, "stride", 1)
    dilations = one_for_each_axis(dilation, rank, name, "dilation", 1)
    pairs = _padding(padding, weight.shape[2:], strides, dilations, name)
    offset = _offset(self, bias, weight.shape[0], name)
    images, kernel = self.shape[2:], weight.shape[2:]
    padded = self.pad([(0, 0), (0, 0), *pairs])
    total = _correlated(padded, weight, strides, dilations, groups, name)

    def by_images(d: Tensor, _: Tensor, w: Tensor) -> Tensor:
        reach = [t * (k - 1) for t, k in zip(dilations, kernel)]
        before = [r - p for r, (p, _) in zip(reach, pairs)]
        spread = [(n - 1) * s + 1 for n, s in zip(d.shape[2:], strides)]
        after = [n + r - e - b for n, r, e, b in zip(images, reach, spread, before)]
        return _spread(d, w, strides, dilations, groups, list(zip(before, after)), name)

    def by_weight(d: Tensor, x: Tensor, _: Tensor) -> Tensor:
        x = x.pad([(0, 0), (0, 0), *pairs])
        return _weight_gradient(d, x, kernel, strides, dilations, groups, name)

    key = (tuple(pairs), strides, dilations, groups)
    return _biased(with_gradients(total, self, weight, by_images, by_weight, key), offset)


def _check_shapes(images: Tensor, weight: Tensor, rank: int, groups: int, name: str) -> None:
    if (
        images.ndim != rank + 2
        or weight.ndim != rank + 2
        or images.shape[1] != weight.shape[1] * groups
        or weight.shape[0] % groups
    ):
        axes = ("depth, height, width", "height, width", "length")[3 - rank]
        raise ShapeError(
            f"{name}: images of shape {images.shape} and weights of shape {weight.shape} with groups={groups}; "
            f"they need (batch, channels, {axes}) and (outputs, channels / groups, {axes})"
        )


def _biased(total: Tensor, bias: Tensor | None) -> Tensor:
    return total if bias is None else total + bias.reshape(1, -1, *(1,) * (total.ndim - 2))


def _offset(self: Tensor, bias: Operand | None, outputs: int, name: str) -> Tensor | None:
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
    self: Tensor,
    weight: Tensor,
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    name: str,
) -> Tensor:
    """The windows times the weights, added up over channels and kernel."""
    result = result_dtype(self, weight)
    wide = accumulation_dtype(result)
    outputs, channels, *kernel = weight.shape
    rank = len(kernel)
    windows = sliding_windows(self, tuple(kernel), stride, dilation, name)
    batch, _, *extents = windows.shape[: rank + 2]
    # (batch, group, 1, *extents, channel, *kernel) * the weights of the group's outputs
    images = windows.reshape(batch, groups, channels, *extents, *kernel)
    images = images.moveaxis(2, 2 + rank).unsqueeze(2)
    kernels = weight.reshape(1, groups, outputs // groups, *(1,) * rank, channels, *kernel)
    axes = tuple(range(-rank - 1, 0))
    total = (images.cast(wide) * kernels.cast(wide)).sum(axis=axes, dtype=wide).cast(result)
    return total.reshape(batch, outputs, *extents)


def _weight_gradient(
    d: Tensor,
    padded: Tensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    name: str,
) -> Tensor:
    """For the gradient `d` of a correlation: the windows times it, added up over images and places.

    Channels are neighbours in a copy of the images, and in the sums, so that they are the lanes of a product.
    """
    wide = accumulation_dtype(result_dtype(d, padded))
    rank = len(kernel)
    outputs, extents = d.shape[1], d.shape[2:]
    channels = padded.shape[1] // groups
    last = padded.permute(0, *range(2, rank + 2), 1).contiguous().moveaxis(-1, 1)
    windows = sliding_windows(last, kernel, stride, dilation, name)
    # (kernel, group, output, channel, batch, place)
    windows = windows.reshape(-1, groups, 1, channels, *extents, *kernel)
    windows = windows.permute(*range(4 + rank, 4 + 2 * rank), 1, 2, 3, 0, *range(4, 4 + rank))
    d = d.reshape(-1, groups, outputs // groups, 1, *extents)
    d = d.permute(1, 2, 3, 0, *range(4, 4 + rank))
    total = (windows.cast(wide) * d.cast(wide)).sum(axis=tuple(range(-rank - 1, 0)), dtype=wide)
    total = total.contiguous().permute(rank, rank + 1, rank + 2, *range(rank)).cast(d.dtype)
    return total.reshape(outputs, channels, *kernel)


# ---- transposed convolutions ----


@built_once
def conv_transpose1d(
    self: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    stride: Extents = 1,
    padding: Extents = 0,
    output_padding: Extents = 0,
    groups: int = 1,
    dilation: Extents = 1,
) -> Tensor:
    """`conv_transpose2d` over one axis: (batch, channels, length).

    >>> from rulegrad import Tensor
    >>> Tensor([[[1.0, 2.0]]]).conv_transpose1d(Tensor([[[1.0, 10.0]]]), stride=2).tolist()
    [[[1.0, 10.0, 2.0, 20.0]]]
    """
    return _transposed(self, 1, weight, bias, stride, padding, output_padding, groups, dilation)


@built_once
def conv_transpose2d(
    self: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    stride: Extents = 1,
    padding: Extents = 0,
    output_padding: Extents = 0,
    groups: int = 1,
    dilation: Extents = 1,
) -> Tensor:
    """Transposed convolution, `conv2d`'s gradient: every element spreads the kernel over the result, `stride` apart.

    weight: (channels, outputs / groups, kernel height, kernel width); bias: (outputs,). `padding` is cut off on all
    sides and `output_padding` is kept at the ends; the order of the arguments is PyTorch's. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> Tensor.ones(1, 2, 3, 3).conv_transpose2d(Tensor.ones(2, 4, 3, 3), stride=2, padding=1).shape
    (1, 4, 5, 5)
    """
    return _transposed(self, 2, weight, bias, stride, padding, output_padding, groups, dilation)


@built_once
def conv_transpose3d(
    self: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    stride: Extents = 1,
    padding: Extents = 0,
    output_padding: Extents = 0,
    groups: int = 1,
    dilation: Extents = 1,
) -> Tensor:
    """`conv_transpose2d` over three axes: (batch, channels, depth, height, width).

    >>> Tensor.ones(1, 1, 2, 2, 2).conv_transpose3d(Tensor.ones(1, 1, 2, 2, 2), stride=2).shape
    (1, 1, 4, 4, 4)
    """
    return _transposed(self, 3, weight, bias, stride, padding, output_padding, groups, dilation)


def _transposed(
    self: Tensor,
    rank: int,
    weight: Operand,
    bias: Operand | None,
    stride: Extents,
    padding: Extents,
    output_padding: Extents,
    groups: int,
    dilation: Extents,
) -> Tensor:
    name = f"conv_transpose{rank}d"
    weight = as_tensor(self, weight, name)
    if self.ndim == rank + 1:
        batch = self.unsqueeze(0)
        how = (stride, padding, output_padding, groups, dilation)
        return _transposed(batch, rank, weight, bias, *how).squeeze(0)
    _check_transposed_shapes(self, weight, rank, groups, name)
    strides = one_for_each_axis(stride, rank, name, "stride", 1)
    dilations = one_for_each_axis(dilation, rank, name, "dilation", 1)
    cuts = one_for_each_axis(padding, rank, name, "padding", 0)
    extra = one_for_each_axis(output_padding, rank, name, "output_padding", 0)
    if any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations)):
        raise ShapeError(f"{name}: output_padding={output_padding!r}; it must be below the stride or the dilation")
    outputs, *kernel = weight.shape[1:]
    offset = _offset(self, bias, outputs * groups, name)
    reach = [d * (k - 1) for d, k in zip(dilations, kernel)]
    pairs = [(r - c, r - c + e) for r, c, e in zip(reach, cuts, extra)]
    total = _spread(self, weight, strides, dilations, groups, pairs, name)

    # It is the gradient of a convolution by its images: its own are that convolution, and the one by the weights.
    def images(d: Tensor) -> Tensor:
        return _padded_or_cut(d, [(0, 0), (0, 0), *((c, c - e) for c, e in zip(cuts, extra))], name)

    def by_elements(d: Tensor, _: Tensor, w: Tensor) -> Tensor:
        return _correlated(images(d), w, strides, dilations, groups, name)

    def by_weight(d: Tensor, x: Tensor, _: Tensor) -> Tensor:
        return _weight_gradient(x, images(d), tuple(kernel), strides, dilations, groups, name)

    key = ("transposed", tuple(pairs), strides, dilations, groups)
    return _biased(with_gradients(total, self, weight, by_elements, by_weight, key), offset)


def _check_transposed_shapes(elements: Tensor, weight: Tensor, rank: int, groups: int, name: str) -> None:
    if (
        elements.ndim != rank + 2
        or weight.ndim != rank + 2
        or elements.shape[1] != weight.shape[0]
        or elements.shape[1] % groups
    ):
        raise ShapeError(
            f"{name}: images of shape {elements.shape} and weights of shape {weight.shape} with groups={groups}; "
            f"they need (batch, channels, …) and (channels, outputs / groups, …), with {rank} axes behind"
        )


def _spread(
    self: Tensor,
    weight: Tensor,
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    groups: int,
    pairs: list[tuple[int, int]],
    name: str,
) -> Tensor:
    """The elements `strides` apart, with `pairs` around them, correlated with the kernels mirrored."""
    channels, outputs, *kernel = weight.shape
    rank = len(kernel)
    # Inputs and outputs are exchanged within each group.
    kernels = weight.reshape(groups, channels // groups, outputs, *kernel).transpose(1, 2)
    kernels = kernels.reshape(groups * outputs, channels // groups, *kernel).flip(tuple(range(2, rank + 2)))
    if any(s > 1 for s in strides) and all(d == 1 for d in dilations) and min(self.shape) > 0:
        return _by_residues(self, kernels, strides, groups, pairs, name)
    spread = _padded_or_cut(_set_apart(self, strides), [(0, 0), (0, 0), *pairs], name)
    return _correlated(spread, kernels, (1,) * rank, dilations, groups, name)


def _by_residues(
    self: Tensor, kernels: Tensor, strides: tuple[int, ...], groups: int, pairs: list[tuple[int, int]], name: str
) -> Tensor:
    """The result of elements `strides` apart, without the zeros between: places that leave the same residues are a
    correlation with every `strides`-th tap."""
    rank, extents, taps = len(strides), self.shape[2:], kernels.shape[2:]
    ends = [(n - 1) * s + 1 + b + a - k + 1 for n, s, (b, a), k in zip(extents, strides, pairs, taps)]
    counts = [-(-end // s) for end, s in zip(ends, strides)]
    total = None
    for residues in itertools.product(*map(range, strides)):
        first = [(b - r) % s for (b, _), r, s in zip(pairs, residues, strides)]
        if any(m >= k for m, k in zip(first, taps)):
            continue  # no tap meets an element there
        every = tuple(slice(m, None, s) for m, s in zip(first, strides))
        some = kernels[(slice(None),) * 2 + every]
        before = [(b - r - m) // s for (b, _), r, m, s in zip(pairs, residues, first, strides)]
        after = [q + k - 1 - n - b for b, q, k, n in zip(before, counts, some.shape[2:], extents)]
        padded = _padded_or_cut(self, [(0, 0), (0, 0), *zip(before, after)], name)
        part = _correlated(padded, some, (1,) * rank, (1,) * rank, groups, name)
        part = part.reshape(*part.shape[:2], *(n for q in counts for n in (q, 1)))
        gaps = [gap for r, s in zip(residues, strides) for gap in ((0, 0), (r, s - 1 - r))]
        part = part.pad([(0, 0), (0, 0), *gaps])
        total = part if total is None else total + part
    assert total is not None  # the first taps meet the first elements
    whole = total.reshape(*total.shape[:2], *(q * s for q, s in zip(counts, strides)))
    return whole.shrink(None, None, *((0, end) for end in ends))


def _set_apart(self: Tensor, strides: tuple[int, ...]) -> Tensor:
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


def _padded_or_cut(self: Tensor, pairs: list[tuple[int, int]], name: str) -> Tensor:
    """`pad` that cuts off where a number is negative."""
    padded = self.pad([(max(b, 0), max(a, 0)) for b, a in pairs])
    ends = [(max(-b, 0), n - max(-a, 0)) for (b, a), n in zip(pairs, padded.shape)]
    if any(end < begin for begin, end in ends):
        raise ShapeError(f"{name}: the padding cuts off more than there is of the shape {padded.shape}")
    return padded.shrink(*ends)


# ---- windows ----


def sliding_windows(
    self: Tensor, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], name: str
) -> Tensor:
    """(…, *extents) as (…, *places, *kernel), a view: the windows along the last axes."""
    view, rank = self, len(kernel)
    lead = self.ndim - rank
    for k in reversed(range(rank)):
        view = windows_along_axis(view, lead + k, kernel[k], stride[k], dilation[k], name)
    places = [lead + 2 * k for k in range(rank)]
    return view.permute(*range(lead), *places, *(place + 1 for place in places))


def windows_along_axis(self: Tensor, axis: int, kernel: int, stride: int, dilation: int, name: str) -> Tensor:
    """The axis as two: element (place, offset) is element `place * stride + offset * dilation` of it."""
    extent = self.shape[axis]
    count = (extent - dilation * (kernel - 1) - 1) // stride + 1
    if count < 1:
        raise ShapeError(
            f"{name}: a kernel of {kernel} (dilation {dilation}) does not fit axis {axis} of the shape "
            f"{self.shape}; use padding, or a smaller kernel"
        )
    if kernel == stride == 1:
        return split_axis(self, axis, (extent, 1))
    return self._viewed("UNFOLD", axis=axis, size=kernel, step=stride, dilation=dilation)


def split_axis(self: Tensor, axis: int, parts: tuple[int, int]) -> Tensor:
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
    """The padding before and after each axis."""
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
