"""Distributions of counts: of failures before a number of successes, and of trials by their classes."""

from __future__ import annotations

from typing import Any, ClassVar

from rulegrad._core import Size
from rulegrad.errors import ConfigError
from rulegrad.pytorch.distributions import constraints
from rulegrad.pytorch.distributions._base import Distribution
from rulegrad.pytorch.distributions._discrete import Binomial, Categorical, Poisson, probabilities
from rulegrad.pytorch.distributions._gamma import standard_gamma
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.tensor import Tensor

__all__ = ["Multinomial", "NegativeBinomial"]


class NegativeBinomial(Distribution):
    """How many trials succeed before `total_count` of them have failed.

    >>> NegativeBinomial(3.0, Tensor([0.5])).mean.tolist()
    [3.0]
    """

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support: Any = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        found = probabilities("NegativeBinomial", self, probs, logits, Tensor.sigmoid, Tensor.logit)
        count = total_count if isinstance(total_count, Tensor) else Tensor(float(total_count))
        self.total_count, self.probs, self.logits = self._broadcast(count.cast(found[0].dtype), *found)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Any:
        """The likeliest value."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples: Poisson counts, whose rates are gamma variates."""
        with no_grad():
            rate = standard_gamma(self.total_count, self._shape(sample_shape)) * self.logits.exp()
            return Poisson(rate).sample()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        value, count = value if isinstance(value, Tensor) else Tensor(float(value)), self.total_count
        ways = (count + value).lgamma() - (1 + value).lgamma() - count.lgamma()
        ways = (count + value == 0).where(0.0, ways)
        return ways + count * (-self.logits).logsigmoid() + value * self.logits.logsigmoid()


class Multinomial(Distribution):
    """How many of `total_count` trials have each class.

    >>> Multinomial(3, Tensor([0.0, 1.0])).sample().tolist()
    [0.0, 3.0]
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise ConfigError("Multinomial: total_count is an int, the same for all of a batch")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        self.probs, self.logits = self._categorical.probs, self._categorical.logits
        self._batch_shape, self._event_shape = self.logits.shape[:-1], Size(self.logits.shape[-1:])

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """The set of the values."""
        return constraints.multinomial(self.total_count)

    @property
    def param_shape(self) -> Any:
        """The shape of the probabilities."""
        return self.logits.shape

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.total_count * self.probs

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples."""
        front = tuple(sample_shape) if isinstance(sample_shape, (tuple, list)) else (int(sample_shape),)
        classes = self._categorical.sample((self.total_count, *front))
        return classes.one_hot(self.logits.shape[-1]).sum(0).cast(self.probs.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        logits = ((value == 0) & (self.logits == -float("inf"))).where(0.0, self.logits)
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + (logits * value).sum(-1)

    def entropy(self) -> Any:
        """The entropy."""
        trials = Tensor(float(self.total_count)).cast(self.probs.dtype)
        of_class = Binomial(self.total_count, self.probs)
        counts = of_class.enumerate_support(False)[1:]
        ways = (of_class.log_prob(counts).exp() * (counts + 1).lgamma()).sum((0, -1))
        return trials * self._categorical.entropy() - (trials + 1).lgamma() + ways
