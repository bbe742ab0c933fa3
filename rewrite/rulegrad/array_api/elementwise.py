"""Elementwise functions. Each is a row: the method of `Tensor` that it is, and its text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rulegrad.tensor import Tensor
from rulegrad.tensor.storage import Scalar

from .operands import Array, array, pair

__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "conj", "copysign",
    "cos", "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot",
    "imag", "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log1p", "log2", "log10", "logaddexp",
    "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative",
    "nextafter", "not_equal", "positive", "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit",
    "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc",
]  # fmt: skip

Operand = Array | Scalar
Function = TypeVar("Function", bound=Callable[..., Any])


def unary(name: str, method: Callable[[Tensor], Tensor], text: str) -> Callable[[Array], Array]:
    """A function of one array."""

    def function(x: Array, /) -> Array:
        return method(array(x, name))

    return _named(function, name, text, f"xp.{name}(one) == one.{method.__name__}()")


def binary(name: str, method: Callable[[Tensor, Any], Tensor], text: str) -> Callable[[Operand, Operand], Array]:
    """A function of two operands, of which one may be a Python scalar."""

    def function(x1: Operand, x2: Operand, /) -> Array:
        first, second = pair(x1, x2, name)
        return method(first, second)

    return _named(function, name, text, f"xp.{name}(one, 1) == one.{method.__name__}(1)")


def _named(function: Function, name: str, text: str, example: str) -> Function:
    function.__name__ = function.__qualname__ = name
    function.__module__ = "rulegrad.array_api"
    one = "1" if name.startswith("bitwise") else "1.0"
    function.__doc__ = f"""{text}

    >>> from rulegrad import array_api as xp
    >>> one = xp.asarray({one})
    >>> ({example}).item()
    True
    """
    return function


# ---- arithmetic, rounding, parts of numbers ----

abs = unary("abs", Tensor.abs, "The absolute value; of a complex number its distance from 0, a real one.")
add = binary("add", Tensor.add, "`x1 + x2`; integers wrap around.")
ceil = unary("ceil", Tensor.ceil, "The next integer above, in the same dtype.")
conj = unary("conj", Tensor.conj, "The complex conjugate; a real array as it is.")
copysign = binary(
    "copysign", Tensor.copysign, "The magnitude of `x1` with the sign of `x2`, that of -0.0 and of nan as well."
)
divide = binary("divide", Tensor.div, "`x1 / x2`; two integers give float32.")
floor = unary("floor", Tensor.floor, "The next integer below, in the same dtype.")
floor_divide = binary(
    "floor_divide", Tensor.floor_divide, "`x1 // x2`, rounded down; an integer divided by zero gives 0."
)
maximum = binary("maximum", Tensor.maximum, "The larger of the two elements; nan when either is nan.")
minimum = binary("minimum", Tensor.minimum, "The smaller of the two elements; nan when either is nan.")
multiply = binary("multiply", Tensor.mul, "`x1 * x2`; integers wrap around.")
negative = unary("negative", Tensor.neg, "`-x`; integers wrap around.")
nextafter = binary("nextafter", Tensor.nextafter, "The number after `x1` in the direction of `x2`, of their dtype.")
positive = unary("positive", Tensor.positive, "`+x`, the same values.")
pow = binary("pow", Tensor.pow, "`x1 ** x2`. Raises DtypeError for an integer to a negative Python power.")
reciprocal = unary("reciprocal", Tensor.reciprocal, "`1 / x`.")
remainder = binary(
    "remainder", Tensor.remainder, "`x1 % x2`, with the sign of the divisor; an integer modulo zero gives 0."
)
round = unary(
    "round", Tensor.round, "The nearest integer, halves to even, in the same dtype; of a complex number each part."
)
sign = unary("sign", Tensor.sign, "-1, 0 or 1, nan for nan; of a complex number `x / abs(x)`.")
square = unary("square", Tensor.square, "`x * x`.")
subtract = binary("subtract", Tensor.sub, "`x1 - x2`; integers wrap around.")
trunc = unary("trunc", Tensor.trunc, "The next integer towards zero, in the same dtype.")


# ---- exponentials, logarithms, trigonometry; integers are converted to floats ----

acos = unary("acos", Tensor.acos, "The angle from 0 to pi whose cosine is `x`; nan outside -1 to 1.")
acosh = unary("acosh", Tensor.acosh, "The inverse of cosh; nan below 1.")
asin = unary("asin", Tensor.asin, "The angle from -pi/2 to pi/2 whose sine is `x`; nan outside -1 to 1.")
asinh = unary("asinh", Tensor.asinh, "The inverse of sinh.")
atan = unary("atan", Tensor.atan, "The angle from -pi/2 to pi/2 whose tangent is `x`.")
atan2 = binary("atan2", Tensor.atan2, "The angle from -pi to pi of the point (`x2`, `x1`), with the signs of zeros.")
atanh = unary("atanh", Tensor.atanh, "The inverse of tanh; infinite at -1 and 1, nan outside.")
cos = unary("cos", Tensor.cos, "The cosine of an angle in radians.")
cosh = unary("cosh", Tensor.cosh, "The hyperbolic cosine.")
exp = unary("exp", Tensor.exp, "e to the power of `x`.")
expm1 = unary("expm1", Tensor.expm1, "`exp(x) - 1`, exact for small numbers.")
hypot = binary("hypot", Tensor.hypot, "`sqrt(x1 ** 2 + x2 ** 2)`, without overflow on the way.")
log = unary("log", Tensor.log, "The natural logarithm: -inf for 0, nan for negative numbers.")
log10 = unary("log10", Tensor.log10, "The logarithm to base 10.")
log1p = unary("log1p", Tensor.log1p, "`log(1 + x)`, exact for small numbers.")
log2 = unary("log2", Tensor.log2, "The logarithm to base 2.")
logaddexp = binary("logaddexp", Tensor.logaddexp, "`log(exp(x1) + exp(x2))`, without overflow on the way.")
sin = unary("sin", Tensor.sin, "The sine of an angle in radians.")
sinh = unary("sinh", Tensor.sinh, "The hyperbolic sine.")
sqrt = unary("sqrt", Tensor.sqrt, "The square root; nan for negative numbers.")
tan = unary("tan", Tensor.tan, "The tangent of an angle in radians.")
tanh = unary("tanh", Tensor.tanh, "The hyperbolic tangent.")


# ---- comparisons, logic, bits ----

bitwise_and = binary("bitwise_and", Tensor.bitwise_and, "The bits that both have; of bools their `and`.")
bitwise_invert = unary("bitwise_invert", Tensor.bitwise_not, "The other bits; of a bool the other one.")
bitwise_left_shift = binary(
    "bitwise_left_shift", Tensor.lshift, "`x1 << x2`; 0 when the distance is the number of bits or more."
)
bitwise_or = binary("bitwise_or", Tensor.bitwise_or, "The bits that either has; of bools their `or`.")
bitwise_right_shift = binary(
    "bitwise_right_shift", Tensor.rshift, "`x1 >> x2`: arithmetic for signed integers, logical for unsigned ones."
)
bitwise_xor = binary(
    "bitwise_xor", Tensor.bitwise_xor, "The bits that one of the two has; of bools whether they differ."
)
equal = binary("equal", Tensor.equal, "`x1 == x2`; nan equals nothing.")
greater = binary("greater", Tensor.greater, "`x1 > x2`.")
greater_equal = binary("greater_equal", Tensor.greater_equal, "`x1 >= x2`.")
isfinite = unary("isfinite", Tensor.isfinite, "Whether an element is neither infinite nor nan.")
isinf = unary(
    "isinf", Tensor.isinf, "Whether an element is infinite, of either sign; of a complex number, whether a part is."
)
isnan = unary("isnan", Tensor.isnan, "Whether an element is nan; of a complex number, whether a part is.")
less = binary("less", Tensor.less, "`x1 < x2`.")
less_equal = binary("less_equal", Tensor.less_equal, "`x1 <= x2`.")
logical_and = binary("logical_and", Tensor.logical_and, "Whether both are true (not zero).")
logical_not = unary("logical_not", Tensor.logical_not, "Whether an element is false (zero).")
logical_or = binary("logical_or", Tensor.logical_or, "Whether one of the two, or both, are true (not zero).")
logical_xor = binary("logical_xor", Tensor.logical_xor, "Whether one of the two, and not both, is true (not zero).")
not_equal = binary("not_equal", Tensor.not_equal, "`x1 != x2`; nan differs from everything.")
signbit = unary("signbit", Tensor.signbit, "Whether the sign is set: of negative numbers, -0.0 and nan with a sign.")


# ---- others ----


def imag(x: Array, /) -> Array:
    """The imaginary part of a complex array.

    >>> from rulegrad import array_api as xp
    >>> xp.imag(xp.asarray([1 + 2j])).tolist()
    [2.0]
    """
    return array(x, "imag").imag


def real(x: Array, /) -> Array:
    """The real part of a complex array; a real array as it is.

    >>> from rulegrad import array_api as xp
    >>> xp.real(xp.asarray([1 + 2j])).tolist()
    [1.0]
    """
    return array(x, "real").real


def clip(x: Array, /, min: Array | Scalar | None = None, max: Array | Scalar | None = None) -> Array:
    """The elements limited to `min … max`, in the dtype of `x`; None for no limit on that side.

    >>> from rulegrad import array_api as xp
    >>> xp.clip(xp.asarray([1, 5, 9]), 2, 7).tolist()
    [2, 5, 7]
    """
    return array(x, "clip").clip(min, max)
