"""Functions that run on the host: values out, NumPy, values in; and gradients that are given by a formula.

A result Y = f(X) is a buffer, which no graph connects with X. Its gradient is that of a *linear model*: a graph in X
that is linear, has constants made of Y, and has the derivative of f at this X. It is never computed, only
differentiated. So first derivatives are exact; where the constants depend on X, second ones are not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rulegrad.errors import RulegradError, ShapeError
from rulegrad.ir.dtype import as_dtype, float32, float64
from rulegrad.runtime.buffer import Buffer
from rulegrad.tensor.gradient_mode import gradients_enabled
from rulegrad.tensor.history import GradientPoint
from rulegrad.tensor.storage import upload

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor

    T = TypeVar("T", bound=Tensor)


class LinalgError(RulegradError, ValueError):
    """A matrix that has no inverse, or no such decomposition; or an iteration that did not end."""


def is_complex(x: Tensor) -> bool:
    """Whether the numbers are complex."""
    return x.dtype.is_complex


def supported(x: T) -> T:
    """`x` in a dtype that LAPACK has: integers as float64, small floats as float32."""
    if x.dtype.is_float:
        return x.cast(float32) if x.dtype.bits < float32.bits else x
    return x if is_complex(x) else x.cast(float64)


def rounded(result: T, like: Tensor) -> T:
    """The result for the small floats that `supported` made larger, in their dtype."""
    return result.cast(like.dtype) if like.dtype.is_float and result.dtype.is_float else result


def square(x: Tensor, operation: str) -> None:
    """Raises ShapeError unless `x` has square matrices."""
    matrices(x, operation)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{operation}: the matrices of shape {x.shape} are not square")


def matrices(x: Tensor, operation: str) -> None:
    """Raises ShapeError unless `x` has two axes or more."""
    if x.ndim < 2:
        raise ShapeError(f"{operation}: the shape {x.shape} has no rows and columns; give two axes or more")


def on_host(operation: str, function: Callable[..., Any], *operands: Tensor) -> Any:
    """What `function` makes of the operands' values (NumPy arrays). Raises LinalgError for NumPy's."""
    try:
        return function(*[x.detach().numpy() for x in operands])
    except np.linalg.LinAlgError as error:
        raise LinalgError(f"{operation}: {str(error)[:1].lower() + str(error)[1:]}") from None


def from_host(values: Array, like: T) -> T:
    """A tensor with these values on the device of `like`, without a gradient."""
    array = np.ascontiguousarray(values).reshape(np.shape(values))
    as_dtype(array.dtype)
    buffer = upload(array, like.device)
    return like._new(buffer.uop, buffer, buffer.device)


def tracks(*operands: Tensor) -> bool:
    """Whether results of these operands have a gradient."""
    return gradients_enabled() and any(x.requires_grad for x in operands)


def differentiated(result: T, model: Tensor) -> T:
    """`result`, which is in a buffer, with the gradient of `model`, which is linear in the operands."""
    if model.shape != result.shape or model.dtype != result.dtype:
        raise RulegradError(f"the model of shape {model.shape} is not one of a result of shape {result.shape}")
    buffer = Buffer.of(result.uop)
    result._history = GradientPoint(buffer.uop, buffer, source=model.uop, source_history=model._history)
    result._requires_grad = True
    return result


def no_gradient(operation: str, instead: str, *operands: Tensor) -> None:
    """Raises RulegradError when a gradient would be needed."""
    if tracks(*operands):
        raise RulegradError(f"{operation} has no gradient; use {instead}, or detach the operand first")
