"""The gamma function's relatives: incomplete gamma functions, Hurwitz's zeta function, the multivariate gamma function.

Formulas: NIST Digital Library of Mathematical Functions, chapters 5, 8 and 25.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from rulegrad.errors import ShapeError
from rulegrad.ir.dtype import float32
from rulegrad.tensor.axes import whole_number
from rulegrad.tensor.special.coefficients import LGAMMA_OF_ONE_MORE, TEMME
from rulegrad.tensor.special.series import chebyshev, horner, sloped, special, special_of_two

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor

#: B(2 k) / (2 k)! for k = 1, 2, …, of Euler's and Maclaurin's formula
_BERNOULLI: Final = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000, 43867 / 5109094217170944000, -174611 / 802857662698291200000,
)  # fmt: skip
#: Of Stirling's series of log(gamma(a)), for a >= 10
_STIRLING: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
#: log1p(m) = 2 atanh(v) for v = m / (2 + m): the factors of 2 v**3, 2 v**5, …
_ATANH: Final = tuple(1 / (2 * k + 3) for k in range(17))
#: x**n / n! with alternating signs
_EXPONENTIAL: Final = tuple((-1.0) ** n / math.factorial(n) for n in range(1, 31))


# ---- incomplete gamma functions ----


@special_of_two
def gammainc(input: Tensor, other: Tensor) -> Tensor:
    """The regularized lower incomplete gamma function P(a, x), for a = `input` and x = `other`, none below 0.

    Errors are some units in the last place, times the exponent where a power of 10 is small. Gradients by both.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in gammainc(Tensor([0.5, 2.0]), 1.0).tolist()]
    [0.8427, 0.2642]
    """
    return sloped(other, lambda x: _incomplete(input, x, lower=True), lambda x: _density(input, x))


@special_of_two
def gammaincc(input: Tensor, other: Tensor) -> Tensor:
    """The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), with all digits where it is small.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in gammaincc(Tensor([0.5, 2.0]), 1.0).tolist()]
    [0.1573, 0.7358]
    """
    return sloped(other, lambda x: _incomplete(input, x, lower=False), lambda x: -_density(input, x))


def _density(a: Tensor, x: Tensor) -> Tensor:
    """The derivative of P by x."""
    return ((a - 1.0).xlogy(x) - x - a.lgamma()).exp()


def _incomplete(a: Tensor, x: Tensor, lower: bool) -> Tensor:
    inside = (a > 0) & (x > 0) & a.isfinite() & x.isfinite()
    a_, x_ = inside.where(a, 1.0), inside.where(x, 1.0)
    uniform = (a_ > 20.0) & ((x_ - a_).abs() < a_ * 0.5)
    # Each formula has harmless arguments where another one is used.
    series = ~uniform & ((x_ < a_) | (x_ < 2.0))
    fraction = ~uniform & ~series
    size = _prefix(a_, x_)
    p = _series(series.where(a_, 1.0), series.where(x_, 1.0)) * series.where(size, 0.0)
    q = _fraction(fraction.where(a_, 1.0), fraction.where(x_, 2.0)) * fraction.where(size * a_, 0.0)
    of_uniform = _uniform(uniform.where(a_, 40.0), uniform.where(x_, 40.0), lower)
    if lower:
        value = uniform.where(of_uniform, series.where(p, 1.0 - q))
    else:
        small = series & (x_ < 2.0)
        value = uniform.where(
            of_uniform, fraction.where(q, small.where(_small(small.where(a_, 1.0), small.where(x_, 1.0)), 1.0 - p))
        )
    # At the borders: all of it is below infinity, and none below 0; at both borders there is no value.
    empty = x.equal(0) | a.isinf()
    full = a.equal(0) | x.isinf()
    wrong = (a < 0) | (x < 0) | a.isnan() | x.isnan() | (empty & full)
    border = empty.where(0.0 if lower else 1.0, 1.0 if lower else 0.0)
    return inside.where(value, wrong.where(math.nan, border.cast(value.dtype)))


def _prefix(a: Tensor, x: Tensor) -> Tensor:
    """x**a exp(-x) / gamma(a + 1), where no uniform expansion is used; for large a without large differences."""
    large = a > 10.0
    few = large.where(1.0, a)
    direct = (few.xlogy(large.where(1.0, x)) - large.where(1.0, x) - (few + 1.0).lgamma()).exp()
    many = large.where(a, 20.0)
    share = large.where(x / a, 1.0)
    return large.where((many * (share.log() - (share - 1.0))).exp() / _root_and_stirling(many), direct)


def _root_and_stirling(a: Tensor) -> Tensor:
    """gamma(a + 1) / (a**a exp(-a)), for a >= 10."""
    inverse = a.reciprocal()
    return (a * (2.0 * math.pi)).sqrt() * (inverse * horner(inverse * inverse, _STIRLING)).exp()


def _series(a: Tensor, x: Tensor) -> Tensor:
    """1 + x / (a + 1) + x**2 / ((a + 1) (a + 2)) + …, for x < a or x < 2."""
    total = x * 0.0 + 1.0
    for n in range(34 if x.dtype == float32 else 56, 0, -1):
        total = total * (x / (a + float(n))) + 1.0
    return total


def _fraction(a: Tensor, x: Tensor) -> Tensor:
    """The continued fraction of Q, for x >= a and x >= 2, from its end."""
    rest = x * 0.0
    for n in range(20 if x.dtype == float32 else 50, 0, -1):
        rest = (a - float(n)) * float(-n) / (x - a + (2.0 * n + 1.0) - rest)
    return (x - a + 1.0 - rest).reciprocal()


def _small(a: Tensor, x: Tensor) -> Tensor:
    """Q for x < 2, without the difference of 1 and almost 1."""
    tiny = a < 0.5
    one_more = chebyshev(tiny.where(a, 0.25) * 4.0 - 1.0, LGAMMA_OF_ONE_MORE)
    logarithm = x.log() * a - tiny.where(a * one_more, (tiny.where(1.0, a) + 1.0).lgamma())
    total = x * 0.0
    power = x * 0.0 + 1.0
    for n, factor in enumerate(_EXPONENTIAL[: 18 if x.dtype == float32 else 30], 1):
        power = power * x
        total = total + power * factor / (a + float(n))
    return -logarithm.expm1() - logarithm.exp() * a * total


def _uniform(a: Tensor, x: Tensor, lower: bool) -> Tensor:
    """Temme's expansion for large a and x near a (1979)."""
    m = (x - a) / a
    v = m / (m + 2.0)
    # eta**2 / 2 = m - log1p(m), with the sign of m
    eta = v * 2.0 * ((1.0 - v).reciprocal() - v * horner(v * v, _ATANH)).sqrt()
    least = 1e-10 if x.dtype == float32 else 0.0
    total = x * 0.0
    for k in range(len(TEMME) - 1, -1, -1):
        row = [c for n, c in enumerate(TEMME[k]) if abs(c) * 0.63**n * 20.0**-k >= least]
        total = total / a + (horner(eta, row) if row else 0.0)
    rest = total * (eta * eta * a * -0.5).exp() / (a * (2.0 * math.pi)).sqrt()
    half = (eta * (a * 0.5).sqrt() * (-1.0 if lower else 1.0)).erfc() * 0.5
    return half - rest if lower else half + rest


# ---- the zeta function ----


@special_of_two
def zeta(input: Tensor, other: Tensor) -> Tensor:
    """Hurwitz's zeta function: the sum of `(k + other) ** -input` for k = 0, 1, …

    inf for an `input` of 1 and where `other` is 0, -1, -2, …; nan for an `input` below 1, and below 0 for one that is
    not whole. Errors are at most 8 units in the last place, by Euler's and Maclaurin's formula.

    >>> from rulegrad import Tensor
    >>> round(zeta(Tensor(2.0), 1.0).item(), 4)
    1.6449
    """
    return sloped(other, lambda q: _zeta(input, q), lambda q: -input * _zeta(input + 1.0, q))


def _zeta(s: Tensor, q: Tensor) -> Tensor:
    converges = s > 1.0
    power = converges.where(s, 2.0)
    pole = (q <= 0) & q.equal(q.floor())
    below = (q < 0) & ~pole
    whole = power.equal(power.floor())
    # All terms with a negative base, from -1 + r down to q, are those from 1 - r up to -q, with a sign.
    r = below.where(q - q.round(), 0.0)
    sign = (power - (power * 0.5).floor() * 2.0).equal(0).where(1.0, -1.0)
    size = below.where(r.abs(), 1.0)
    middle = size.pow(-power) * (r < 0).where(sign, 1.0)
    first = _zeta_of_positive(power, below.where(1.0 + r, pole.where(1.0, q)))
    reflected = sign * (_zeta_of_positive(power, 1.0 - r) - _zeta_of_positive(power, below.where(1.0 - q, 1.0)))
    value = below.where(whole.where(first + middle + reflected, math.nan), first)
    value = pole.where(math.inf, value)
    return converges.where(value, s.equal(1).where(math.inf, math.nan))


def _zeta_of_positive(s: Tensor, q: Tensor) -> Tensor:
    total = q.pow(-s)
    for k in range(1, 10):
        total = total + (q + float(k)).pow(-s)
    w = q + 10.0
    power = w.pow(-s)
    total = total + power * w / (s - 1.0) + power * 0.5
    factor = power * s / w
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        total = total + factor * bernoulli
        factor = factor * ((s + (2.0 * k - 1.0)) / w) * ((s + 2.0 * k) / w)
    return total


# ---- the multivariate gamma function ----


def multigammaln(input: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p, for elements above (p - 1) / 2.

    Raises ShapeError for a dimension below 1.

    >>> from rulegrad import Tensor
    >>> round(multigammaln(Tensor(2.5), 2).item(), 4)
    0.857
    """
    dimension = whole_number(p, "multigammaln")
    if dimension < 1:
        raise ShapeError(f"multigammaln: the dimension is {dimension}; give 1 or more")
    return _multigammaln(input, dimension)  # type: ignore[no-any-return]


@special
def _multigammaln(input: Tensor, p: Any) -> Tensor:
    total: Tensor = input.lgamma()
    for j in range(1, p):
        total = total + (input - j / 2.0).lgamma()
    constant: float = p * (p - 1) / 4.0 * math.log(math.pi)
    return total + constant
