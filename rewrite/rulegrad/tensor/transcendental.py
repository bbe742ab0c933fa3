"""Exponentials, logarithms, trigonometric and hyperbolic functions, erf and gamma: integers are converted to floats."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

from rulegrad.errors import ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import float32
from rulegrad.tensor import special as functions
from rulegrad.tensor.axes import whole_number
from rulegrad.tensor.operands import as_operand, float_dtype, result_dtype
from rulegrad.tensor.operators import Operators

if TYPE_CHECKING:
    from typing_extensions import Self

    from rulegrad.tensor.operands import Operand

#: sin(x) / x as a series in x**2: (-1)**n / (2 n + 1)!
_SINC_SERIES: Final = tuple((-1) ** n / math.factorial(2 * n + 1) for n in range(9))


T = TypeVar("T", bound="Transcendental")
P = ParamSpec("P")


def in_float32(method: Callable[Concatenate[T, P], T]) -> Callable[Concatenate[T, P], T]:
    """A method that computes in float32 where its tensor is of a smaller float, and rounds its result once."""

    @functools.wraps(method)
    def wide(self: T, /, *arguments: P.args, **options: P.kwargs) -> T:
        dtype = self.dtype
        if not dtype.is_float or dtype.bits >= float32.bits:
            return method(self, *arguments, **options)
        return method(self.cast(float32), *arguments, **options).cast(dtype)

    return wide


#: The order of the last derivative of digamma whose factor, a factorial, is a float64.
_MOST_DERIVATIVES: Final = 170


class Transcendental(Operators):
    """exp, log, sin, erf, …: one result for each element, by the rules that the target needs."""

    __slots__ = ()

    def _floating(self) -> Self:
        return self.cast(float_dtype(self.dtype))

    def _float_unary(self, op: str) -> Self:
        return self._floating()._unary(op)

    def _float_binary(self, op: str, other: Operand, name: str) -> Self:
        """A function of two floats; integers are converted."""
        other = as_operand(self, other, name)
        return self._binary(op, other, name, dtype=float_dtype(result_dtype(self, other)))

    # ---- exponentials and logarithms ----

    def exp(self) -> Self:
        """e to the power of each element.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).exp().tolist()]
        [1.0, 2.718]
        """
        return self._float_unary("EXP")

    def exp2(self) -> Self:
        """2 to the power of each element.

        >>> Tensor([0, 3]).exp2().tolist()
        [1.0, 8.0]
        """
        return self._float_unary("EXP2")

    def expm1(self) -> Self:
        """`exp(self) - 1`, with all digits near 0.

        >>> from rulegrad import Tensor
        >>> Tensor([1e-20], dtype="float64").expm1().tolist()
        [1e-20]
        """
        return self._float_unary("EXPM1")

    def log(self) -> Self:
        """The natural logarithm: -inf for 0, nan for negative numbers.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0, 10.0]).log().tolist()]
        [-inf, 0.0, 2.303]
        """
        return self._float_unary("LOG")

    def log2(self) -> Self:
        """The logarithm to base 2.

        >>> Tensor([1.0, 8.0]).log2().tolist()
        [0.0, 3.0]
        """
        return self._float_unary("LOG2")

    def log10(self) -> Self:
        """The logarithm to base 10.

        >>> from rulegrad import Tensor
        >>> Tensor([1.0, 10.0]).log10().tolist()
        [0.0, 1.0]
        """
        return self._float_unary("LOG10")

    def log1p(self) -> Self:
        """`log(1 + self)`, with all digits near 0; -inf for -1.

        >>> from rulegrad import Tensor
        >>> Tensor([1e-20], dtype="float64").log1p().tolist()
        [1e-20]
        """
        return self._float_unary("LOG1P")

    @in_float32
    def logaddexp(self, other: Operand) -> Self:
        """`log(exp(self) + exp(other))`, without overflow.

        >>> from rulegrad import Tensor
        >>> Tensor([1000.0]).logaddexp(-1000.0).tolist()
        [1000.0]
        """
        return self._log_of_sum(other, "logaddexp", math.log(2.0), lambda x: x.exp().log1p())

    @in_float32
    def logaddexp2(self, other: Operand) -> Self:
        """`log2(2 ** self + 2 ** other)`, without overflow.

        >>> Tensor([3.0]).logaddexp2(3.0).tolist()
        [4.0]
        """
        return self._log_of_sum(other, "logaddexp2", 1.0, lambda x: x.exp2().log1p() * (1.0 / math.log(2.0)))

    def _log_of_sum(self, other: Operand, name: str, double: float, rest: Callable[[Self], Self]) -> Self:
        """The larger, and what the smaller one adds: `double` where they are equal, as infinities can be."""
        larger = self._float_binary("MAX", other, name)
        difference = self._float_binary("SUB", other, name)
        same = self.equal(other)
        # Equal infinities have no difference; where they do not count, 0 keeps nan out of the gradient.
        gap = same.where(0.0, difference)
        return larger + same.where(double, rest((gap < 0).where(gap, -gap)))

    # ---- roots ----

    def sqrt(self) -> Self:
        """The square root; nan for negative numbers.

        >>> Tensor([1.0, 4.0]).sqrt().tolist()
        [1.0, 2.0]
        """
        return self._float_unary("SQRT")

    def rsqrt(self) -> Self:
        """`1 / sqrt(self)`

        >>> Tensor([1.0, 4.0]).rsqrt().tolist()
        [1.0, 0.5]
        """
        return self.sqrt().reciprocal()

    def reciprocal(self) -> Self:
        """`1 / self`

        >>> Tensor([2.0, -4.0]).reciprocal().tolist()
        [0.5, -0.25]
        """
        return self._float_unary("RECIPROCAL")

    def square(self) -> Self:
        """`self * self`

        >>> Tensor([2, -3]).square().tolist()
        [4, 9]
        """
        return self * self

    def hypot(self, other: Operand) -> Self:
        """`sqrt(self**2 + other**2)`, without overflow; inf beside an infinity, even for nan.

        >>> from rulegrad import Tensor
        >>> Tensor([3e30]).hypot(4e30).tolist() == [float(Tensor(5e30))]
        True
        """
        return self._float_binary("HYPOT", other, "hypot")

    # ---- angles ----

    def sin(self) -> Self:
        """The sine of an angle in radians.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).sin().tolist()]
        [0.0, 0.841]
        """
        return self._float_unary("SIN")

    def cos(self) -> Self:
        """The cosine of an angle in radians.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).cos().tolist()]
        [1.0, 0.54]
        """
        return self._float_unary("COS")

    def tan(self) -> Self:
        """The tangent of an angle in radians.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).tan().tolist()]
        [0.0, 1.557]
        """
        return self._float_unary("TAN")

    def asin(self) -> Self:
        """The angle whose sine is the element, from -pi/2 to pi/2; nan outside of [-1, 1].

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).asin().tolist()]
        [0.0, 1.571]
        """
        return self._float_unary("ASIN")

    def acos(self) -> Self:
        """The angle whose cosine is the element, from 0 to pi; nan outside of [-1, 1].

        >>> [round(v, 3) for v in Tensor([1.0, -1.0]).acos().tolist()]
        [0.0, 3.142]
        """
        return self._float_unary("ACOS")

    def atan(self) -> Self:
        """The angle whose tangent is the element, from -pi/2 to pi/2.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).atan().tolist()]
        [0.0, 0.785]
        """
        return self._float_unary("ATAN")

    def atan2(self, other: Operand) -> Self:
        """The angle of the point (other, self), from -pi to pi; signed zeros count.

        >>> from rulegrad import Tensor
        >>> Tensor([0.0, 2.0]).atan2(Tensor([1.0, 0.0])).tolist()
        [0.0, 1.5707963705062866]
        """
        return self._float_binary("ATAN2", other, "atan2")

    def deg2rad(self) -> Self:
        """Degrees as radians.

        >>> round(Tensor(180.0).deg2rad().item(), 3)
        3.142
        """
        return self._floating() * (math.pi / 180.0)

    def rad2deg(self) -> Self:
        """Radians as degrees.

        >>> round(Tensor(1.0).rad2deg().item(), 3)
        57.296
        """
        return self._floating() * (180.0 / math.pi)

    @in_float32
    def sinc(self) -> Self:
        """`sin(pi * self) / (pi * self)`, and 1 at 0; near 0 by its power series, so that gradients have all digits.

        >>> [round(v, 3) for v in Tensor([0.0, 0.5]).sinc().tolist()]
        [1.0, 0.637]
        """
        angle = self._floating() * math.pi
        near = (angle < 0.5) & (angle > -0.5)
        square = near.where(angle, 0.0).square()
        series = square * 0.0 + _SINC_SERIES[-1]
        for factor in _SINC_SERIES[-2::-1]:
            series = series * square + factor
        far = near.where(1.0, angle)
        return near.where(series, far.sin() / far)

    # ---- hyperbolic functions ----

    def sinh(self) -> Self:
        """The hyperbolic sine.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).sinh().tolist()]
        [0.0, 1.175]
        """
        return self._float_unary("SINH")

    def cosh(self) -> Self:
        """The hyperbolic cosine.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).cosh().tolist()]
        [1.0, 1.543]
        """
        return self._float_unary("COSH")

    def tanh(self) -> Self:
        """The hyperbolic tangent.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).tanh().tolist()]
        [0.0, 0.762]
        """
        return self._float_unary("TANH")

    def asinh(self) -> Self:
        """The inverse of `sinh`.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).asinh().tolist()]
        [0.0, 0.881]
        """
        return self._float_unary("ASINH")

    def acosh(self) -> Self:
        """The inverse of `cosh`, which is not negative; nan below 1.

        >>> [round(v, 3) for v in Tensor([1.0, 2.0]).acosh().tolist()]
        [0.0, 1.317]
        """
        return self._float_unary("ACOSH")

    def atanh(self) -> Self:
        """The inverse of `tanh`; infinite at -1 and 1, nan outside.

        >>> [round(v, 3) for v in Tensor([0.0, 0.5]).atanh().tolist()]
        [0.0, 0.549]
        """
        return self._float_unary("ATANH")

    # ---- error and gamma functions ----

    def erf(self) -> Self:
        """The error function, `2 / sqrt(pi)` times the integral of `exp(-t**2)` from 0.

        >>> from rulegrad import Tensor
        >>> Tensor([0.0, 10.0]).erf().tolist()
        [0.0, 1.0]
        """
        return self._float_unary("ERF")

    def erfc(self) -> Self:
        """`1 - erf(self)`, with all digits where it is small.

        >>> [round(v, 3) for v in Tensor([0.0, 0.5]).erfc().tolist()]
        [1.0, 0.48]
        """
        return self._float_unary("ERFC")

    def lgamma(self) -> Self:
        """The logarithm of the absolute value of the gamma function; inf at 0, -1, -2, …

        >>> from rulegrad import Tensor
        >>> Tensor([1.0, 2.0]).lgamma().tolist()
        [0.0, 0.0]
        """
        return self._float_unary("LGAMMA")

    def digamma(self) -> Self:
        """The derivative of `lgamma`; nan at -1, -2, …

        >>> round(Tensor(1.0).digamma().item(), 3)
        -0.577
        """
        return self._float_unary("DIGAMMA")

    def erfinv(self) -> Self:
        """The inverse of `erf`, from -1 to 1: infinite there, nan outside.

        >>> [round(v, 4) for v in Tensor([0.0, 0.5, -1.0]).erfinv().tolist()]
        [0.0, 0.4769, -inf]
        """
        return functions.erfinv(self)  # type: ignore[no-any-return]

    def i0(self) -> Self:
        """The modified Bessel function of the first kind of order 0; `rulegrad.special` has its relatives.

        >>> [round(v, 4) for v in Tensor([0.0, 1.0]).i0().tolist()]
        [1.0, 1.2661]
        """
        return functions.i0(self)  # type: ignore[no-any-return]

    def igamma(self, other: Operand) -> Self:
        """The regularized lower incomplete gamma function P(self, other); `igammac` is 1 less it.

        >>> [round(v, 4) for v in Tensor([0.5, 2.0]).igamma(1.0).tolist()]
        [0.8427, 0.2642]
        """
        return functions.gammainc(self, other)  # type: ignore[no-any-return]

    def igammac(self, other: Operand) -> Self:
        """The regularized upper incomplete gamma function Q(self, other), with all digits where it is small.

        >>> [round(v, 4) for v in Tensor([0.5, 2.0]).igammac(1.0).tolist()]
        [0.1573, 0.7358]
        """
        return functions.gammaincc(self, other)  # type: ignore[no-any-return]

    def mvlgamma(self, p: int) -> Self:
        """The logarithm of the multivariate gamma function of dimension p, for elements above (p - 1) / 2.

        Raises ShapeError for a dimension below 1.

        >>> round(Tensor(2.5).mvlgamma(2).item(), 4)
        0.857
        """
        return functions.multigammaln(self, p)  # type: ignore[return-value,arg-type]

    def polygamma(self, n: int) -> Self:
        """The derivative of `digamma` of the order `n`, `digamma` itself for 0; infinite at 0, -1, -2, …

        `rulegrad.special.polygamma(n, x)` has PyTorch's order of arguments. Raises ShapeError for n < 0 and n > 170.

        >>> round(Tensor(1.0).polygamma(1).item(), 3)
        1.645
        """
        order = whole_number(n, "polygamma")
        if not 0 <= order <= _MOST_DERIVATIVES:
            raise ShapeError(f"polygamma: n={n}; use a number from 0 to {_MOST_DERIVATIVES}")
        x = self._floating()
        return x._result(UOp("POLYGAMMA", (x.uop,), order=order)) if order else self.digamma()

    @in_float32
    def logit(self, eps: float | None = None) -> Self:
        """`log(p / (1 - p))` of a probability p, the inverse of `sigmoid`; with `eps`, p is limited to eps … 1 - eps.

        >>> from rulegrad import Tensor
        >>> Tensor([0.5, 1.0]).logit().tolist()
        [0.0, inf]
        """
        p = self._floating()
        if eps is not None:
            p = p.clip(eps, 1.0 - eps)
        # Around 1/2 the two logarithms cancel; 2 p - 1 is exact there.
        middle = (p > 0.25) & (p < 0.75)
        near = middle.where(p * 2.0 - 1.0, 0.0).atanh() * 2.0
        far = middle.where(0.5, p)
        return middle.where(near, far.log() - (-far).log1p())

    # ---- NumPy's names ----

    arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2
    arcsinh, arccosh, arctanh = asinh, acosh, atanh
