"""`torch.library`: operations of a program's own, which are called by `torch.ops.NAMESPACE.NAME`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from rulegrad.errors import ConfigError
from rulegrad.pytorch.autograd import Function

__all__ = ["CustomOpDef", "custom_op", "ops", "register_autograd", "register_fake", "register_kernel"]

_known: dict[str, CustomOpDef] = {}


class CustomOpDef:
    """An operation: the function that computes it, with a gradient once `register_autograd` gave it one."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = name
        self._function = function
        self._differentiated: type[Function] | None = None
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results."""
        if self._differentiated is None or kwargs:
            return self._function(*args, **kwargs)
        return self._differentiated.apply(*args)

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Any = None) -> None:
        """From now on its gradients are those of `backward(ctx, *gradients)`; setup_context(ctx, inputs, output)."""
        members: dict[str, Any] = {"forward": staticmethod(self._function), "backward": staticmethod(backward)}
        members["setup_context"] = staticmethod(setup_context or (lambda ctx, inputs, output: None))
        self._differentiated = type(self._name.replace("::", "_"), (Function,), members)

    def register_fake(self, function: Callable[..., Any], /) -> Callable[..., Any]:
        """Not needed: shapes are those of what the operation computes."""
        return function

    def register_kernel(self, device_types: Any, function: Any = None, /) -> Any:
        """Not needed: the operation is computed by rules on each device, as any function is."""
        return (lambda found: found) if function is None else function


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Sequence[str] = (),
    device_types: Any = None,
    schema: str | None = None,
) -> Any:
    """An operation NAMESPACE::NAME that a function computes; without one, a decorator.

    Raises ConfigError for one that changes its arguments: return the new values.

    >>> from rulegrad import Tensor
    >>> @custom_op("documentation::twice", mutates_args=())
    ... def twice(x: Tensor) -> Tensor:
    ...     return x * 2
    >>> twice.register_autograd(lambda ctx, gradient: gradient * 2)
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> y = ops.documentation.twice(x); _ = y.sum().backward()
    >>> y.tolist(), x.grad.tolist()
    ([2.0, 4.0], [2.0, 2.0])
    """
    if fn is None:
        return lambda function: custom_op(name, function, mutates_args=mutates_args)
    if "::" not in name:
        raise ConfigError(f"custom_op: {name!r}; write NAMESPACE::NAME")
    if mutates_args and mutates_args != "unknown":
        raise ConfigError(f"custom_op: {name} would change {mutates_args}; let it return the new values")
    _known[name] = CustomOpDef(name, fn)
    return _known[name]


def _named(op: Any) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    if op not in _known:
        raise ConfigError(f"torch.library: no operation is called {op!r}; custom_op makes one")
    return _known[op]


def register_autograd(op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Any = None) -> None:
    """`CustomOpDef.register_autograd` of an operation, or of its name. Raises ConfigError."""
    _named(op).register_autograd(backward, setup_context=setup_context)


def register_fake(op: Any, func: Any = None, /, **more: Any) -> Any:
    """Not needed: shapes are those of what the operation computes."""
    return (lambda found: found) if func is None else func


register_kernel = register_fake


class _Namespace:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> CustomOpDef:
        found = _known.get(f"{self._name}::{name}")
        if found is None:
            raise AttributeError(f"torch.ops has no {self._name}.{name}: torch.library.custom_op makes operations")
        return found


class _Overload:
    """`torch.ops.aten.NAME.default`: the function of `torch` of that name."""

    def __init__(self, packet: _Packet, name: str) -> None:
        self._packet, self._overload = packet, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._packet(*args, **kwargs)

    def __repr__(self) -> str:
        return f"aten.{self._packet._name}.{self._overload}"


class _Packet:
    """`torch.ops.aten.NAME`: its overloads are one function here, which finds out by itself what it is given."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> _Overload:
        if name.startswith("_"):
            raise AttributeError(name)
        found = _Overload(self, name)
        setattr(self, name, found)
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of `torch.NAME`. Raises ConfigError where there is none."""
        names = sys.modules["rulegrad"]
        function = getattr(names, self._name, None) or getattr(names.Tensor, self._name, None)
        if function is None:
            raise ConfigError(f"torch.ops.aten.{self._name}: there is no function of this name; use those of rulegrad")
        return function(*args, **kwargs)


class _Aten(_Namespace):
    """PyTorch's own operations, which programs name where they say what their tensors do."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = _Packet(name)
        setattr(self, name, found)
        return found


class _Operations:
    """`torch.ops`: the operations by their namespaces."""

    def load_library(self, path: Any) -> None:
        """Raises OSError, as where the file cannot be loaded: it has operations for PyTorch's own tensors.

        Packages such as torchvision then go without their operations in C++.
        """
        raise OSError(f"{path}: operations in C++ for PyTorch's tensors; write them with torch.library.custom_op")

    def import_module(self, module: str) -> None:
        """Imports a module that makes operations."""
        importlib.import_module(module)

    def __getattr__(self, name: str) -> _Namespace:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Namespace(name)

    def __init__(self) -> None:
        self.aten = _Aten("aten")


ops = _Operations()
