"""Arguments of the namespace's functions: arrays, Python scalars, axes and shapes. Functions made of rows."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from rulegrad.errors import DtypeError, ShapeError
from rulegrad.ir.dtype import DType
from rulegrad.tensor import Tensor
from rulegrad.tensor.axes import integers, one_axis
from rulegrad.tensor.operands import result_dtype

#: The arrays of this namespace are the library's tensors.
Array: TypeAlias = Tensor
Axis: TypeAlias = "int | tuple[int, ...] | None"

Others = ParamSpec("Others")
Result = TypeVar("Result")

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


def ordered(x: Any, operation: str) -> Tensor:
    """An array whose elements have an order. Raises DtypeError for complex ones."""
    values = array(x, operation)
    if is_complex(values.dtype):
        raise DtypeError(f"{operation}: {values.dtype} numbers have no order; take it of abs, real or imag")
    return values


def of_arrays(
    function: Callable[Concatenate[Tensor, Others], Result],
    parameters: str = "",
    check: Callable[[Any, str], Tensor] = array,
    *,
    arrays: str = "x",
    **defaults: Any,
) -> Callable[Concatenate[Tensor, Others], Result]:
    """A function of tensors, with its documentation, as one of the standard: of arrays that pass `check`.

    parameters: those of the standard beside the arrays, as in a signature: "axis * keepdims". arrays: the standard's
    names of those. defaults: the standard's, where they are others.
    """
    name, count = function.__name__, len(arrays.split())
    signature = _standard_signature(function, arrays.split(), parameters, defaults)
    places = sum(one.kind is not one.KEYWORD_ONLY for one in signature.parameters.values())
    names = {one.name for one in signature.parameters.values() if one.kind is not one.POSITIONAL_ONLY}

    def standard(*arguments: Any, **options: Any) -> Any:
        if not count <= len(arguments) <= places or not options.keys() <= names:
            try:
                signature.bind(*arguments, **options)
            except TypeError as error:
                raise TypeError(f"{name}: {error}; it takes {', '.join(signature.parameters)}") from None
        checked = [check(one, name) for one in arguments[:count]]
        return function(*checked, *arguments[count:], **(defaults | options))  # type: ignore[arg-type]

    standard.__name__ = standard.__qualname__ = name
    standard.__doc__ = function.__doc__
    standard.__module__ = sys._getframe(1).f_globals["__name__"]
    standard.__signature__ = signature  # type: ignore[attr-defined]
    return standard


def _standard_signature(
    function: Callable[..., Any], arrays: list[str], parameters: str, defaults: dict[str, Any]
) -> inspect.Signature:
    own = inspect.signature(function)

    def shown() -> Iterator[inspect.Parameter]:
        for name, one in zip(arrays, own.parameters.values()):
            yield one.replace(name=name, kind=one.POSITIONAL_ONLY)
        kind: Any = inspect.Parameter.POSITIONAL_ONLY if "/" in parameters else inspect.Parameter.POSITIONAL_OR_KEYWORD
        for word in parameters.split():
            if word in "/*":
                kind = inspect.Parameter.KEYWORD_ONLY if word == "*" else inspect.Parameter.POSITIONAL_OR_KEYWORD
            else:
                one = own.parameters[word]
                yield one.replace(kind=kind, default=defaults.get(word, one.default))

    return own.replace(parameters=[*shown()])


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
