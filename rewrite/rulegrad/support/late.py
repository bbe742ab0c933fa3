"""Names of a package that are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def late_names(
    package: str, modules: Mapping[str, str], changed: Callable[[Any], Any] = lambda value: value
) -> Callable[[str], Any]:
    """A package's `__getattr__`, for names that are in modules of it.

    modules: by the name of a module in the package, what the package has of it, with spaces between. The modules are
    names of it too. changed: what the package has in the place of such a value.

    >>> get = late_names("rulegrad.tensor.linalg", {"products": "matmul"})
    >>> get("matmul") is get("products").matmul
    True
    """
    places = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name in places:
            value = changed(getattr(importlib.import_module(f"{package}.{places[name]}"), name))
        elif name in modules:
            value = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return get
