"""A module's own parts by name, as in PyTorch's `module._modules`, `_parameters` and `_buffers`."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from rulegrad.nn._walking import Kind, Walked
from rulegrad.tensor.tensor import Tensor


class Held(MutableMapping[str, Any]):
    """The attributes of some kinds: a view, by which they are set and deleted, too.

    >>> from rulegrad import nn
    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    >>> model._modules["1"] = nn.Tanh()
    >>> model[1], list(model[0]._parameters)
    (Tanh(), ['weight', 'bias'])
    """

    def __init__(self, module: Any, kinds: tuple[Kind, ...]) -> None:
        self._module, self._kinds = module, kinds

    def _items(self) -> dict[str, Any]:
        parts = self._module._walked()
        if not self._kinds:
            return {name: part for name, part in parts.items() if isinstance(part, Walked)}
        kinds = vars(self._module).get("_kinds", {})
        return {name: part for name, part in parts.items() if self._is_one(kinds, name, part)}

    def _is_one(self, kinds: dict[str, Kind], name: str, part: Any) -> bool:
        if isinstance(part, Tensor):
            return self._module._kind_of(name, part) in self._kinds
        return part is None and kinds.get(name) in self._kinds

    def __getitem__(self, name: str) -> Any:
        return self._items()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if not self._kinds:
            self._module.add_module(name, value)
        elif "parameter" in self._kinds:
            self._module.register_parameter(name, value)
        else:
            persistent = vars(self._module).get("_kinds", {}).get(name) != "temporary"
            self._module.register_buffer(name, value, persistent)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        delattr(self._module, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._items())

    def __len__(self) -> int:
        return len(self._items())

    def __repr__(self) -> str:
        return repr(self._items())


class HeldBy:
    """The attribute of a class that gives the view; an attribute of this name that a module sets itself comes first."""

    def __init__(self, *kinds: Kind) -> None:
        self._kinds = kinds

    def __get__(self, module: Any, owner: type) -> Any:
        return self if module is None else Held(module, self._kinds)
