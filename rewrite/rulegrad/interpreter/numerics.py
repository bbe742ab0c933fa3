"""The built-in functions of the op table's `eval` lines, on NumPy arrays.

Integers wrap around. Division by zero gives 0 for integers. Functions here take and give arrays of one
dtype; `convert` and `bitcast` change it. Call them under `np.errstate(all="ignore")`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from rulegrad.errors import GraphError
from rulegrad.ir.dtype import DType

Array = np.ndarray[Any, np.dtype[Any]]
Primitive = Callable[..., Any]

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def convert(array: Array, source: DType, target: DType) -> Array:
    """Value conversion: floats to integers truncate, integers wrap, anything to bool is != 0.

    A float outside int32 (or nan) gives the smallest int32, of which smaller integers have the low bits; for 64 bits,
    and for uint32, one outside int64 gives the smallest int64, which wraps.
    A float64 becomes bfloat16 or float8 by way of float32, as compiled code and PyTorch do it.
    Raises GraphError when an index does not fit in 64 bits.
    """
    if source == target:
        return array
    if target.kind == "bool":
        return np.asarray(array != 0)
    if source.is_float and target.is_integer:
        return _integer_from_float(array.astype(np.float64), target)
    if source == "uint64" and target.kind == "index" and np.any(array > np.uint64(_INT64_MAX)):
        raise GraphError("an index does not fit in 64 bits")
    if source == "float64" and target.is_float and target.bits < 32 and target != "float16":
        array = array.astype(np.float32)  # versions of ml_dtypes differ: some round twice, others once
    return array.astype(target.numpy)


def bitcast(array: Array, source: DType, target: DType) -> Array:
    """The same bits as another dtype of the same size."""
    if source.kind == "bool":
        array = array.astype(np.uint8)
    if target.kind == "bool":
        return np.asarray(array.view(np.uint8) != 0)
    return np.asarray(array.view(target.numpy))


def _integer_from_float(array: Array, target: DType) -> Array:
    whole = np.trunc(array)
    bits = 32 if target in ("int8", "int16", "int32", "uint8", "uint16") else 64
    fits = (whole >= -(2.0 ** (bits - 1))) & (whole < 2.0 ** (bits - 1))
    result = np.where(fits, whole, 0.0).astype(np.int64)
    result = np.where(fits, result, np.int64(-(2 ** (bits - 1)))).astype(target.numpy)
    if target == "uint64":
        high = (whole >= 2.0**63) & (whole < 2.0**64)
        result = np.where(high, np.where(high, whole, 0.0).astype(np.uint64), result)
    return result


def joined(real: Array, imaginary: Array) -> Array:
    """The complex numbers with these parts."""
    real, imaginary = np.broadcast_arrays(real, imaginary)
    pairs = np.stack([real, imaginary], axis=-1)
    return np.asarray(pairs.view(np.complex64 if real.dtype == np.float32 else np.complex128)[..., 0])


# ---- integer division and shifts ----


def trunc_divide(a: Array, b: Array) -> Array:
    """a / b towards zero, as in C; by zero: 0."""
    quotient = np.floor_divide(a, b)
    inexact = (np.remainder(a, b) != 0) & ((a < 0) != (b < 0))
    return np.asarray(quotient + inexact.astype(quotient.dtype))


def shift_left(a: Array, b: Array) -> Array:
    """a * 2**b for 0 <= b < bits; otherwise 0."""
    inside = (b >= 0) & (b < _bits(a))
    return np.where(inside, np.left_shift(a, np.where(inside, b, 0).astype(b.dtype)), 0).astype(a.dtype)


def shift_right(a: Array, b: Array) -> Array:
    """a // 2**b; where b is not in 0..bits-1, what shifting by all bits would give: 0 or -1."""
    inside = (b >= 0) & (b < _bits(a))
    # All but one of the bits, and then the last one, gives the sign.
    most = np.right_shift(a, np.where(inside, b, _bits(a) - 1).astype(b.dtype))
    return np.asarray(np.where(inside, most, np.right_shift(most, np.ones_like(b))))


def power(a: Array, b: Array) -> Array:
    """a ** b. An integer with a negative exponent gives 1 / a**-b towards zero (0 for a = 0)."""
    if a.dtype.kind not in "iu":
        # NumPy takes the square root for an exponent of 0.5, which differs for -0.0 and -inf.
        is_root = (b == 0.5) & ((a == 0) | np.isinf(a))
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(is_root, np.abs(a), np.power(a, b)))
    negative = b < 0
    whole = np.power(a, np.where(negative, 0, b).astype(b.dtype))
    if not np.any(negative):
        return np.asarray(whole)
    odd = (b & 1).astype(bool)
    reciprocal = np.where(a == 1, 1, np.where(a == -1, np.where(odd, -1, 1), 0))
    return np.where(negative, reciprocal, whole).astype(a.dtype)


def _bits(a: Array) -> int:
    return a.dtype.itemsize * 8


# ---- index integers: an overflow is an error ----


def ends(integers: Array) -> tuple[int, int]:
    """The smallest and the largest of some integers; of a single one NumPy would ask in ten times as long."""
    if integers.size == 1:
        return (one := int(integers.item())), one
    return int(integers.min()), int(integers.max())


def _checked(ufunc: np.ufunc) -> Primitive:
    """The ufunc on int64 arrays; raises GraphError where the exact result does not fit."""

    def operation(*operands: Array) -> Any:
        if all(operand.size for operand in operands):
            # The extreme results of +, - and * are at the ends of the operands' intervals.
            found = [ends(operand) for operand in operands]
            pairs = [(x, y) for x in found[0] for y in (found[1] if len(found) == 2 else (0,))]
            exact = [_EXACT[ufunc.__name__](x, y) for x, y in pairs]
            if min(exact) < _INT64_MIN or max(exact) > _INT64_MAX:
                _check_exactly(ufunc, operands)
        return ufunc(*operands)

    return operation


_EXACT: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "negative": lambda x, y: -x,
}


def _check_exactly(ufunc: np.ufunc, operands: tuple[Array, ...]) -> None:
    exact = ufunc(*(operand.astype(object) for operand in operands))
    if np.any((exact < _INT64_MIN) | (exact > _INT64_MAX)):
        raise GraphError(f"an index does not fit in 64 bits (in {ufunc.__name__}); make the tensor smaller")


# ---- functions that NumPy lacks, or computes with few digits ----


def log1p(a: Array) -> Any:
    """log(1 + a); NumPy's of complex numbers has no digits near 0."""
    if a.dtype.kind != "c":
        return np.log1p(a)
    x, y = a.real, a.imag
    small = (np.abs(x) < 0.5) & (np.abs(y) < 0.5)
    real = np.where(small, np.log1p(2 * x + (x * x + y * y)) / 2, np.log(1 + a).real)
    result = np.empty_like(a)
    result.real, result.imag = real, np.arctan2(y, 1 + x)
    return result


def _each(function: Callable[[float], float]) -> Primitive:
    """A function of one number on arrays, element by element."""
    vectorized = np.frompyfunc(function, 1, 1)
    return lambda a: np.asarray(vectorized(np.asarray(a, np.float64))).astype(a.dtype)


@cache
def _zeta_coefficients() -> tuple[float, ...]:
    """(zeta(k) - 1) / k for k = 2, 3, …: 98 terms of the sum, and Euler's and Maclaurin's formula for the others."""
    found = []
    for k in range(2, 30):
        terms = [n ** -float(k) for n in range(2, 100)]
        tail = 100.0 ** (1 - k) / (k - 1) + 100.0**-k / 2 + k * 100.0 ** (-k - 1) / 12
        found.append(math.fsum([*terms, tail, -k * (k + 1) * (k + 2) * 100.0 ** (-k - 3) / 720]) / k)
    return tuple(found)


def _lgamma(x: float) -> float:
    """With all digits around its roots 1 and 2, by the series of Abramowitz and Stegun, 6.1.33."""
    product = 1.0
    while 2.5 <= x < 10:  # gamma(x + 1) = x gamma(x)
        x -= 1
        product *= x
    if not 0.5 < x < 2.5:
        infinite = math.isinf(x) or (x <= 0 and x == math.floor(x)) or x > 2.5e305
        return math.inf if infinite else math.lgamma(x)
    z = x - 2 if x >= 1.5 else x - 1
    series = math.fsum(c * (-z) ** (k + 2) for k, c in enumerate(_zeta_coefficients()))
    # 1 - Euler's constant
    above = 0.4227843350984671 * z + series
    return above + math.log(product) if x >= 1.5 else above - math.log1p(z)


#: Euler's series of digamma, in powers of 1 / x**2: Abramowitz and Stegun, 6.3.18.
_DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


#: Those of even order from 2 on.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def _digamma(x: float) -> float:
    """By psi(x + 1) = psi(x) + 1 / x up to 10, then the asymptotic series; reflected below 0."""
    if x == 0:
        return math.copysign(math.inf, -x)
    if not math.isfinite(x):
        return x if x > 0 else math.nan
    if x < 0:
        return math.nan if x == math.floor(x) else _digamma(1 - x) - math.pi / math.tan(math.pi * math.remainder(x, 1))
    total = 0.0
    while x < 10:
        total -= 1 / x
        x += 1
    z = 1 / (x * x)
    return total + math.log(x) - 0.5 / x - sum(c * z ** (k + 1) for k, c in enumerate(_DIGAMMA_SERIES))


def polygamma(order: int, array: Array) -> Array:
    """The derivative of digamma of an order from 1 on.

    >>> import numpy as np
    >>> polygamma(1, np.array([1.0, -0.5, -1.0])).round(3).tolist()
    [1.645, 8.935, inf]
    """
    sign = 1 if order % 2 else -1
    return np.asarray(_each(lambda x: sign * _sum_of_reciprocal_powers(order, x))(array))


def _sum_of_reciprocal_powers(order: int, x: float) -> float:
    """The sum of order! / (x + k)**(order + 1) for k = 0, 1, …"""
    if x != x or x == math.inf:
        return 0.0 if x == math.inf else x
    if x == -math.inf:
        return math.nan
    if x <= 0 and x == math.floor(x):
        return math.inf
    if x < -30:  # the sum over all k has the period 1
        sign = 1 if order % 2 else -1
        period = x - math.floor(x)
        both = _sum_of_reciprocal_powers(order, period) + sign * _sum_of_reciprocal_powers(order, 1 - period)
        return both - sign * _sum_of_reciprocal_powers(order, 1 - x)
    terms = []
    while x < 2 * order + 20:
        terms.append(_quotients(order, x) / x)
        x += 1
    # Euler's and Maclaurin's formula
    rest, factor, power = _quotients(order, x), 1.0, 1 / x / x
    terms += [rest / order, rest / x / 2]
    for j, number in enumerate(_BERNOULLI):
        factor = factor * (order + 2 * j) * (order + 2 * j + 1) / ((2 * j + 1) * (2 * j + 2)) if j else (order + 1) / 2
        terms.append(rest * number * factor * power)
        power = power / x / x
    try:
        return math.fsum(terms)
    except (OverflowError, ValueError):  # of infinities, and of sums that are too large
        return sum(terms)


def _quotients(order: int, x: float) -> float:
    """order! / x**order"""
    value = 1.0
    for k in range(1, order + 1):
        value *= k / x
    return value


erf, erfc, lgamma, digamma = _each(math.erf), _each(math.erfc), _each(_lgamma), _each(_digamma)


# ---- random numbers ----

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry(counter: Array, key: Array) -> Array:
    """Threefry-2x32 with 20 rounds (Salmon et al., SC 2011) on uint64 arrays.

    Word 0 of the counter, of the key and of the result is in the low 32 bits, word 1 in the high 32 bits.
    """
    keys = [_low(key), _high(key)]
    keys.append(keys[0] ^ keys[1] ^ np.uint32(0x1BD11BDA))
    x, y = _low(counter) + keys[0], _high(counter) + keys[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x = x + y
            y = x ^ (y << np.uint32(rotation) | y >> np.uint32(32 - rotation))
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return np.asarray(y.astype(np.uint64) << np.uint64(32) | x.astype(np.uint64))


def _low(array: Array) -> Array:
    return np.asarray(array.astype(np.uint32))


def _high(array: Array) -> Array:
    return np.asarray((array >> np.uint64(32)).astype(np.uint32))


def ldexp(y: Array, n: Array) -> Array:
    """y * 2**n, rounded once.

    >>> import numpy as np
    >>> ldexp(np.float32([1, 3, 1]), np.int32([4, -1, 2000])).tolist()
    [16.0, 1.5, inf]
    """
    with np.errstate(over="ignore"):
        return np.ldexp(y, n.clip(-5000, 5000).astype(np.int32))


def tf32(array: Array) -> Array:
    """float32 with 10 bits after the point: the nearest, halves away from zero, as PTX's cvt.rna.tf32.f32.

    >>> import numpy as np
    >>> tf32(np.array([1 + 2**-11, 1 + 2**-12, np.inf], np.float32)).tolist()
    [1.0009765625, 1.0, inf]
    """
    bits = (array.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isnan(array), array, bits.view(np.float32))


# ---- the tables by name ----

#: Operators and functions of the rule language, for every dtype but index.
PRIMITIVES: dict[str, Primitive] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "negate": np.negative,
    "//": np.floor_divide, "%": np.remainder, "**": power,
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "==": np.equal, "!=": np.not_equal, "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
    "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor, "~": np.invert,
    "<<": shift_left, ">>": shift_right,
    "bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor, "bit_not": np.invert,
    "shift_left": shift_left, "shift_right": shift_right, "trunc_div": trunc_divide, "trunc_mod": np.fmod,
    "pow": power, "max": np.maximum, "min": np.minimum, "abs": np.abs,
    "sqrt": np.sqrt, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2,
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "expm1": np.expm1, "log1p": log1p, "log10": np.log10, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "hypot": np.hypot,
    "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": erf, "erfc": erfc, "lgamma": lgamma, "digamma": digamma, "fmod": np.fmod,
    "trunc": np.trunc, "floor": np.floor, "ceil": np.ceil, "round_even": np.rint,
}  # fmt: skip

#: The same for index integers.
INDEX_PRIMITIVES: dict[str, Primitive] = PRIMITIVES | {
    "+": _checked(np.add),
    "-": _checked(np.subtract),
    "*": _checked(np.multiply),
    "negate": _checked(np.negative),
}


def dot_bfloat16(x: Array, y: Array, c: Array) -> Array:
    """c and the products of the two bfloat16 in each word (uint32) of x with those in y."""
    upper = np.uint32(0xFFFF0000)
    first = (x << np.uint32(16)).view(np.float32) * (y << np.uint32(16)).view(np.float32)
    return np.asarray(c + (first + (x & upper).view(np.float32) * (y & upper).view(np.float32)))


def dot_int16(x: Array, y: Array, c: Array) -> Array:
    """c and the products of the two int16 in each word (uint32) of x with those in y, wrapped around."""
    (a, b), (d, e) = (((words << np.uint32(16)).view(np.int32) >> 16, words.view(np.int32) >> 16) for words in (x, y))
    return np.asarray(c + (a * d + b * e))


def dot_int8(x: Array, y: Array, c: Array) -> Array:
    """c and the products of the four unsigned bytes in each word (uint32) of x with the signed ones in y, wrapped."""
    products = ((x << np.uint32(s) >> np.uint32(24)).view(np.int32) * ((y << np.uint32(s)).view(np.int32) >> 24)
                for s in (24, 16, 8, 0))  # fmt: skip
    return np.asarray(sum(products, c))
