"""Bessel functions of orders 0 and 1, and Airy's function. Derivatives are by the functions' own recurrences.

Errors, in units of the last place of float64 and float32: I and K less than 8; J and Y less than 32 of their envelope,
and Ai as many times as x**(3/2) (near a zero only the absolute error is small). Formulas: NIST Digital Library of
Mathematical Functions, chapters 9 and 10.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from rulegrad.tensor.special import coefficients as series
from rulegrad.tensor.special.series import chebyshev, horner, sloped, special

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor

#: sin(x) / x as a series in x**2
_SINC: Final = tuple((-1) ** n / math.factorial(2 * n + 1) for n in range(9))


# ---- modified Bessel functions of the first kind ----


@special
def i0(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 0.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in i0(Tensor([0.0, 1.0])).tolist()]
    [1.0, 1.2661]
    """
    return sloped(input, _i0, _i1)


@special
def i0e(input: Tensor) -> Tensor:
    """`exp(-abs(input)) * i0(input)`, which does not overflow.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in i0e(Tensor([0.0, 1.0])).tolist()]
    [1.0, 0.4658]
    """
    return sloped(input, _i0e, lambda x: _i1e(x) - x.sign() * _i0e(x))


@special
def i1(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 1.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in i1(Tensor([0.0, 1.0])).tolist()]
    [0.0, 0.5652]
    """
    return sloped(input, _i1, lambda x: _grown(_i0e(x) - _i1e_by_x(x), x))


@special
def i1e(input: Tensor) -> Tensor:
    """`exp(-abs(input)) * i1(input)`, which does not overflow.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in i1e(Tensor([0.0, 1.0])).tolist()]
    [0.0, 0.2079]
    """
    return sloped(input, _i1e, lambda x: _i0e(x) - _i1e_by_x(x) - x.sign() * _i1e(x))


def modified_bessel_i0(input: Tensor) -> Tensor:
    """Another name of `i0`.

    >>> from rulegrad import Tensor
    >>> round(modified_bessel_i0(Tensor(1.0)).item(), 4)
    1.2661
    """
    return i0(input)  # type: ignore[no-any-return]


def modified_bessel_i1(input: Tensor) -> Tensor:
    """Another name of `i1`.

    >>> from rulegrad import Tensor
    >>> modified_bessel_i1(Tensor(0.0)).item()
    0.0
    """
    return i1(input)  # type: ignore[no-any-return]


def _split(x: Tensor, bound: float) -> tuple[Tensor, Tensor, Tensor]:
    """Whether x is at most `bound`; x where it is, and where it is not, with harmless numbers elsewhere."""
    near = x <= bound
    return near, near.where(x, bound), near.where(bound, x)


def _i0e(x: Tensor) -> Tensor:
    near, low, high = _split(x.abs(), 8.0)
    return near.where(
        chebyshev(low * 0.25 - 1.0, series.I0E_NEAR), chebyshev(16.0 / high - 1.0, series.I0E_FAR) / high.sqrt()
    )


def _i1e(x: Tensor) -> Tensor:
    near, low, high = _split(x.abs(), 8.0)
    far = chebyshev(16.0 / high - 1.0, series.I1E_FAR) / high.sqrt()
    return near.where(near.where(x, 0.0) * chebyshev(low * 0.25 - 1.0, series.I1E_NEAR), (x < 0).where(-far, far))


def _i1e_by_x(x: Tensor) -> Tensor:
    near, low, high = _split(x.abs(), 8.0)
    far = chebyshev(16.0 / high - 1.0, series.I1E_FAR) / high.sqrt() / high
    return near.where(chebyshev(low * 0.25 - 1.0, series.I1E_NEAR), far)


def _grown(scaled: Tensor, x: Tensor) -> Tensor:
    """`scaled * exp(abs(x))` in two steps: the product is finite longer than the exponential."""
    half = (x.abs() * 0.5).exp()
    return (scaled * half) * half


def _i0(x: Tensor) -> Tensor:
    return _grown(_i0e(_finite(x)), x)


def _i1(x: Tensor) -> Tensor:
    return _grown(_i1e(_finite(x)), x)


def _finite(x: Tensor) -> Tensor:
    """x up to where the exponential is infinite anyway: 0 times infinity has no value."""
    return (x.abs() > 2000.0).where(x.sign() * 2000.0, x)


# ---- modified Bessel functions of the second kind ----


@special
def modified_bessel_k0(input: Tensor) -> Tensor:
    """The modified Bessel function of the second kind of order 0: inf at 0, nan below.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in modified_bessel_k0(Tensor([0.0, 1.0])).tolist()]
    [inf, 0.421]
    """
    return sloped(input, _k0, lambda x: -_k1(x))


@special
def modified_bessel_k1(input: Tensor) -> Tensor:
    """The modified Bessel function of the second kind of order 1: inf at 0, nan below.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in modified_bessel_k1(Tensor([0.0, 1.0])).tolist()]
    [inf, 0.6019]
    """
    return sloped(input, _k1, lambda x: -_k0(x) - _k1(x) / x)


@special
def scaled_modified_bessel_k0(input: Tensor) -> Tensor:
    """`exp(input) * modified_bessel_k0(input)`, which is not 0 for large numbers.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in scaled_modified_bessel_k0(Tensor([1.0, 1e4])).tolist()]
    [1.1445, 0.0125]
    """
    return sloped(input, _k0e, lambda x: _k0e(x) - _k1e(x))


@special
def scaled_modified_bessel_k1(input: Tensor) -> Tensor:
    """`exp(input) * modified_bessel_k1(input)`, which is not 0 for large numbers.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in scaled_modified_bessel_k1(Tensor([1.0, 1e4])).tolist()]
    [1.6362, 0.0125]
    """
    return sloped(input, _k1e, lambda x: _k1e(x) * (1.0 - 1.0 / x) - _k0e(x))


def _small_k0(x: Tensor) -> Tensor:
    """For 0 <= x <= 2."""
    return chebyshev(x * x * 0.5 - 1.0, series.K0_NEAR) - (x * 0.5).log() * _i0(x)


def _small_k1(x: Tensor) -> Tensor:
    zero = x.equal(0)
    logarithm = (zero.where(2.0, x) * 0.5).log()
    return chebyshev(x * x * 0.5 - 1.0, series.K1_NEAR) / x.abs() + logarithm * _i1(x)


def _k0(x: Tensor) -> Tensor:
    near, low, high = _split(x, 2.0)
    return near.where(_small_k0(low), (-high).exp() * (chebyshev(4.0 / high - 1.0, series.K0_FAR) / high.sqrt()))


def _k0e(x: Tensor) -> Tensor:
    near, low, high = _split(x, 2.0)
    return near.where(_small_k0(low) * low.exp(), chebyshev(4.0 / high - 1.0, series.K0_FAR) / high.sqrt())


def _k1(x: Tensor) -> Tensor:
    near, low, high = _split(x, 2.0)
    return near.where(_small_k1(low), (-high).exp() * (chebyshev(4.0 / high - 1.0, series.K1_FAR) / high.sqrt()))


def _k1e(x: Tensor) -> Tensor:
    near, low, high = _split(x, 2.0)
    return near.where(_small_k1(low) * low.exp(), chebyshev(4.0 / high - 1.0, series.K1_FAR) / high.sqrt())


# ---- Bessel functions ----


@special
def bessel_j0(input: Tensor) -> Tensor:
    """The Bessel function of the first kind of order 0.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in bessel_j0(Tensor([0.0, 1.0])).tolist()]
    [1.0, 0.7652]
    """
    return sloped(input, _j0, lambda x: -_j1(x))


@special
def bessel_j1(input: Tensor) -> Tensor:
    """The Bessel function of the first kind of order 1.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in bessel_j1(Tensor([0.0, 1.0])).tolist()]
    [0.0, 0.4401]
    """
    return sloped(input, _j1, lambda x: _j0(x) - _j1_by_x(x))


@special
def bessel_y0(input: Tensor) -> Tensor:
    """The Bessel function of the second kind of order 0: -inf at 0, nan below.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in bessel_y0(Tensor([0.0, 1.0])).tolist()]
    [-inf, 0.0883]
    """
    return sloped(input, _y0, lambda x: -_y1(x))


@special
def bessel_y1(input: Tensor) -> Tensor:
    """The Bessel function of the second kind of order 1: -inf at 0, nan below.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in bessel_y1(Tensor([0.0, 1.0])).tolist()]
    [-inf, -0.7812]
    """
    return sloped(input, _y1, lambda x: _y0(x) - _y1(x) / x)


def _waves(x: Tensor, p: series.Series, q: series.Series) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """For x >= 8: sqrt(1 / (pi x)) times P and Q, and cos(x) and sin(x)."""
    t = 128.0 / x / x - 1.0
    size = (x * math.pi).sqrt().reciprocal()
    return size * chebyshev(t, p), size * (chebyshev(t, q) / x), x.cos(), x.sin()


def _j0(x: Tensor) -> Tensor:
    near, low, high = _split(x.abs(), 8.0)
    # cos(x - pi / 4) and sin(x - pi / 4), times the root of 2, without rounding the difference
    p, q, cos, sin = _waves(high, series.P0, series.Q0)
    return near.where(chebyshev(low * low * 0.03125 - 1.0, series.J0_NEAR), p * (cos + sin) - q * (sin - cos))


def _j1(x: Tensor) -> Tensor:
    near, low, high = _split(x.abs(), 8.0)
    p, q, cos, sin = _waves(high, series.P1, series.Q1)
    far = p * (sin - cos) + q * (sin + cos)
    small = near.where(x, 0.0) * chebyshev(low * low * 0.03125 - 1.0, series.J1_NEAR)
    return near.where(small, (x < 0).where(-far, far))


def _j1_by_x(x: Tensor) -> Tensor:
    near, low, high = _split(x.abs(), 8.0)
    p, q, cos, sin = _waves(high, series.P1, series.Q1)
    far = (p * (sin - cos) + q * (sin + cos)) / high
    return near.where(chebyshev(low * low * 0.03125 - 1.0, series.J1_NEAR), far)


def _y0(x: Tensor) -> Tensor:
    near, low, high = _split(x, 8.0)
    p, q, cos, sin = _waves(high, series.P0, series.Q0)
    t = low * low * 0.03125 - 1.0
    small = chebyshev(t, series.Y0_NEAR) + low.log() * chebyshev(t, series.J0_NEAR) * (2.0 / math.pi)
    return near.where(small, p * (sin - cos) + q * (cos + sin))


def _y1(x: Tensor) -> Tensor:
    near, low, high = _split(x, 8.0)
    p, q, cos, sin = _waves(high, series.P1, series.Q1)
    t = low * low * 0.03125 - 1.0
    logarithm = low.equal(0).where(1.0, low).log()
    singular = logarithm * (low * chebyshev(t, series.J1_NEAR)) - 1.0 / low.abs()
    small = low * chebyshev(t, series.Y1_NEAR) + singular * (2.0 / math.pi)
    return near.where(small, q * (sin - cos) - p * (cos + sin))


@special
def spherical_bessel_j0(input: Tensor) -> Tensor:
    """`sin(input) / input`, and 1 at 0.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in spherical_bessel_j0(Tensor([0.0, 1.0])).tolist()]
    [1.0, 0.8415]
    """
    near, infinite = input.abs() < 0.5, input.isinf()
    far = (near | infinite).where(1.0, input)
    small = near.where(input, 0.0)
    return near.where(horner(small * small, _SINC), infinite.where(0.0, far.sin() / far))


# ---- Airy's function ----


@special
def airy_ai(input: Tensor) -> Tensor:
    """Airy's function Ai, a solution of y'' = x y, which falls for positive x and oscillates for negative ones.

    >>> from rulegrad import Tensor
    >>> [round(v, 4) for v in airy_ai(Tensor([0.0, 1.0])).tolist()]
    [0.355, 0.1353]
    """
    middle = (input >= -4.0) & (input <= 2.0)
    negative = input < -4.0
    above = (middle | negative).where(2.0, input)
    below = negative.where(-input, 4.0)
    inside = chebyshev((middle.where(input, 0.0) + 1.0) / 3.0, series.AIRY_MIDDLE)
    return middle.where(inside, negative.where(_airy_of_negative(below), _airy_of_positive(above)))


def _airy_of_positive(x: Tensor) -> Tensor:
    """For x >= 2."""
    root = x.sqrt()
    z = x * root * (2.0 / 3.0)
    decay = (z * -0.5).exp()
    return (
        decay
        * (chebyshev(_ZETA_2 * 2.0 / z - 1.0, series.AIRY_POSITIVE) / (root.sqrt() * (2.0 * math.sqrt(math.pi))))
        * decay
    )


def _airy_of_negative(x: Tensor) -> Tensor:
    """Ai(-x) for x >= 4."""
    root = x.sqrt()
    z = x * root * (2.0 / 3.0)
    share = _ZETA_4 / z
    t = share * share * 2.0 - 1.0
    cos, sin = z.cos(), z.sin()
    waves = chebyshev(t, series.AIRY_COSINE) * (cos + sin) + chebyshev(t, series.AIRY_SINE) / z * (sin - cos)
    return waves / (root.sqrt() * math.sqrt(2.0 * math.pi))


_ZETA_2: Final = 2.0 / 3.0 * 2.0**1.5
_ZETA_4: Final = 2.0 / 3.0 * 4.0**1.5
