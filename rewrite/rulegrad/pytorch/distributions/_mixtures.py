"""Distributions of which one is chosen at random, and probabilities by normal variates."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

from rulegrad._core import Size
from rulegrad.errors import ConfigError, ShapeError
from rulegrad.pytorch.distributions import constraints
from rulegrad.pytorch.distributions._base import Distribution
from rulegrad.pytorch.distributions._discrete import Categorical
from rulegrad.pytorch.distributions._locations import Normal
from rulegrad.pytorch.distributions._transformed import TransformedDistribution
from rulegrad.pytorch.distributions.transforms import StickBreakingTransform
from rulegrad.tensor.gradient_mode import no_grad

__all__ = ["LogisticNormal", "MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """One of the distributions along the last axis of a batch, chosen by a categorical distribution.

    >>> from rulegrad.distributions import Normal
    >>> d = MixtureSameFamily(Categorical(Tensor([0.5, 0.5])), Normal(Tensor([-1.0, 3.0]), 1.0))
    >>> d.mean.item(), d.sample((4,)).shape
    (1.0, (4,))
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ConfigError("MixtureSameFamily: the distribution that chooses is a Categorical")
        shape = component_distribution.batch_shape
        count = mixture_distribution.logits.shape[-1]
        if not shape or shape[-1] != count:
            raise ShapeError(
                f"MixtureSameFamily: {count} classes, and a batch of shape {tuple(shape)}; "
                "its last axis is that of the classes"
            )
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        self._num_component = count
        self._batch_shape, self._event_shape = Size(shape[:-1]), component_distribution.event_shape

    @property
    def mixture_distribution(self) -> Any:
        """The distribution that chooses."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The distributions of which one is chosen."""
        return self._component_distribution

    @constraints.dependent_property
    def support(self) -> Any:
        """The set of the values: that of the components."""
        return self._component_distribution.support

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """False: a choice has no gradient."""
        return False

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution with parameters of a larger batch."""
        new = copy.copy(self) if _instance is None else _instance
        vars(new).update(vars(self))
        new._component_distribution = self._component_distribution.expand((*batch_shape, self._num_component))
        new._mixture_distribution = self._mixture_distribution.expand(tuple(batch_shape))
        new._batch_shape = Size(batch_shape)
        return new

    def _probs(self) -> Any:
        """The probabilities, with an axis for each of an event."""
        probs = self._mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * len(self.event_shape))

    def _axis(self) -> int:
        return -1 - len(self.event_shape)

    def _put(self, value: Any) -> Any:
        """A value with an axis for the components."""
        return value.unsqueeze(value.ndim + 1 + self._axis())

    @property
    def mean(self) -> Any:
        """The mean."""
        return (self._probs() * self._component_distribution.mean).sum(self._axis())

    @property
    def variance(self) -> Any:
        """The variance: of the components, and of their means."""
        probs, means = self._probs(), self._component_distribution.mean
        away = means - self._put(self.mean)
        return (probs * self._component_distribution.variance + probs * away**2).sum(self._axis())

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        return (self._component_distribution.cdf(self._put(value)) * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        found = self._component_distribution.log_prob(self._put(value))
        return (found + self._mixture_distribution.logits).logsumexp(-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples."""
        with no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            mask = chosen.one_hot(self._num_component)
            mask = mask.reshape(*mask.shape, *[1] * len(self.event_shape))
            return (mask != 0).where(drawn, 0).sum(self._axis()).cast(drawn.dtype)


class LogisticNormal(TransformedDistribution):
    """Probabilities of n + 1 classes, by sticks that are broken at places of n normal variates.

    >>> LogisticNormal(Tensor([0.0, 0.0]), Tensor([1.0, 1.0])).sample().sum().round().item()
    1.0
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform())

    @property
    def loc(self) -> Any:
        """The means of the normal variates."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Any:
        """The standard deviations of the normal variates."""
        return self.base_dist.base_dist.scale
