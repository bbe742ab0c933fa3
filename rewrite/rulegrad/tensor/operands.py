"""Conversion of operands to nodes of one dtype and one shape.

Of an integer and a float dtype the float's wins, as in PyTorch; else dtypes follow NumPy's promotion. Python numbers
are weak: they take the dtype of the tensor they meet unless their kind is higher (an int tensor and a Python float give
float32, the dtype of a Python float). Shapes follow NumPy's broadcasting.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import numpy as np

from rulegrad.errors import DtypeError, GradientError, ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType, as_dtype, bool_, complex64, int64, promote
from rulegrad.tensor.constants import constant
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.gradient_mode import gradients_enabled
from rulegrad.tensor.storage import Scalar, default_complex, default_float, fits, is_weak_scalar, scalar_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    #: What may stand beside a tensor in an operation.
    Operand: TypeAlias = "TensorCore | Scalar | NDArray[Any] | np.generic"


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=TensorCore)


def result_dtype(*operands: Any) -> DType:
    """The dtype of an operation on tensors (or dtypes) and Python numbers.

    >>> from rulegrad import Tensor
    >>> result_dtype(Tensor([1], dtype="int8"), 2), result_dtype(Tensor([1.0]), 2.5)
    (DType('int8'), DType('float32'))
    """
    found: list[DType] = []
    weak = []
    for x in operands:
        if is_weak_scalar(x):
            weak.append(x)
        else:
            own = x.dtype if isinstance(x, TensorCore) else as_dtype(x)
            if own not in found:
                found.append(own)
    if not found:
        return max(map(scalar_dtype, weak), key=lambda kind: (kind.is_complex, kind.is_float, kind.is_integer))
    dtype = found[0] if len(found) == 1 else promote(*found)
    for value in weak:
        if isinstance(value, complex):
            dtype = promote(dtype, complex64) if dtype.is_inexact else default_complex()
        elif isinstance(value, float) and not dtype.is_inexact:
            dtype = default_float()
        elif not isinstance(value, bool) and dtype == bool_:
            dtype = int64
    return dtype


def float_dtype(dtype: DType) -> DType:
    """The dtype of sqrt, exp, … of `dtype`: floats and complex numbers keep theirs, integers give float32."""
    return dtype if dtype.is_inexact else default_float()


def broadcast_shapes(operation: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all `shapes` broadcast to. Raises ShapeError."""
    rank = max(map(len, shapes))
    result = []
    for axis in range(-rank, 0):
        extents = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(extents) > 1:
            listed = " and ".join(map(str, shapes))
            raise ShapeError(
                f"{operation}: the shapes {listed} do not broadcast: axis {axis} has "
                f"{' and '.join(map(str, sorted(extents)))} elements; reshape one, or expand axes of size 1"
            )
        result.append(extents.pop() if extents else 1)
    return tuple(result)


def expand_to(uop: UOp, shape: tuple[int, ...]) -> UOp:
    """`uop` broadcast to `shape`, which must be possible. A CONST stays a scalar, which broadcasts by itself."""
    own = uop.shape
    if own == shape or uop.op == "CONST":
        return uop
    if len(own) < len(shape):
        own = (1,) * (len(shape) - len(own)) + own
        uop = UOp("RESHAPE", (uop,), shape=own)
    return uop if own == shape else UOp("EXPAND", (uop,), shape=shape)


def cast_to(uop: UOp, dtype: DType) -> UOp:
    """`uop` converted to `dtype`. Raises DtypeError for complex numbers that are to become real."""
    require_castable(as_dtype(uop.dtype), dtype)
    return uop if uop.dtype == dtype else UOp("CAST", (uop,), dtype)


def require_castable(source: DType, target: DType) -> None:
    """Raises DtypeError for complex numbers that are to become real; to bool they may be cast."""
    if source.is_complex and not (target.is_complex or target == bool_):
        raise DtypeError(f"cast: {source} has no order or sign as {target}; take .real, .imag or .abs() first")


def is_operand(value: object) -> bool:
    """Whether operators compute with `value` themselves: a tensor, a number, a list, or what gives NumPy an array.

    A class with `__array_ufunc__` has operators of its own for arrays (NEP 13): a DataFrame, a DataArray.
    """
    if isinstance(value, (TensorCore, np.ndarray, np.generic, list, tuple)) or is_weak_scalar(value):
        return True
    return hasattr(value, "__array__") and not hasattr(value, "__array_ufunc__")


def defers_to(value: object, method: str) -> bool:
    """Whether an operator is left to its other operand, which has `method` for it, such as `__radd__`."""
    # Every object has `__lt__` and the like, which say nothing.
    return not is_operand(value) and getattr(type(value), method, None) is not getattr(object, method, None)


def as_operand(like: TensorCore, value: Any, operation: str) -> Any:
    """`value` as a tensor on the device of `like`, or as the Python number that it is. Raises DtypeError."""
    if isinstance(value, TensorCore):
        return value
    if is_weak_scalar(value):
        return value.item() if isinstance(value, np.generic) else value
    if hasattr(value, "__array__") or isinstance(value, (list, tuple)):
        if getattr(value, "requires_grad", False):
            raise GradientError(
                f"{operation}: an operand is a {type(value).__module__} tensor that requires a gradient, which would "
                "be lost; use its detach()"
            )
        return type(like)(value, device=like._device or None)
    raise DtypeError(f"{operation}: an operand is a {type(value).__name__}; use a tensor, a NumPy array or a number")


def as_tensor(like: T, value: Any, operation: str) -> T:
    """`value`, a tensor, a NumPy array or a list, as a tensor on the device of `like`. Raises DtypeError."""
    found = as_operand(like, value, operation)
    if isinstance(found, TensorCore):
        return found  # type: ignore[return-value]
    raise DtypeError(f"{operation}: an operand is the number {value}; use a tensor")


def with_nothing_of(result: Any, value: Any) -> Any:
    """The result, in which there is no element of an empty `value`: its gradient is zero then, and not missing."""
    is_tracked = isinstance(value, TensorCore) and value._requires_grad and gradients_enabled()
    return result + value.sum().cast(result.dtype) if is_tracked and result.dtype.is_inexact else result


def tensors_of(first: T | Iterable[T], others: Sequence[Any], operation: str) -> list[T]:
    """The tensors of `f(a, b)` and of `f([a, b])` alike; arrays and lists beside a tensor become tensors."""
    given = [*(first if isinstance(first, Iterable) and not isinstance(first, TensorCore) else [first]), *others]
    like: Any = next((one for one in given if isinstance(one, TensorCore)), None)
    if like is None:
        raise ShapeError(f"{operation}: there is no tensor among the {len(given)} arguments; give at least one")
    return [as_tensor(like, one, operation) for one in given]


def of_tensors(function: F) -> F:
    """A function that is given tensors for the parameters that are annotated as tensors.

    Arrays and lists beside a tensor become tensors. Raises DtypeError for numbers and what else is not a tensor.
    """
    wanted = [name for name, kind in function.__annotations__.items() if kind in ("Tensor", "Tensor | None")]
    order = list(inspect.signature(function).parameters)
    operation = function.__name__

    @functools.wraps(function)
    def checked(*arguments: Any, **more: Any) -> Any:
        given = {**dict(zip(order, arguments)), **more}
        wrong = {name: given[name] for name in wanted if not isinstance(given.get(name), (TensorCore, type(None)))}
        if not wrong:
            return function(*arguments, **more)
        like: Any = next((value for value in given.values() if isinstance(value, TensorCore)), None)
        if like is None:
            (name, value), *_ = wrong.items()
            raise DtypeError(f"{operation}: {name} is a {type(value).__name__}; use a tensor")
        given.update({name: as_tensor(like, value, operation) for name, value in wrong.items()})
        return function(*(given[name] for name, _ in zip(order, arguments)), **{name: given[name] for name in more})

    return cast("F", checked)


def number_of(value: Any, operation: str) -> tuple[Any, DType]:
    """A Python number and the dtype it stands for: that of a NumPy number or a tensor without axes is its own.

    But np.float64 is a Python float.
    """
    if is_weak_scalar(value):
        return value.item() if isinstance(value, np.generic) else value, scalar_dtype(value)
    if getattr(value, "ndim", None) != 0 or not hasattr(value, "dtype"):
        shown = f"shape {value.shape}" if hasattr(value, "shape") else f"type {type(value).__name__}"
        raise DtypeError(
            f"{operation}: a value of {shown} is not one number; give an int, a float, a bool or a complex"
        )
    return value.item(), as_dtype(value.dtype)


def unified(operation: str, *operands: Any, dtype: DType | None = None, kept: Sequence[int] = ()) -> list[UOp]:
    """The nodes of tensors and Python numbers, of one dtype (the promoted one, or `dtype`) and one shape.

    The operands at the positions `kept` (the condition of a `where`) keep their dtypes.
    """
    if dtype is None:
        dtype = result_dtype(*operands)
    shapes = {x.shape: None for x in operands if isinstance(x, TensorCore)}
    shape = broadcast_shapes(operation, *shapes) if len(shapes) > 1 else next(iter(shapes))
    nodes = []
    for position, x in enumerate(operands):
        if isinstance(x, TensorCore):
            nodes.append(expand_to(x.uop if position in kept else cast_to(x.uop, dtype), shape))
        else:
            nodes.append(constant(x, dtype, operation))
    return nodes


def comparison_dtype(first: Any, second: Any) -> DType:
    """The dtype in which two operands are compared: a Python int that does not fit the other's makes it int64."""
    dtype = result_dtype(first, second)
    if dtype.is_integer and dtype.bits < int64.bits:
        for value in (first, second):
            if is_weak_scalar(value) and not fits(int(value), dtype) and fits(int(value), int64):
                return int64
    return dtype


def taking_old_order(function: F) -> F:
    """A function of a tensor, of other tensors and of a factor by name, which takes the factor in front of these too.

    This is the order of PyTorch before 1.5, which optimizers of that time are written in.
    """
    signature = inspect.signature(function)
    names = [name for name, one in signature.parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    factor = next(name for name, one in signature.parameters.items() if one.kind is one.KEYWORD_ONLY)

    @functools.wraps(function)
    def method(*arguments: Any, **more: Any) -> Any:
        if len(arguments) == len(names) + 1 and is_weak_scalar(arguments[1]):
            return function(arguments[0], *arguments[2:], **{factor: arguments[1]}, **more)
        return function(*arguments, **more)

    return cast("F", method)
