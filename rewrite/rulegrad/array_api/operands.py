"""What the functions of the namespace are given: arrays, Python scalars, axes and shapes."""

from __future__ import annotations

from typing import Any, TypeAlias

from rulegrad.errors import DtypeError, ShapeError
from rulegrad.ir.dtype import DType
from rulegrad.tensor import Tensor
from rulegrad.tensor.axes import integers, one_axis
from rulegrad.tensor.operands import result_dtype

#: The arrays of this namespace are the library's tensors.
Array: TypeAlias = Tensor
Axis: TypeAlias = "int | tuple[int, ...] | None"

_SCALARS = (bool, int, float, complex)


def is_complex(dtype: DType) -> bool:
    """Whether `dtype` is complex64 or complex128."""
    return dtype.is_complex


def is_inexact(dtype: DType) -> bool:
    """Whether `dtype` is a real or complex floating-point dtype."""
    return dtype.is_float or is_complex(dtype)


def array(value: Any, operation: str) -> Tensor:
    """`value`, which must be an array. Raises DtypeError."""
    if isinstance(value, Tensor):
        return value
    raise DtypeError(
        f"{operation}: an argument is a {type(value).__name__}, and arrays of this namespace are Tensors; "
        "convert it with asarray"
    )


def pair(first: Any, second: Any, operation: str) -> tuple[Any, Any]:
    """Two operands, of which one may be a Python scalar; the first comes back as an array. Raises DtypeError."""
    if isinstance(first, Tensor) and isinstance(second, (Tensor, *_SCALARS)):
        return first, second
    if isinstance(first, _SCALARS) and isinstance(second, Tensor):
        return Tensor(first, result_dtype(second, first)), second
    odd = second if isinstance(first, Tensor) else first
    if isinstance(odd, _SCALARS):
        raise DtypeError(f"{operation}: both operands are Python scalars; make one an array with asarray")
    return array(first, operation), array(second, operation)


def need_dtype(x: Tensor, fits: bool, operation: str, wanted: str) -> Tensor:
    """`x`, when `fits` says that its dtype is one of those `wanted`. Raises DtypeError."""
    if not fits:
        raise DtypeError(f"{operation}: an array of dtype {x.dtype}; {wanted} are needed, convert it with astype")
    return x


def inexact(x: Any, operation: str) -> Tensor:
    """An array of a floating-point dtype, real or complex. Raises DtypeError."""
    found = array(x, operation)
    return need_dtype(found, is_inexact(found.dtype), operation, "floating-point values, real or complex,")


def real_float(x: Any, operation: str) -> Tensor:
    """An array of a real floating-point dtype. Raises DtypeError."""
    found = array(x, operation)
    return need_dtype(found, found.dtype.is_float, operation, "real floating-point values")


def whole_shape(shape: Any) -> tuple[int, ...]:
    """A shape given as an int or a sequence of ints. Raises ShapeError for anything else."""
    return integers((shape,), "shape")


def axes_of(axis: Any, rank: int, operation: str) -> tuple[int, ...]:
    """An axis, several, or None for all, counted from the front, in the order in which they were named."""
    if axis is None:
        return tuple(range(rank))
    numbers = axis if isinstance(axis, (tuple, list)) else (axis,)
    found = tuple(one_axis(number, rank, operation) for number in numbers)
    if len(set(found)) != len(found):
        raise ShapeError(f"{operation}: the axes {tuple(numbers)} name one axis twice; name each once")
    return found
