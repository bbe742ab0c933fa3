"""Pooling by norms, and over windows that are drawn at random: what tensors have no methods for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.tensor.axes import integers
from rulegrad.tensor.convolution import one_for_each_axis
from rulegrad.tensor.pooling import largest_at
from rulegrad.tensor.tensor import Tensor

Extents = int | Sequence[int]


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Extents, stride: Extents | None = None, ceil_mode: bool = False
) -> Tensor:
    """`lp_pool2d` over the last axis.

    >>> import rulegrad.nn.functional as F
    >>> F.lp_pool1d(Tensor([[3.0, 4.0, 6.0, 8.0]]), 2, 2).tolist()
    [[5.0, 10.0]]
    """
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Extents, stride: Extents | None = None, ceil_mode: bool = False
) -> Tensor:
    """The root of the sum of powers `x ** norm_type` of each window of the last two axes; inf: the largest |x|.

    The stride is the window by default. Raises ShapeError, and ConfigError for a `norm_type` of 0.

    >>> import rulegrad.nn.functional as F
    >>> F.lp_pool2d(Tensor([[[1.0, 5.0], [1.0, 3.0]]]), 2, 2).tolist()
    [[[6.0]]]
    """
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Extents, stride: Extents | None = None, ceil_mode: bool = False
) -> Tensor:
    """`lp_pool2d` over the last three axes.

    >>> import rulegrad.nn.functional as F
    >>> F.lp_pool3d(Tensor.ones(1, 2, 2, 2), 1, 2).tolist()
    [[[[8.0]]]]
    """
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


def _lp_pool(
    rank: int, x: Tensor, norm_type: float, kernel_size: Extents, stride: Extents | None, ceil_mode: bool
) -> Tensor:
    name = f"lp_pool{rank}d"
    if norm_type == 0:
        raise ConfigError(f"{name}: norm_type=0 has no root; use another number")
    how = (kernel_size, stride, 0)
    if abs(norm_type) == math.inf:
        sign = math.copysign(1, norm_type)
        largest: Tensor = getattr(x.abs() * sign, f"max_pool{rank}d")(*how, 1, ceil_mode)
        return largest * sign
    count = math.prod(one_for_each_axis(kernel_size, rank, name, "kernel_size", 1))
    means: Tensor = getattr(x**norm_type, f"avg_pool{rank}d")(*how, ceil_mode)
    # The slope of the root is infinite at 0, where relu makes it 0.
    result: Tensor = (means.sign() * means.abs().relu() * count) ** (1.0 / norm_type)
    return result


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Extents,
    output_size: Extents | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest elements of windows that begin at random places, in order, such that there are `output_size`.

    output_ratio: the size as a share of the last two axes; one of both is given. return_indices: also where the
    largest are in the flattened image. _random_samples: (batch, channels, 2) numbers in [0, 1) to draw the places by.
    From Graham 2014, "Fractional Max-Pooling". Raises ShapeError and ConfigError.

    >>> import rulegrad.nn.functional as F
    >>> F.fractional_max_pool2d(Tensor.arange(36).reshape(1, 6, 6), 2, 3).shape
    (1, 3, 3)
    """
    return _fractional(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Extents,
    output_size: Extents | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """`fractional_max_pool2d` over the last three axes.

    >>> import rulegrad.nn.functional as F
    >>> F.fractional_max_pool3d(Tensor.ones(1, 6, 6, 8), 2, output_ratio=0.5).shape
    (1, 3, 3, 4)
    """
    return _fractional(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def _fractional(
    rank: int,
    x: Tensor,
    kernel_size: Extents,
    output_size: Extents | None,
    output_ratio: float | Sequence[float] | None,
    return_indices: bool,
    samples: Tensor | None,
) -> Any:
    name = f"fractional_max_pool{rank}d"
    if x.ndim not in (rank + 1, rank + 2):
        raise ShapeError(f"{name}: the shape {x.shape}; it needs (batch, channels) and {rank} axes, or no batch")
    if (output_size is None) == (output_ratio is None):
        raise ConfigError(f"{name}: output_size={output_size}, output_ratio={output_ratio}; give one of both")
    extents, kernel = x.shape[-rank:], one_for_each_axis(kernel_size, rank, name, "kernel_size", 1)
    if output_ratio is not None:
        shares = output_ratio if isinstance(output_ratio, Sequence) else [output_ratio] * rank
        output_size = [int(extent * share) for extent, share in zip(extents, shares)]
    sizes = one_for_each_axis(integers((output_size,), name), rank, name, "output_size", 1)
    if any(size + width - 1 > extent for size, width, extent in zip(sizes, kernel, extents)):
        raise ShapeError(f"{name}: {sizes} windows of {kernel} do not fit {extents}; use fewer, or smaller ones")
    if x.ndim == rank + 1:
        one = _fractional(rank, x.unsqueeze(0), kernel, sizes, None, return_indices, samples)
        return tuple(part.squeeze(0) for part in one) if return_indices else one.squeeze(0)
    if samples is None:
        samples = Tensor.rand(*x.shape[:2], rank, device=x.device)
    found = largest_at(x, rank, _drawn_places(samples, extents, sizes, kernel))
    return found if return_indices else found[0]


def _drawn_places(samples: Tensor, extents: tuple[int, ...], sizes: tuple[int, ...], kernel: tuple[int, ...]) -> Tensor:
    """Where the elements of each window are in the flattened image: (batch, channels, *sizes, elements)."""
    rank, lead = len(extents), samples.shape[:2]
    # PyTorch's order: of two axes the last one comes first.
    order = (1, 0) if rank == 2 else (0, 1, 2)
    total: Tensor | None = None
    for axis, (extent, size, width) in enumerate(zip(extents, sizes, kernel)):
        number = Tensor.arange(size, device=samples.device)
        sample = samples[:, :, order[axis], None]
        step = (extent - width) / max(size - 1, 1)
        begin = ((number + sample) * step).cast("int64") - (sample * step).cast("int64")
        begin = (number == size - 1).where(extent - width, begin)
        own = begin.unsqueeze(-1) + Tensor.arange(width, device=samples.device)
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = size, width
        own = own.reshape(*lead, *shape)
        total = own if total is None else total * extent + own
    assert total is not None
    return total.reshape(*lead, *sizes, math.prod(kernel))
