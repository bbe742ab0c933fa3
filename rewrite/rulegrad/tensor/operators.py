"""Python's operators on tensors, and PyTorch's short names of comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rulegrad.tensor.elementwise import Elementwise
from rulegrad.tensor.operands import defers_to, is_operand

if TYPE_CHECKING:
    from typing_extensions import Self

    from rulegrad.tensor.operands import Operand


class Operators(Elementwise):
    """Operators: `+ - * / // % ** & | ^ ~ << >> == != < <= > >=`."""

    __slots__ = ()

    def __add__(self, other: Operand) -> Self:
        return NotImplemented if defers_to(other, "__radd__") else self.add(other)

    def __radd__(self, other: Operand) -> Self:
        return self.add(other)

    def __sub__(self, other: Operand) -> Self:
        return NotImplemented if defers_to(other, "__rsub__") else self.sub(other)

    def __rsub__(self, other: Operand) -> Self:
        return self.sub(other, swapped=True)

    def __mul__(self, other: Operand) -> Self:
        return NotImplemented if defers_to(other, "__rmul__") else self.mul(other)

    def __rmul__(self, other: Operand) -> Self:
        return self.mul(other)

    def __truediv__(self, other: Operand) -> Self:
        return NotImplemented if defers_to(other, "__rtruediv__") else self.div(other)

    def __rtruediv__(self, other: Operand) -> Self:
        return self.div(other, swapped=True)

    __rdiv__ = __rtruediv__  # PyTorch's

    def __floordiv__(self, other: Operand) -> Self:
        return NotImplemented if defers_to(other, "__rfloordiv__") else self.floor_divide(other)

    def __rfloordiv__(self, other: Operand) -> Self:
        return self.floor_divide(other, swapped=True)

    def __mod__(self, other: Operand) -> Self:
        return NotImplemented if defers_to(other, "__rmod__") else self.remainder(other)

    def __rmod__(self, other: Operand) -> Self:
        return self.remainder(other, swapped=True)

    def __pow__(self, other: Operand) -> Self:
        return NotImplemented if defers_to(other, "__rpow__") else self.pow(other)

    def __rpow__(self, other: Operand) -> Self:
        return self.pow(other, swapped=True)

    def __neg__(self) -> Self:
        return self.neg()

    def __pos__(self) -> Self:
        return self._same()

    def __and__(self, other: Operand) -> Self:
        return NotImplemented if defers_to(other, "__rand__") else self.bitwise_and(other)

    def __rand__(self, other: Operand) -> Self:
        return self.bitwise_and(other)

    def __or__(self, other: Operand) -> Self:
        return NotImplemented if defers_to(other, "__ror__") else self.bitwise_or(other)

    def __ror__(self, other: Operand) -> Self:
        return self.bitwise_or(other)

    def __xor__(self, other: Operand) -> Self:
        return NotImplemented if defers_to(other, "__rxor__") else self.bitwise_xor(other)

    def __rxor__(self, other: Operand) -> Self:
        return self.bitwise_xor(other)

    def __invert__(self) -> Self:
        return self.bitwise_not()

    def __lshift__(self, other: Operand) -> Self:
        return NotImplemented if defers_to(other, "__rlshift__") else self.lshift(other)

    def __rlshift__(self, other: Operand) -> Self:
        return self.lshift(other, swapped=True)

    def __rshift__(self, other: Operand) -> Self:
        return NotImplemented if defers_to(other, "__rrshift__") else self.rshift(other)

    def __rrshift__(self, other: Operand) -> Self:
        return self.rshift(other, swapped=True)

    def __lt__(self, other: Operand) -> Self:
        return NotImplemented if defers_to(other, "__gt__") else self.less(other)

    def __le__(self, other: Operand) -> Self:
        return NotImplemented if defers_to(other, "__ge__") else self.less_equal(other)

    def __gt__(self, other: Operand) -> Self:
        return NotImplemented if defers_to(other, "__lt__") else self.greater(other)

    def __ge__(self, other: Operand) -> Self:
        return NotImplemented if defers_to(other, "__le__") else self.greater_equal(other)

    # Beside None, a str and the like Python's own answer stays: a tensor is not equal to them.
    def __eq__(self, other: Operand) -> Self:  # type: ignore[override]
        return self.equal(other) if is_operand(other) else NotImplemented

    def __ne__(self, other: Operand) -> Self:  # type: ignore[override]
        return self.not_equal(other) if is_operand(other) else NotImplemented

    # `==` is elementwise, so a tensor as a key is the tensor itself, not its values.
    __hash__ = object.__hash__

    def eq(self, other: Operand) -> Self:
        """`self == other`

        >>> Tensor([1, 2, 3]).eq(2).tolist()
        [False, True, False]
        """
        return self.equal(other)

    def ne(self, other: Operand) -> Self:
        """`self != other`

        >>> Tensor([1, 2, 3]).ne(2).tolist()
        [True, False, True]
        """
        return self.not_equal(other)

    def lt(self, other: Operand) -> Self:
        """`self < other`

        >>> Tensor([1, 2, 3]).lt(2).tolist()
        [True, False, False]
        """
        return self.less(other)

    def le(self, other: Operand) -> Self:
        """`self <= other`

        >>> Tensor([1, 2, 3]).le(2).tolist()
        [True, True, False]
        """
        return self.less_equal(other)

    def gt(self, other: Operand) -> Self:
        """`self > other`

        >>> Tensor([1, 2, 3]).gt(2).tolist()
        [False, False, True]
        """
        return self.greater(other)

    def ge(self, other: Operand) -> Self:
        """`self >= other`

        >>> Tensor([1, 2, 3]).ge(2).tolist()
        [False, True, True]
        """
        return self.greater_equal(other)
