"""Limits of dtypes: `finfo`, `iinfo`; and whether one dtype becomes another: `can_cast`, `isdtype`.

These are the functions of the Python array API standard, on dtypes of any spelling.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from rulegrad.errors import DtypeError
from rulegrad.ir.dtype import DType, as_dtype, promote


class FloatInfo(NamedTuple):
    """eps: the distance from 1 to the next number. smallest_normal: the least positive number with all digits."""

    dtype: DType
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    smallest_subnormal: float

    @property
    def tiny(self) -> float:
        """`smallest_normal`, under its older name."""
        return self.smallest_normal

    @property
    def resolution(self) -> float:
        """10 to the power of minus the decimal digits that are always kept.

        >>> finfo("float32").resolution
        1e-06
        """
        return float(f"1e-{int(-math.log10(self.eps))}")


class IntegerInfo(NamedTuple):
    """The ends of an integer dtype."""

    dtype: DType
    bits: int
    max: int
    min: int


def finfo(dtype: Any) -> FloatInfo:
    """The limits of a float dtype; of a complex one, those of its parts. Raises DtypeError for others.

    >>> finfo("float16").max, finfo("bfloat16").eps
    (65504.0, 0.0078125)
    """
    given = as_dtype(dtype)
    d = given.real if given.is_complex else given
    if not d.is_float:
        raise DtypeError(f"finfo: {d} is not a float; use iinfo for integers")
    bias = 2 ** (d.exponent - 1) - 1
    # float8_e4m3fn has no infinities: the largest code is nan, the one below it the largest number.
    finite_only = d == "float8_e4m3fn"
    top = 2.0 - 2.0**-d.mantissa * (2 if finite_only else 1)
    largest = top * 2.0 ** (bias + finite_only)
    normal = 2.0 ** (1 - bias)
    return FloatInfo(d, d.bits, 2.0**-d.mantissa, largest, -largest, normal, normal * 2.0**-d.mantissa)


def iinfo(dtype: Any) -> IntegerInfo:
    """The limits of an integer dtype. Raises DtypeError for others.

    >>> iinfo("uint8").max, iinfo("int8").min
    (255, -128)
    """
    d = as_dtype(dtype)
    if d.kind not in ("int", "uint"):
        raise DtypeError(f"iinfo: {d} is not an integer of a fixed size; use finfo for floats")
    least, largest = integer_bounds(d)
    return IntegerInfo(d, d.bits, largest, least)


def integer_bounds(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest value of an integer dtype.

    >>> integer_bounds(as_dtype("int8"))
    (-128, 127)
    """
    if dtype.kind == "uint":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def extremes(dtype: DType) -> tuple[Any, Any]:
    """The least and the largest value that a dtype (or a part of a complex one) has: infinities, where there are any.

    >>> extremes(as_dtype("float8_e4m3fn")), extremes(as_dtype("float16")), extremes(as_dtype("bool"))
    ((-448.0, 448.0), (-inf, inf), (False, True))
    """
    if dtype.kind == "bool":
        return False, True
    if not dtype.is_inexact:
        return integer_bounds(dtype)
    largest = finfo(dtype).max if dtype == "float8_e4m3fn" else math.inf
    return -largest, largest


#: The standard's names of kinds of dtypes, and what they stand for.
KINDS: Final[dict[str, tuple[str, ...]]] = {
    "bool": ("bool",),
    "signed integer": ("int",),
    "unsigned integer": ("uint",),
    "integral": ("int", "uint"),
    "real floating": ("float",),
    "complex floating": ("complex",),
    "numeric": ("int", "uint", "float", "complex"),
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind: a name of the standard's ("integral", …), a dtype, or a tuple of these.

    >>> isdtype("int8", "signed integer"), isdtype("int8", ("bool", "real floating")), isdtype("int8", "int8")
    (True, False, True)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str) and kind in KINDS:
        return as_dtype(dtype).kind in KINDS[kind]
    try:
        return as_dtype(dtype) == as_dtype(kind)
    except DtypeError:
        raise DtypeError(f"isdtype: {kind!r} is not a kind; use a dtype or one of {', '.join(KINDS)}") from None


def can_cast(source: Any, target: Any) -> bool:
    """Whether promotion of `source` with `target` gives `target`: no conversion loses more than digits.

    >>> can_cast("int8", "int16"), can_cast("float64", "float32"), can_cast("int64", "float64")
    (True, False, True)
    """
    a, b = as_dtype(source), as_dtype(target)
    return promote(a, b) == b
