"""Common parts of special functions: series, explicit derivatives, arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

from rulegrad.errors import DtypeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import float32
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.operands import as_operand, broadcast_shapes, float_dtype, result_dtype

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor

Function = Callable[..., Any]


def chebyshev(t: Tensor, series: Sequence[float]) -> Tensor:
    """The Chebyshev series at t in [-1, 1], by Clenshaw's recurrence; float32 needs no term below 1e-9."""
    least = 1e-9 if t.dtype == float32 else 0.0
    count = max(k for k, c in enumerate(series) if abs(c) > least) + 1
    twice = t + t
    last = t * 0.0
    total = last + series[count - 1]
    for c in series[count - 2 : 0 : -1]:
        total, last = twice * total - last + c, total
    return t * total - last + series[0]


def horner(x: Tensor, factors: Sequence[float]) -> Tensor:
    """The polynomial with these factors, that of x**0 first."""
    total = x * 0.0 + factors[-1]
    for factor in factors[-2::-1]:
        total = total * x + factor
    return total


def sloped(x: Tensor, value: Function, slope: Function) -> Tensor:
    """`value(x)`, whose derivative by x is `slope(x)`, not what the steps of `value` have."""
    found: Tensor = value(x.detach())
    if not x.requires_grad:
        return found
    derivative: Tensor = slope(x)
    node = UOp("CUSTOM", (found.uop, x.uop, derivative.uop), name="rulegrad.sloped")
    return found._result(node, x, derivative)


def special(function: Function) -> Function:
    """A function of a tensor: integers become floats, and smaller floats than float32 are widened and rounded once."""

    @wraps(function)
    def of_tensor(input: Any, *arguments: Any, **options: Any) -> Any:
        x = real_tensor(input, function.__name__)
        wide, dtype = widened(x)
        return function(wide, *arguments, **options).cast(dtype)

    return of_tensor


def special_of_two(function: Function) -> Function:
    """A function of two tensors, or of a tensor and a number, which broadcast; otherwise as `special`."""

    # The annotations are its own: it takes numbers, too.
    @wraps(function, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def of_tensors(input: Any, other: Any) -> Any:
        name = function.__name__
        first, second = both(input, other, name)
        x, dtype = widened(first)
        y, _ = widened(second)
        return function(x, y).cast(dtype)

    return of_tensors


def both(input: Any, other: Any, name: str) -> tuple[Tensor, Tensor]:
    """Two operands as tensors of one float dtype and one shape. Raises DtypeError where neither is a tensor."""
    like: Any = next((x for x in (input, other) if isinstance(x, TensorCore)), None)
    if like is None:
        raise DtypeError(f"{name}: neither argument is a tensor; make one of them, as Tensor({input!r})")
    given = [as_operand(like, x, name) for x in (input, other)]
    dtype = float_dtype(result_dtype(*given))
    shape = broadcast_shapes(name, *(x.shape for x in given if isinstance(x, TensorCore)))
    first, second = (
        real_tensor(x, name).cast(dtype).expand(*shape)
        if isinstance(x, TensorCore)
        else like.full(shape, x, dtype, like.device)
        for x in given
    )
    return first, second


def real_tensor(x: Any, name: str) -> Tensor:
    """Raises DtypeError for a value that is not a tensor of real numbers."""
    if not isinstance(x, TensorCore):
        raise DtypeError(f"{name}: a {type(x).__name__} is not a tensor; give Tensor({x!r})")
    if x.dtype.is_complex:
        raise DtypeError(f"{name}: {x.dtype} is not real; this function is one of real numbers, as x.real or x.abs()")
    return x  # type: ignore[return-value]


def widened(x: Tensor) -> tuple[Tensor, Any]:
    """The tensor as floats of at least 32 bits, and the dtype of the result."""
    dtype = float_dtype(x.dtype)
    return x.cast(dtype if dtype.bits >= float32.bits else float32), dtype
