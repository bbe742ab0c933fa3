"""Dropout: random zeros inside `with Tensor.train():`, and nothing outside."""

from __future__ import annotations

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.tensor.tensor import Tensor


class Dropout:
    """Each element is zero with the probability `p`, and the others are scaled up. `inplace` changes nothing here."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        if not 0.0 <= p <= 1.0:
            raise ConfigError(f"{type(self).__name__}: p={p}; use a probability, from 0 to 1")
        self.p = p

    def __call__(self, x: Tensor) -> Tensor:
        return x.dropout(self.p)


class _ChannelDropout(Dropout):
    """Whole channels are zero with the probability `p`, and the others are scaled up."""

    _extents: int

    def __call__(self, x: Tensor) -> Tensor:
        if x.ndim not in (self._extents + 1, self._extents + 2):
            raise ShapeError(
                f"{type(self).__name__}: the shape {x.shape} is not (batch, channels) and {self._extents} more axes"
            )
        if not Tensor.training or self.p == 0.0:
            return x
        lead = x.shape[: -self._extents]
        kept = Tensor.ones(*lead, *(1,) * self._extents, dtype=x.dtype, device=x.device).dropout(self.p)
        return x * kept


class Dropout1d(_ChannelDropout):
    """`Dropout2d` of (batch, channels, length)."""

    _extents = 1


class Dropout2d(_ChannelDropout):
    """Whole channels of (batch, channels, height, width) are zero with the probability `p`."""

    _extents = 2


class Dropout3d(_ChannelDropout):
    """`Dropout2d` of (batch, channels, depth, height, width)."""

    _extents = 3
