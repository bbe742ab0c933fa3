"""`torch._C`: what packages call of it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rulegrad.ir.dtype import DType
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "DisableTorchFunctionSubclass",
    "DispatchKey",
    "DispatchKeySet",
    "_are_functorch_transforms_active",
    "_disabled_torch_function_impl",
    "_get_default_device",
    "_get_tracing_state",
    "_is_tracing",
    "_log_api_usage_once",
]


def _log_api_usage_once(event: str) -> None:
    """Nothing: PyTorch counts here which of its parts are used."""


def _are_functorch_transforms_active() -> bool:
    """Whether a function transform is at work that has no rule for an update in place: `vmap` here has one."""
    return False


def _get_tracing_state() -> None:
    """None: PyTorch's tracer is not at work."""


def _is_tracing() -> bool:
    """False: PyTorch's tracer is not at work."""
    return False


def _get_default_device() -> str:
    """The name of the device of tensors for which none is named."""
    return str(Tensor.zeros(1).device)


#: The class of the class of tensors.
_TensorMeta = type(Tensor)


class DispatchKey(enum.Flag):
    """Where PyTorch's dispatcher looks for an operation: names that packages put together, and nothing asks for."""

    AutocastCPU = enum.auto()
    AutocastCUDA = enum.auto()
    AutocastXPU = enum.auto()


#: A set of such keys; `DispatchKeySet(key) | DispatchKeySet(other)` is one of two.
DispatchKeySet = DispatchKey


class DisableTorchFunctionSubclass:
    """A block in which no class takes over what functions do: none does anywhere.

    >>> with DisableTorchFunctionSubclass():
    ...     Tensor([1.0]).exp().shape
    (1,)
    """

    def __enter__(self) -> None:
        """Nothing is to be done."""

    def __exit__(self, *error: object) -> None:
        """Nothing is to be undone."""


class _nn:  # noqa: N801  (PyTorch's name)
    """`torch._C._nn`: what packages call of it."""

    @staticmethod
    def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
        """The device, the dtype, and the options of a call of `to`; None for what it does not name.

        >>> _nn._parse_to("cpu", dtype="float32")[:2]
        ('cpu', 'float32')
        """
        device, dtype = kwargs.get("device"), kwargs.get("dtype")
        for one in args:
            if isinstance(one, Tensor):
                device, dtype = one.device, one.dtype
            elif isinstance(one, DType):
                dtype = one
            elif isinstance(one, str):
                device = one
        return device, dtype, bool(kwargs.get("non_blocking", False)), kwargs.get("memory_format")


def _disabled_torch_function_impl(
    cls: type,
    func: Callable[..., Any],
    types: Sequence[type],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """The call as it is: what subclasses of tensors have as `__torch_function__` so that nothing is special."""
    return func(*args, **(kwargs or {}))
