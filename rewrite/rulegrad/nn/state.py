"""The tensors of a model by name. A model is a `Module`, or any object, list or dict that holds tensors and modules."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from rulegrad.errors import ModuleError, ShapeError
from rulegrad.nn import _walking as walking
from rulegrad.nn._safetensors_files import SafetensorsFile, safe_load, safe_open, safe_save
from rulegrad.nn._torch_files import torch_load
from rulegrad.nn._uninitialized import waiting
from rulegrad.tensor.aliasing import leave
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "IncompatibleKeys",
    "SafetensorsFile",
    "get_parameters",
    "get_state_dict",
    "load_state_dict",
    "safe_load",
    "safe_open",
    "safe_save",
    "torch_load",
]


def __dir__() -> list[str]:
    return __all__


class IncompatibleKeys(NamedTuple):
    """The names that a state lacked, and those that it had and the model does not; both empty when it fits."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def get_state_dict(model: Any) -> dict[str, Tensor]:
    """The tensors of the model's state, by their path of attributes, keys and places: `layers.0.weight`.

    Of a `Module` these are its parameters and persistent buffers, of other objects all tensors. One that is held twice
    has two names, as in PyTorch's `state_dict`; what is held by itself is not walked twice.

    >>> from rulegrad import nn
    >>> list(nn.state.get_state_dict([nn.Linear(2, 3), nn.Linear(3, 1, bias=False)]))
    ['0.weight', '0.bias', '1.weight']
    """
    return {path: tensor for path, tensor, kind in walking.tensors(model) if kind in ("parameter", "buffer")}


def get_parameters(model: Any) -> list[Tensor]:
    """The tensors of the model that require gradients, each once."""
    unique = {id(tensor): tensor for _, tensor, kind in walking.tensors(model) if kind == "parameter"}
    return [tensor for tensor in unique.values() if tensor.requires_grad]


def load_state_dict(model: Any, state: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
    """Give the model's tensors the values in `state` (tensors or arrays, of the same shapes), cast to their dtypes.

    Takes what `safe_load` and `torch_load` give, running statistics included, and returns the names that were missing
    or unknown; of a tensor with several names one is enough. Nothing is changed when it raises. Raises ModuleError for
    such names, unless `strict` is False, and ShapeError with all tensors whose shapes differ.

    >>> from rulegrad import Tensor, nn
    >>> layer = nn.Linear(2, 1, bias=False)
    >>> nn.state.load_state_dict(layer, {"weight": [[1.0, 2.0]]})
    IncompatibleKeys(missing_keys=[], unexpected_keys=[])
    >>> layer.weight.tolist()
    [[1.0, 2.0]]
    """
    return load_with_extra(model, state, strict, ())


def load_with_extra(model: Any, state: Mapping[str, Any], strict: bool, extra: Collection[str]) -> IncompatibleKeys:
    """`load_state_dict` of a state that has these names too, of values that the model takes afterwards."""
    for path, module in list(model.named_modules()) if waiting and hasattr(model, "named_modules") else ():
        for hook in type(module)._load_hooks:  # those of lazy layers: the state has the shapes
            hook(module, state, f"{path}." if path else "")
    own = get_state_dict(model)
    state = _with_newer_names(own, state)
    given = {id(tensor) for name, tensor in own.items() if name in state}
    without = {name for name in own.keys() - state.keys() if id(own[name]) not in given}
    missing = sorted(without | (set(extra) - state.keys()))
    unknown = sorted(state.keys() - own.keys() - set(extra))
    values = {name: _tensor(state[name], tensor) for name, tensor in own.items() if name in state}
    wrong = "; ".join(
        f"{name} is {own[name].shape} in the model and {value.shape} in the state"
        for name, value in values.items()
        if own[name].shape != value.shape
    )
    if strict and (missing or unknown):
        raise ModuleError(
            f"load_state_dict: missing names {missing}, unknown names {unknown}; use strict=False to load what there is"
            + (f"; shapes differ too: {wrong}" if wrong else "")
        )
    if wrong:
        raise ShapeError(f"load_state_dict: shapes differ: {wrong}; make the model with the sizes of the state")
    for name, value in values.items():
        own[name].assign(value.cast(own[name].dtype))
    if values:
        Tensor.realize(*(own[name] for name in values))
    return IncompatibleKeys(missing, unknown)


def move(tensor: Tensor, target: Any, dtype: Any, device: str | None) -> None:
    """`Tensor.to` in place, for a tensor and its gradient. The dtype is for floats only."""
    grad = tensor.grad
    moved = tensor.detach().to(target, dtype, device=device)
    if moved.dtype != tensor.dtype and not (tensor.dtype.is_float and moved.dtype.is_float):
        moved = tensor.detach().to(device=moved.device)
    if moved.dtype != tensor.dtype or moved.device != tensor.device:
        leave(tensor)
        tensor._replace(moved)
        tensor.grad = None if grad is None else grad.detach().to(moved)


def empty(tensor: Tensor, device: str | None) -> None:
    """Leave a tensor, and its gradient, without values, on a device; the one where it is for None."""
    grad = tensor.grad
    moved = tensor.empty_like(device=device)
    leave(tensor)
    tensor._replace(moved)
    tensor.grad = None if grad is None else grad.empty_like(device=device)


#: A tensor of `nn.utils.parametrizations.weight_norm`: `weight_g` and `weight_v` are what it was called before.
_OF_WEIGHT_NORM: Final = re.compile(r"(.*\.)?parametrizations\.([^.]+)\.original([01])")


def _with_newer_names(own: Mapping[str, Tensor], state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state, with the names that the model has for what an older function of weights had others."""
    newer = {}
    for name in own.keys() - state.keys():
        if found := _OF_WEIGHT_NORM.fullmatch(name):
            prefix, tensor, place = found.groups("")
            newer[f"{prefix}{tensor}_{'gv'[int(place)]}"] = name
    return {newer.get(name, name): value for name, value in state.items()} if newer else state


def _tensor(value: Any, like: Tensor) -> Tensor:
    """`value` as a tensor on the device of `like`."""
    if isinstance(value, Tensor):
        return value if value.device == like.device else value.detach().to(like.device)
    return Tensor(value, device=like.device)
