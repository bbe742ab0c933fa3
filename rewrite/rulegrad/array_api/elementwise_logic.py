"""Elementwise functions: comparison, logic, bits, and kinds of values."""

from __future__ import annotations

from rulegrad.tensor.storage import Scalar

from .operands import Array, binary, unary

__all__ = [
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "equal", "greater", "greater_equal", "isfinite", "isinf", "isnan", "less", "less_equal", "logical_and",
    "logical_not", "logical_or", "logical_xor", "not_equal", "signbit",
]  # fmt: skip


def bitwise_and(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The bits that both have; of bools their `and`.

    >>> from rulegrad import array_api as xp
    >>> xp.bitwise_and(xp.asarray([6, 5]), 3).tolist()
    [2, 1]
    """
    return binary(x1, x2, "bitwise_and")


def bitwise_invert(x: Array, /) -> Array:
    """The other bits; of a bool the other one.

    >>> from rulegrad import array_api as xp
    >>> xp.bitwise_invert(xp.asarray([0, 1])).tolist()
    [-1, -2]
    """
    return unary(x, "bitwise_not", "bitwise_invert")


def bitwise_left_shift(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """`x1 << x2`; 0 when the distance is the number of bits or more.

    >>> from rulegrad import array_api as xp
    >>> xp.bitwise_left_shift(xp.asarray([1, 3]), 2).tolist()
    [4, 12]
    """
    return binary(x1, x2, "lshift", "bitwise_left_shift")


def bitwise_or(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The bits that either has; of bools their `or`.

    >>> from rulegrad import array_api as xp
    >>> xp.bitwise_or(xp.asarray([6, 5]), 3).tolist()
    [7, 7]
    """
    return binary(x1, x2, "bitwise_or")


def bitwise_right_shift(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """`x1 >> x2`: arithmetic for signed integers, logical for unsigned ones.

    >>> from rulegrad import array_api as xp
    >>> xp.bitwise_right_shift(xp.asarray([-4, 12]), 2).tolist()
    [-1, 3]
    """
    return binary(x1, x2, "rshift", "bitwise_right_shift")


def bitwise_xor(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The bits that one of the two has; of bools whether they differ.

    >>> from rulegrad import array_api as xp
    >>> xp.bitwise_xor(xp.asarray([6, 5]), 3).tolist()
    [5, 6]
    """
    return binary(x1, x2, "bitwise_xor")


def equal(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """`x1 == x2`; nan equals nothing.

    >>> from rulegrad import array_api as xp
    >>> xp.equal(xp.asarray([1, 2]), 2).tolist()
    [False, True]
    """
    return binary(x1, x2, "equal")


def greater(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """`x1 > x2`.

    >>> from rulegrad import array_api as xp
    >>> xp.greater(xp.asarray([1, 3]), 2).tolist()
    [False, True]
    """
    return binary(x1, x2, "greater")


def greater_equal(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """`x1 >= x2`.

    >>> from rulegrad import array_api as xp
    >>> xp.greater_equal(xp.asarray([1, 2]), 2).tolist()
    [False, True]
    """
    return binary(x1, x2, "greater_equal")


def isfinite(x: Array, /) -> Array:
    """Whether an element is neither infinite nor nan.

    >>> from rulegrad import array_api as xp
    >>> xp.isfinite(xp.asarray([1.0, xp.inf, xp.nan])).tolist()
    [True, False, False]
    """
    return unary(x, "isfinite")


def isinf(x: Array, /) -> Array:
    """Whether an element is infinite, of either sign; of a complex number, whether a part is.

    >>> from rulegrad import array_api as xp
    >>> xp.isinf(xp.asarray([1.0, xp.inf, xp.nan])).tolist()
    [False, True, False]
    """
    return unary(x, "isinf")


def isnan(x: Array, /) -> Array:
    """Whether an element is nan; of a complex number, whether a part is.

    >>> from rulegrad import array_api as xp
    >>> xp.isnan(xp.asarray([1.0, xp.inf, xp.nan])).tolist()
    [False, False, True]
    """
    return unary(x, "isnan")


def less(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """`x1 < x2`.

    >>> from rulegrad import array_api as xp
    >>> xp.less(xp.asarray([1, 3]), 2).tolist()
    [True, False]
    """
    return binary(x1, x2, "less")


def less_equal(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """`x1 <= x2`.

    >>> from rulegrad import array_api as xp
    >>> xp.less_equal(xp.asarray([2, 3]), 2).tolist()
    [True, False]
    """
    return binary(x1, x2, "less_equal")


def logical_and(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """Whether both are true (not zero).

    >>> from rulegrad import array_api as xp
    >>> xp.logical_and(xp.asarray([True, False]), True).tolist()
    [True, False]
    """
    return binary(x1, x2, "logical_and")


def logical_not(x: Array, /) -> Array:
    """Whether an element is false (zero).

    >>> from rulegrad import array_api as xp
    >>> xp.logical_not(xp.asarray([True, False])).tolist()
    [False, True]
    """
    return unary(x, "logical_not")


def logical_or(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """Whether one of the two, or both, are true (not zero).

    >>> from rulegrad import array_api as xp
    >>> xp.logical_or(xp.asarray([True, False]), False).tolist()
    [True, False]
    """
    return binary(x1, x2, "logical_or")


def logical_xor(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """Whether one of the two, and not both, is true (not zero).

    >>> from rulegrad import array_api as xp
    >>> xp.logical_xor(xp.asarray([True, False]), True).tolist()
    [False, True]
    """
    return binary(x1, x2, "logical_xor")


def not_equal(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """`x1 != x2`; nan differs from everything.

    >>> from rulegrad import array_api as xp
    >>> xp.not_equal(xp.asarray([1, 2]), 2).tolist()
    [True, False]
    """
    return binary(x1, x2, "not_equal")


def signbit(x: Array, /) -> Array:
    """Whether the sign is set: of negative numbers, -0.0 and nan with a sign.

    >>> from rulegrad import array_api as xp
    >>> xp.signbit(xp.asarray([-0.0, 1.0])).tolist()
    [True, False]
    """
    return unary(x, "signbit")
