"""Dropout: random zeros in training mode, and nothing after `eval()`."""

from __future__ import annotations

import math

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.nn._arguments import require_probability
from rulegrad.nn._inplace import in_its_place
from rulegrad.nn._module import Layer
from rulegrad.tensor.tensor import Tensor


class Dropout(Layer):
    """Each element is zero with the probability `p`, and the others are scaled up.

    With `inplace` the layer's input has the values of the result from now on.

    >>> from rulegrad import nn
    >>> layer = nn.Dropout()
    >>> sorted(set(layer(Tensor.ones(100)).tolist()))
    [0.0, 2.0]
    >>> layer.eval()(Tensor([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        require_probability(type(self).__name__, p=p)
        self.p, self.inplace = p, inplace

    def forward(self, x: Tensor) -> Tensor:
        return in_its_place(x.dropout(self.p, self.training), x, self.inplace)


class _ChannelDropout(Dropout):
    """Whole channels are zero with the probability `p`, and the others are scaled up."""

    _extents: int

    def forward(self, x: Tensor) -> Tensor:
        result = dropped_channels(x, self.p, self.training, self._extents, type(self).__name__)
        return in_its_place(result, x, self.inplace)


class Dropout1d(_ChannelDropout):
    """`Dropout2d` of (batch, channels, length).

    >>> from rulegrad import nn
    >>> y = nn.Dropout1d()(Tensor.ones(1, 8, 3)); (y == y[:, :, :1]).all().item()
    True
    """

    _extents = 1


class Dropout2d(_ChannelDropout):
    """Whole channels of (batch, channels, height, width) are zero with the probability `p`.

    >>> from rulegrad import nn
    >>> y = nn.Dropout2d()(Tensor.ones(1, 8, 2, 2)); (y == y[:, :, :1, :1]).all().item()
    True
    """

    _extents = 2


class Dropout3d(_ChannelDropout):
    """`Dropout2d` of (batch, channels, depth, height, width).

    >>> from rulegrad import nn
    >>> y = nn.Dropout3d()(Tensor.ones(1, 8, 2, 2, 2)); (y == y[:, :, :1, :1, :1]).all().item()
    True
    """

    _extents = 3


class AlphaDropout(Dropout):
    """Dropout that keeps mean 0 and variance 1: what is dropped gets the least value of `selu`, and all are scaled.

    From Klambauer et al. 2017, "Self-Normalizing Neural Networks".

    >>> from rulegrad import nn
    >>> layer = nn.AlphaDropout()
    >>> layer(Tensor.zeros(100)).round(decimals=2).unique().tolist()
    [-0.779999..., 0.779999...]
    >>> layer.eval()(Tensor([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        return in_its_place(alpha_dropped(x, self.p, self.training, x.shape), x, self.inplace)


class FeatureAlphaDropout(Dropout):
    """`AlphaDropout` of whole channels (axis 1).

    >>> from rulegrad import nn
    >>> y = nn.FeatureAlphaDropout()(Tensor.ones(1, 8, 3)); (y == y[:, :, :1]).all().item()
    True
    """

    def forward(self, x: Tensor) -> Tensor:
        shape = channels_of(x, type(self).__name__) if self.training and self.p else ()
        return in_its_place(alpha_dropped(x, self.p, self.training, shape), x, self.inplace)


def alpha_dropped(x: Tensor, p: float, training: bool, shape: tuple[int, ...]) -> Tensor:
    """`AlphaDropout` by a draw of this shape, which is broadcast."""
    if not 0.0 <= p <= 1.0:
        raise ConfigError(f"alpha_dropout: p={p}; use a probability, from 0 to 1")
    if not training or p == 0.0:
        return x
    if p == 1.0:
        return x * 0.0
    # The least value of selu, below 0: its scale times its alpha.
    least = 1.0507009873554805 * 1.6732632423543772
    scale = 1.0 / math.sqrt((least**2 * p + 1.0) * (1.0 - p))
    kept = Tensor.rand(*shape, device=x.device) >= p
    return kept.where(x * scale, -least * scale) + least * scale * p


def channels_of(x: Tensor, name: str) -> tuple[int, ...]:
    """The shape of one number for each channel (axis 1)."""
    if x.ndim < 2:
        raise ShapeError(f"{name}: the shape {x.shape} has no channels; it needs (batch, channels, …)")
    return (*x.shape[:2], *(1,) * (x.ndim - 2))


def dropped_channels(x: Tensor, p: float, training: bool, extents: int, name: str) -> Tensor:
    """Dropout of whole channels, behind which there are so many axes; without a batch too."""
    if x.ndim not in (extents + 1, extents + 2):
        raise ShapeError(f"{name}: the shape {x.shape} is not (batch, channels) and {extents} more axes")
    if not training or p == 0.0:
        return x
    ones = Tensor.ones(*x.shape[:-extents], *(1,) * extents, dtype=x.dtype, device=x.device)
    return x * ones.dropout(p, True)
