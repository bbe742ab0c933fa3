"""Methods of tensors as functions whose tensors have PyTorch's names: `F.linear(input=x, weight=w)`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

M = TypeVar("M", bound=Callable[..., Any])


def function_of(method: M, names: str = "input") -> M:
    """The method as a function, which takes its first arguments under these names too.

    >>> linear = function_of(Tensor.linear)
    >>> linear(input=Tensor([[1.0, 2.0]]), weight=Tensor([[3.0, 4.0]])).tolist()
    [[11.0]]
    """
    own = dict(zip(names.split(), inspect.signature(method).parameters))

    @functools.wraps(method)
    def function(*arguments: Any, **more: Any) -> Any:
        if more:
            for name in own.keys() & more.keys():
                more[own[name]] = more.pop(name)
        return method(*arguments, **more)

    renamed = {parameter: name for name, parameter in own.items()}
    signature = inspect.signature(method)
    parameters = [one.replace(name=renamed.get(name, name)) for name, one in signature.parameters.items()]
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return function  # type: ignore[return-value]
