"""The normal distribution and the error function's relatives.

Errors, in units of the last place of float64 and float32: `erfinv` and `ndtri` less than 4, `erfcx` less than 32,
`ndtr` and `log_ndtr` 1 for each by which a rounded argument moves them, that is x**2 in the tails.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from rulegrad.tensor.special import coefficients as series
from rulegrad.tensor.special.series import chebyshev, sloped, special

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor

_ROOT_HALF: Final = math.sqrt(0.5)


@special
def erfcx(input: Tensor) -> Tensor:
    """`exp(input**2) * erfc(input)`, which is not 0 for large numbers.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in erfcx(Tensor([0.0, 1e4])).tolist()]
    [1.0, 0.0001]
    """
    return _erfcx(input)


def _erfcx(x: Tensor) -> Tensor:
    negative = x < 0
    size = x.abs()
    finite = size.isinf().where(1.0, size)
    t = size.isinf().where(1.0, (finite - 3.0) / (finite + 3.0))
    positive = chebyshev(t, series.ERFCX) / (size + size + 1.0)
    # exp(x**2) = exp(h**2) exp((x - h) (x + h)), where the square of h is exact; where it is infinite, so is it.
    low = negative.where((x < -27.0).where(-27.0, x), 0.0)
    coarse = (low.detach() * 256.0).round() * (1.0 / 256.0)
    growth = (coarse * coarse).exp() * ((low - coarse) * (low + coarse)).exp()
    return negative.where(growth * 2.0 - positive, positive)


@special
def ndtr(input: Tensor) -> Tensor:
    """The share of a standard normal distribution below each element: `erfc(-input / sqrt(2)) / 2`.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in ndtr(Tensor([0.0, 1.0])).tolist()]
    [0.5, 0.8413]
    """
    return (input * -_ROOT_HALF).erfc() * 0.5


@special
def log_ndtr(input: Tensor) -> Tensor:
    """The logarithm of `ndtr`, with all digits where that is tiny.

    >>> from rulegrad import Tensor
    >>> [round(v, 2) for v in log_ndtr(Tensor([0.0, -100.0])).tolist()]
    [-0.69, -5005.52]
    """
    return sloped(input, _log_ndtr, lambda x: math.sqrt(2.0 / math.pi) / _erfcx(x * -_ROOT_HALF))


def _log_ndtr(x: Tensor) -> Tensor:
    low = x < -1.0
    tail = low.where(x, -1.0)
    rest = low.where(0.0, x)
    small = (_erfcx(tail * -_ROOT_HALF) * 0.5).log() - tail * tail * 0.5
    return low.where(small, ((rest * _ROOT_HALF).erfc() * -0.5).log1p())


@special
def ndtri(input: Tensor) -> Tensor:
    """The inverse of `ndtr`, for shares from 0 to 1; nan for others.

    >>> from rulegrad import Tensor
    >>> [round(v, 3) for v in ndtri(Tensor([0.5, 0.975, 1.0])).tolist()]
    [0.0, 1.96, inf]
    """

    def value(p: Tensor) -> Tensor:
        upper = p > 0.5
        return _quantile(p - 0.5, upper.where(1.0 - p, p), upper)

    return sloped(input, value, lambda p: (value(p).square() * 0.5).exp() * math.sqrt(2.0 * math.pi))


@special
def erfinv(input: Tensor) -> Tensor:
    """The inverse of `erf`, from -1 to 1: infinite there, nan outside.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in erfinv(Tensor([0.0, 0.5, -1.0])).tolist()]
    [0.0, 0.4769, -inf]
    """

    def value(y: Tensor) -> Tensor:
        return _quantile(y * 0.5, (1.0 - y.abs()) * 0.5, y > 0) * _ROOT_HALF

    return sloped(input, value, lambda y: value(y).square().exp() * (0.5 * math.sqrt(math.pi)))


def _quantile(distance: Tensor, tail: Tensor, upper: Tensor) -> Tensor:
    """The normal quantile: by the distance from 1/2 near it, and by the share of the smaller tail elsewhere."""
    middle = distance.abs() <= 0.425
    near = middle.where(distance, 0.0)
    share = near * (1.0 / 0.425)
    inside = near * chebyshev(share * share * 2.0 - 1.0, series.QUANTILE_MIDDLE)
    none = tail.equal(0)
    r = (-(middle | none).where(0.075, tail).log()).sqrt()
    far = r > 5.0
    low, high = far.where(5.0, r), far.where(r, 5.0)
    width = (1.0 / 5.0 - 1.0 / 28.0) / 2.0
    tail_of_low = low * chebyshev((low - 1.6) * (1.0 / 1.7) - 1.0, series.QUANTILE_TAIL)
    tail_of_high = high * chebyshev((1.0 / high - 1.0 / 28.0) * (1.0 / width) - 1.0, series.QUANTILE_FAR)
    outside = none.where(math.inf, far.where(tail_of_high, tail_of_low))
    return middle.where(inside, upper.where(outside, -outside))
