"""Python's operators, made from the functions of elementwise.py and bitwise.py: `a + b`, `a += b`, `a == b`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final, cast

from rulegrad._core import operator_of
from rulegrad.tensor.inplace import Function, in_place
from rulegrad.tensor.operands import defers_to, is_operand

#: The op of floats that a function is, where it is no more than that.
_OPS: Final = {"add": "ADD", "sub": "SUB", "mul": "MUL", "div": "DIV"}

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor


def operators(function: Function, reflected_name: str, symbol: str) -> tuple[Function, Function, Function]:
    """`self + other`, `other + self` and `self += other`.

    The function of the reflected operator is the same one, with `swapped=True` where that makes a difference.
    """
    swapped = {"swapped": True} if "swapped" in (inspect.unwrap(function).__kwdefaults__ or {}) else {}

    def reflected(self: Tensor, other: Operand) -> Any:
        return function(self, other, **swapped)

    return (
        _native(function, forward(function, reflected_name), swapped=False),
        _native(function, cast("Function", reflected), swapped=True),
        in_place(function, symbol),
    )


def _native(function: Function, operator: Function, swapped: bool) -> Function:
    """The operator, where the engine has one for tensors that need no conversion, of these."""
    op = _OPS.get(function.__name__)
    return operator if op is None else cast("Function", operator_of(op, swapped, operator))


def forward(function: Function, reflected_name: str) -> Function:
    """`self + other`, which is left to `other` where that is not an operand and has the reflected method."""

    def operator(self: Tensor, other: Operand) -> Any:
        return NotImplemented if defers_to(other, reflected_name) else function(self, other)

    return cast("Function", operator)


# Beside None, a str and the like Python's own answer stays: a tensor is not equal to them.
def is_equal(self: Tensor, other: Operand) -> Tensor:
    """`self == other`"""
    return self.equal(other) if is_operand(other) else NotImplemented


def is_different(self: Tensor, other: Operand) -> Tensor:
    """`self != other`"""
    return self.not_equal(other) if is_operand(other) else NotImplemented
