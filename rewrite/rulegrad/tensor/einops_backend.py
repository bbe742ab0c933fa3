"""einops' functions on tensors: `einops.rearrange(x, "b c h w -> b (h w) c")`.

einops asks the backends that it knows; this one is made known to it when it is imported, before or after us, so that
neither package needs the other.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
    from importlib.machinery import ModuleSpec
    from types import ModuleType
else:
    Loader = MetaPathFinder = object  # they say what methods there are, and take 5 ms to import

_MODULE: Final = "einops._backends"


def introduce() -> None:
    """Make the backend known to einops: now if it is imported already, else when it is. The latter is done once."""
    if _MODULE in sys.modules:
        _define(sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, _Watch())


class _Watch(MetaPathFinder):
    """Leaves every import to the finders behind it, but is told when einops' module is found."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != _MODULE:
            return None
        from importlib.util import find_spec  # late: it takes 5 ms, and few programs use einops

        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Defining(spec.loader)
        return spec


class _Defining(Loader):
    """einops' own loader, and then the backend."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _define(module)


def _define(backends: ModuleType) -> None:
    """einops finds its backends among the classes that derive from `AbstractBackend`."""
    from rulegrad.tensor.tensor import Tensor  # late: this is installed while Tensor is made

    class RulegradBackend(backends.AbstractBackend):  # type: ignore[name-defined, misc]
        framework_name = "rulegrad"

        def is_appropriate_type(self, tensor: object) -> bool:
            return isinstance(tensor, Tensor)

        def from_numpy(self, x: Any) -> Tensor:
            return Tensor(x)

        def to_numpy(self, x: Tensor) -> Any:
            return x.numpy()

        def arange(self, start: int, stop: int) -> Tensor:
            return Tensor.arange(start, stop)

        def transpose(self, x: Tensor, axes: Any) -> Tensor:
            return x.permute(axes)

        def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
            return tensors[0].stack(*tensors[1:])

        def add_axis(self, x: Tensor, new_position: int) -> Tensor:
            return x.unsqueeze(new_position)

        def tile(self, x: Tensor, repeats: Any) -> Tensor:
            return x.tile(repeats)

        def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
            return tensors[0].cat(*tensors[1:], axis=axis)

        def is_float_type(self, x: Tensor) -> bool:
            return x.dtype.is_inexact

        def einsum(self, pattern: str, *x: Tensor) -> Tensor:
            result: Tensor = Tensor.einsum(pattern, *x)
            return result

    # Somebody must hold the class: einops finds it by `__subclasses__`, which does not.
    backends.RulegradBackend = RulegradBackend  # type: ignore[attr-defined]
