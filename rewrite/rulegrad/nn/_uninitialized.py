"""Placeholders in lazy layers for tensors whose shapes the first input decides."""

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

    __slots__ = ("__weakref__", "_holders", "device", "dtype", "requires_grad")

    def __init__(self, requires_grad: bool = True, device: str | None = None, dtype: Any = None) -> None:
        self.requires_grad, self.device, self.dtype = requires_grad, device, dtype
        self._holders: list[tuple[weakref.ref[Any], str]] = []
        waiting.add(self)

    grad: Final = None

    def held_by(self, module: Any, name: str) -> None:
        """Remember whose attribute it is."""
        self._holders.append((weakref.ref(module), name))

    def materialize(self, shape: Any, device: str | None = None, dtype: Any = None) -> None:
        """Let a tensor of zeros of this shape take its place in the modules that have it as an attribute.

        A module's next look at the attribute finds the tensor: a parameter, or a buffer where this is a buffer.
        device, dtype: by default those that were given before.

        >>> from rulegrad import nn
        >>> layer = nn.Module()
        >>> layer.weight = nn.UninitializedParameter()
        >>> layer.weight.materialize((2, 3)); layer.weight.shape, layer.weight.requires_grad
        ((2, 3), True)
        """
        new = Tensor.zeros(*shape, dtype=dtype or self.dtype, device=device or self.device)
        for reference, name in self._holders:
            module = reference()
            if module is None or vars(module).get(name) is not self:
                continue
            if isinstance(self, UninitializedBuffer):
                module.register_buffer(name, new)
            else:
                new.requires_grad = self.requires_grad
                module.register_parameter(name, new)

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
