"""What stands in a lazy layer in the place of tensors whose shapes the first input decides."""

from __future__ import annotations

import weakref
from typing import Any, Final, NoReturn

from rulegrad.errors import ModuleError, NoPartError
from rulegrad.tensor.tensor import Tensor

#: Those that are there: without any, nobody has to look for them.
waiting: Final[weakref.WeakSet[UninitializedParameter]] = weakref.WeakSet()


class UninitializedParameter:
    """A parameter of a lazy layer before the first input, which decides its shape: it has no values yet.

    >>> from rulegrad import nn
    >>> layer = nn.LazyLinear(4)
    >>> isinstance(layer.weight, nn.UninitializedParameter), layer.weight.requires_grad
    (True, True)
    """

    __slots__ = ("__weakref__", "device", "dtype", "requires_grad")

    def __init__(self, requires_grad: bool = True, device: str | None = None, dtype: Any = None) -> None:
        self.requires_grad, self.device, self.dtype = requires_grad, device, dtype
        waiting.add(self)

    grad: Final = None

    def move(self, target: Any, dtype: Any, device: str | None) -> None:
        """Be of another device or dtype, by the arguments of `Tensor.to`."""
        given = Tensor.zeros(0, dtype=self.dtype, device=self.device).to(target, dtype, device=device)
        asked = any(one is not None for one in (target, device))
        self.device, self.dtype = (str(given.device) if asked else self.device), given.dtype

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise NoPartError(f"{type(self).__name__} has no {name}")
        raise ModuleError(
            f"{name} of a parameter of a lazy layer that no input has reached: its shape is not known yet; call the "
            "model once on an input before"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        return type(self)(self.requires_grad, self.device, self.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.requires_grad, self.device, self.dtype)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedBuffer(UninitializedParameter):
    """A buffer of a lazy layer before the first input: running statistics.

    >>> from rulegrad import nn
    >>> nn.LazyBatchNorm1d().running_mean
    <UninitializedBuffer>
    """

    __slots__ = ()

    def __init__(self, requires_grad: bool = False, device: str | None = None, dtype: Any = None) -> None:
        super().__init__(requires_grad, device, dtype)
