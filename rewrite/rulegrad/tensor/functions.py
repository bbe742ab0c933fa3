"""Elementwise mathematical functions and activations. Integers are converted to floats as NumPy does."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from rulegrad.tensor.operands import float_dtype
from rulegrad.tensor.operators import Operators

if TYPE_CHECKING:
    from typing_extensions import Self

_GELU_SCALE: Final = math.sqrt(2.0 / math.pi)


class Functions(Operators):
    """exp, log, sqrt, …: one result for each element."""

    __slots__ = ()

    def _floating(self) -> Self:
        return self.cast(float_dtype(self.dtype))

    def _float_unary(self, op: str) -> Self:
        return self._floating()._unary(op)

    def exp(self) -> Self:
        """e to the power of each element."""
        return self._float_unary("EXP")

    def exp2(self) -> Self:
        """2 to the power of each element."""
        return self._float_unary("EXP2")

    def log(self) -> Self:
        """The natural logarithm: -inf for 0, nan for negative numbers."""
        return self._float_unary("LOG")

    def log2(self) -> Self:
        """The logarithm to base 2."""
        return self._float_unary("LOG2")

    def sqrt(self) -> Self:
        """The square root; nan for negative numbers."""
        return self._float_unary("SQRT")

    def rsqrt(self) -> Self:
        """`1 / sqrt(self)`"""
        return self.sqrt().reciprocal()

    def reciprocal(self) -> Self:
        """`1 / self`"""
        return self._float_unary("RECIPROCAL")

    def square(self) -> Self:
        """`self * self`"""
        return self * self

    def sin(self) -> Self:
        """The sine of an angle in radians."""
        return self._float_unary("SIN")

    def cos(self) -> Self:
        """The cosine of an angle in radians."""
        return self._float_unary("COS")

    def tan(self) -> Self:
        """The tangent of an angle in radians."""
        return self.sin() / self.cos()

    def tanh(self) -> Self:
        """The hyperbolic tangent."""
        return self._float_unary("TANH")

    def abs(self) -> Self:
        """The absolute value."""
        return self if self.dtype.kind in ("bool", "uint") else self._unary("ABS")

    def __abs__(self) -> Self:
        return self.abs()

    def sign(self) -> Self:
        """-1, 0 or 1; nan for nan."""
        if self.dtype.kind in ("bool", "uint"):
            return self.not_equal(0).cast(self.dtype)
        return (self > 0).where(1, (self < 0).where(-1, self))

    def _rounded(self, op: str) -> Self:
        return self._unary(op) if self.dtype.is_float else self

    def floor(self) -> Self:
        """The next integer below; integers stay as they are."""
        return self._rounded("FLOOR")

    def ceil(self) -> Self:
        """The next integer above; integers stay as they are."""
        return self._rounded("CEIL")

    def round(self) -> Self:
        """The nearest integer, halves to even; integers stay as they are."""
        return self._rounded("ROUND")

    def trunc(self) -> Self:
        """The next integer towards zero; integers stay as they are."""
        return self._rounded("TRUNC")

    # ---- kinds of values ----

    def isnan(self) -> Self:
        """Whether an element is nan."""
        return self != self

    def isinf(self) -> Self:
        """Whether an element is infinite, of either sign."""
        if not self.dtype.is_float:
            return self != self
        return self.abs().equal(math.inf)

    def isfinite(self) -> Self:
        """Whether an element is neither infinite nor nan."""
        if not self.dtype.is_float:
            return self == self
        return self.abs() < math.inf

    # ---- activations ----

    def relu(self) -> Self:
        """`max(self, 0)`, with gradient 0 at 0; nan stays nan."""
        return (self <= 0).where(0, self)

    def leaky_relu(self, slope: float = 0.01) -> Self:
        """The element where it is positive, `slope` times it elsewhere."""
        return (self <= 0).where(self * slope, self)

    def sigmoid(self) -> Self:
        """`1 / (1 + exp(-self))`, without overflow on either side."""
        x = self._floating()
        negative = x < 0
        small = negative.where(x, -x).exp()
        return negative.where(small, 1.0) / (small + 1.0)

    def silu(self) -> Self:
        """`self * sigmoid(self)`, also called swish."""
        return self * self.sigmoid()

    def gelu(self) -> Self:
        """The Gaussian error linear unit, by its tanh approximation."""
        x = self._floating()
        return x * 0.5 * ((x + x * x * x * 0.044715) * _GELU_SCALE).tanh().add(1.0)

    def softplus(self) -> Self:
        """`log(1 + exp(self))`, without overflow."""
        x = self._floating()
        negative = x < 0
        small = negative.where(x, -x).exp()
        return negative.where(0.0, x) + (small + 1.0).log()
