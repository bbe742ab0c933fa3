"""Random values in place: `x.normal_()`, `x.random_(6)`, `x.bernoulli_(0.5)`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rulegrad.errors import ConfigError
from rulegrad.ir.limits import integer_bounds
from rulegrad.tensor.inplace import become

if TYPE_CHECKING:
    from rulegrad.tensor.generators import Generator
    from rulegrad.tensor.tensor import Tensor


def uniform_(self: Tensor, a: float = 0.0, b: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Uniform in [a, b), in place.

    >>> (Tensor.zeros(3).uniform_(2.0, 4.0) >= 2.0).tolist()
    [True, True, True]
    """
    values = self.uniform(self.shape, low=a, high=b, dtype=self.dtype, device=self.device, generator=generator)
    return become(self, values, "uniform_")


def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Normal with this mean and standard deviation, in place.

    >>> Tensor.zeros(3).normal_(5.0, 0.0).tolist()
    [5.0, 5.0, 5.0]
    """
    values = self.normal(self.shape, mean=mean, std=std, dtype=self.dtype, device=self.device, generator=generator)
    return become(self, values, "normal_")


def bernoulli_(self: Tensor, p: float = 0.5, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability `p`, else 0, in place.

    >>> Tensor.zeros(3).bernoulli_(1.0).tolist()
    [1.0, 1.0, 1.0]
    """
    return become(
        self, (self.rand(self.shape, device=self.device, generator=generator) < p).cast(self.dtype), "bernoulli_"
    )


def exponential_(self: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Exponentially distributed with the rate `lambd`, in place. Raises ConfigError for a rate of 0 or less.

    >>> (Tensor.zeros(3).exponential_() >= 0).tolist()
    [True, True, True]
    """
    if not lambd > 0:
        raise ConfigError(f"exponential_: lambd={lambd}; use a rate above 0")
    draws = self.rand(self.shape, dtype=self.dtype, device=self.device, generator=generator)
    return become(self, draws.sub(1.0, swapped=True).log() / -lambd, "exponential_")


def cauchy_(self: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Cauchy's distribution around `median` with half of its width `sigma`, in place. Raises ConfigError for a
    width of 0 or less.

    >>> Tensor.zeros(3).cauchy_(5.0, 0.5).shape
    (3,)
    """
    if not sigma > 0:
        raise ConfigError(f"cauchy_: sigma={sigma}; use a width above 0")
    draws = self.rand(self.shape, dtype=self.dtype, device=self.device, generator=generator)
    return become(self, ((draws - 0.5) * math.pi).tan() * sigma + median, "cauchy_")


def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """How many trials it takes until one succeeds, each with the probability p, in place.

    Raises ConfigError unless p is above 0 and below 1.

    >>> (Tensor.zeros(3).geometric_(0.5) >= 1).tolist()
    [True, True, True]
    """
    if not 0 < p < 1:
        raise ConfigError(f"geometric_: p={p}; use a probability above 0 and below 1")
    draws = self.rand(self.shape, device=self.device, generator=generator).sub(1.0, swapped=True)
    trials = (draws.log() / math.log1p(-p)).ceil().clip(1, None)
    return become(self, trials.cast(self.dtype), "geometric_")


def log_normal_(self: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Tensor:
    """The exponential of normal values with this mean and standard deviation, in place.

    >>> (Tensor.zeros(3).log_normal_() > 0).tolist()
    [True, True, True]
    """
    values = self.normal(self.shape, mean=mean, std=std, dtype=self.dtype, device=self.device, generator=generator)
    return become(self, values.exp(), "log_normal_")


def random_(self: Tensor, low: int = 0, high: int | None = None, *, generator: Generator | None = None) -> Tensor:
    """Whole numbers from `low` up to, not including, `high`, in place; by default all that the dtype has.

    One number alone is `high`. At most 2**32 different ones, so that is the default of wider dtypes.

    >>> from rulegrad import Tensor
    >>> Tensor.zeros(3).random_(1).tolist()
    [0.0, 0.0, 0.0]
    """
    if high is None and low:
        low, high = 0, low
    if high is None:
        exact = integer_bounds(self.dtype)[1] + 1 if self.dtype.is_integer else 1 << (self.dtype.mantissa + 1)
        high = min(exact, 1 << 32) if self.dtype.kind != "bool" else 2
    drawn = self.randint(self.shape, low=low, high=high, device=self.device, generator=generator)
    return become(self, drawn.cast(self.dtype), "random_")
