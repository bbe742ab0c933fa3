"""Helpers of the table of methods: typed properties, and the names that methods have in help and in errors."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    Value = TypeVar("Value")

    class attribute(Generic[Value]):  # noqa: N801  (a property)
        """A property made from a function, whose type a type checker knows."""

        def __init__(self, read: Callable[[Any], Value], write: Callable[[Any, Any], None] | None = None) -> None: ...

        def __get__(self, instance: Any, owner: Any = None) -> Value: ...

        def __set__(self, instance: Any, value: Any) -> None: ...

else:
    attribute = property


def name_methods(name: str, *classes: type[Any]) -> None:
    """Name the functions of classes as methods of one, such as `Tensor.exp`, whichever module they are from."""
    for cls in classes:
        for method, row in vars(cls).items():
            function = getattr(row, "__func__", row)
            if isinstance(function, FunctionType) and not function.__qualname__.startswith(name):
                function.__qualname__ = f"{name}.{method}"
