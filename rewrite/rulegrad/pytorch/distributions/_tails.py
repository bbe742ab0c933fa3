"""Distributions of positive numbers and of parts of 1, whose samples are functions of uniform or gamma variates."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from rulegrad.pytorch.distributions import constraints
from rulegrad.pytorch.distributions._base import Distribution
from rulegrad.pytorch.distributions._gamma import standard_gamma
from rulegrad.pytorch.distributions._locations import EULER, Cauchy
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "FisherSnedecor", "GeneralizedPareto", "HalfCauchy", "InverseGamma", "Kumaraswamy", "Pareto", "Weibull",
]  # fmt: skip


class _ByInverse(Distribution):
    """One whose samples are `icdf` of uniform numbers."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow."""
        return self.icdf(
            self._within(sample_shape, next(one for one in vars(self).values() if isinstance(one, Tensor)))
        )


class HalfCauchy(_ByInverse):
    """The size of a variate of Cauchy's distribution around 0.

    >>> HalfCauchy(1.0).cdf(Tensor(1.0)).item()
    0.5
    """

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support: Any = constraints.nonnegative

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self.scale,) = self._broadcast(scale)

    @property
    def base_dist(self) -> Cauchy:
        """The distribution of the variate with its sign."""
        return Cauchy(self.scale.zeros_like(), self.scale)

    @property
    def mean(self) -> Any:
        """Infinite."""
        return self.scale.full_like(math.inf)

    @property
    def mode(self) -> Any:
        """0."""
        return self.scale.zeros_like()

    @property
    def variance(self) -> Any:
        """Infinite."""
        return self.scale.full_like(math.inf)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, -inf below 0."""
        value = _tensor(value)
        return (value >= 0).where(self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Any) -> Any:
        """The value below which is this probability."""
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Any:
        """The entropy."""
        return self.base_dist.entropy() - math.log(2)


class Weibull(_ByInverse):
    """Weibull's distribution, of how long something lasts.

    >>> Weibull(2.0, 1.0).mean.item()
    2.0
    """

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive, "concentration": constraints.positive}
    support: Any = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = self._broadcast(scale, concentration)

    @property
    def concentration_reciprocal(self) -> Any:
        """1 / concentration."""
        return self.concentration.reciprocal()

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.scale * (1 + self.concentration_reciprocal).lgamma().exp()

    @property
    def mode(self) -> Any:
        """The value of the largest density."""
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration_reciprocal

    @property
    def variance(self) -> Any:
        """The variance."""
        one = self.concentration_reciprocal
        return self.scale**2 * ((1 + 2 * one).lgamma().exp() - (2 * (1 + one).lgamma()).exp())

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        size = value / self.scale
        return (
            self.concentration.log()
            - self.scale.log()
            + (self.concentration - 1) * size.log()
            - size**self.concentration
        )

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        return -(-((value / self.scale) ** self.concentration)).expm1()

    def icdf(self, value: Any) -> Any:
        """The value below which is this probability."""
        return self.scale * (-(-value).log1p()) ** self.concentration_reciprocal

    def entropy(self) -> Any:
        """The entropy."""
        one = self.concentration_reciprocal
        return EULER * (1 - one) + (self.scale * one).log() + 1


class Pareto(_ByInverse):
    """Pareto's distribution, of numbers above `scale`.

    >>> Pareto(1.0, 2.0).mean.item()
    2.0
    """

    arg_constraints: ClassVar[Any] = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = self._broadcast(scale, alpha)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The set of the values."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Any:
        """The mean; infinite up to 1."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Any:
        """The value of the largest density."""
        return self.scale

    @property
    def variance(self) -> Any:
        """The variance; infinite up to 2."""
        a = self.alpha.clamp(min=2)
        return self.scale**2 * a / ((a - 1) ** 2 * (a - 2))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        return self.alpha.log() + self.alpha * self.scale.log() - (self.alpha + 1) * _tensor(value).log()

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        return 1 - (self.scale / value) ** self.alpha

    def icdf(self, value: Any) -> Any:
        """The value below which is this probability."""
        return self.scale * (1 - value) ** -(1 / self.alpha)

    def entropy(self) -> Any:
        """The entropy."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class GeneralizedPareto(_ByInverse):
    """The generalized Pareto distribution, of how far values are above a limit.

    >>> GeneralizedPareto(0.0, 2.0, 0.0).mean.item()
    2.0
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real,
    }  # fmt: skip

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = self._broadcast(loc, scale, concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The set of the values."""
        end = (self.concentration < 0).where(self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, end)

    @property
    def mean(self) -> Any:
        """The mean; infinite from a concentration of 1 on."""
        c = self.concentration
        return (c < 1).where(self.loc + self.scale / (1 - c), math.inf)

    @property
    def mode(self) -> Any:
        """The value of the largest density."""
        return self.loc

    @property
    def variance(self) -> Any:
        """The variance; infinite from a concentration of 1 / 2 on."""
        c = self.concentration
        return (c < 0.5).where(self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c)), math.inf)

    def _parts(self) -> tuple[Any, Any]:
        """Whether the concentration is about 0, and one that can be divided by."""
        none = self.concentration.abs() < 1e-7
        return none, none.where(1.0, self.concentration)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        z = (value - self.loc) / self.scale
        none, c = self._parts()
        found = none.where(-z, -(1 + 1 / c) * (c * z).log1p()) - self.scale.log()
        return (z >= 0).where(found, -math.inf)

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        z = ((value - self.loc) / self.scale).clamp(min=0)
        none, c = self._parts()
        return 1 - none.where((-z).exp(), (1 + c * z).clamp(min=0) ** (-1 / c))

    def icdf(self, value: Any) -> Any:
        """The value below which is this probability."""
        none, c = self._parts()
        return self.loc + self.scale * none.where(-(-value).log1p(), (-c * (-value).log1p()).expm1() / c)

    def entropy(self) -> Any:
        """The entropy."""
        return self.scale.log() + self.concentration + 1


class Kumaraswamy(_ByInverse):
    """Kumaraswamy's distribution, from 0 to 1, which resembles the beta distribution.

    >>> Kumaraswamy(1.0, 1.0).mean.item()
    0.5
    """

    arg_constraints: ClassVar[Any] = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support: Any = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = self._broadcast(concentration1, concentration0)

    def _moment(self, n: int) -> Any:
        a, b = self.concentration1, self.concentration0
        more = 1 + n / a
        return b * (more.lgamma() + b.lgamma() - (more + b).lgamma()).exp()

    @property
    def mean(self) -> Any:
        """The mean."""
        return self._moment(1)

    @property
    def mode(self) -> Any:
        """The value of the largest density, nan where it is at an end."""
        a, b = self.concentration1, self.concentration0
        found = ((a - 1) / (a * b - 1)) ** (1 / a)
        return ((a < 1) | (b < 1)).where(math.nan, found)

    @property
    def variance(self) -> Any:
        """The variance."""
        return self._moment(2) - self.mean**2

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        a, b = self.concentration1, self.concentration0
        return (a * b).log() + (a - 1) * value.log() + (b - 1) * (-(value**a)).log1p()

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        return 1 - (1 - value**self.concentration1) ** self.concentration0

    def icdf(self, value: Any) -> Any:
        """The value below which is this probability."""
        return (1 - (1 - value) ** (1 / self.concentration0)) ** (1 / self.concentration1)

    def entropy(self) -> Any:
        """The entropy."""
        a, b = self.concentration1, self.concentration0
        return (1 - 1 / b) + (1 - 1 / a) * ((b + 1).digamma() + EULER) - a.log() - b.log()


class InverseGamma(Distribution):
    """One over a gamma variate.

    >>> InverseGamma(2.0, 3.0).mean.item()
    3.0
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive, "rate": constraints.positive}
    support: Any = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = self._broadcast(concentration, rate)

    @property
    def mean(self) -> Any:
        """The mean; infinite up to a concentration of 1."""
        a = self.concentration
        return (a > 1).where(self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Any:
        """The value of the largest density."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        """The variance; infinite up to a concentration of 2."""
        a = self.concentration
        return (a > 2).where(self.rate**2 / ((a - 1) ** 2 * (a - 2)), math.inf)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow."""
        return self.rate / standard_gamma(self.concentration, self._shape(sample_shape))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        a, value = self.concentration, _tensor(value)
        return a * self.rate.log() - a.lgamma() - (a + 1) * value.log() - self.rate / value

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        return Tensor.igammac(*Tensor.broadcast_tensors(self.concentration, self.rate / value))

    def entropy(self) -> Any:
        """The entropy."""
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class FisherSnedecor(Distribution):
    """The quotient of two mean squares of normal variates, of `df1` and `df2` of them (F).

    >>> FisherSnedecor(1.0, 4.0).mean.item()
    2.0
    """

    arg_constraints: ClassVar[Any] = {"df1": constraints.positive, "df2": constraints.positive}
    support: Any = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = self._broadcast(df1, df2)

    @property
    def mean(self) -> Any:
        """The mean; nan up to 2 degrees of freedom below."""
        many = self.df2 > 2
        return many.where(self.df2 / (many.where(self.df2, 3.0) - 2), math.nan)

    @property
    def mode(self) -> Any:
        """The value of the largest density; nan up to 2 degrees of freedom above."""
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return (self.df1 > 2).where(found, math.nan)

    @property
    def variance(self) -> Any:
        """The variance; nan up to 4 degrees of freedom below."""
        many = self.df2 > 4
        b = many.where(self.df2, 5.0)
        found = 2 * b**2 * (self.df1 + b - 2) / (self.df1 * (b - 2) ** 2 * (b - 4))
        return many.where(found, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow."""
        shape = self._shape(sample_shape)
        above = standard_gamma(self.df1 / 2, shape) / self.df1
        return above / (standard_gamma(self.df2 / 2, shape) / self.df2).clamp(min=1e-37)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        a, b = self.df1 / 2, self.df2 / 2
        ratio, value = self.df1 / self.df2, _tensor(value)
        gammas = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return gammas + a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()


def _tensor(value: Any) -> Any:
    return value if isinstance(value, Tensor) else Tensor(float(value))
