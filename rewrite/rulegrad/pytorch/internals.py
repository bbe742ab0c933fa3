"""`torch._C`: what packages call of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["_disabled_torch_function_impl", "_log_api_usage_once"]


def _log_api_usage_once(event: str) -> None:
    """Nothing: PyTorch counts here which of its parts are used."""


def _disabled_torch_function_impl(
    cls: type,
    func: Callable[..., Any],
    types: Sequence[type],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """The call as it is: what subclasses of tensors have as `__torch_function__` so that nothing is special."""
    return func(*args, **(kwargs or {}))
