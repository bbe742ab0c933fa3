"""`torch.compiler`: marks for PyTorch's compiler, which change nothing here. `rulegrad.jit` captures functions."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any


def is_compiling() -> bool:
    """False: functions are run, also while `rulegrad.jit` captures them."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def is_compile_supported(device_type: Any) -> bool:
    """False: what PyTorch would compile is run as it is."""
    return False


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function as it is; without one, a decorator.

    >>> disable(len) is disable()(len) is len
    True
    """
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """The function as it is."""
    return fn


assume_constant_result = allow_in_graph
#: A block in which mapped functions index by tensors, as they may here in any case.
TransformGetItemToIndex = nullcontext


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Nothing: a mark of a tensor that is changed in place, which captures here follow."""


class OptimizedModule:
    """A module that PyTorch has compiled: nothing is one, as `rulegrad.compile` gives the module itself."""
