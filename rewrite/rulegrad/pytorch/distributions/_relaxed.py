"""Distributions of numbers that stand for classes, so that gradients flow through samples."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from rulegrad._core import Size
from rulegrad.pytorch.distributions import constraints
from rulegrad.pytorch.distributions._base import Distribution, ExponentialFamily
from rulegrad.pytorch.distributions._discrete import Categorical, OneHotCategorical, probabilities
from rulegrad.pytorch.distributions._transformed import TransformedDistribution
from rulegrad.pytorch.distributions.transforms import ExpTransform, SigmoidTransform
from rulegrad.pytorch.distributions.utils import clamp_probs, probs_to_logits
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "ContinuousBernoulli", "ExpRelaxedCategorical", "LogitRelaxedBernoulli", "OneHotCategoricalStraightThrough",
    "RelaxedBernoulli", "RelaxedOneHotCategorical",
]  # fmt: skip


class ContinuousBernoulli(ExponentialFamily):
    """Numbers from 0 to 1, whose density is that of Bernoulli's distribution up to a factor.

    >>> ContinuousBernoulli(0.5).mean.item()
    0.5
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Any = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        found = probabilities("ContinuousBernoulli", self, probs, logits, Tensor.sigmoid, _binary_logits)
        self.probs, self.logits = found if probs is None else (clamp_probs(found[0]), found[1])
        self._lims = lims

    def _by_place(self, outside: Any, within: Any) -> Any:
        """outside(p) where p is not about 1 / 2, else a series by p - 1 / 2."""
        low, high = self._lims
        far = (self.probs <= low) | (self.probs > high)
        return far.where(outside(far.where(self.probs, low)), within(self.probs - 0.5))

    def _log_factor(self) -> Any:
        return self._by_place(
            lambda p: ((-p).log1p() - p.log()).abs().log() - (1 - 2 * p).abs().log(),
            lambda d: math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * d**2) * d**2,
        )

    @property
    def mean(self) -> Any:
        """The mean."""
        return self._by_place(
            lambda p: p / (2 * p - 1) + 1 / ((-p).log1p() - p.log()),
            lambda d: 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * d**2) * d,
        )

    @property
    def variance(self) -> Any:
        """The variance."""
        return self._by_place(
            lambda p: p * (p - 1) / (1 - 2 * p) ** 2 + 1 / ((-p).log1p() - p.log()) ** 2,
            lambda d: 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * d**2) * d**2,
        )

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow."""
        return self.icdf(self._uniform(sample_shape, self.probs))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        return value * self.logits - self.logits.softplus() + self._log_factor()

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        found = self._by_place(
            lambda p: (p**value * (1 - p) ** (1 - value) + p - 1) / (2 * p - 1), lambda d: value + 0 * d
        )
        return (value <= 0).where(0.0, (value >= 1).where(1.0, found))

    def icdf(self, value: Any) -> Any:
        """The value below which is this probability."""
        return self._by_place(
            lambda p: ((-p + value * (2 * p - 1)).log1p() - (-p).log1p()) / (p.log() - (-p).log1p()),
            lambda d: value + 0 * d,
        )

    def entropy(self) -> Any:
        """The entropy."""
        of_one, of_zero = self.probs.log(), (-self.probs).log1p()
        return self.mean * (of_zero - of_one) - self._log_factor() - of_zero


def _binary_logits(probs: Tensor) -> Tensor:
    return probs_to_logits(probs, is_binary=True)


class _WithTemperature(Distribution):
    """A distribution that has one temperature for its batch."""

    temperature: Any

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution with parameters of a larger batch; the temperature is that of all."""
        new = super().expand(batch_shape, _instance)
        new.temperature = self.temperature
        return new


class LogitRelaxedBernoulli(_WithTemperature):
    """The logit of a relaxed Bernoulli variate."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Any = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        self.probs, self.logits = probabilities(
            "LogitRelaxedBernoulli", self, probs, logits, Tensor.sigmoid, _binary_logits
        )

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow."""
        draws = clamp_probs(self._uniform(sample_shape, self.probs))
        kept = clamp_probs(self.probs)
        return (draws.log() - (-draws).log1p() + kept.log() - (-kept).log1p()) / self.temperature

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        distance = self.logits - value * self.temperature
        return _tensor(self.temperature).log() + distance - 2 * distance.softplus()


class _Relaxed(TransformedDistribution):
    """A distribution with the parameters of its base."""

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """The logits."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self.base_dist.probs


class RelaxedBernoulli(_Relaxed):
    """Numbers from 0 to 1 that are about 0 or 1, the more so the lower the temperature is.

    >>> RelaxedBernoulli(0.5, Tensor([0.2, 0.8])).rsample((3,)).shape
    (3, 2)
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Any = constraints.unit_interval

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform())


class ExpRelaxedCategorical(_WithTemperature):
    """The logarithm of a relaxed vector of classes."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support: Any = constraints.real_vector
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        self._categorical = Categorical(probs, logits)
        self.probs, self.logits = self._categorical.probs, self._categorical.logits
        self._batch_shape, self._event_shape = self.logits.shape[:-1], Size(self.logits.shape[-1:])

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow."""
        draws = clamp_probs(self._uniform(sample_shape, self.logits))
        return ((self.logits - (-draws.log()).log()) / self.temperature).log_softmax(-1)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        count = self.logits.shape[-1]
        score = (self.logits - value * self.temperature).log_softmax(-1).sum(-1)
        return score + math.lgamma(count) + (count - 1) * _tensor(self.temperature).log()


class RelaxedOneHotCategorical(_Relaxed):
    """Vectors of probabilities in which about one class has all, the more so the lower the temperature is.

    >>> RelaxedOneHotCategorical(0.5, Tensor([0.2, 0.8])).rsample((3,)).sum(-1).round().tolist()
    [1.0, 1.0, 1.0]
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support: Any = constraints.simplex

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits), ExpTransform())


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose samples have the gradients of the probabilities.

    >>> OneHotCategoricalStraightThrough(Tensor([0.0, 1.0])).rsample().tolist()
    [0.0, 1.0]
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow as if they were the probabilities."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


def _tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor(float(value))
