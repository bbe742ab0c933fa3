"""Distributions with a place and a width."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from rulegrad.pytorch.distributions import constraints
from rulegrad.pytorch.distributions._base import LOG_ROOT_OF_TAU, Distribution, ExponentialFamily
from rulegrad.tensor.tensor import Tensor

__all__ = ["Cauchy", "Exponential", "Gumbel", "HalfNormal", "Laplace", "Normal", "Uniform"]

#: Euler's constant, by which the mean of Gumbel's distribution is shifted.
EULER = 0.57721566490153286


class Normal(ExponentialFamily):
    """The normal distribution.

    >>> from rulegrad import Tensor
    >>> d = Normal(Tensor([0.0, 1.0]), 2.0)
    >>> d.sample((3,)).shape, [round(v, 3) for v in d.log_prob(Tensor(1.0)).tolist()]
    ((3, 2), [-1.737, -1.612])
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = self._broadcast(loc, scale)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.loc

    mode = mean

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.scale

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.scale**2

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow."""
        shape = self._shape(sample_shape)
        return self.loc + self.scale * Tensor.randn(shape, device=self.loc.device).cast(self.loc.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        return -((value - self.loc) ** 2) / (2 * self.variance) - self.scale.log() - LOG_ROOT_OF_TAU

    def entropy(self) -> Any:
        """The entropy."""
        return self.scale.log() + (0.5 + LOG_ROOT_OF_TAU)

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        return 0.5 * (1 + ((value - self.loc) / (self.scale * math.sqrt(2))).erf())

    def icdf(self, value: Any) -> Any:
        """The value below which is this probability."""
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)


class Uniform(Distribution):
    """Uniform from `low` up to, not including, `high`.

    >>> Uniform(0.0, 4.0).log_prob(Tensor([1.0, 5.0])).exp().tolist()
    [0.25, 0.0]
    """

    arg_constraints: ClassVar[Any] = {"low": constraints.dependent, "high": constraints.dependent}

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = self._broadcast(low, high)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The set of the values."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Any:
        """The mean."""
        return (self.low + self.high) / 2

    @property
    def mode(self) -> Any:
        """nan: no value has a larger density than others."""
        return self.low.full_like(math.nan)

    @property
    def variance(self) -> Any:
        """The variance."""
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow."""
        draws = self._uniform(sample_shape, self.low)
        return self.low + draws * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        inside = (value >= self.low) & (value < self.high)
        return inside.where(-(self.high - self.low).log(), -math.inf)

    def entropy(self) -> Any:
        """The entropy."""
        return (self.high - self.low).log()

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Any) -> Any:
        """The value below which is this probability."""
        return self.low + value * (self.high - self.low)


class Exponential(ExponentialFamily):
    """The exponential distribution.

    >>> Exponential(2.0).log_prob(Tensor(0.0)).exp().item()
    2.0
    """

    arg_constraints: ClassVar[Any] = {"rate": constraints.positive}
    support: Any = constraints.nonnegative

    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = self._broadcast(rate)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Any:
        """The value of the largest density."""
        return self.rate.zeros_like()

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.rate**-2

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow."""
        draws = self._uniform(sample_shape, self.rate)
        return -(1 - draws).log() / self.rate

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        return self.rate.log() - self.rate * value

    def entropy(self) -> Any:
        """The entropy."""
        return 1 - self.rate.log()

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        return -(-self.rate * value).expm1()

    def icdf(self, value: Any) -> Any:
        """The value below which is this probability."""
        return -(-value).log1p() / self.rate


class Laplace(Distribution):
    """Laplace's distribution.

    >>> Laplace(0.0, 1.0).log_prob(Tensor(0.0)).exp().item()
    0.5
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = self._broadcast(loc, scale)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.loc

    @property
    def mode(self) -> Any:
        """The value of the largest density."""
        return self.loc

    @property
    def variance(self) -> Any:
        """The variance."""
        return 2 * self.scale**2

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow."""
        draws = self._uniform(sample_shape, self.loc) - 0.5
        return self.loc - self.scale * draws.sign() * (1 - 2 * draws.abs()).clamp(min=2.0**-24).log()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def entropy(self) -> Any:
        """The entropy."""
        return 1 + (2 * self.scale).log()

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * (-distance.abs() / self.scale).expm1()

    def icdf(self, value: Any) -> Any:
        """The value below which is this probability."""
        middle = value - 0.5
        return self.loc - self.scale * middle.sign() * (-2 * middle.abs()).log1p()


class HalfNormal(Distribution):
    """The size of a normal variate of mean 0.

    >>> [round(v, 4) for v in HalfNormal(1.0).log_prob(Tensor([0.0, -1.0])).exp().tolist()]
    [0.7979, 0.0]
    """

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support: Any = constraints.nonnegative

    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self.scale,) = self._broadcast(scale)

    @property
    def base_dist(self) -> Normal:
        """The distribution of the variate with its sign."""
        return Normal(self.scale.zeros_like(), self.scale)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Any:
        """The value of the largest density."""
        return self.scale.zeros_like()

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.scale**2 * (1 - 2 / math.pi)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow."""
        draws = Tensor.randn(self._shape(sample_shape), device=self.scale.device).cast(self.scale.dtype)
        return self.scale * draws.abs()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, -inf below 0."""
        found = self.base_dist.log_prob(value) + math.log(2)
        return (value >= 0).where(found, -math.inf)

    def entropy(self) -> Any:
        """The entropy."""
        return self.scale.log() + (0.5 + LOG_ROOT_OF_TAU - math.log(2))

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        return (value / (self.scale * math.sqrt(2))).erf()

    def icdf(self, value: Any) -> Any:
        """The value below which is this probability."""
        return self.scale * Tensor.erfinv(value) * math.sqrt(2)


class Gumbel(Distribution):
    """Gumbel's distribution, of largest values.

    >>> round(Gumbel(0.0, 1.0).cdf(Tensor(0.0)).item(), 4)
    0.3679
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = self._broadcast(loc, scale)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.loc + self.scale * EULER

    @property
    def mode(self) -> Any:
        """The value of the largest density."""
        return self.loc

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.scale**2 * (math.pi**2 / 6)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow."""
        return self.icdf(self._within(sample_shape, self.loc))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        distance = (self.loc - value) / self.scale
        return distance - distance.exp() - self.scale.log()

    def entropy(self) -> Any:
        """The entropy."""
        return self.scale.log() + (1 + EULER)

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        return (-((self.loc - value) / self.scale).exp()).exp()

    def icdf(self, value: Any) -> Any:
        """The value below which is this probability."""
        return self.loc - self.scale * (-value.log()).log()


class Cauchy(Distribution):
    """Cauchy's distribution, which has no mean.

    >>> Cauchy(0.0, 1.0).cdf(Tensor(1.0)).item()
    0.75
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = self._broadcast(loc, scale)

    @property
    def mean(self) -> Any:
        """nan: there is none."""
        return self.loc.full_like(math.nan)

    @property
    def mode(self) -> Any:
        """The value of the largest density."""
        return self.loc

    @property
    def variance(self) -> Any:
        """Infinite."""
        return self.loc.full_like(math.inf)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow."""
        return self.icdf(self._within(sample_shape, self.loc))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def entropy(self) -> Any:
        """The entropy."""
        return self.scale.log() + math.log(4 * math.pi)

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        """The value below which is this probability."""
        return self.loc + self.scale * ((value - 0.5) * math.pi).tan()
