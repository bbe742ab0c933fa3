"""The tensors of a model by name: found by walking over attributes, lists, tuples and dicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rulegrad.errors import RulegradError
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
    """Every tensor of the model, by its path: `layers.0.weight`. One that is held twice is named once.

    >>> from rulegrad import nn
    >>> list(nn.state.get_state_dict(nn.Linear(2, 3)))
    ['weight', 'bias']
    """
    return dict(_walk(model, "", set()))


def get_parameters(model: Any) -> list[Tensor]:
    """The tensors of the model that require gradients, each once."""
    return [tensor for tensor in get_state_dict(model).values() if tensor.requires_grad]


def load_state_dict(model: Any, state: Mapping[str, Any], strict: bool = True) -> None:
    """Give the model's tensors the values in `state` (tensors or arrays, of the same shapes), cast to their dtypes.

    Raises RulegradError for names that are missing or unknown, unless `strict` is False.
    """
    own = get_state_dict(model)
    missing, unknown = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    if strict and (missing or unknown):
        raise RulegradError(
            f"load_state_dict: missing names {missing}, unknown names {unknown}; use strict=False to load what there is"
        )
    for name, tensor in own.items():
        if name in state:
            values = state[name]
            value = values if isinstance(values, Tensor) else Tensor(values, device=tensor.device)
            tensor.assign(value.cast(tensor.dtype))
    Tensor.realize(*own.values())


def _walk(item: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Tensor]]:
    if id(item) in seen:
        return
    seen.add(id(item))
    if isinstance(item, Tensor):
        yield path, item
        return
    if isinstance(item, Mapping):
        parts = list(item.items())
    elif isinstance(item, (list, tuple)):
        parts = list(enumerate(item))
    else:
        parts = list(getattr(item, "__dict__", {}).items())
    for name, part in parts:
        yield from _walk(part, f"{path}.{name}" if path else str(name), seen)
