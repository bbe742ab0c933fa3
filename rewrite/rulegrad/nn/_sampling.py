"""Images read at any places: `affine_grid` says where, `grid_sample` reads there (a spatial transformer)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.tensor.axes import extents
from rulegrad.tensor.gathering import taken
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.operands import of_tensors
from rulegrad.tensor.reduce import accumulation_dtype
from rulegrad.tensor.tensor import Tensor

Mode = Literal["bilinear", "nearest", "bicubic"]
Border = Literal["zeros", "border", "reflection"]


@of_tensors
@built_once
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The places that `grid_sample` reads for images of `size` under affine maps: `theta @ (x, y, 1)`.

    theta: (batch, 2, 3) for a size (batch, channels, height, width), or (batch, 3, 4) for one with a depth. Places are
    (x, y) or (x, y, z) from -1 to 1: with `align_corners` these are the middles of the outermost elements, else their
    outer borders. From Jaderberg et al. 2015, "Spatial Transformer Networks". Raises ShapeError.

    >>> import rulegrad.nn.functional as F
    >>> same = Tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> F.affine_grid(same, (1, 1, 1, 2)).tolist()
    [[[[-0.5, 0.0], [0.5, 0.0]]]]
    """
    sizes = extents((size,), "affine_grid")
    batch, _, *spatial = sizes if len(sizes) in (4, 5) else (0, 0)
    rank = len(spatial)
    if rank not in (2, 3) or theta.shape != (batch, rank, rank + 1):
        raise ShapeError(
            f"affine_grid: theta of shape {theta.shape} for the size {sizes}; it needs (batch, 2, 3) for "
            "(batch, channels, height, width), or (batch, 3, 4) with a depth"
        )
    ones = Tensor.ones(*spatial, dtype=theta.dtype, device=theta.device)
    lines = []
    for axis, extent in enumerate(spatial):
        edge = 0.0 if extent == 1 else 1.0 if align_corners else (extent - 1) / extent
        line = Tensor.linspace(-edge, edge, extent, theta.dtype, theta.device)
        lines.append(line.reshape([extent if k == axis else 1 for k in range(rank)]) * ones)
    places = Tensor.stack([*reversed(lines), ones], axis=-1).reshape(1, -1, rank + 1)
    return (places @ theta.mT).reshape(batch, *spatial, rank)


@of_tensors
@built_once
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: Mode = "bilinear",
    padding_mode: Border = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Images (batch, channels, height, width) read at the places in `grid`: (batch, rows, columns, 2), or with a depth.

    Places are (x, y) or (x, y, z), as `affine_grid` gives them. mode: "bilinear" (of eight elements with a depth),
    "nearest", "bicubic" (without a depth; with a = -0.75). padding_mode: what is read outside: "zeros", the nearest
    element ("border"), or the image mirrored at its border ("reflection"). Places have gradients too, but for
    "nearest". The result is (batch, channels, rows, columns). Raises ShapeError and ConfigError.

    >>> import rulegrad.nn.functional as F
    >>> image = Tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> F.grid_sample(image, Tensor([[[[0.0, 0.0], [-0.5, -0.5], [5.0, 0.0]]]])).tolist()
    [[[[2.5, 1.0, 0.0]]]]
    """
    rank = input.ndim - 2
    if rank not in (2, 3) or grid.ndim != input.ndim or grid.shape[0] != input.shape[0] or grid.shape[-1] != rank:
        raise ShapeError(
            f"grid_sample: images of shape {input.shape} and a grid of shape {grid.shape}; they need (batch, channels, "
            "height, width) and (batch, rows, columns, 2), or both one axis more and 3 numbers"
        )
    if mode not in get_args(Mode) or padding_mode not in get_args(Border):
        raise ConfigError(
            f"grid_sample: mode={mode!r}, padding_mode={padding_mode!r}; use one of {', '.join(get_args(Mode))}, and "
            f"one of {', '.join(get_args(Border))}"
        )
    if mode == "bicubic" and rank == 3:
        raise ConfigError("grid_sample: bicubic is for images without a depth; use bilinear")
    if not math.prod(input.shape[2:]):
        raise ShapeError(f"grid_sample: images of shape {input.shape} have no elements to read")
    return _Sampler(input, padding_mode, bool(align_corners)).read(grid, mode)


class _Sampler:
    """Images that are read at places."""

    def __init__(self, images: Tensor, border: Border, align: bool) -> None:
        self.border, self.align = border, align
        self.dtype, self.wide = images.dtype, accumulation_dtype(images.dtype)
        self.extents = images.shape[2:]
        # vectors have twice as many places of 32 bits
        self.places = "int32" if math.prod(self.extents) < 1 << 31 else "int64"
        self.flat = images.reshape(*images.shape[:2], math.prod(self.extents))

    def read(self, grid: Tensor, mode: Mode) -> Tensor:
        rank = len(self.extents)
        # The numbers of a place are (x, y, z), the axes of an image (z, y, x).
        at = [self._scaled(grid[..., rank - 1 - k].cast(self.wide), n) for k, n in enumerate(self.extents)]
        if mode != "bicubic":
            at = [self._within(x, n) for x, n in zip(at, self.extents)]
        if mode == "nearest":
            return self._at([x.round() for x in at]).cast(self.dtype)
        taps = [_cubic_taps(x) if mode == "bicubic" else _linear_taps(x) for x in at]
        total: Tensor | None = None
        for choice in itertools.product(*taps):
            places = [place for place, _ in choice]
            if mode == "bicubic":
                places = [self._within(x, n) for x, n in zip(places, self.extents)]
            share = math.prod((weight for _, weight in choice[1:]), start=choice[0][1])
            part = self._at(places, share)
            total = part if total is None else total + part
        assert total is not None
        return total.cast(self.dtype)

    def _scaled(self, x: Tensor, extent: int) -> Tensor:
        """A place from -1 to 1 as one on the axis, whose elements are at 0, 1, …"""
        return (x + 1.0) * ((extent - 1) / 2) if self.align else ((x + 1.0) * extent - 1.0) / 2

    def _within(self, x: Tensor, extent: int) -> Tensor:
        """The place inside that is read for one outside, but with zeros around."""
        if self.border == "zeros":
            return x
        if self.border == "reflection":
            low, span = (0.0, extent - 1.0) if self.align else (-0.5, float(extent))
            x = _mirrored(x, low, span) if span else x * 0.0
        # At the borders themselves there is no gradient, as in PyTorch.
        return (x <= 0).where(0.0, (x >= extent - 1).where(extent - 1.0, x))

    def _at(self, places: list[Tensor], share: Tensor | None = None) -> Tensor:
        """The elements at whole places, one number for each axis, times their share; 0 outside."""
        index: Any = 0
        inside: Tensor | None = None
        for x, extent in zip(places, self.extents):
            here = (x >= 0) & (x <= extent - 1)
            inside = here if inside is None else inside & here
            # nan and what no integer holds are outside, too.
            index = index * extent + here.where(x.detach(), 0.0).cast(self.places)
        assert inside is not None
        shape = (self.flat.shape[0], self.flat.shape[1], *index.shape[1:])
        lines = index.reshape(index.shape[0], 1, math.prod(index.shape[1:])).expand(*shape[:2], -1)
        found = taken(self.flat, lines, 2).reshape(shape).cast(self.wide)
        if self.border == "zeros":
            # A place that is not a number has no share of any element, nor of its gradient.
            share = None if share is None else inside.where(share, 0.0)
            found = inside.unsqueeze(1).where(found, 0.0)
        return found if share is None else found * share.unsqueeze(1)


def _mirrored(x: Tensor, low: float, span: float) -> Tensor:
    """A place brought into [low, low + span] by mirroring at both ends."""
    distance = (x - low).abs()
    times = (distance / span).floor().detach()
    rest = distance - times * span
    return ((times % 2) == 0).where(rest + low, (span + low) - rest)


def _linear_taps(x: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The elements beside a place, and their shares."""
    low = x.floor().detach()
    return [(low, low + 1.0 - x), (low + 1.0, x - low)]


def _cubic_taps(x: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The four elements around a place, and their shares: Keys 1981, "Cubic Convolution Interpolation"."""
    a = -0.75
    low = x.floor().detach()
    share = x - low
    taps = []
    for step in range(-1, 3):
        distance = (share - step) if step < 1 else (step - share)
        if step in (0, 1):
            weight = ((a + 2.0) * distance - (a + 3.0)) * distance * distance + 1.0
        else:
            weight = ((a * distance - 5.0 * a) * distance + 8.0 * a) * distance - 4.0 * a
        taps.append((low + step, weight))
    return taps
