"""Exponentials, logarithms, trigonometric and hyperbolic functions, erf and gamma: integers are converted to floats."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec

from rulegrad.errors import ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import float32
from rulegrad.tensor import special as functions
from rulegrad.tensor.axes import whole_number
from rulegrad.tensor.elementwise import binary, unary
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.operands import as_operand, float_dtype, result_dtype

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor

#: sin(x) / x as a series in x**2: (-1)**n / (2 n + 1)!
_SINC_SERIES: Final = tuple((-1) ** n / math.factorial(2 * n + 1) for n in range(9))


P = ParamSpec("P")


def in_float32(method: Callable[Concatenate[Tensor, P], Tensor]) -> Callable[Concatenate[Tensor, P], Tensor]:
    """A method that computes in float32 where its tensor is of a smaller float, and rounds its result once."""

    @functools.wraps(method)
    def wide(self: Tensor, /, *arguments: P.args, **options: P.kwargs) -> Tensor:
        dtype = self.dtype
        if not dtype.is_float or dtype.bits >= float32.bits:
            return method(self, *arguments, **options)
        return method(self.cast(float32), *arguments, **options).cast(dtype)

    return wide


#: The order of the last derivative of digamma whose factor, a factorial, is a float64.
_MOST_DERIVATIVES: Final = 170


def as_floating(self: Tensor) -> Tensor:
    return self.cast(float_dtype(self.dtype))


@built_once
def _float_unary(self: Tensor, op: str) -> Tensor:
    return unary(as_floating(self), op)


def _float_binary(self: Tensor, op: str, other: Operand, name: str) -> Tensor:
    """A function of two floats; integers are converted."""
    other = as_operand(self, other, name)
    return binary(self, op, other, name, dtype=float_dtype(result_dtype(self, other)))


# ---- exponentials and logarithms ----


def exp(self: Tensor) -> Tensor:
    """e to the power of each element.

    >>> [round(v, 3) for v in Tensor([0.0, 1.0]).exp().tolist()]
    [1.0, 2.718]
    """
    return _float_unary(self, "EXP")


def exp2(self: Tensor) -> Tensor:
    """2 to the power of each element.

    >>> Tensor([0, 3]).exp2().tolist()
    [1.0, 8.0]
    """
    return _float_unary(self, "EXP2")


def expm1(self: Tensor) -> Tensor:
    """`exp(self) - 1`, with all digits near 0.

    >>> from rulegrad import Tensor
    >>> Tensor([1e-20], dtype="float64").expm1().tolist()
    [1e-20]
    """
    return _float_unary(self, "EXPM1")


def log(self: Tensor) -> Tensor:
    """The natural logarithm: -inf for 0, nan for negative numbers.

    >>> [round(v, 3) for v in Tensor([0.0, 1.0, 10.0]).log().tolist()]
    [-inf, 0.0, 2.303]
    """
    return _float_unary(self, "LOG")


def log2(self: Tensor) -> Tensor:
    """The logarithm to base 2.

    >>> Tensor([1.0, 8.0]).log2().tolist()
    [0.0, 3.0]
    """
    return _float_unary(self, "LOG2")


def log10(self: Tensor) -> Tensor:
    """The logarithm to base 10.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, 10.0]).log10().tolist()
    [0.0, 1.0]
    """
    return _float_unary(self, "LOG10")


def log1p(self: Tensor) -> Tensor:
    """`log(1 + self)`, with all digits near 0; -inf for -1.

    >>> from rulegrad import Tensor
    >>> Tensor([1e-20], dtype="float64").log1p().tolist()
    [1e-20]
    """
    return _float_unary(self, "LOG1P")


@built_once
@in_float32
def logaddexp(self: Tensor, other: Operand) -> Tensor:
    """`log(exp(self) + exp(other))`, without overflow.

    >>> from rulegrad import Tensor
    >>> Tensor([1000.0]).logaddexp(-1000.0).tolist()
    [1000.0]
    """
    return _log_of_sum(self, other, "logaddexp", math.log(2.0), lambda x: x.exp().log1p())


@in_float32
def logaddexp2(self: Tensor, other: Operand) -> Tensor:
    """`log2(2 ** self + 2 ** other)`, without overflow.

    >>> Tensor([3.0]).logaddexp2(3.0).tolist()
    [4.0]
    """
    return _log_of_sum(self, other, "logaddexp2", 1.0, lambda x: x.exp2().log1p() * (1.0 / math.log(2.0)))


def _log_of_sum(self: Tensor, other: Operand, name: str, double: float, rest: Callable[[Tensor], Tensor]) -> Tensor:
    """The larger, and what the smaller one adds: `double` where they are equal, as infinities can be."""
    larger = _float_binary(self, "MAX", other, name)
    difference = _float_binary(self, "SUB", other, name)
    same = self.equal(other)
    # Equal infinities have no difference; where they do not count, 0 keeps nan out of the gradient.
    gap = same.where(0.0, difference)
    return larger + same.where(double, rest((gap < 0).where(gap, -gap)))


# ---- roots ----


def sqrt(self: Tensor) -> Tensor:
    """The square root; nan for negative numbers.

    >>> Tensor([1.0, 4.0]).sqrt().tolist()
    [1.0, 2.0]
    """
    return _float_unary(self, "SQRT")


@built_once
def rsqrt(self: Tensor) -> Tensor:
    """`1 / sqrt(self)`

    >>> Tensor([1.0, 4.0]).rsqrt().tolist()
    [1.0, 0.5]
    """
    return self.sqrt().reciprocal()


def reciprocal(self: Tensor) -> Tensor:
    """`1 / self`

    >>> Tensor([2.0, -4.0]).reciprocal().tolist()
    [0.5, -0.25]
    """
    return _float_unary(self, "RECIPROCAL")


def square(self: Tensor) -> Tensor:
    """`self * self`

    >>> Tensor([2, -3]).square().tolist()
    [4, 9]
    """
    return self * self


@built_once
def hypot(self: Tensor, other: Operand) -> Tensor:
    """`sqrt(self**2 + other**2)`, without overflow; inf beside an infinity, even for nan.

    >>> from rulegrad import Tensor
    >>> Tensor([3e30]).hypot(4e30).tolist() == [float(Tensor(5e30))]
    True
    """
    return _float_binary(self, "HYPOT", other, "hypot")


# ---- angles ----


def sin(self: Tensor) -> Tensor:
    """The sine of an angle in radians.

    >>> [round(v, 3) for v in Tensor([0.0, 1.0]).sin().tolist()]
    [0.0, 0.841]
    """
    return _float_unary(self, "SIN")


def cos(self: Tensor) -> Tensor:
    """The cosine of an angle in radians.

    >>> [round(v, 3) for v in Tensor([0.0, 1.0]).cos().tolist()]
    [1.0, 0.54]
    """
    return _float_unary(self, "COS")


def tan(self: Tensor) -> Tensor:
    """The tangent of an angle in radians.

    >>> [round(v, 3) for v in Tensor([0.0, 1.0]).tan().tolist()]
    [0.0, 1.557]
    """
    return _float_unary(self, "TAN")


def asin(self: Tensor) -> Tensor:
    """The angle whose sine is the element, from -pi/2 to pi/2; nan outside of [-1, 1].

    >>> [round(v, 3) for v in Tensor([0.0, 1.0]).asin().tolist()]
    [0.0, 1.571]
    """
    return _float_unary(self, "ASIN")


def acos(self: Tensor) -> Tensor:
    """The angle whose cosine is the element, from 0 to pi; nan outside of [-1, 1].

    >>> [round(v, 3) for v in Tensor([1.0, -1.0]).acos().tolist()]
    [0.0, 3.142]
    """
    return _float_unary(self, "ACOS")


def atan(self: Tensor) -> Tensor:
    """The angle whose tangent is the element, from -pi/2 to pi/2.

    >>> [round(v, 3) for v in Tensor([0.0, 1.0]).atan().tolist()]
    [0.0, 0.785]
    """
    return _float_unary(self, "ATAN")


def atan2(self: Tensor, other: Operand) -> Tensor:
    """The angle of the point (other, self), from -pi to pi; signed zeros count.

    >>> from rulegrad import Tensor
    >>> Tensor([0.0, 2.0]).atan2(Tensor([1.0, 0.0])).tolist()
    [0.0, 1.5707963705062866]
    """
    return _float_binary(self, "ATAN2", other, "atan2")


def deg2rad(self: Tensor) -> Tensor:
    """Degrees as radians.

    >>> round(Tensor(180.0).deg2rad().item(), 3)
    3.142
    """
    return as_floating(self) * (math.pi / 180.0)


def rad2deg(self: Tensor) -> Tensor:
    """Radians as degrees.

    >>> round(Tensor(1.0).rad2deg().item(), 3)
    57.296
    """
    return as_floating(self) * (180.0 / math.pi)


@built_once
@in_float32
def sinc(self: Tensor) -> Tensor:
    """`sin(pi * self) / (pi * self)`, and 1 at 0; near 0 by its power series, so that gradients have all digits.

    >>> [round(v, 3) for v in Tensor([0.0, 0.5]).sinc().tolist()]
    [1.0, 0.637]
    """
    angle = as_floating(self) * math.pi
    near = angle.abs() < 0.5
    square = near.where(angle, 0.0).square()
    series = square * 0.0 + _SINC_SERIES[-1]
    for factor in _SINC_SERIES[-2::-1]:
        series = series * square + factor
    far = near.where(1.0, angle)
    return near.where(series, far.sin() / far)


# ---- hyperbolic functions ----


def sinh(self: Tensor) -> Tensor:
    """The hyperbolic sine.

    >>> [round(v, 3) for v in Tensor([0.0, 1.0]).sinh().tolist()]
    [0.0, 1.175]
    """
    return _float_unary(self, "SINH")


def cosh(self: Tensor) -> Tensor:
    """The hyperbolic cosine.

    >>> [round(v, 3) for v in Tensor([0.0, 1.0]).cosh().tolist()]
    [1.0, 1.543]
    """
    return _float_unary(self, "COSH")


def tanh(self: Tensor) -> Tensor:
    """The hyperbolic tangent.

    >>> [round(v, 3) for v in Tensor([0.0, 1.0]).tanh().tolist()]
    [0.0, 0.762]
    """
    return _float_unary(self, "TANH")


def asinh(self: Tensor) -> Tensor:
    """The inverse of `sinh`.

    >>> [round(v, 3) for v in Tensor([0.0, 1.0]).asinh().tolist()]
    [0.0, 0.881]
    """
    return _float_unary(self, "ASINH")


def acosh(self: Tensor) -> Tensor:
    """The inverse of `cosh`, which is not negative; nan below 1.

    >>> [round(v, 3) for v in Tensor([1.0, 2.0]).acosh().tolist()]
    [0.0, 1.317]
    """
    return _float_unary(self, "ACOSH")


def atanh(self: Tensor) -> Tensor:
    """The inverse of `tanh`; infinite at -1 and 1, nan outside.

    >>> [round(v, 3) for v in Tensor([0.0, 0.5]).atanh().tolist()]
    [0.0, 0.549]
    """
    return _float_unary(self, "ATANH")


# ---- error and gamma functions ----


def erf(self: Tensor) -> Tensor:
    """The error function, `2 / sqrt(pi)` times the integral of `exp(-t**2)` from 0.

    >>> from rulegrad import Tensor
    >>> Tensor([0.0, 10.0]).erf().tolist()
    [0.0, 1.0]
    """
    return _float_unary(self, "ERF")


def erfc(self: Tensor) -> Tensor:
    """`1 - erf(self)`, with all digits where it is small.

    >>> [round(v, 3) for v in Tensor([0.0, 0.5]).erfc().tolist()]
    [1.0, 0.48]
    """
    return _float_unary(self, "ERFC")


def lgamma(self: Tensor) -> Tensor:
    """The logarithm of the absolute value of the gamma function; inf at 0, -1, -2, …

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, 2.0]).lgamma().tolist()
    [0.0, 0.0]
    """
    return _float_unary(self, "LGAMMA")


def digamma(self: Tensor) -> Tensor:
    """The derivative of `lgamma`; nan at -1, -2, …

    >>> round(Tensor(1.0).digamma().item(), 3)
    -0.577
    """
    return _float_unary(self, "DIGAMMA")


def erfinv(self: Tensor) -> Tensor:
    """The inverse of `erf`, from -1 to 1: infinite there, nan outside.

    >>> [round(v, 4) for v in Tensor([0.0, 0.5, -1.0]).erfinv().tolist()]
    [0.0, 0.4769, -inf]
    """
    return functions.erfinv(self)  # type: ignore[no-any-return]


def i0(self: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 0; `rulegrad.special` has its relatives.

    >>> [round(v, 4) for v in Tensor([0.0, 1.0]).i0().tolist()]
    [1.0, 1.2661]
    """
    return functions.i0(self)  # type: ignore[no-any-return]


def igamma(self: Tensor, other: Operand) -> Tensor:
    """The regularized lower incomplete gamma function P(self, other); `igammac` is 1 less it.

    >>> [round(v, 4) for v in Tensor([0.5, 2.0]).igamma(1.0).tolist()]
    [0.8427, 0.2642]
    """
    return functions.gammainc(self, other)  # type: ignore[no-any-return]


def igammac(self: Tensor, other: Operand) -> Tensor:
    """The regularized upper incomplete gamma function Q(self, other), with all digits where it is small.

    >>> [round(v, 4) for v in Tensor([0.5, 2.0]).igammac(1.0).tolist()]
    [0.1573, 0.7358]
    """
    return functions.gammaincc(self, other)  # type: ignore[no-any-return]


def mvlgamma(self: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p, for elements above (p - 1) / 2.

    Raises ShapeError for a dimension below 1.

    >>> round(Tensor(2.5).mvlgamma(2).item(), 4)
    0.857
    """
    return functions.multigammaln(self, p)


def polygamma(self: Tensor, n: int) -> Tensor:
    """The derivative of `digamma` of the order `n`, `digamma` itself for 0; infinite at 0, -1, -2, …

    `rulegrad.special.polygamma(n, x)` has PyTorch's order of arguments. Raises ShapeError for n < 0 and n > 170.

    >>> round(Tensor(1.0).polygamma(1).item(), 3)
    1.645
    """
    order = whole_number(n, "polygamma")
    if not 0 <= order <= _MOST_DERIVATIVES:
        raise ShapeError(f"polygamma: n={n}; use a number from 0 to {_MOST_DERIVATIVES}")
    x = as_floating(self)
    return x._result(UOp("POLYGAMMA", (x.uop,), order=order)) if order else self.digamma()


@built_once
@in_float32
def logit(self: Tensor, eps: float | None = None) -> Tensor:
    """`log(p / (1 - p))` of a probability p, the inverse of `sigmoid`; with `eps`, p is limited to eps … 1 - eps.

    >>> from rulegrad import Tensor
    >>> Tensor([0.5, 1.0]).logit().tolist()
    [0.0, inf]
    """
    p = as_floating(self)
    if eps is not None:
        p = p.clip(eps, 1.0 - eps)
    # Around 1/2 the two logarithms cancel; 2 p - 1 is exact there.
    middle = (p > 0.25) & (p < 0.75)
    near = middle.where(p * 2.0 - 1.0, 0.0).atanh() * 2.0
    far = middle.where(0.5, p)
    return middle.where(near, far.log() - (-far).log1p())


# ---- NumPy's names ----
