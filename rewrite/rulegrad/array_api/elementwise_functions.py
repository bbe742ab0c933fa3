"""Elementwise functions: exponentials, logarithms, trigonometry. Integers are converted to floats."""

from __future__ import annotations

from rulegrad.tensor.storage import Scalar

from .operands import Array, binary, unary

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "exp",
    "expm1",
    "hypot",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]  # fmt: skip


def acos(x: Array, /) -> Array:
    """The angle from 0 to pi whose cosine is `x`; nan outside -1 to 1.

    >>> from rulegrad import array_api as xp
    >>> float(xp.acos(xp.asarray(1.0)))
    0.0
    """
    return unary(x, "acos")


def acosh(x: Array, /) -> Array:
    """The inverse of cosh; nan below 1.

    >>> from rulegrad import array_api as xp
    >>> float(xp.acosh(xp.asarray(1.0)))
    0.0
    """
    return unary(x, "acosh")


def asin(x: Array, /) -> Array:
    """The angle from -pi/2 to pi/2 whose sine is `x`; nan outside -1 to 1.

    >>> from rulegrad import array_api as xp
    >>> float(xp.asin(xp.asarray(0.0)))
    0.0
    """
    return unary(x, "asin")


def asinh(x: Array, /) -> Array:
    """The inverse of sinh.

    >>> from rulegrad import array_api as xp
    >>> float(xp.asinh(xp.asarray(0.0)))
    0.0
    """
    return unary(x, "asinh")


def atan(x: Array, /) -> Array:
    """The angle from -pi/2 to pi/2 whose tangent is `x`.

    >>> from rulegrad import array_api as xp
    >>> float(xp.atan(xp.asarray(0.0)))
    0.0
    """
    return unary(x, "atan")


def atan2(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The angle from -pi to pi of the point (`x2`, `x1`), with the signs of zeros.

    >>> from rulegrad import array_api as xp
    >>> float(xp.atan2(xp.asarray(0.0), xp.asarray(1.0)))
    0.0
    """
    return binary(x1, x2, "atan2")


def atanh(x: Array, /) -> Array:
    """The inverse of tanh; infinite at -1 and 1, nan outside.

    >>> from rulegrad import array_api as xp
    >>> float(xp.atanh(xp.asarray(0.0)))
    0.0
    """
    return unary(x, "atanh")


def cos(x: Array, /) -> Array:
    """The cosine of an angle in radians.

    >>> from rulegrad import array_api as xp
    >>> float(xp.cos(xp.asarray(0.0)))
    1.0
    """
    return unary(x, "cos")


def cosh(x: Array, /) -> Array:
    """The hyperbolic cosine.

    >>> from rulegrad import array_api as xp
    >>> float(xp.cosh(xp.asarray(0.0)))
    1.0
    """
    return unary(x, "cosh")


def exp(x: Array, /) -> Array:
    """e to the power of `x`.

    >>> from rulegrad import array_api as xp
    >>> float(xp.exp(xp.asarray(0.0)))
    1.0
    """
    return unary(x, "exp")


def expm1(x: Array, /) -> Array:
    """`exp(x) - 1`, exact for small numbers.

    >>> from rulegrad import array_api as xp
    >>> float(xp.expm1(xp.asarray(0.0)))
    0.0
    """
    return unary(x, "expm1")


def hypot(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """`sqrt(x1 ** 2 + x2 ** 2)`, without overflow on the way.

    >>> from rulegrad import array_api as xp
    >>> float(xp.hypot(xp.asarray(3.0), xp.asarray(4.0)))
    5.0
    """
    return binary(x1, x2, "hypot")


def log(x: Array, /) -> Array:
    """The natural logarithm: -inf for 0, nan for negative numbers.

    >>> from rulegrad import array_api as xp
    >>> float(xp.log(xp.asarray(1.0)))
    0.0
    """
    return unary(x, "log")


def log10(x: Array, /) -> Array:
    """The logarithm to base 10.

    >>> from rulegrad import array_api as xp
    >>> float(xp.log10(xp.asarray(100.0)))
    2.0
    """
    return unary(x, "log10")


def log1p(x: Array, /) -> Array:
    """`log(1 + x)`, exact for small numbers.

    >>> from rulegrad import array_api as xp
    >>> float(xp.log1p(xp.asarray(0.0)))
    0.0
    """
    return unary(x, "log1p")


def log2(x: Array, /) -> Array:
    """The logarithm to base 2.

    >>> from rulegrad import array_api as xp
    >>> float(xp.log2(xp.asarray(8.0)))
    3.0
    """
    return unary(x, "log2")


def logaddexp(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """`log(exp(x1) + exp(x2))`, without overflow on the way.

    >>> from rulegrad import array_api as xp
    >>> float(xp.logaddexp(xp.asarray(-xp.inf), xp.asarray(1.0)))
    1.0
    """
    return binary(x1, x2, "logaddexp")


def sin(x: Array, /) -> Array:
    """The sine of an angle in radians.

    >>> from rulegrad import array_api as xp
    >>> float(xp.sin(xp.asarray(0.0)))
    0.0
    """
    return unary(x, "sin")


def sinh(x: Array, /) -> Array:
    """The hyperbolic sine.

    >>> from rulegrad import array_api as xp
    >>> float(xp.sinh(xp.asarray(0.0)))
    0.0
    """
    return unary(x, "sinh")


def sqrt(x: Array, /) -> Array:
    """The square root; nan for negative numbers.

    >>> from rulegrad import array_api as xp
    >>> float(xp.sqrt(xp.asarray(9.0)))
    3.0
    """
    return unary(x, "sqrt")


def tan(x: Array, /) -> Array:
    """The tangent of an angle in radians.

    >>> from rulegrad import array_api as xp
    >>> float(xp.tan(xp.asarray(0.0)))
    0.0
    """
    return unary(x, "tan")


def tanh(x: Array, /) -> Array:
    """The hyperbolic tangent.

    >>> from rulegrad import array_api as xp
    >>> float(xp.tanh(xp.asarray(0.0)))
    0.0
    """
    return unary(x, "tanh")
