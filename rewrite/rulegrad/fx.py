"""The names of `torch.fx` that sources of models call: captures follow tensors, so functions need no mark here."""

from __future__ import annotations

from typing import Final, TypeVar

from rulegrad.support.torch_modules import modules_below

__all__ = ["wrap"]

__path__: list[str] = []  # `import rulegrad.fx.experimental.proxy_tensor` looks for it
__getattr__: Final = modules_below("fx")

_Function = TypeVar("_Function")


def __dir__() -> list[str]:
    return __all__


def wrap(function: _Function) -> _Function:
    """The function, or its name, as it is: to PyTorch's tracer it is one step.

    >>> wrap(len) is len
    True
    """
    return function


class GraphModule:
    """A module that PyTorch's tracer has made: nothing is one."""


class Proxy:
    """A value of PyTorch's tracer: nothing is one."""


class Tracer:
    """PyTorch's tracer of modules: nothing is one; `rulegrad.jit` captures functions."""
