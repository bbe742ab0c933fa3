"""Nodes for Python numbers: one constant, or a whole tensor of them, which take no memory."""

from __future__ import annotations

import math

from rulegrad.errors import DtypeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType, bool_
from rulegrad.tensor.storage import Scalar, check_range


def filled(shape: tuple[int, ...], value: Scalar, dtype: DType) -> UOp:
    """A node of this shape with `value` everywhere."""
    if dtype.is_complex:
        parts = (filled(shape, part, dtype.real) for part in (complex(value).real, complex(value).imag))
        return UOp("COMPLEX", tuple(parts), dtype)
    return spread(_const(value, dtype), shape)


def spread(node: UOp, shape: tuple[int, ...]) -> UOp:
    """A node without axes, repeated to a shape."""
    if not shape:
        return node
    return UOp("EXPAND", (UOp("RESHAPE", (node,), shape=(1,) * len(shape)),), shape=shape)


def _const(value: Scalar, dtype: DType) -> UOp:
    """A CONST; constants have one nan, so one with a sign is its negative."""
    node = UOp.const(value, dtype)
    return UOp("NEG", (node,)) if value != value and math.copysign(1.0, float(value)) < 0 else node  # type: ignore[arg-type]


def constant(value: Scalar, dtype: DType, operation: str) -> UOp:
    """The CONST of a Python number in an operation whose operands have `dtype`; of a complex one, COMPLEX of two."""
    if dtype.is_complex:
        return filled((), value, dtype)
    if isinstance(value, complex):
        raise DtypeError(f"{operation}: the number {value} does not fit {dtype}; cast to a complex dtype first")
    if dtype.is_float:
        return _const(_as_float(value, dtype, operation), dtype)
    if dtype == bool_:
        return UOp.const(bool(value), dtype)
    if isinstance(value, float) and not math.isfinite(value):
        raise DtypeError(f"{operation}: {value} is not a value of {dtype}; use a float dtype")
    check_range(int(value), dtype, operation)
    return UOp.const(int(value), dtype)


def _as_float(value: float, dtype: DType, operation: str) -> float:
    try:
        return float(value)
    except OverflowError:
        digits = len(str(abs(value)))
        raise DtypeError(
            f"{operation}: an integer of {digits} digits does not fit {dtype}; use float('inf') if that is meant"
        ) from None
