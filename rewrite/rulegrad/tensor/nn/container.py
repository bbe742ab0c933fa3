"""Layers put together. Plain lists and dicts of layers need no container: their tensors are found by walking."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rulegrad.tensor.tensor import Tensor

Layer = Callable[..., Any]


class Sequential:
    """Layers (or functions of a tensor) one after the other: `Sequential(a, b)`, or a dict with their names.

    The tensors' names are PyTorch's: `0.weight`, `1.bias`, …

    >>> from rulegrad import Tensor, nn
    >>> model = nn.Sequential(nn.Linear(4, 3), Tensor.relu, nn.Linear(3, 2))
    >>> list(nn.state.get_state_dict(model))
    ['0.weight', '0.bias', '2.weight', '2.bias']
    """

    def __init__(self, *layers: Layer | Mapping[str, Layer]) -> None:
        named: Mapping[str, Any] = {str(number): layer for number, layer in enumerate(layers)}
        if len(layers) == 1 and isinstance(layers[0], Mapping):
            named = layers[0]
        # Each layer is an attribute under its name, as in any other model.
        self.__dict__.update(named)

    def append(self, layer: Layer) -> Sequential:
        """Add a layer at the end."""
        self.__dict__[str(len(self))] = layer
        return self

    def __call__(self, x: Tensor) -> Tensor:
        for layer in self:
            x = layer(x)
        return x

    def __len__(self) -> int:
        return len(self.__dict__)

    def __iter__(self) -> Iterator[Layer]:
        return iter(list(self.__dict__.values()))

    def __getitem__(self, index: Any) -> Any:
        """The layer at a place, or a Sequential of those in a slice."""
        layers = list(self.__dict__.values())
        return Sequential(*layers[index]) if isinstance(index, slice) else layers[index]
