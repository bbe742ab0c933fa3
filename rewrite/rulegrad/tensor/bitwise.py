"""Functions of bits and of truth values, element by element: and, or, exclusive or, not, shifts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulegrad.errors import DtypeError
from rulegrad.ir.dtype import bool_, int8, int64
from rulegrad.tensor.elementwise import binary, unary
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.operands import as_operand, result_dtype
from rulegrad.tensor.storage import is_weak_scalar

if TYPE_CHECKING:
    from rulegrad.ir.dtype import DType
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor


def _bitwise(self: Tensor, op: str, other: Operand, name: str, swapped: bool = False) -> Tensor:
    other = as_operand(self, other, name)
    dtype = result_dtype(self, other)
    if op in ("SHL", "SHR") and dtype == bool_:
        dtype = int64 if is_weak_scalar(other) else int8
    if dtype.is_inexact:
        raise DtypeError(f"{name}: the operands promote to {dtype}, which has no bits to combine; cast to an integer")
    if op in ("AND", "OR", "XOR"):
        other = _bits(other, dtype)
    return binary(self, op, other, name, swapped, dtype)


def _bits(number: Any, dtype: DType) -> Any:
    """A negative Python int as its last bits for unsigned integers, so that `x & ~7` clears three."""
    unsigned = dtype.numpy is not None and dtype.numpy.kind == "u"
    if unsigned and type(number) is int and -(1 << (bits := 8 * dtype.itemsize)) <= number < 0:
        return number & ((1 << bits) - 1)
    return number


@built_once
def bitwise_and(self: Tensor, other: Operand) -> Tensor:
    """`self & other`; logical and of bools. A negative number has its last bits for unsigned integers: `x & ~7`.

    >>> Tensor([5, 6]).bitwise_and(3).tolist()
    [1, 2]
    """
    return _bitwise(self, "AND", other, "bitwise_and")


@built_once
def bitwise_or(self: Tensor, other: Operand) -> Tensor:
    """`self | other`; logical or of bools.

    >>> Tensor([5, 6]).bitwise_or(3).tolist()
    [7, 7]
    """
    return _bitwise(self, "OR", other, "bitwise_or")


@built_once
def bitwise_xor(self: Tensor, other: Operand) -> Tensor:
    """`self ^ other`; logical exclusive or of bools.

    >>> Tensor([5, 6]).bitwise_xor(3).tolist()
    [6, 5]
    """
    return _bitwise(self, "XOR", other, "bitwise_xor")


@built_once
def bitwise_not(self: Tensor) -> Tensor:
    """`~self`; logical not of bools. Raises DtypeError for floats.

    >>> Tensor([0, 5]).bitwise_not().tolist(), Tensor([True]).bitwise_not().tolist()
    ([-1, -6], [False])
    """
    if self.dtype.is_inexact:
        raise DtypeError(f"bitwise_not: {self.dtype} has no bits to invert; cast to an integer or bool first")
    return unary(self, "NOT")


@built_once
def logical_not(self: Tensor) -> Tensor:
    """Whether an element is zero (or False).

    >>> Tensor([0, 2]).logical_not().tolist()
    [True, False]
    """
    return unary(self.cast("bool"), "NOT")


@built_once
def logical_and(self: Tensor, other: Operand) -> Tensor:
    """Whether both elements are true (not zero).

    >>> Tensor([0, 1, 2]).logical_and(Tensor([3, 3, 0])).tolist()
    [False, True, False]
    """
    return _logical(self, "AND", other, "logical_and")


@built_once
def logical_or(self: Tensor, other: Operand) -> Tensor:
    """Whether one of the elements is true (not zero).

    >>> Tensor([0, 1, 0]).logical_or(Tensor([3, 3, 0])).tolist()
    [True, True, False]
    """
    return _logical(self, "OR", other, "logical_or")


@built_once
def logical_xor(self: Tensor, other: Operand) -> Tensor:
    """Whether exactly one of the elements is true (not zero).

    >>> Tensor([0, 1, 0]).logical_xor(Tensor([3, 3, 0])).tolist()
    [True, False, False]
    """
    return _logical(self, "XOR", other, "logical_xor")


def _logical(self: Tensor, op: str, other: Operand, name: str) -> Tensor:
    right: Any = as_operand(self, other, name)
    truth = bool(right) if is_weak_scalar(right) else right.cast("bool")
    return binary(self.cast("bool"), op, truth, name)


def lshift(self: Tensor, other: Operand, *, swapped: bool = False) -> Tensor:
    """`self << other`; 0 when the distance is the number of bits or more.

    >>> Tensor([1, 3]).lshift(2).tolist()
    [4, 12]
    """
    return _bitwise(self, "SHL", other, "lshift", swapped)


def rshift(self: Tensor, other: Operand, *, swapped: bool = False) -> Tensor:
    """`self >> other`: arithmetic for signed integers, logical for unsigned ones.

    >>> Tensor([8, -8]).rshift(2).tolist()
    [2, -2]
    """
    return _bitwise(self, "SHR", other, "rshift", swapped)
