"""Functions of the parts of a number, remainders, comparisons with a tolerance, and what is made of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rulegrad.errors import DtypeError, ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType, as_dtype, complex64, complex128, float32, float64, int32
from rulegrad.ir.limits import finfo
from rulegrad.tensor.aliasing import is_same_view
from rulegrad.tensor.constants import constant, filled
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.elementwise import binary, unary
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.operands import (
    as_operand,
    as_tensor,
    broadcast_shapes,
    expand_to,
    float_dtype,
    result_dtype,
    tensors_of,
)
from rulegrad.tensor.storage import is_weak_scalar

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor

#: Steps of Euclid's algorithm on integers of so many bits: it is slowest on Fibonacci numbers.
_EUCLID_STEPS = {8: 13, 16: 25, 32: 48, 64: 94}


def _pair(self: Tensor, other: Operand, name: str, dtype: DType | None = None) -> tuple[Tensor, Tensor]:
    """Both operands as tensors of their common dtype, or of `dtype`."""
    other = as_operand(self, other, name)
    common = result_dtype(self, other) if dtype is None else dtype
    second: Any = other if isinstance(other, TensorCore) else _scalar(self, other, common)
    return self.cast(common), second.cast(common)


def _scalar(self: Tensor, value: Any, dtype: DType) -> Tensor:

    return self._new(constant(value, dtype, "operand"), None, self._device)


def _bits(self: Tensor) -> Tensor:
    """The bits of a float as a signed integer."""
    return self._result(UOp("BITCAST", (self.uop,), f"int{self.dtype.bits}"))


# ---- signs ----


def abs(self: Tensor) -> Tensor:
    """The absolute value; of the least signed integer it is that integer. Of complex numbers it is real.

    >>> Tensor([1, -2]).abs().tolist(), Tensor([3 + 4j]).abs().tolist()
    ([1, 2], [5.0])
    """
    if self.dtype.is_complex:
        return self.real.hypot(self.imag)
    return self._same() if self.dtype.kind in ("bool", "uint") else unary(self, "ABS")


def sign(self: Tensor) -> Tensor:
    """-1, 0 or 1; nan for nan. Of a complex number z it is z / |z|, and 0 for 0.

    >>> Tensor([-2.5, 0.0, 3.0]).sign().tolist()
    [-1.0, 0.0, 1.0]
    """
    if self.dtype.is_complex:
        size = self.abs()
        is_zero = size.equal(0)
        return is_zero.where(0, self / is_zero.where(1, size))
    if self.dtype.kind in ("bool", "uint"):
        return self.not_equal(0).cast(self.dtype)
    x = self.detach()
    other = x.isnan().where(x, 0) if x.dtype.is_float else 0
    return (x > 0).where(1, (x < 0).where(-1, other)).cast(x.dtype)


def signbit(self: Tensor) -> Tensor:
    """Whether the sign bit is set: of negative numbers, -0.0, and a nan with a sign.

    >>> from rulegrad import Tensor
    >>> Tensor([-1.0, -0.0, 0.0]).signbit().tolist()
    [True, True, False]
    """
    return (_bits(self.detach()) if self.dtype.is_float else self) < 0


def copysign(self: Tensor, other: Operand) -> Tensor:
    """The absolute value of each element with the sign of `other`, which may be a zero's.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, -2.0]).copysign(-0.0).tolist()
    [-1.0, -2.0]
    """
    other = as_operand(self, other, "copysign")
    size, sign = _pair(self, other, "copysign", float_dtype(result_dtype(self, other)))
    magnitude = size.abs()
    return sign.signbit().where(-magnitude, magnitude)


# ---- complex numbers ----


def real(self: Tensor) -> Tensor:
    """The real parts, a view, which can be assigned to; a real tensor is its own.

    >>> Tensor([1 + 2j]).real.tolist()
    [1.0]
    """
    return self._viewed("REAL", self.dtype.real) if self.dtype.is_complex else self._shared()


def set_real(self: Tensor, value: Any) -> None:
    _put(self.real, value)


def imag(self: Tensor) -> Tensor:
    """The imaginary parts, a view, which can be assigned to; zeros for a real tensor.

    >>> Tensor([1 + 2j]).imag.tolist()
    [2.0]
    """
    if self.dtype.is_complex:
        return self._viewed("IMAG", self.dtype.real)
    return self._new(filled(self.shape, 0, self.dtype), None, self._device)


def set_imag(self: Tensor, value: Any) -> None:
    if not self.dtype.is_complex:
        raise DtypeError(f"imag: a tensor of dtype {self.dtype} has no imaginary parts; cast it first")
    _put(self.imag, value)


def conj(self: Tensor) -> Tensor:
    """The complex conjugates; a real tensor is its own.

    >>> from rulegrad import Tensor
    >>> Tensor([1 + 2j]).conj().tolist()
    [(1-2j)]
    """
    return from_parts(self, self.real, -self.imag) if self.dtype.is_complex else self._same()


def angle(self: Tensor) -> Tensor:
    """The angle of complex numbers in the plane, from -pi to pi; of real ones 0 or pi.

    >>> [round(v, 3) for v in Tensor([1.0, 1j]).angle().tolist()]
    [0.0, 1.571]
    """
    return self.imag.atan2(self.real) if self.dtype.is_complex else self.imag.atan2(self)


def from_parts(self: Tensor, real: Tensor, imaginary: Tensor) -> Tensor:
    """The complex numbers with these parts, which are floats of one dtype and shape."""
    dtype = complex64 if real.dtype == float32 else complex128
    return real._result(UOp("COMPLEX", (real.uop, imaginary.uop), dtype), imaginary)


def complex(cls: type[Tensor], real: Tensor, imag: Tensor) -> Tensor:
    """Complex numbers from their parts, which broadcast; complex128 when a part is float64.

    >>> from rulegrad import Tensor
    >>> Tensor.complex(Tensor([1.0]), Tensor([2.0])).tolist()
    [(1+2j)]
    """
    real, imag = tensors_of([real, imag], (), "complex")
    common = result_dtype(real, imag)
    dtype = float64 if common.bits == 64 or not common.is_float else float32
    if common.is_complex:
        raise DtypeError(f"complex: a part is {common}; give two real tensors")
    shape = broadcast_shapes("complex", real.shape, imag.shape)
    parts = [x._result(expand_to(x.cast(dtype).uop, shape)) for x in (real, imag)]
    return from_parts(parts[0], *parts)


def positive(self: Tensor) -> Tensor:
    """The same values.

    >>> Tensor([1, -2]).positive().tolist()
    [1, -2]
    """
    return self._same()


# ---- neighbours and parts of a float ----


def nextafter(self: Tensor, other: Operand) -> Tensor:
    """The next float of the tensor's dtype after each element, towards `other`. It has no gradient.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0], dtype="float64").nextafter(2.0).tolist()
    [1.0000000000000002]
    """
    start, end = (side.detach() for side in _pair(self, other, "nextafter"))
    if not start.dtype.is_float:
        raise DtypeError(f"nextafter: {start.dtype} has no neighbouring floats; cast to a float first")
    bits, sign = _bits(start), _bits(end) & as_int(1 << (start.dtype.bits - 1), start.dtype.bits)
    away = end.greater(start).equal(start > 0)  # a float's bits count up from 0
    moved = start.equal(0).where(sign | 1, bits + away.where(1, -1).cast(bits.dtype))
    result = moved.bitcast(start.dtype)
    return start.isnan().where(start, start.equal(end).where(end, end.isnan().where(end, result)))


def isnan(self: Tensor) -> Tensor:
    """Whether an element is nan.

    >>> Tensor([1.0, float("nan")]).isnan().tolist()
    [False, True]
    """
    return self.not_equal(self)


def frexp(self: Tensor) -> tuple[Tensor, Tensor]:
    """(m, n) with `self == m * 2**n`, 0.5 <= |m| < 1, and n an int32; n is 0 for zeros, infinities and nan.

    Raises DtypeError for complex numbers.

    >>> from rulegrad import Tensor
    >>> [part.tolist() for part in Tensor([8.0, 0.0]).frexp()]
    [[0.5, 0.0], [4, 0]]
    """
    own = self.dtype
    if own.is_complex:
        raise DtypeError(f"frexp: {own} has no exponent; take frexp of .real and of .imag")
    x = _working_float(self)
    info, digits = finfo(x.dtype), x.dtype.mantissa
    plain = x.not_equal(0) & (x.abs() < math.inf)
    small = x.abs() < info.smallest_normal
    bits = _bits(small.where(x * 2.0 ** (digits + 1), x).detach())
    width = x.dtype.bits
    biased = (bits >> digits) & ((1 << x.dtype.exponent) - 1)
    bias = (1 << (x.dtype.exponent - 1)) - 2
    exponent = plain.where(biased.cast(int32) - bias - small.where(digits + 1, 0), 0)
    cleared = bits & as_int(~(((1 << x.dtype.exponent) - 1) << digits) & ((1 << width) - 1), width)
    mantissa = (cleared | (bias << digits)).bitcast(x.dtype)
    return plain.where(mantissa, x).cast(own), exponent.cast(int32)


def ldexp(self: Tensor, other: Operand) -> Tensor:
    """`self * 2**other`, rounded once; exponents that are floats are taken as they are.

    >>> from rulegrad import Tensor
    >>> Tensor([0.5, 3.0]).ldexp(Tensor([4, -1])).tolist()
    [8.0, 1.5]
    """
    n: Any = as_operand(self, other, "ldexp")
    if result_dtype(n).is_inexact:
        factor: Tensor | float = 2.0**n if is_weak_scalar(n) else n.exp2()
        return self * factor
    if self.dtype.is_complex:
        return from_parts(self, ldexp(self.real, n), ldexp(self.imag, n))
    own = float_dtype(self.dtype)
    x = _working_float(self.cast(own))
    most = (1 << (x.dtype.exponent - 1)) - 2
    rest = (_scalar(self, n, int32) if is_weak_scalar(n) else n).cast(int32).clip(-4 * most, 4 * most)
    first = rest.clip(-most, most)
    second = (rest - first).clip(-most, most)
    for power in ((rest - first - second).clip(-most, most), second, first):
        x = x * _power_of_two(power, x.dtype)
    return x.cast(own)


def _working_float(self: Tensor) -> Tensor:
    """In float32, where the dtype is smaller."""
    dtype = float_dtype(self.dtype)
    return self.cast(dtype if dtype.bits >= float32.bits else float32)


# ---- remainders and divisors ----


def fmod(self: Tensor, other: Operand) -> Tensor:
    """The remainder of a division rounded towards zero, exactly: it has the sign of the element, as in C.

    >>> from rulegrad import Tensor
    >>> Tensor([-7.5, 7.5]).fmod(2).tolist()
    [-1.5, 1.5]
    """
    other = as_operand(self, other, "fmod")
    return binary(self, "FMOD" if result_dtype(self, other).is_float else "TRUNCMOD", other, "fmod")


def gcd(self: Tensor, other: Operand) -> Tensor:
    """The greatest common divisor of integers, not negative; 0 for two zeros. Raises DtypeError for floats.

    >>> from rulegrad import Tensor
    >>> Tensor([12, 0]).gcd(Tensor([-18, 5])).tolist()
    [6, 5]
    """
    a, b = _integers(self, other, "gcd")
    for _ in range(_EUCLID_STEPS[a.dtype.bits]):
        a, b = b.equal(0).where(a, b), a % b  # a % 0 is 0
    return a.abs()


def lcm(self: Tensor, other: Operand) -> Tensor:
    """The least common multiple of integers, not negative; 0 beside a 0. Raises DtypeError for floats.

    >>> Tensor([4, 0]).lcm(Tensor([-6, 5])).tolist()
    [12, 0]
    """
    a, b = _integers(self, other, "lcm")
    divisor = a.gcd(b)
    return a.abs() // divisor * b.abs()  # 0 // 0 is 0


def _integers(self: Tensor, other: Operand, name: str) -> tuple[Tensor, Tensor]:
    a, b = _pair(self, other, name)
    if not a.dtype.is_integer:
        raise DtypeError(f"{name}: the operands promote to {a.dtype}; cast to an integer first")
    return a, b


# ---- powers and steps ----


def float_power(self: Tensor, exponent: Operand) -> Tensor:
    """`self ** exponent` in float64, or in complex128 where one of the two is complex.

    >>> Tensor([2, 4]).float_power(-1).tolist()
    [0.5, 0.25]
    """
    power: Any = as_operand(self, exponent, "float_power")
    dtype = complex128 if result_dtype(self, power).is_complex else float64
    return self.cast(dtype).pow(power if is_weak_scalar(power) else power.cast(dtype))


def heaviside(self: Tensor, values: Operand) -> Tensor:
    """0 for negative elements, 1 for positive ones, `values` for 0, nan for nan.

    >>> Tensor([-1.0, 0.0, 2.0]).heaviside(0.5).tolist()
    [0.0, 0.5, 1.0]
    """
    x, value = _pair(self, values, "heaviside")
    step = (x > 0).where(1, x.isnan().where(x, 0)) if x.dtype.is_float else (x > 0).where(1, 0).cast(x.dtype)
    return x.equal(0).where(value, step)


@built_once
def lerp(self: Tensor, end: Operand, weight: Operand) -> Tensor:
    """`self + weight * (end - self)`: exactly `self` for weight 0 and `end` for weight 1.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0]).lerp(Tensor([5.0]), 0.25).tolist()
    [2.0]
    """
    start, stop = _pair(self, end, "lerp")
    start, share = _pair(start, weight, "lerp")
    distance = stop - start
    size = share.abs() if share.dtype.is_complex else share
    return (size < 0.5).where(start + share * distance, stop - distance * (1 - share))


# ---- tolerance ----


@built_once
def isclose(self: Tensor, other: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether `|self - other| <= atol + rtol * |other|`; infinities are close to themselves only.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, 1.1]).isclose(Tensor([1.0 + 1e-7, 1.0])).tolist()
    [True, False]
    """
    a, b = _pair(self, other, "isclose")
    if not a.dtype.is_inexact:
        a, b = a.cast(float64), b.cast(float64)
    near = (a - b).abs() <= b.abs() * rtol + atol
    close = a.equal(b) | (near & (b.abs() <= finfo(b.dtype).max))
    return close | (a.isnan() & b.isnan()) if equal_nan else close


def allclose(self: Tensor, other: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements are close, as a Python bool: this computes the tensors.

    >>> Tensor([1.0, 2.0]).allclose([1.0, 2.0 + 1e-7])
    True
    """
    everything: Any = self.isclose(other, rtol, atol, equal_nan)
    return bool(everything.all())


@built_once
def nan_to_num(self: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """nan, inf and -inf replaced; the infinities by the largest and the least float, if nothing is given.

    >>> from rulegrad import Tensor
    >>> Tensor([float("nan"), float("inf"), 2.0]).nan_to_num(posinf=9.0).tolist()
    [0.0, 9.0, 2.0]
    """
    if self.dtype.is_complex:
        parts = (part.nan_to_num(nan, posinf, neginf) for part in (self.real, self.imag))
        return from_parts(self, *parts)
    if not self.dtype.is_float:
        return self._same()
    info = finfo(self.dtype)
    high = info.max if posinf is None else posinf
    low = info.min if neginf is None else neginf
    limited = self.equal(math.inf).where(high, self.equal(-math.inf).where(low, self))
    return self.isnan().where(nan, limited)


def as_int(bits: int, width: int) -> int:
    """The signed integer of `width` bits that has these bits."""
    return bits - (1 << width) if bits >> (width - 1) & 1 else bits


def _power_of_two(n: Tensor, dtype: DType) -> Any:
    """`2**n` where it is a normal number of the dtype."""
    whole = as_dtype(f"int{dtype.bits}")
    bias = (1 << (dtype.exponent - 1)) - 1
    return ((n.cast(whole) + bias) << dtype.mantissa).bitcast(dtype)


def _put(view: Any, value: Any) -> None:
    """Give a view the values, unless they are its own: `z.real += 1` has put them there."""
    if not (isinstance(value, TensorCore) and is_same_view(view, value)):
        view.copy_(value)


@built_once
def addcmul(self: Tensor, first: Operand, second: Operand, *, value: float = 1) -> Tensor:
    """`self + value * first * second`

    >>> Tensor([1, 2]).addcmul(Tensor([3, 4]), Tensor([5, 6]), value=2).tolist()
    [31, 50]
    """
    product = as_tensor(self, first, "addcmul") * second
    return self + (product if value == 1 else product * value)


@built_once
def addcdiv(self: Tensor, first: Operand, second: Operand, *, value: float = 1) -> Tensor:
    """`self + value * first / second`

    >>> Tensor([1.0, 2.0]).addcdiv(Tensor([3.0, 4.0]), Tensor([2.0, 8.0])).tolist()
    [2.5, 2.5]
    """
    quotient = as_tensor(self, first, "addcdiv") / second
    return self + (quotient if value == 1 else quotient * value)


def xlogy(self: Tensor, other: Operand) -> Tensor:
    """`self * log(other)`, and 0 where this tensor is 0 (but nan where `other` is).

    >>> from rulegrad import Tensor
    >>> Tensor([0.0, 2.0]).xlogy(Tensor([0.0, 1.0])).tolist()
    [0.0, 0.0]
    """
    x, y = self, self.full_like(0) + other
    # At x = 0 the derivative by x is still log(y), where that is finite.
    zero = x.equal(0) & ((y <= 0) | y.equal(math.inf))
    return x * zero.where(1.0, y).log()


def rsub(self: Tensor, other: Operand, *, alpha: float = 1) -> Tensor:
    """`other - alpha * self`

    >>> Tensor([1, 2]).rsub(10, alpha=2).tolist()
    [8, 6]
    """
    return (self if alpha == 1 else self * alpha).sub(other, swapped=True)


def polar(self: Tensor, angle: Operand) -> Tensor:
    """The complex numbers with these absolute values and angles.

    >>> Tensor([2.0]).polar(Tensor([0.0])).tolist()
    [(2+0j)]
    """
    turn = as_tensor(self, angle, "polar")
    if not result_dtype(self, turn).is_float:
        raise DtypeError(f"polar: {self.dtype} and {turn.dtype}; give floats")
    return self.complex(self * turn.cos(), self * turn.sin())


def view_as_complex(self: Tensor) -> Tensor:
    """The last axis, of two floats, as the parts of complex numbers: `complex(x[..., 0], x[..., 1])`, a copy.

    >>> Tensor([[1.0, 2.0]]).view_as_complex().tolist()
    [(1+2j)]
    """
    if not self.ndim or self.shape[-1] != 2 or not self.dtype.is_float:
        raise ShapeError(f"view_as_complex: {self.dtype} of shape {self.shape}; it needs floats of shape (…, 2)")
    real, imaginary = self.unbind(-1)
    return self.complex(real, imaginary)


def view_as_real(self: Tensor) -> Tensor:
    """The parts of complex numbers along a new last axis, `stack(x.real, x.imag)`: a copy. Raises DtypeError.

    >>> Tensor([1 + 2j]).view_as_real().tolist()
    [[1.0, 2.0]]
    """
    if not self.dtype.is_complex:
        raise DtypeError(f"view_as_real: the dtype is {self.dtype}; it needs complex numbers")
    return self.real.stack(self.imag, axis=-1)
