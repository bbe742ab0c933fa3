"""Elementwise arithmetic, comparison and selection, with NumPy's broadcasting and promotion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from rulegrad.errors import ConfigError, DtypeError, GraphError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType, as_dtype, bool_, float32, int8
from rulegrad.ir.limits import finfo
from rulegrad.tensor.constants import constant, filled
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.operands import as_operand, comparison_dtype, result_dtype, unified
from rulegrad.tensor.storage import fits, is_weak_scalar

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor

#: Whole powers up to this one are multiplications.
_LARGEST_UNROLLED_POWER = 4


def unary(self: Tensor, op: str) -> Tensor:
    return self._result(_node(op, (self.uop,), op.lower()))


def _node(op: str, sources: tuple[UOp, ...], name: str) -> UOp:
    """A node. Raises DtypeError for complex numbers where the op table does not have them for this op."""
    try:
        return UOp(op, sources)
    except GraphError:
        if any(as_dtype(source.dtype).is_complex for source in sources):
            message = f"{name}: not defined for complex numbers; take .real, .imag or .abs() first"
            raise DtypeError(message) from None
        raise


def binary(
    self: Tensor, op: str, other: Operand, name: str, swapped: bool = False, dtype: DType | None = None
) -> Tensor:
    """`self op other`, or `other op self` when `swapped`."""
    usual = _like(self, other, op, name) if dtype is None else None
    if usual is not None:
        uop = _node(op, (usual, self.uop) if swapped else (self.uop, usual), name)
        return self._result(uop, other) if isinstance(other, TensorCore) else self._result(uop)
    other = as_operand(self, other, name)
    pair = (other, self) if swapped else (self, other)
    uop = _node(op, tuple(unified(name, *pair, dtype=dtype)), name)
    return self._result(uop, other) if isinstance(other, TensorCore) else self._result(uop)


def _like(self: Tensor, other: Operand, op: str, name: str) -> UOp | None:
    """The node of an operand that needs no conversion: a tensor of this shape and dtype, or a number for floats."""
    dtype = self.dtype
    if type(other) in (float, int) and dtype.is_float:
        return constant(other, dtype, name)  # type: ignore[arg-type]
    if isinstance(other, TensorCore) and other.dtype is dtype:
        uop = other.uop
        return uop if uop.shape == self.shape else None
    return None


# ---- arithmetic ----


def add(self: Tensor, other: Operand, *, alpha: float = 1) -> Tensor:
    """`self + alpha * other`; integers wrap around, bools give their `or`.

    >>> Tensor([1, 2]).add(Tensor([10, 20])).tolist()
    [11, 22]
    """
    return binary(self, "ADD", other if alpha == 1 else as_operand(self, other, "add") * alpha, "add")


def sub(self: Tensor, other: Operand, *, alpha: float = 1, swapped: bool = False) -> Tensor:
    """`self - alpha * other` (`other - self` when `swapped`). Raises DtypeError for two bools, as NumPy does.

    >>> Tensor([5, 7]).sub(2).tolist()
    [3, 5]
    """
    if alpha != 1:
        other = as_operand(self, other, "sub") * alpha
    if self.dtype == bool_ and result_dtype(self, as_operand(self, other, "sub")) == bool_:
        raise DtypeError("sub: bools cannot be subtracted; use ^ (xor), or cast to an integer first")
    return binary(self, "SUB", other, "sub", swapped)


def mul(self: Tensor, other: Operand) -> Tensor:
    """`self * other`; integers wrap around, bools give their `and`.

    >>> Tensor([1, 2]).mul(Tensor([10, 20])).tolist()
    [10, 40]
    """
    return binary(self, "MUL", other, "mul")


def div(self: Tensor, other: Operand, *, rounding_mode: str | None = None, swapped: bool = False) -> Tensor:
    """`self / other`, true division; two integers give float32, as in PyTorch.

    rounding_mode: "floor" rounds down, as `floor_divide`; "trunc" rounds towards zero; integers then stay integers.
    Raises ConfigError for another one.

    >>> Tensor([1, 3]).div(2).tolist()
    [0.5, 1.5]
    """
    if rounding_mode is not None:
        return _rounded_quotient(self, other, swapped, rounding_mode)
    if self.dtype.is_inexact:
        return binary(self, "DIV", other, "div", swapped)
    other = as_operand(self, other, "div")
    dtype = result_dtype(self, other)
    if not dtype.is_inexact:
        dtype = result_dtype(dtype, 1.0)
    return binary(self, "DIV", other, "div", swapped, dtype)


def _rounded_quotient(self: Tensor, other: Operand, swapped: bool, mode: str) -> Tensor:
    if mode not in ("floor", "trunc"):
        raise ConfigError(f'div: rounding_mode={mode!r}; use "floor", "trunc" or None')
    below = self.floor_divide(other, swapped=swapped)
    if mode == "floor":
        return below
    if below.dtype.is_inexact:
        a, b = _exact_floats(self, other, below.dtype, swapped)
        return unary(a.div(b), "TRUNC").cast(below.dtype)
    # A negative quotient was rounded away from zero, unless it is exact.
    is_exact = self.mul(below).equal(other) if swapped else below.mul(other).equal(self)
    return below.add(below.less(0).logical_and(is_exact.logical_not()).cast(below.dtype))


@built_once
def floor_divide(self: Tensor, other: Operand, *, swapped: bool = False) -> Tensor:
    """`self // other`, rounded down; an integer divided by zero gives 0.

    Of floats the exact quotient is rounded, as in Python: `1.0 // 0.1` is 9. Infinities are the array API's: they
    give that of `self / other`, where NumPy has nan for `inf // 1`, and -1 for `1 // -inf`. Floats get no gradient.

    >>> Tensor([7, -7]).floor_divide(2).tolist()
    [3, -4]
    """
    other = as_operand(self, other, "floor_divide")
    dtype = result_dtype(self, other)
    if dtype == bool_:
        raise DtypeError("floor_divide: bools cannot be divided; cast to an integer first")
    if not dtype.is_inexact:
        return binary(self, "FLOORDIV", other, "floor_divide", swapped)
    a, b = (side.detach() for side in _exact_floats(self, other, dtype, swapped))
    rest = binary(a, "FMOD", b, "floor_divide")
    # a - rest is a multiple of b up to rounding, so the quotient is next to an integer.
    whole = unary(a.sub(rest).div(b), "ROUND")
    differs = rest.not_equal(0).bitwise_and(rest.less(0).not_equal(b.less(0)))
    whole = differs.where(whole.sub(1), whole)
    quotient = a.div(b)
    finite = b.not_equal(0)
    for side in (a, b):
        finite = finite.bitwise_and(unary(side, "ABS").less_equal(finfo(a.dtype).max))
    return finite.where(whole.equal(0).where(quotient.mul(0.0), whole), quotient).cast(dtype)


@built_once
def remainder(self: Tensor, other: Operand, *, swapped: bool = False) -> Tensor:
    """`self % other`, with the sign of the divisor, exactly, as in Python; an integer modulo zero gives 0.

    >>> Tensor([7, -7]).remainder(3).tolist()
    [1, 2]
    """
    other = as_operand(self, other, "remainder")
    dtype = result_dtype(self, other)
    if dtype == bool_:
        raise DtypeError("remainder: bools cannot be divided; cast to an integer first")
    if not dtype.is_inexact:
        return binary(self, "FLOORMOD", other, "remainder", swapped)
    a, b = _floats(self, other, dtype, swapped)
    rest = binary(a, "FMOD", b, "remainder")
    moved = rest.less(0).not_equal(b.less(0)).where(rest.add(b), rest)
    # A zero has the divisor's sign. 0 - (rest - rest) is that zero, with the gradient of the rest.
    zero = b.less(0).where(-0.0, 0.0).cast(dtype)
    return rest.equal(0).where(zero.sub(rest.detach().sub(rest)), moved)


def _floats(self: Tensor, other: Operand, dtype: DType, swapped: bool) -> tuple[Tensor, Tensor]:
    """Both operands as tensors of `dtype`, in the order in which they are meant."""
    second: Any = other
    if not isinstance(other, TensorCore):
        second = self._new(constant(second, dtype, "division"), None, self._device)
    pair = (self.cast(dtype), second.cast(dtype))
    return pair[::-1] if swapped else pair


def _exact_floats(self: Tensor, other: Operand, dtype: DType, swapped: bool) -> tuple[Tensor, Tensor]:
    """The same, smaller floats as float32: an integer is made of the exact quotient, not of a rounded one."""
    a, b = _floats(self, other, dtype, swapped)
    return (a.cast(float32), b.cast(float32)) if dtype.bits < float32.bits else (a, b)


@built_once
def pow(self: Tensor, exponent: Operand, *, swapped: bool = False) -> Tensor:
    """`self ** exponent`. Whole exponents up to 4 are multiplications, 0.5 is a square root.

    Raises DtypeError for an integer to a negative Python exponent: cast to a float first.

    >>> Tensor([2, 3]).pow(3).tolist()
    [8, 27]
    """
    exponent = as_operand(self, exponent, "pow")
    dtype = result_dtype(self, exponent)
    if dtype == bool_:
        dtype = int8
    if swapped or not is_weak_scalar(exponent):
        return binary(self, "POW", exponent, "pow", swapped, dtype)
    value: Any = exponent
    if not dtype.is_inexact and value < 0:
        raise DtypeError(f"pow: {self.dtype} to the power {value} is not an integer; cast to a float first")
    base = self.cast(dtype)
    if isinstance(value, complex):
        return binary(base, "POW", value, "pow")
    if abs(value) <= _LARGEST_UNROLLED_POWER and value == int(value):
        return _whole_power(base, int(value))
    return unary(base, "SQRT") if value == 0.5 else binary(base, "POW", value, "pow")


def _whole_power(self: Tensor, exponent: int) -> Tensor:
    if exponent == -1:
        return unary(self, "RECIPROCAL")
    if exponent < 0 or (exponent == 0 and self._requires_grad):
        return binary(self, "POW", exponent, "pow")  # whose gradient is right at 0 and infinities, too
    if exponent == 0:
        return self._new(filled(self.shape, 1, self.dtype), None, self._device)
    if exponent == 1:
        return self._same()
    half = _whole_power(self, exponent // 2)
    square = half.mul(half)
    return square.mul(self) if exponent % 2 else square


def neg(self: Tensor) -> Tensor:
    """`-self`. Raises DtypeError for bools, as NumPy does.

    >>> Tensor([1, -2]).neg().tolist()
    [-1, 2]
    """
    if self.dtype == bool_:
        raise DtypeError("neg: a bool has no negative; use ~ (not), or cast to an integer first")
    return unary(self, "NEG")


def maximum(self: Tensor, other: Operand) -> Tensor:
    """The larger of the two elements; nan when either is nan.

    >>> Tensor([1, 5]).maximum(Tensor([3, 4])).tolist()
    [3, 5]
    """
    return binary(self, "MAX", other, "maximum")


def minimum(self: Tensor, other: Operand) -> Tensor:
    """The smaller of the two elements; nan when either is nan.

    >>> Tensor([1, 5]).minimum(Tensor([3, 4])).tolist()
    [1, 4]
    """
    return binary(self, "MIN", other, "minimum")


@built_once
def clip(self: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """The values limited to `min … max`; either may be None, for no limit on that side.

    A Python int below all values of an integer dtype, or above them, does not limit on its side.

    >>> Tensor([-2, 1, 9]).clip(0, 5).tolist()
    [0, 1, 5]
    """
    result = self._same() if min is None or _is_beyond(self, min, -1) else _at_limit(self, "MAX", min)
    return result if max is None or _is_beyond(self, max, 1) else _at_limit(result, "MIN", max)


def _at_limit(self: Tensor, op: str, limit: Operand) -> Tensor:
    """The larger (smaller) one of the element and the limit; of equal ones the element, which has the gradient."""
    found = binary(self, op, limit, "clip")
    return self.equal(limit).where(self, found).cast(found.dtype) if found._requires_grad else found


def _is_beyond(self: Tensor, value: Any, side: int) -> bool:
    """Whether a Python int is below (-1) or above (1) all values of this tensor's integer dtype."""
    if not self.dtype.is_integer or not is_weak_scalar(value) or not isinstance(value, int):
        return False
    return not fits(value, self.dtype) and (value > 0) == (side > 0)


@built_once
def clamp(self: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """PyTorch's name of `clip`; of floats, limits in tensors of integers are taken in the floats' dtype, as there.

    >>> Tensor([-2, 1, 9]).clamp(min=0).tolist()
    [0, 1, 9]
    """
    limits: list[Any] = [None if limit is None else as_operand(self, limit, "clamp") for limit in (min, max)]
    if self.dtype.is_float:
        limits = [x.cast(self.dtype) if hasattr(x, "uop") and not x.dtype.is_inexact else x for x in limits]
    return self.clip(*limits)


# ---- selection ----


@overload
def where(self: Tensor) -> tuple[Tensor, ...]: ...
@overload
def where(self: Tensor, chosen: Operand, otherwise: Operand) -> Tensor: ...
@built_once
def where(self: Tensor, chosen: Operand | None = None, otherwise: Operand | None = None) -> Any:
    """`chosen` where this tensor of bools is true, `otherwise` elsewhere; `Tensor.where(condition, a, b)` as well.

    PyTorch's `x.where(condition, otherwise)` has the condition second: this is meant where `x` is of numbers and
    `chosen` of bools. The condition alone gives the places where it is not 0, as `nonzero(as_tuple=True)`. Raises
    DtypeError where neither is of bools, and ShapeError.

    >>> from rulegrad import Tensor
    >>> x = Tensor([-1.0, 2.0])
    >>> Tensor.where(x > 0, x, 0).tolist(), x.where(x > 0, 0).tolist()
    ([0.0, 2.0], [0.0, 2.0])
    """
    if chosen is None and otherwise is None:
        places: Any = self
        return places.nonzero(as_tuple=True)
    if chosen is None or otherwise is None:
        raise TypeError("where: one of the two values is missing; give both, or the condition alone")
    return _chosen(self, chosen, otherwise)


@built_once
def _chosen(self: Tensor, chosen: Operand, otherwise: Operand) -> Tensor:
    if self.dtype != bool_:
        condition = as_operand(self, chosen, "where")
        if not isinstance(condition, TensorCore) or condition.dtype != bool_:
            raise DtypeError(f"where: the condition is {self.dtype}; compare it (x != 0), or cast it to bool")
        return _chosen(condition, self, otherwise)  # type: ignore[arg-type]
    values = [as_operand(self, value, "where") for value in (chosen, otherwise)]
    dtype = result_dtype(*values)
    tensors = [value for value in values if isinstance(value, TensorCore)]
    # One call of `unified` gives one shape; the condition has a dtype of its own.
    sources = unified("where", self, *values, dtype=dtype, kept=(0,))
    return self._result(UOp("WHERE", tuple(sources)), *tensors)


# ---- comparison ----


def _compare(self: Tensor, op: str, other: Operand, name: str, swapped: bool = False) -> Tensor:
    other = as_operand(self, other, name)
    dtype = comparison_dtype(self, other)
    if is_weak_scalar(other) and dtype.is_integer and isinstance(other, int) and not fits(other, dtype):
        # No value of the dtype equals it, and all are on one side of it.
        below = other > 0
        answer = {"CMPEQ": False, "CMPNE": True}.get(op, below != swapped)
        return self._new(filled(self.shape, answer, bool_), None, self._device)
    return binary(self, op, other, name, swapped, dtype)


@built_once
def equal(self: Tensor, other: Operand) -> Tensor:
    """`self == other`, a bool for each element.

    >>> Tensor([1, 2, 3]).equal(2).tolist()
    [False, True, False]
    """
    return _compare(self, "CMPEQ", other, "equal")


@built_once
def not_equal(self: Tensor, other: Operand) -> Tensor:
    """`self != other`, a bool for each element.

    >>> Tensor([1, 2, 3]).not_equal(2).tolist()
    [True, False, True]
    """
    return _compare(self, "CMPNE", other, "not_equal")


@built_once
def less(self: Tensor, other: Operand) -> Tensor:
    """`self < other`, a bool for each element.

    >>> Tensor([1, 2, 3]).less(2).tolist()
    [True, False, False]
    """
    return _compare(self, "CMPLT", other, "less")


@built_once
def less_equal(self: Tensor, other: Operand) -> Tensor:
    """`self <= other`, a bool for each element.

    >>> Tensor([1, 2, 3]).less_equal(2).tolist()
    [True, True, False]
    """
    return _compare(self, "CMPLE", other, "less_equal")


@built_once
def greater(self: Tensor, other: Operand) -> Tensor:
    """`self > other`, a bool for each element.

    >>> Tensor([1, 2, 3]).greater(2).tolist()
    [False, False, True]
    """
    return _compare(self, "CMPLT", other, "greater", swapped=True)


@built_once
def greater_equal(self: Tensor, other: Operand) -> Tensor:
    """`self >= other`, a bool for each element.

    >>> Tensor([1, 2, 3]).greater_equal(2).tolist()
    [False, True, True]
    """
    return _compare(self, "CMPLE", other, "greater_equal", swapped=True)
