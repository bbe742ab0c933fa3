"""PyTorch's `out=`: tensors that take the values of a result."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from rulegrad.errors import ShapeError
from rulegrad.tensor.operands import of_tensors

Function = TypeVar("Function")


def put(result: Any, out: Any) -> Any:
    """`out`, a tensor or several, with the values of the result; a tensor without elements gets its shape, too.

    Raises ShapeError for another shape.
    """
    for target, value in zip(out, result, strict=True) if isinstance(out, (list, tuple)) else [(out, result)]:
        if target.shape != value.shape and not target.size:
            target.resize_(value.shape)
        if target.shape != value.shape:
            raise ShapeError(
                f"out: a tensor of shape {target.shape} for a result of shape {value.shape}; make one alike"
            )
        target.copy_(value)
    return out


def taking_out(function: Function) -> Function:
    """A function that takes `out=` beside its own arguments, and tensors (`of_tensors`); a class stays as it is."""
    if not isinstance(function, FunctionType):
        return function
    inner: Callable[..., Any] = of_tensors(function)

    @functools.wraps(inner)
    def call(*arguments: Any, out: Any = None, **more: Any) -> Any:
        result = inner(*arguments, **more)
        return result if out is None else put(result, out)

    return call  # type: ignore[return-value]
