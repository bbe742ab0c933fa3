"""The tensors of a model by name: found by walking over attributes, lists, tuples and dicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from rulegrad.errors import RulegradError, ShapeError
from rulegrad.tensor.nn.safetensors_files import SafetensorsFile, safe_load, safe_save
from rulegrad.tensor.nn.torch_files import torch_load
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "SafetensorsFile",
    "get_parameters",
    "get_state_dict",
    "load_state_dict",
    "safe_load",
    "safe_save",
    "torch_load",
]


def get_state_dict(model: Any) -> dict[str, Tensor]:
    """Every tensor of the model, by its path of attributes, keys and places: `layers.0.weight`.

    A tensor that is held twice has two names, as in PyTorch's `state_dict`; what is held by itself is not walked twice.

    >>> from rulegrad import nn
    >>> list(nn.state.get_state_dict([nn.Linear(2, 3), nn.Linear(3, 1, bias=False)]))
    ['0.weight', '0.bias', '1.weight']
    """
    return dict(_walk(model, "", ()))


def get_parameters(model: Any) -> list[Tensor]:
    """The tensors of the model that require gradients, each once."""
    unique = {id(tensor): tensor for tensor in get_state_dict(model).values()}
    return [tensor for tensor in unique.values() if tensor.requires_grad]


def load_state_dict(model: Any, state: Mapping[str, Any], strict: bool = True) -> None:
    """Give the model's tensors the values in `state` (tensors or arrays, of the same shapes), cast to their dtypes.

    Takes what `safe_load` and `torch_load` give, running statistics included. Nothing is changed when it raises.
    Raises RulegradError for names that are missing or unknown, unless `strict` is False, and ShapeError with all
    tensors whose shapes differ.

    >>> from rulegrad import Tensor, nn
    >>> layer = nn.Linear(2, 1, bias=False)
    >>> nn.state.load_state_dict(layer, {"weight": [[1.0, 2.0]]})
    >>> layer.weight.tolist()
    [[1.0, 2.0]]
    """
    own = get_state_dict(model)
    missing, unknown = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    if strict and (missing or unknown):
        raise RulegradError(
            f"load_state_dict: missing names {missing}, unknown names {unknown}; use strict=False to load what there is"
        )
    values = {name: _tensor(state[name], tensor) for name, tensor in own.items() if name in state}
    wrong = [
        f"{name} is {own[name].shape} in the model and {value.shape} in the state"
        for name, value in values.items()
        if own[name].shape != value.shape
    ]
    if wrong:
        raise ShapeError(
            f"load_state_dict: shapes differ: {'; '.join(wrong)}; make the model with the sizes of the state"
        )
    for name, value in values.items():
        own[name].assign(value.cast(own[name].dtype))
    if values:
        Tensor.realize(*(own[name] for name in values))


def _tensor(value: Any, like: Tensor) -> Tensor:
    """`value` as a tensor on the device of `like`."""
    if isinstance(value, Tensor):
        return value if value.device == like.device else value.detach().to(like.device)
    return Tensor(value, device=like.device)


def _walk(item: Any, path: str, above: tuple[int, ...]) -> Iterator[tuple[str, Tensor]]:
    if isinstance(item, Tensor):
        yield path, item
        return
    if id(item) in above or isinstance(item, (type, ModuleType)):
        return
    if isinstance(item, Mapping):
        parts = list(item.items())
    elif isinstance(item, (list, tuple)):
        parts = list(enumerate(item))
    else:
        parts = list(getattr(item, "__dict__", {}).items())
    for name, part in parts:
        yield from _walk(part, f"{path}.{name}" if path else str(name), (*above, id(item)))
