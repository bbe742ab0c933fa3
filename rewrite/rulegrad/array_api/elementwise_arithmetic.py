"""Elementwise functions: arithmetic, rounding, parts of numbers."""

from __future__ import annotations

from rulegrad.tensor.storage import Scalar

from .operands import Array, array, binary, unary

__all__ = [
    "abs", "add", "ceil", "clip", "conj", "copysign", "divide", "floor", "floor_divide", "imag", "maximum",
    "minimum", "multiply", "negative", "nextafter", "positive", "pow", "real", "reciprocal", "remainder", "round",
    "sign", "square", "subtract", "trunc",
]  # fmt: skip


def abs(x: Array, /) -> Array:
    """The absolute value; of a complex number its distance from 0, a real one.

    >>> from rulegrad import array_api as xp
    >>> xp.abs(xp.asarray([-1, 2])).tolist()
    [1, 2]
    """
    return unary(x, "abs")


def add(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """`x1 + x2`; integers wrap around.

    >>> from rulegrad import array_api as xp
    >>> xp.add(xp.asarray([1, 2]), 3).tolist()
    [4, 5]
    """
    return binary(x1, x2, "add")


def ceil(x: Array, /) -> Array:
    """The next integer above, in the same dtype.

    >>> from rulegrad import array_api as xp
    >>> xp.ceil(xp.asarray([1.5, -1.5])).tolist()
    [2.0, -1.0]
    """
    return unary(x, "ceil")


def conj(x: Array, /) -> Array:
    """The complex conjugate; a real array as it is.

    >>> from rulegrad import array_api as xp
    >>> xp.conj(xp.asarray([1 + 2j])).tolist()
    [(1-2j)]
    """
    return unary(x, "conj")


def copysign(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The magnitude of `x1` with the sign of `x2`, that of -0.0 and of nan as well.

    >>> from rulegrad import array_api as xp
    >>> xp.copysign(xp.asarray([1.0, -2.0]), -0.0).tolist()
    [-1.0, -2.0]
    """
    return binary(x1, x2, "copysign")


def divide(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """`x1 / x2`; two integers give float64.

    >>> from rulegrad import array_api as xp
    >>> xp.divide(xp.asarray([1, 3]), 2).tolist()
    [0.5, 1.5]
    """
    return binary(x1, x2, "div", "divide")


def floor(x: Array, /) -> Array:
    """The next integer below, in the same dtype.

    >>> from rulegrad import array_api as xp
    >>> xp.floor(xp.asarray([1.5, -1.5])).tolist()
    [1.0, -2.0]
    """
    return unary(x, "floor")


def floor_divide(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """`x1 // x2`, rounded down; an integer divided by zero gives 0.

    >>> from rulegrad import array_api as xp
    >>> xp.floor_divide(xp.asarray([7, -7]), 2).tolist()
    [3, -4]
    """
    return binary(x1, x2, "floor_divide")


def imag(x: Array, /) -> Array:
    """The imaginary part of a complex array.

    >>> from rulegrad import array_api as xp
    >>> xp.imag(xp.asarray([1 + 2j])).tolist()
    [2.0]
    """
    return array(x, "imag").imag


def maximum(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The larger of the two elements; nan when either is nan.

    >>> from rulegrad import array_api as xp
    >>> xp.maximum(xp.asarray([1, 5]), 3).tolist()
    [3, 5]
    """
    return binary(x1, x2, "maximum")


def minimum(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The smaller of the two elements; nan when either is nan.

    >>> from rulegrad import array_api as xp
    >>> xp.minimum(xp.asarray([1, 5]), 3).tolist()
    [1, 3]
    """
    return binary(x1, x2, "minimum")


def multiply(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """`x1 * x2`; integers wrap around.

    >>> from rulegrad import array_api as xp
    >>> xp.multiply(xp.asarray([1, 2]), 3).tolist()
    [3, 6]
    """
    return binary(x1, x2, "mul", "multiply")


def negative(x: Array, /) -> Array:
    """`-x`; integers wrap around.

    >>> from rulegrad import array_api as xp
    >>> xp.negative(xp.asarray([1, -2])).tolist()
    [-1, 2]
    """
    return unary(x, "neg", "negative")


def nextafter(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The number after `x1` in the direction of `x2`, of their dtype.

    >>> from rulegrad import array_api as xp
    >>> xp.nextafter(xp.asarray([0.0]), 1.0).tolist()
    [1.401298464324817e-45]
    """
    return binary(x1, x2, "nextafter")


def positive(x: Array, /) -> Array:
    """`+x`, the same values.

    >>> from rulegrad import array_api as xp
    >>> xp.positive(xp.asarray([1, -2])).tolist()
    [1, -2]
    """
    return unary(x, "positive")


def pow(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """`x1 ** x2`. Raises DtypeError for an integer to a negative Python power.

    >>> from rulegrad import array_api as xp
    >>> xp.pow(xp.asarray([2, 3]), 2).tolist()
    [4, 9]
    """
    return binary(x1, x2, "pow")


def real(x: Array, /) -> Array:
    """The real part of a complex array; a real array as it is.

    >>> from rulegrad import array_api as xp
    >>> xp.real(xp.asarray([1 + 2j])).tolist()
    [1.0]
    """
    return array(x, "real").real


def reciprocal(x: Array, /) -> Array:
    """`1 / x`.

    >>> from rulegrad import array_api as xp
    >>> xp.reciprocal(xp.asarray([2.0, 4.0])).tolist()
    [0.5, 0.25]
    """
    return unary(x, "reciprocal")


def remainder(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """`x1 % x2`, with the sign of the divisor; an integer modulo zero gives 0.

    >>> from rulegrad import array_api as xp
    >>> xp.remainder(xp.asarray([7, -7]), 3).tolist()
    [1, 2]
    """
    return binary(x1, x2, "remainder")


def round(x: Array, /) -> Array:
    """The nearest integer, halves to even, in the same dtype; of a complex number each part.

    >>> from rulegrad import array_api as xp
    >>> xp.round(xp.asarray([0.5, 1.5])).tolist()
    [0.0, 2.0]
    """
    return unary(x, "round")


def sign(x: Array, /) -> Array:
    """-1, 0 or 1, nan for nan; of a complex number `x / abs(x)`.

    >>> from rulegrad import array_api as xp
    >>> xp.sign(xp.asarray([-2.0, 0.0, 5.0])).tolist()
    [-1.0, 0.0, 1.0]
    """
    return unary(x, "sign")


def square(x: Array, /) -> Array:
    """`x * x`.

    >>> from rulegrad import array_api as xp
    >>> xp.square(xp.asarray([3, -4])).tolist()
    [9, 16]
    """
    return unary(x, "square")


def subtract(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """`x1 - x2`; integers wrap around.

    >>> from rulegrad import array_api as xp
    >>> xp.subtract(xp.asarray([1, 2]), 3).tolist()
    [-2, -1]
    """
    return binary(x1, x2, "sub", "subtract")


def trunc(x: Array, /) -> Array:
    """The next integer towards zero, in the same dtype.

    >>> from rulegrad import array_api as xp
    >>> xp.trunc(xp.asarray([1.5, -1.5])).tolist()
    [1.0, -1.0]
    """
    return unary(x, "trunc")


def clip(x: Array, /, min: Array | Scalar | None = None, max: Array | Scalar | None = None) -> Array:
    """The elements limited to `min … max`, in the dtype of `x`; None for no limit on that side.

    >>> from rulegrad import array_api as xp
    >>> xp.clip(xp.asarray([1, 5, 9]), 2, 7).tolist()
    [2, 5, 7]
    """
    return array(x, "clip").clip(min, max)
