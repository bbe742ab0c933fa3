"""Data type functions: conversion, promotion, and the limits of dtypes."""

from __future__ import annotations

from typing import Any

from rulegrad.errors import DtypeError
from rulegrad.ir import dtype as dtypes
from rulegrad.ir import limits
from rulegrad.ir.dtype import DType, as_dtype
from rulegrad.tensor import Tensor
from rulegrad.tensor.operands import result_dtype
from rulegrad.tensor.storage import Scalar

from .data_types import in_kind
from .operands import Array, array, is_complex

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]


def astype(x: Array, dtype: Any, /, *, copy: bool = True, device: str | None = None) -> Array:
    """The values of `x` converted to `dtype`, on `device` if one is named.

    Floats to integers truncate, integers wrap around, to bool is `x != 0`. With `copy=False` an array that has the
    dtype is returned itself. Raises DtypeError for a complex array and a real dtype.

    >>> from rulegrad import array_api as xp
    >>> xp.astype(xp.asarray([1.5, -1.5]), xp.int32).tolist()
    [1, -1]
    """
    wanted = as_dtype(dtype)
    values = array(x, "astype")
    if is_complex(values.dtype) and not is_complex(wanted) and wanted != dtypes.bool_:
        raise DtypeError(f"astype: {values.dtype} to {wanted} would lose the imaginary part; use real or imag first")
    if device is not None:
        values = values.to(device)
    if values.dtype != wanted:
        return values.cast(wanted)
    return values._result(values.uop) if copy and values is x else values


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether promotion leads from `from_` (a dtype or an array) to `to`.

    >>> from rulegrad import array_api as xp
    >>> xp.can_cast(xp.int8, xp.int16), xp.can_cast(xp.int16, xp.uint16)
    (True, False)
    """
    source = from_.dtype if isinstance(from_, Tensor) else as_dtype(from_)
    target = as_dtype(to)
    return dtypes.promote(source, target) == target


def finfo(type: Any, /) -> Any:
    """The limits of a floating-point dtype, or of an array's: bits, eps, max, min, smallest_normal, dtype.

    Those of a complex dtype are its parts'. Raises DtypeError for another dtype.

    >>> from rulegrad import array_api as xp
    >>> xp.finfo(xp.float32).eps
    1.1920928955078125e-07
    """
    return limits.finfo(type.dtype if isinstance(type, Tensor) else type)


def iinfo(type: Any, /) -> Any:
    """The limits of an integer dtype, or of an array's: bits, max, min, dtype. Raises DtypeError for another dtype.

    >>> from rulegrad import array_api as xp
    >>> xp.iinfo(xp.int8).max
    127
    """
    return limits.iinfo(type.dtype if isinstance(type, Tensor) else type)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether `dtype` is of a kind: a dtype, one of the standard's kinds by name, or a tuple of these.

    Kinds: bool, signed integer, unsigned integer, integral, real floating, complex floating, numeric.
    Raises DtypeError for no such kind.

    >>> from rulegrad import array_api as xp
    >>> xp.isdtype(xp.float32, ("integral", xp.float32)), xp.isdtype(xp.int8, "real floating")
    (True, False)
    """
    known = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(known, one) for one in kind)
    if isinstance(kind, str):
        return in_kind(known, kind)
    return known == as_dtype(kind)


def result_type(*arrays_and_dtypes: Array | DType | Scalar) -> DType:
    """The dtype of an operation on these arrays, dtypes and Python scalars, at least one of which has a dtype.

    A Python scalar takes the dtype of the others, unless its kind is higher. Raises DtypeError.

    >>> from rulegrad import array_api as xp
    >>> xp.result_type(xp.int8, xp.uint8), xp.result_type(xp.asarray(1.0), 2)
    (DType('int16'), DType('float32'))
    """
    if not any(isinstance(one, (Tensor, DType, str)) or hasattr(one, "dtype") for one in arrays_and_dtypes):
        raise DtypeError("result_type: no argument has a dtype; give at least one array or dtype")
    return result_dtype(*arrays_and_dtypes)
