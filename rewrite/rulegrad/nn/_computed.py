"""Attributes of a module that are computed from other tensors whenever they are read.

Python looks for properties in classes only, so a module that has such attributes gets a class of its own, whose base is
the class that it had.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from rulegrad.errors import ModuleError
from rulegrad.nn._module import Module

Read = Callable[[Any, str], Any]
Write = Callable[[Any, str, Any], None]


class Attribute(NamedTuple):
    """An attribute that is computed: its name, and the functions of a module and the name that read and set it."""

    name: str
    read: Read
    write: Write


def add(module: Module, attribute: Attribute) -> None:
    """From now on the attribute is computed; the module must not hold a value of that name."""
    _set_class(module, (*_attributes(type(module)), attribute))


def remove(module: Module, name: str) -> None:
    """The attribute is no longer computed, and has no value until one is set."""
    _set_class(module, tuple(attribute for attribute in _attributes(type(module)) if attribute.name != name))


def plain_class(module: Module) -> type[Module]:
    """The class of a module without what is computed."""
    return getattr(type(module), "_plain_class", type(module))


def reader(module: Module, name: str) -> Read | None:
    """The function that computes an attribute, or None where it is an ordinary one."""
    return next((attribute.read for attribute in _attributes(type(module)) if attribute.name == name), None)


def require_tensor(module: Module, name: str, operation: str) -> Any:
    """The tensor of an attribute that is to be computed. Raises ModuleError where there is none to take."""
    tensors = {found: kind for found, kind in module.__dict__.get("_kinds", {}).items() if kind != "temporary"}
    value = module.__dict__.get(name)
    if value is None or name not in tensors:
        raise ModuleError(
            f"{operation}: {type(module).__name__} has no parameter or buffer {name!r} of its own; it has {[*tensors]}"
        )
    return value


def read_only(module: Module, name: str, value: Any) -> None:
    """The setter of an attribute whose tensors cannot be found from a value: it raises ModuleError."""
    raise ModuleError(
        f"{type(module).__name__}.{name} is computed whenever it is read; change the tensors that it is computed from"
    )


def _attributes(cls: type[Module]) -> tuple[Attribute, ...]:
    found: tuple[Attribute, ...] = getattr(cls, "_attributes", ())
    return found


def _set_class(module: Module, attributes: tuple[Attribute, ...]) -> None:
    base: Any = plain_class(module)
    module.__class__ = _with(base, attributes) if attributes else base


@cache
def _with(base: Any, attributes: tuple[Attribute, ...]) -> type[Module]:
    written = {attribute.name: attribute.write for attribute in attributes}

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if name in written:
            written[name](self, name, value)
        else:
            base.__setattr__(self, name, value)

    body: dict[str, Any] = {attribute.name: _property(attribute) for attribute in attributes}
    body |= {
        "__module__": base.__module__,
        "__doc__": base.__doc__,
        "__setattr__": set_attribute,
        "__reduce_ex__": _reduced,
        "_plain_class": base,
        "_attributes": attributes,
    }
    return type(f"Parametrized{base.__name__}", (base,), body)


def _property(attribute: Attribute) -> property:
    return property(lambda self: attribute.read(self, attribute.name))


def _reduced(self: Any, protocol: int) -> tuple[Any, ...]:
    """How such a module is copied and pickled: the class is made anew."""
    return _made, (type(self)._plain_class, type(self)._attributes), self.__dict__


def _made(base: Any, attributes: tuple[Attribute, ...]) -> Module:
    made: Module = object.__new__(_with(base, attributes))
    return made
