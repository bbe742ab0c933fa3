"""The weights in TorchScript's archives: what `torch.jit.load(path).state_dict()` gives, without their code.

An object in such an archive is of a class whose code is another entry. That code is not run: of each class only the
two lines are read which list its parameters and buffers.
"""

from __future__ import annotations

import ast
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final

from rulegrad.nn._torch_pickle import Built, Name
from rulegrad.tensor.tensor import Tensor

_CLASS: Final = re.compile(r"^class (\w+)\(Module\):", re.MULTILINE)
_LISTED: Final = re.compile(r"^  __(?:parameters|buffers)__ = (\[.*\])$", re.MULTILINE)
#: Lists of one type and objects with their type, as TorchScript writes them.
_PLAIN: Final[dict[Name, Callable[..., Any]]] = {
    **{
        Name("torch.jit._pickle", f"build_{kind}list"): lambda values: values
        for kind in ("int", "double", "bool", "tensor")
    },
    Name("torch.jit._pickle", "restore_type_tag"): lambda value, _: value,
}


class ScriptModule(Built):
    """An object of a class whose state dict has these names."""

    def __init__(self, listed: list[str]) -> None:
        super().__init__()
        self._listed = listed

    def tensors(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """The state dict's items: the module's own, then those of the modules in it."""
        for name in self._listed:
            value = self.attributes.get(name)
            if isinstance(value, Tensor):
                yield prefix + name, value
        for name, value in self.attributes.items():
            if isinstance(value, ScriptModule):
                yield from value.tensors(f"{prefix}{name}.")


def constructors_of(module: str, code: str) -> dict[Name, Callable[..., Any]]:
    """Constructors for the classes in an entry, by name. module: the entry's path with dots, as pickles name it.

    >>> code = 'class Linear(Module):\\n  __parameters__ = ["weight", ]\\n  __buffers__ = []\\n'
    >>> made = constructors_of("__torch__.torch.nn.modules.linear", code)
    >>> [str(name) for name in made if name.name == "Linear"]
    ['__torch__.torch.nn.modules.linear.Linear']
    """
    found = dict(_PLAIN)
    _, *parts = _CLASS.split(code)
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        lists = (ast.literal_eval(line) for line in _LISTED.findall(body))
        listed = [item for items in lists for item in items if isinstance(item, str)]
        found[Name(module, name)] = lambda listed=listed: ScriptModule(listed)
    return found


def state_of(value: ScriptModule) -> OrderedDict[str, Tensor]:
    """The state dict of a module that was read."""
    return OrderedDict(value.tensors())
