"""Parameters: the tensors of a module that are trained. They are plain tensors; a mark says what they are for."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Literal

from rulegrad.ir.dtype import int64
from rulegrad.nn._uninitialized import UninitializedBuffer, UninitializedParameter
from rulegrad.tensor.tensor import Tensor

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter"]


def __dir__() -> list[str]:
    return __all__


#: By id. A parameter that is frozen no longer requires a gradient, and is a parameter all the same.
_marked: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()


def mark(tensor: Tensor) -> None:
    """From now on this tensor is a parameter, whether or not it requires a gradient."""
    _marked[id(tensor)] = tensor


#: Buffers by id, until a module has them: the tensor, and whether it is part of the state.
_buffers: dict[int, tuple[weakref.ref[Tensor], bool]] = {}


def buffer_kind(tensor: Tensor) -> Literal["buffer", "temporary"] | None:
    """Whether a `Buffer` is persistent ("buffer") or not ("temporary"); None for other tensors."""
    reference, persistent = _buffers.get(id(tensor), (None, False))
    if reference is None or reference() is not tensor:
        return None
    return "buffer" if persistent else "temporary"


class _KindOfBuffer(type):
    def __instancecheck__(cls, item: Any) -> bool:
        return isinstance(item, Tensor) and buffer_kind(item) is not None


class _KindOfTensor(type):
    def __instancecheck__(cls, item: Any) -> bool:
        return isinstance(item, Tensor) and (item._leaf or id(item) in _marked)


if TYPE_CHECKING:

    class Parameter(Tensor):
        """The interface of the class below."""

        def __init__(self, data: Any, requires_grad: bool = True) -> None: ...

    class Buffer(Tensor):
        """The interface of the class below."""

        def __init__(self, data: Any, *, persistent: bool = True) -> None: ...

else:

    class Buffer(metaclass=_KindOfBuffer):
        """A tensor that a module which has it as an attribute keeps as a buffer: part of its state if `persistent`.

        >>> from rulegrad import Tensor, nn
        >>> module = nn.Module(); module.mask = nn.Buffer(Tensor([1.0, 0.0]))
        >>> list(module.state_dict()), list(module.parameters())
        (['mask'], [])
        """

        def __new__(cls, data: Any, *, persistent: bool = True) -> Tensor:
            tensor = data.detach() if isinstance(data, Tensor) else Tensor(data)
            number = id(tensor)
            _buffers[number] = (weakref.ref(tensor, lambda _: _buffers.pop(number, None)), persistent)
            return tensor

    class Parameter(metaclass=_KindOfTensor):
        """A tensor with the values of `data` that requires a gradient, unless `requires_grad` is False.

        Of a tensor it is a view, as in PyTorch: a step of an optimizer changes both.

        As an attribute of a `Module` it is found by `parameters` and `state_dict`. `isinstance(x, Parameter)` is also
        true of every other leaf with a gradient, which a module treats in the same way. An int has no gradient, so of
        `Tensor(n)` it is n elements that are set later, as sources for PyTorch mean it.

        >>> from rulegrad import Tensor, nn
        >>> scale = nn.Parameter(Tensor.ones(3))
        >>> scale.requires_grad, isinstance(scale, nn.Parameter), isinstance(scale * 2, nn.Parameter)
        (True, True, False)
        """

        def __new__(cls, data: Any, requires_grad: bool = True) -> Tensor:
            if requires_grad and isinstance(data, Tensor) and data.dtype == int64 and data._uop.op == "CONST":
                data = Tensor.empty(int(data._uop.attrs["value"]))
            tensor = data.detach() if isinstance(data, Tensor) else Tensor(data)
            tensor.requires_grad = requires_grad
            mark(tensor)
            return tensor
