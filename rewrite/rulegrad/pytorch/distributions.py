"""`torch.distributions`: some distributions, with samples, densities and entropies as tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rulegrad.errors import ConfigError
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.tensor import Tensor

__all__ = ["Bernoulli", "Categorical", "Distribution", "Exponential", "Laplace", "Normal", "Uniform", "kl_divergence"]

_LOG_ROOT_OF_TAU = 0.5 * math.log(2 * math.pi)


class Distribution:
    """The base: `batch_shape` is that of the parameters; samples have `sample_shape` in front of it."""

    batch_shape: tuple[int, ...] = ()
    event_shape: tuple[int, ...] = ()

    def _broadcast(self, *parameters: Any) -> list[Tensor]:
        """The parameters as tensors of one shape, which is `batch_shape`."""
        tensors = [one if isinstance(one, Tensor) else Tensor(float(one)) for one in parameters]
        found: list[Tensor] = list(Tensor.broadcast_tensors(*tensors))
        self.batch_shape = found[0].shape
        return found

    def _shape(self, sample_shape: Any) -> tuple[int, ...]:
        front = tuple(sample_shape) if isinstance(sample_shape, (tuple, list)) else (int(sample_shape),)
        return (*front, *self.batch_shape)

    def _uniform(self, sample_shape: Any, parameter: Tensor) -> Tensor:
        """Numbers from 0 up to, not including, 1, where the parameter is and of its dtype."""
        return Tensor.rand(self._shape(sample_shape), device=parameter.device).cast(parameter.dtype)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples through which gradients flow to the parameters. Raises ConfigError where they cannot."""
        raise ConfigError(f"{type(self).__name__}.rsample: its samples have no gradient; use sample")

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, of a value."""
        raise ConfigError(f"{type(self).__name__}.log_prob is not defined")


class Normal(Distribution):
    """The normal distribution.

    >>> from rulegrad import Tensor
    >>> d = Normal(Tensor([0.0, 1.0]), 2.0)
    >>> d.sample((3,)).shape, [round(v, 3) for v in d.log_prob(Tensor(1.0)).tolist()]
    ((3, 2), [-1.737, -1.612])
    """

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

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples, through which gradients flow."""
        shape = self._shape(sample_shape)
        return self.loc + self.scale * Tensor.randn(shape, device=self.loc.device).cast(self.loc.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        return -((value - self.loc) ** 2) / (2 * self.variance) - self.scale.log() - _LOG_ROOT_OF_TAU

    def entropy(self) -> Any:
        """The entropy."""
        return self.scale.log() + (0.5 + _LOG_ROOT_OF_TAU)

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

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = self._broadcast(low, high)

    @property
    def mean(self) -> Any:
        """The mean."""
        return (self.low + self.high) / 2

    @property
    def variance(self) -> Any:
        """The variance."""
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
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


class Exponential(Distribution):
    """The exponential distribution.

    >>> Exponential(2.0).log_prob(Tensor(0.0)).exp().item()
    2.0
    """

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = self._broadcast(rate)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.rate.reciprocal()

    stddev = mean

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples, through which gradients flow."""
        draws = self._uniform(sample_shape, self.rate)
        return -(1 - draws).log() / self.rate

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        return self.rate.log() - self.rate * value

    def entropy(self) -> Any:
        """The entropy."""
        return 1 - self.rate.log()


class Laplace(Distribution):
    """Laplace's distribution.

    >>> Laplace(0.0, 1.0).log_prob(Tensor(0.0)).exp().item()
    0.5
    """

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = self._broadcast(loc, scale)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.loc

    @property
    def variance(self) -> Any:
        """The variance."""
        return 2 * self.scale**2

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples, through which gradients flow."""
        draws = self._uniform(sample_shape, self.loc) - 0.5
        return self.loc - self.scale * draws.sign() * (1 - 2 * draws.abs()).clamp(min=2.0**-24).log()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def entropy(self) -> Any:
        """The entropy."""
        return 1 + (2 * self.scale).log()


class Bernoulli(Distribution):
    """1 with a probability, or with the probability that a logit says, else 0.

    >>> Bernoulli(logits=Tensor([0.0])).log_prob(Tensor(1.0)).exp().tolist()
    [0.5]
    """

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self.probs, self.logits = _probabilities("Bernoulli", self, probs, logits, Tensor.sigmoid, Tensor.logit)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.probs

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

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        if (probs is None) == (logits is None):
            raise ConfigError("Categorical: give probs or logits, one of the two")
        self.logits = probs.log().log_softmax(-1) if logits is None else logits.log_softmax(-1)
        self.probs = self.logits.exp() if probs is None else probs / probs.sum(-1, keepdims=True)
        self.batch_shape = self.logits.shape[:-1]

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


def kl_divergence(p: Any, q: Any) -> Any:
    """The Kullback-Leibler divergence of two distributions of a kind. Raises ConfigError where it is not known.

    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0)).item()
    0.5
    """
    if isinstance(p, Normal) and isinstance(q, Normal):
        ratio = (p.scale / q.scale) ** 2
        return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())
    if isinstance(p, Categorical) and isinstance(q, Categorical):
        return (p.probs * (p.logits - q.logits)).sum(-1)
    if isinstance(p, Bernoulli) and isinstance(q, Bernoulli):
        return p.probs * (p.logits - q.logits) + q.logits.softplus() - p.logits.softplus()
    raise ConfigError(f"kl_divergence: of {type(p).__name__} and {type(q).__name__} is not known; write its formula")


def _probabilities(
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
