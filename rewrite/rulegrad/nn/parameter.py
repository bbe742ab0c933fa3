"""Parameters: the tensors of a module that are trained. They are plain tensors; a mark says what they are for."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from rulegrad.tensor.tensor import Tensor

__all__ = ["Parameter"]


def __dir__() -> list[str]:
    return __all__


#: By id. A parameter that is frozen no longer requires a gradient, and is a parameter all the same.
_marked: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()


def mark(tensor: Tensor) -> None:
    """From now on this tensor is a parameter, whether or not it requires a gradient."""
    _marked[id(tensor)] = tensor


class _KindOfTensor(type):
    def __instancecheck__(cls, item: Any) -> bool:
        return isinstance(item, Tensor) and (item._leaf or id(item) in _marked)


if TYPE_CHECKING:

    class Parameter(Tensor):
        """The interface of the class below."""

        def __init__(self, data: Any, requires_grad: bool = True) -> None: ...

else:

    class Parameter(metaclass=_KindOfTensor):
        """A tensor with the values of `data` that requires a gradient, unless `requires_grad` is False.

        Of a tensor it is a view, as in PyTorch: a step of an optimizer changes both.

        As an attribute of a `Module` it is found by `parameters` and `state_dict`. `isinstance(x, Parameter)` is also
        true of every other leaf with a gradient, which a module treats in the same way.

        >>> from rulegrad import Tensor, nn
        >>> scale = nn.Parameter(Tensor.ones(3))
        >>> scale.requires_grad, isinstance(scale, nn.Parameter), isinstance(scale * 2, nn.Parameter)
        (True, True, False)
        """

        def __new__(cls, data: Any, requires_grad: bool = True) -> Tensor:
            tensor = data.detach() if isinstance(data, Tensor) else Tensor(data)
            tensor.requires_grad = requires_grad
            mark(tensor)
            return tensor
