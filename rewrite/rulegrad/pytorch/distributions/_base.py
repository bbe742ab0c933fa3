"""What all distributions have: shapes, and what is not defined for one of them."""

from __future__ import annotations

import copy
import math
from typing import Any, ClassVar

from rulegrad._core import Size
from rulegrad.errors import ConfigError
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.tensor import Tensor

__all__ = ["Distribution"]

#: The shape of a number.
NO_AXES = Size()


class Distribution:
    """The base: `batch_shape` is that of the parameters; samples have `sample_shape` in front of it.

    One sample has `event_shape` behind it, where a value is several numbers that depend on each other.
    """

    has_rsample: ClassVar[bool] = False
    batch_shape: Size = NO_AXES
    event_shape: Size = NO_AXES

    def __init__(
        self, batch_shape: Any = NO_AXES, event_shape: Any = NO_AXES, validate_args: bool | None = None
    ) -> None:
        self.batch_shape, self.event_shape = Size(batch_shape), Size(event_shape)

    @property
    def mean(self) -> Any:
        """The mean. Raises ConfigError where no formula is known."""
        raise self._not_defined("mean")

    @property
    def variance(self) -> Any:
        """The variance. Raises ConfigError where no formula is known."""
        raise self._not_defined("variance")

    @property
    def stddev(self) -> Any:
        """The standard deviation, by the variance."""
        return self.variance.sqrt()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples through which gradients flow to the parameters. Raises ConfigError where they cannot."""
        raise ConfigError(f"{type(self).__name__}.rsample: its samples have no gradient; use sample")

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def sample_n(self, n: int) -> Any:
        """`n` samples."""
        return self.sample((n,))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, of a value."""
        raise self._not_defined("log_prob")

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        raise self._not_defined("cdf")

    def icdf(self, value: Any) -> Any:
        """The value below which is this probability."""
        raise self._not_defined("icdf")

    def entropy(self) -> Any:
        """The entropy."""
        raise self._not_defined("entropy")

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution with parameters of a larger batch."""
        new, old = copy.copy(self), len(self.batch_shape)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(new, name, value.expand(*batch_shape, *value.shape[old:]))
            elif isinstance(value, Distribution):
                setattr(new, name, value.expand((*batch_shape, *value.batch_shape[old:])))
        new.batch_shape = Size(batch_shape)
        return new

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return self.entropy().exp()

    def _not_defined(self, name: str) -> ConfigError:
        return ConfigError(f"{type(self).__name__}.{name} is not defined; write its formula")

    def _broadcast(self, *parameters: Any) -> list[Tensor]:
        """The parameters as tensors of one shape, which is `batch_shape`."""
        tensors = [one if isinstance(one, Tensor) else Tensor(float(one)) for one in parameters]
        found: list[Tensor] = list(Tensor.broadcast_tensors(*tensors))
        self.batch_shape = found[0].shape
        return found

    def _shape(self, sample_shape: Any) -> tuple[int, ...]:
        front = tuple(sample_shape) if isinstance(sample_shape, (tuple, list)) else (int(sample_shape),)
        return (*front, *self.batch_shape, *self.event_shape)

    def _uniform(self, sample_shape: Any, parameter: Tensor) -> Tensor:
        """Numbers from 0 up to, not including, 1, where the parameter is and of its dtype."""
        return Tensor.rand(self._shape(sample_shape), device=parameter.device).cast(parameter.dtype)

    def _within(self, sample_shape: Any, parameter: Tensor) -> Tensor:
        """Numbers above 0 and below 1, which logarithms can take."""
        return self._uniform(sample_shape, parameter).clamp(min=2.0**-25)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_shape={tuple(self.batch_shape)}, event_shape={tuple(self.event_shape)})"


#: The logarithm of the square root of 2 pi.
LOG_ROOT_OF_TAU = 0.5 * math.log(2 * math.pi)
