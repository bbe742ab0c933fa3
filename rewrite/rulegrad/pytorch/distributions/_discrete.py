"""Distributions of classes and of counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from rulegrad._core import Size
from rulegrad.errors import ConfigError
from rulegrad.pytorch.distributions import constraints
from rulegrad.pytorch.distributions._base import Distribution, ExponentialFamily
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.tensor import Tensor

__all__ = ["Bernoulli", "Binomial", "Categorical", "Geometric", "OneHotCategorical", "Poisson"]

#: Rates from which Poisson counts are tried, not counted; how many waits and tries there are: 1 in 10**11 needs more.
_MANY, _WAITS, _TRIES = 12.0, 48, 16


class Bernoulli(ExponentialFamily):
    """1 with a probability, or with the probability that a logit says, else 0.

    >>> Bernoulli(logits=Tensor([0.0])).log_prob(Tensor(1.0)).exp().tolist()
    [0.5]
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Any = constraints.boolean

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self.probs, self.logits = probabilities("Bernoulli", self, probs, logits, Tensor.sigmoid, Tensor.logit)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.probs

    @property
    def mode(self) -> Any:
        """The likeliest value, nan where both are equally likely."""
        return (self.probs == 0.5).where(math.nan, (self.probs >= 0.5).cast(self.probs.dtype))

    has_enumerate_support = True

    def enumerate_support(self, expand: bool = True) -> Any:
        """0 and 1."""
        return _all_values(self, Tensor.arange(2).cast(self.probs.dtype), expand)

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples."""
        with no_grad():
            draws = Tensor.rand(self._shape(sample_shape), device=self.probs.device)
            return (draws < self.probs).cast(self.probs.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        return -(self.logits.softplus() - value * self.logits)

    def entropy(self) -> Any:
        """The entropy."""
        return self.logits.softplus() - self.probs * self.logits


class Categorical(Distribution):
    """One of several classes, the last axis of probabilities (of any sum) or logits.

    >>> round(Categorical(probs=Tensor([1.0, 3.0])).log_prob(Tensor(1)).exp().item(), 6)
    0.75
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        if (probs is None) == (logits is None):
            raise ConfigError("Categorical: give probs or logits, one of the two")
        self.logits = probs.log().log_softmax(-1) if logits is None else logits.log_softmax(-1)
        self.probs = self.logits.exp() if probs is None else probs / probs.sum(-1, keepdims=True)
        self._batch_shape, self._num_events = self.logits.shape[:-1], self.logits.shape[-1]

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The set of the values."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Any:
        """nan: classes are not numbers."""
        return self.logits[..., 0].full_like(math.nan)

    variance = mean

    @property
    def mode(self) -> Any:
        """The class of the largest probability."""
        return self.probs.argmax(-1)

    has_enumerate_support = True

    @property
    def param_shape(self) -> Any:
        """The shape of the probabilities."""
        return self.logits.shape

    def enumerate_support(self, expand: bool = True) -> Any:
        """The numbers of the classes."""
        return _all_values(self, Tensor.arange(self._num_events), expand)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples: numbers of classes."""
        with no_grad():
            shape = (*self._shape(sample_shape), self.logits.shape[-1])
            draws = Tensor.rand(shape, device=self.logits.device).clamp(min=2.0**-25)
            return (self.logits - (-draws.log()).log()).argmax(-1)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        places = value.cast("int64").unsqueeze(-1)
        shape = (*places.shape[:-1], self.logits.shape[-1])
        return self.logits.expand(*shape).take_along_axis(places, -1).squeeze(-1)

    def entropy(self) -> Any:
        """The entropy."""
        return -(self.probs * self.logits.clamp(min=-3e38)).sum(-1)


class OneHotCategorical(Distribution):
    """One of several classes, as a vector of zeros with a 1.

    >>> OneHotCategorical(probs=Tensor([0.0, 1.0])).sample((2,)).tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support: Any = constraints.one_hot

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        self.probs, self.logits = self._categorical.probs, self._categorical.logits
        self._batch_shape, self._event_shape = self.logits.shape[:-1], Size(self.logits.shape[-1:])

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.probs

    @property
    def mode(self) -> Any:
        """The likeliest value."""
        return self.probs.argmax(-1).one_hot(self.probs.shape[-1]).cast(self.probs.dtype)

    has_enumerate_support = True

    @property
    def param_shape(self) -> Any:
        """The shape of the probabilities."""
        return self.logits.shape

    def enumerate_support(self, expand: bool = True) -> Any:
        """A vector for each class."""
        count = self.event_shape[0]
        vectors = Tensor.eye(count, device=self.probs.device).cast(self.probs.dtype)
        vectors = vectors.reshape(count, *[1] * len(self.batch_shape), count)
        return vectors.expand(count, *self.batch_shape, count) if expand else vectors

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples."""
        classes = self._categorical.sample(sample_shape)
        return classes.one_hot(self.logits.shape[-1]).cast(self.probs.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Any:
        """The entropy."""
        return self._categorical.entropy()


class Geometric(Distribution):
    """How many trials fail before the first one that succeeds.

    >>> Geometric(Tensor([0.5])).log_prob(Tensor(2.0)).exp().tolist()
    [0.125]
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Any = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self.probs, self.logits = probabilities("Geometric", self, probs, logits, Tensor.sigmoid, Tensor.logit)

    @property
    def mean(self) -> Any:
        """The mean."""
        return 1 / self.probs - 1

    @property
    def mode(self) -> Any:
        """The likeliest value."""
        return self.probs.zeros_like()

    @property
    def variance(self) -> Any:
        """The variance."""
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples."""
        with no_grad():
            return (self._within(sample_shape, self.probs).log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        return value * (-self.probs).log1p() + self.probs.log()

    def entropy(self) -> Any:
        """The entropy."""
        return (self.logits.softplus() - self.probs * self.logits) / self.probs


class Binomial(Distribution):
    """How many of `total_count` trials succeed.

    >>> Binomial(2, Tensor([0.5])).log_prob(Tensor([1.0])).exp().tolist()
    [0.5]
    """

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        found = probabilities("Binomial", self, probs, logits, Tensor.sigmoid, Tensor.logit)
        count = total_count if isinstance(total_count, Tensor) else Tensor(float(total_count))
        self.total_count, self.probs, self.logits = self._broadcast(count.cast(found[0].dtype), *found)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The set of the values."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        """The likeliest value."""
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    has_enumerate_support = True

    def enumerate_support(self, expand: bool = True) -> Any:
        """0 up to the number of trials, which is waited for. Raises ConfigError where it differs within the batch."""
        return _all_values(self, Tensor.arange(self._trials() + 1).cast(self.probs.dtype), expand)

    def _trials(self) -> int:
        trials = int(self.total_count.max().item())
        if trials != self.total_count.min().item():
            raise ConfigError("Binomial: the counts of trials differ; use one distribution for each count")
        return trials

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples: each trial is made, so the largest count of trials is waited for."""
        with no_grad():
            trials = int(self.total_count.max().item())
            draws = Tensor.rand((trials, *self._shape(sample_shape)), device=self.probs.device)
            place = Tensor.arange(trials).reshape(trials, *[1] * (draws.ndim - 1))
            return ((draws < self.probs) & (place < self.total_count)).sum(0).cast(self.probs.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        ways = (self.total_count + 1).lgamma() - (value + 1).lgamma() - (self.total_count - value + 1).lgamma()
        return ways + value * self.logits - self.total_count * self.logits.softplus()

    def entropy(self) -> Any:
        """The entropy; the number of trials is waited for. Raises ConfigError where it differs within the batch."""
        logs = self.log_prob(self.enumerate_support(False))
        return -(logs.exp() * logs).sum(0)


class Poisson(ExponentialFamily):
    """How often something happens that happens `rate` times on average.

    >>> round(Poisson(2.0).log_prob(Tensor(1.0)).exp().item(), 4)
    0.2707
    """

    arg_constraints: ClassVar[Any] = {"rate": constraints.nonnegative}
    support: Any = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = self._broadcast(rate)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.rate

    @property
    def mode(self) -> Any:
        """The likeliest value."""
        return self.rate.floor()

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples, of the dtype of the rate."""
        with no_grad():
            shape, rate = self._shape(sample_shape), self.rate
            waits = -Tensor.rand((_WAITS, *shape), device=rate.device).clamp(min=2.0**-25).log()
            few = (waits.cumsum(0) < rate).sum(0).cast(rate.dtype)
            return (rate < _MANY).where(few, _many(rate.clamp(min=_MANY), shape))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        value = value if isinstance(value, Tensor) else Tensor(float(value))
        return Tensor.xlogy(value, self.rate) - self.rate - (value + 1).lgamma()


def _many(rate: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Poisson counts of rates from 10 on, by W. Hörmann's transformed rejection with squeeze (PTRS, 1993)."""
    draws = Tensor.rand((2, _TRIES, *shape), device=rate.device).cast(rate.dtype)
    width = rate.sqrt() * 2.53 + 0.931
    slope = width * 0.02483 - 0.059
    place, height = draws[0] - 0.5, draws[1].clamp(min=2.0**-25)
    margin = (0.5 - place.abs()).clamp(min=2.0**-25)
    counts = ((slope * 2 / margin + width) * place + rate + 0.43).floor()
    inside = (margin >= 0.07) & (height <= 0.9277 - 3.6224 / (width - 2))
    likely = height.log() + (1.1239 + 1.1328 / (width - 3.4)).log() - (slope / margin**2 + width).log()
    below = likely <= counts * rate.log() - rate - (counts + 1).clamp(min=1).lgamma()
    accepted = inside | ((counts >= 0) & ((margin >= 0.013) | (height <= margin)) & below)
    found = rate.floor().expand(shape)
    for k in range(_TRIES):
        found = accepted[k].where(counts[k], found)
    return found


def _all_values(made: Distribution, values: Tensor, expand: bool) -> Tensor:
    """Values along a new first axis, for each distribution of a batch."""
    found = values.to(made.mean.device).reshape(-1, *[1] * len(made.batch_shape))
    return found.expand(-1, *made.batch_shape) if expand else found


def probabilities(
    name: str,
    made: Distribution,
    probs: Any,
    logits: Any,
    of_logits: Callable[[Tensor], Tensor],
    of_probs: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    if (probs is None) == (logits is None):
        raise ConfigError(f"{name}: give probs or logits, one of the two")
    if probs is None:
        (given,) = made._broadcast(logits)
        return of_logits(given), given
    (given,) = made._broadcast(probs)
    return given, of_probs(given)
