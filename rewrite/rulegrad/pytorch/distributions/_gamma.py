"""The gamma distribution, and those whose samples are made of its samples."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from rulegrad._core import Size
from rulegrad.pytorch.distributions import constraints
from rulegrad.pytorch.distributions._base import Distribution, ExponentialFamily
from rulegrad.tensor.gradient_mode import gradients_enabled, no_grad
from rulegrad.tensor.tensor import Tensor

__all__ = ["Beta", "Chi2", "Dirichlet", "Gamma", "StudentT"]

#: How many variates are tried, of which at least 95 of 100 are right: none is in 1 of 10**10 cases.
_TRIES = 8


def standard_gamma(concentration: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Samples of gamma distributions of rate 1, by the method of G. Marsaglia and W. W. Tsang (2000).

    A gradient flows to the concentration: that of a sample whose probability of smaller ones stays the same.
    """
    with no_grad():
        found = _drawn(concentration.detach().expand(shape), shape)
    if not (concentration.requires_grad and gradients_enabled()):
        return found
    density = ((concentration - 1) * found.log() - found - concentration.lgamma()).exp().detach()
    below = concentration.expand(shape).igamma(found)
    return found - (below - below.detach()) / density


def _drawn(concentration: Tensor, shape: tuple[int, ...]) -> Tensor:
    draws = Tensor.rand((_TRIES + 1, *shape), device=concentration.device).cast(concentration.dtype)
    draws = draws.clamp(min=2.0**-25)
    normal = Tensor.randn((_TRIES, *shape), device=concentration.device).cast(concentration.dtype)
    small = concentration < 1
    size = small.where(concentration + 1, concentration) - 1 / 3
    cubes = (1 + normal / (9 * size).sqrt()) ** 3
    bound = 0.5 * normal**2 + size * (1 - cubes + cubes.clamp(min=1e-30).log())
    accepted = (cubes > 0) & (draws[:_TRIES].log() < bound)
    found = size.ones_like()
    for k in range(_TRIES):
        found = accepted[k].where(cubes[k], found)
    found = size * found * small.where(draws[_TRIES] ** (1 / concentration), 1.0)
    return found.clamp(min=1e-37)


class Gamma(ExponentialFamily):
    """The gamma distribution.

    >>> from rulegrad import Tensor
    >>> d = Gamma(Tensor([2.0]), 4.0)
    >>> d.mean.tolist(), round(d.log_prob(Tensor(0.5)).item(), 4)
    ([0.5], 0.0794)
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive, "rate": constraints.positive}
    support: Any = constraints.nonnegative

    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = self._broadcast(concentration, rate)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.concentration / self.rate

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.concentration / self.rate**2

    @property
    def mode(self) -> Any:
        """The value of the largest density."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples, through which gradients flow."""
        return standard_gamma(self.concentration, self._shape(sample_shape)) / self.rate

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        value = value if isinstance(value, Tensor) else Tensor(float(value))
        return (
            Tensor.xlogy(self.concentration, self.rate)
            + Tensor.xlogy(self.concentration - 1, value)
            - self.rate * value
            - self.concentration.lgamma()
        )

    def entropy(self) -> Any:
        """The entropy."""
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        return Tensor.igamma(*Tensor.broadcast_tensors(self.concentration, self.rate * value))


class Chi2(Gamma):
    """The sum of `df` squares of standard normal variates.

    >>> Chi2(3.0).mean.item()
    3.0
    """

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}
    support: Any = constraints.nonnegative

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (self.df,) = self._broadcast(df)
        super().__init__(0.5 * self.df, 0.5)


class Dirichlet(ExponentialFamily):
    """Dirichlet's distribution of probabilities; the last axis of the concentration is that of the classes.

    >>> from rulegrad import Tensor
    >>> d = Dirichlet(Tensor([1.0, 3.0]))
    >>> d.mean.tolist(), d.sample((5,)).shape
    ([0.25, 0.75], (5, 2))
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.independent(constraints.positive, 1)}
    support: Any = constraints.simplex

    has_rsample = True

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        self.concentration = concentration
        self._batch_shape, self._event_shape = concentration.shape[:-1], Size(concentration.shape[-1:])

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.concentration / self.concentration.sum(-1, keepdims=True)

    @property
    def mode(self) -> Any:
        """The value of the largest density."""
        above = (self.concentration - 1).clamp(min=0)
        found = above / above.sum(-1, keepdims=True)
        corner = found.argmax(-1).one_hot(found.shape[-1]).cast(found.dtype)
        return (self.concentration < 1).all(-1, keepdims=True).where(corner, found)

    @property
    def variance(self) -> Any:
        """The variance."""
        total = self.concentration.sum(-1, keepdims=True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples, through which gradients flow."""
        draws = standard_gamma(self.concentration, self._shape(sample_shape))
        return draws / draws.sum(-1, keepdims=True)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        a = self.concentration
        return Tensor.xlogy(a - 1, value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Any:
        """The entropy."""
        a = self.concentration
        total, k = a.sum(-1), a.shape[-1]
        return a.lgamma().sum(-1) - total.lgamma() - (k - total) * total.digamma() - ((a - 1) * a.digamma()).sum(-1)


class Beta(ExponentialFamily):
    """The beta distribution, from 0 to 1.

    >>> d = Beta(2.0, 2.0)
    >>> d.mean.item(), round(d.log_prob(0.5).exp().item(), 4)
    (0.5, 1.5)
    """

    arg_constraints: ClassVar[Any] = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support: Any = constraints.unit_interval

    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = self._broadcast(concentration1, concentration0)

    @property
    def _dirichlet(self) -> Dirichlet:
        return Dirichlet(Tensor.stack([self.concentration1, self.concentration0], -1))

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        """The value of the largest density."""
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Any:
        """The variance."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples, through which gradients flow."""
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        value = value if isinstance(value, Tensor) else Tensor(float(value))
        return self._dirichlet.log_prob(Tensor.stack([value, 1 - value], -1))

    def entropy(self) -> Any:
        """The entropy."""
        return self._dirichlet.entropy()


class StudentT(Distribution):
    """Student's t distribution.

    >>> from rulegrad import Tensor
    >>> round(StudentT(1.0).log_prob(Tensor(0.0)).exp().item(), 4)
    0.3183
    """

    arg_constraints: ClassVar[Any] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support: Any = constraints.real

    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = self._broadcast(df, loc, scale)

    @property
    def mean(self) -> Any:
        """The mean; nan up to 1 degree of freedom."""
        return (self.df > 1).where(self.loc, math.nan)

    @property
    def mode(self) -> Any:
        """The value of the largest density."""
        return self.loc

    @property
    def variance(self) -> Any:
        """The variance; infinite up to 2 degrees of freedom, nan up to 1."""
        many = self.df > 2
        found = many.where(self.scale**2 * self.df / (many.where(self.df, 3.0) - 2), math.inf)
        return (self.df > 1).where(found, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples, through which gradients flow."""
        shape = self._shape(sample_shape)
        normal = Tensor.randn(shape, device=self.df.device).cast(self.df.dtype)
        squares = 2 * standard_gamma(0.5 * self.df, shape)
        return self.loc + self.scale * normal / (squares / self.df).sqrt()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        place = (value - self.loc) / self.scale
        constant = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + (0.5 * self.df).lgamma()
            - (0.5 * (self.df + 1)).lgamma()
        )
        return -0.5 * (self.df + 1) * (place**2 / self.df).log1p() - constant

    def entropy(self) -> Any:
        """The entropy."""
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = half.lgamma() + math.lgamma(0.5) - more.lgamma()
        return self.scale.log() + more * (more.digamma() - half.digamma()) + 0.5 * self.df.log() + log_beta
