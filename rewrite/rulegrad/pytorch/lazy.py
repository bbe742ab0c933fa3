"""`torch.nn.modules.lazy`: the base of layers of a program's own whose first input decides shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from rulegrad.errors import ModuleError
from rulegrad.nn._module import Module
from rulegrad.nn._uninitialized import UninitializedParameter

__all__ = ["LazyModuleMixin"]


def _shaped_by_state(module: Any, state_dict: Any, prefix: str, *_: Any) -> None:
    """Before a state is loaded: its tensors have the shapes."""
    for name, part in list(vars(module).items()):
        given = state_dict.get(prefix + name)
        if isinstance(part, UninitializedParameter) and given is not None:
            part.materialize(given.shape)


class LazyModuleMixin(Module):
    """The base, before `nn.Module`, of layers with `nn.UninitializedParameter`s that the first input gives shapes.

    The first call calls `initialize_parameters` with its arguments, whose work is to `materialize` the parameters. The
    layer is of the class `cls_to_become` from then on, where there is one. The call raises ModuleError where a
    parameter still has no shape.

    >>> from rulegrad import Tensor, nn
    >>> class Scale(LazyModuleMixin, nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.weight = nn.UninitializedParameter()
    ...     def initialize_parameters(self, x):
    ...         self.weight.materialize(x.shape[-1:])
    ...         nn.init.constant_(self.weight, 2.0)
    ...     def forward(self, x):
    ...         return x * self.weight
    >>> layer = Scale()
    >>> layer(Tensor([[1.0, 3.0]])).tolist(), layer.weight.shape
    ([[2.0, 6.0]], (2,))
    """

    cls_to_become: ClassVar[type[Any] | None] = None
    _load_hooks = (_shaped_by_state,)
    _waits = True

    def initialize_parameters(self, *arguments: Any, **more: Any) -> None:
        """Give the parameters shapes, by the arguments of the first call; a class says how."""
        raise ModuleError(f"{type(self).__name__} has no initialize_parameters; define it: it materializes parameters")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or a buffer of this layer has no shape yet."""
        return any(isinstance(part, UninitializedParameter) for part in vars(self).values())

    def _first_call(self, *arguments: Any, **more: Any) -> Any:
        if self._waits:
            self.initialize_parameters(*arguments, **more)
            if self.has_uninitialized_params():
                raise ModuleError(f"{type(self).__name__}.initialize_parameters has left parameters without a shape")
            self._waits = False
            if self.cls_to_become is not None:
                self.__class__ = self.cls_to_become
                return self(*arguments, **more)
        return self._call(*arguments, **more)

    __call__: Callable[..., Any] = _first_call
