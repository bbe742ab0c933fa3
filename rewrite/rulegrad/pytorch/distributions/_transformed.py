"""Distributions of a function of a variate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rulegrad._core import Size
from rulegrad.pytorch.distributions._base import Distribution
from rulegrad.pytorch.distributions._locations import Normal
from rulegrad.pytorch.distributions._multivariate import Independent, sum_of_last
from rulegrad.pytorch.distributions.transforms import ExpTransform, Transform
from rulegrad.tensor.gradient_mode import no_grad

__all__ = ["LogNormal", "TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of transforms, one after the other, of what another distribution says.

    >>> from rulegrad import Tensor
    >>> from rulegrad.distributions import Uniform, transforms
    >>> d = TransformedDistribution(Uniform(0.0, 1.0), transforms.AffineTransform(0.0, 4.0))
    >>> d.log_prob(Tensor(2.0)).exp().item(), d.cdf(Tensor(1.0)).item()
    (0.25, 0.25)
    """

    def __init__(
        self,
        base_distribution: Any,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        both = (*base_distribution.batch_shape, *base_distribution.event_shape)
        deepest = max([one.event_dim for one in self.transforms] + [len(base_distribution.event_shape)])
        more = deepest - len(base_distribution.event_shape)
        self.base_dist = Independent(base_distribution, more) if more else base_distribution
        front = len(both) - deepest
        self.batch_shape, self.event_shape = Size(both[:front]), Size(both[front:])

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether gradients flow through samples."""
        return bool(self.base_dist.has_rsample)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples without a gradient."""
        with no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow."""
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _transformed(self, x: Any) -> Any:
        for one in self.transforms:
            x = one(x)
        return x

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        total: Any = 0.0
        for one in reversed(self.transforms):
            before = one.inv(value)
            slope = one.log_abs_det_jacobian(before, value)
            total = total - sum_of_last(slope, len(self.event_shape) - one.event_dim)
            value = before
        found = self.base_dist.log_prob(value)
        return total + sum_of_last(found, len(self.event_shape) - len(self.base_dist.event_shape))

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        sign: Any = 1
        for one in reversed(self.transforms):
            value, sign = one.inv(value), sign * one.sign
        return sign * (self.base_dist.cdf(value) - 0.5) + 0.5

    def icdf(self, value: Any) -> Any:
        """The value below which is this probability."""
        sign: Any = 1
        for one in self.transforms:
            sign = sign * one.sign
        return self._transformed(self.base_dist.icdf(sign * (value - 0.5) + 0.5))


class LogNormal(TransformedDistribution):
    """The exponential of a normal variate.

    >>> from rulegrad import Tensor
    >>> round(LogNormal(0.0, 1.0).log_prob(Tensor(1.0)).item(), 4)
    -0.9189
    """

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.base: Normal = Normal(loc, scale)
        super().__init__(self.base, ExpTransform())

    @property
    def loc(self) -> Any:
        """The mean of the logarithm."""
        return self.base.loc

    @property
    def scale(self) -> Any:
        """The standard deviation of the logarithm."""
        return self.base.scale

    @property
    def mean(self) -> Any:
        """The mean."""
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def variance(self) -> Any:
        """The variance."""
        square = self.scale**2
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Any:
        """The entropy."""
        return self.base.entropy() + self.loc
