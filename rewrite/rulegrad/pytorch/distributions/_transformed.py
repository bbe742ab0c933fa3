"""Distributions of a function of a variate."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar

from rulegrad._core import Size
from rulegrad.pytorch.distributions import constraints
from rulegrad.pytorch.distributions._base import Distribution
from rulegrad.pytorch.distributions._locations import Normal
from rulegrad.pytorch.distributions._multivariate import Independent, sum_of_last
from rulegrad.pytorch.distributions.transforms import ComposeTransform, ExpTransform, Transform
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
        shape = Size((*base_distribution.batch_shape, *base_distribution.event_shape))
        whole, axes = ComposeTransform(self.transforms), len(base_distribution.event_shape)
        after = Size(whole.forward_shape(shape))
        before = Size(whole.inverse_shape(after))
        if before != shape:
            base_distribution = base_distribution.expand(before[: len(before) - axes])
        more = whole.domain.event_dim - axes
        self.base_dist: Any = Independent(base_distribution, more) if more > 0 else base_distribution
        front = len(after) - whole.codomain.event_dim - max(-more, 0)
        super().__init__(after[:front], after[front:])

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution with parameters of a larger batch."""
        new = copy.copy(self) if _instance is None else _instance
        new.transforms = self.transforms
        shape = ComposeTransform(self.transforms).inverse_shape(Size((*batch_shape, *self.event_shape)))
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new._batch_shape, new._event_shape = Size(batch_shape), self.event_shape
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """The set of the values."""
        found = self.transforms[-1].codomain if self.transforms else self.base_dist.support
        more = len(self.event_shape) - found.event_dim
        return constraints.independent(found, more) if more > 0 else found

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
        axes = len(self.event_shape)
        for one in reversed(self.transforms):
            before = one.inv(value)
            axes += one.domain.event_dim - one.codomain.event_dim
            total = total - sum_of_last(one.log_abs_det_jacobian(before, value), axes - one.domain.event_dim)
            value = before
        found = self.base_dist.log_prob(value)
        return total + sum_of_last(found, axes - len(self.base_dist.event_shape))

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

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale), ExpTransform())

    @property
    def loc(self) -> Any:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Any:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Any:
        """The mean."""
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self) -> Any:
        """The value of the largest density."""
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self) -> Any:
        """The variance."""
        square = self.scale**2
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Any:
        """The entropy."""
        return self.base_dist.entropy() + self.loc
