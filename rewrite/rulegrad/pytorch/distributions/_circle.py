"""Distributions of angles."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Final

from rulegrad.pytorch.distributions import constraints
from rulegrad.pytorch.distributions._base import Distribution
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.special import i0e, i1e
from rulegrad.tensor.tensor import Tensor

__all__ = ["VonMises"]

#: How many angles are tried, of which at least 65 of 100 are right: none is in 1 of 10**11 cases.
_TRIES: Final = 24


class VonMises(Distribution):
    """R. von Mises's distribution of angles from -pi to pi, around `loc`.

    >>> VonMises(0.0, 1e-6).log_prob(Tensor(1.0)).exp().item() * 2 * math.pi > 0.999
    True
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "concentration": constraints.positive}
    support: Any = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = self._broadcast(loc, concentration)

    @property
    def mean(self) -> Any:
        """The mean angle."""
        return self.loc

    @property
    def mode(self) -> Any:
        """The angle of the largest density."""
        return self.loc

    @property
    def variance(self) -> Any:
        """The circular variance: 1 less the length of the mean of points on the circle."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        k = self.concentration
        return k * ((value - self.loc).cos() - 1) - math.log(2 * math.pi) - i0e(k).log()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples, by the method of D. J. Best and N. I. Fisher (1979)."""
        with no_grad():
            shape, k = self._shape(sample_shape), self.concentration.cast("float64")
            tau = 1 + (1 + 4 * k**2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            center = (k < 1e-5).where(1 / k, (1 + rho**2) / (2 * rho))
            draws = Tensor.rand((3, _TRIES, *shape), device=k.device).cast(k.dtype).clamp(min=2.0**-25)
            z = (math.pi * draws[0]).cos()
            place = ((1 + center * z) / (center + z)).clamp(-1, 1)
            slope = k * (center - place)
            accepted = (slope * (2 - slope) - draws[1] > 0) | ((slope / draws[1]).log() + 1 - slope >= 0)
            angles = (draws[2] - 0.5).sign() * place.acos()
            found = angles[_TRIES - 1]
            for each in reversed(range(_TRIES - 1)):
                found = accepted[each].where(angles[each], found)
            turned = found + math.pi + self.loc
            return (turned % (2 * math.pi) - math.pi).cast(self.loc.dtype)
