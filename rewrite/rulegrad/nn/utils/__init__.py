"""Limits on gradients between `backward` and the optimizer's step, parameters as a vector, activation checkpointing,
weights that are computed from others (`parametrize`, `parametrizations`, `weight_norm`, `spectral_norm`)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from typing import Any, TypeVar

from rulegrad.errors import ConfigError, DtypeError, ModuleError, ShapeError
from rulegrad.nn._module import Module
from rulegrad.nn._recompute import checkpoint, checkpoint_sequential
from rulegrad.nn.utils import parametrizations, parametrize, prune
from rulegrad.nn.utils._fusion import fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval
from rulegrad.nn.utils._older_norms import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm
from rulegrad.support.torch_modules import modules_below
from rulegrad.tensor import updates
from rulegrad.tensor.generators import fork_rng
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "checkpoint",
    "checkpoint_sequential",
    "clip_grad_norm_",
    "clip_grad_value_",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "prune",
    "remove_spectral_norm",
    "remove_weight_norm",
    "skip_init",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]


M = TypeVar("M", bound=Module)

__getattr__ = modules_below("nn.utils")


def __dir__() -> list[str]:
    return __all__


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of the parameters as one vector, through which gradients flow.

    >>> from rulegrad import nn
    >>> nn.utils.parameters_to_vector(nn.Linear(3, 2).parameters()).shape
    (8,)
    """
    first, *others = [parameter.reshape(-1) for parameter in parameters]
    return first.cat(*others) if others else first


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Store the elements of a vector into the parameters, in order. Raises ShapeError where it has too few or too many.

    >>> from rulegrad import Tensor, nn
    >>> net = nn.Linear(1, 1)
    >>> nn.utils.vector_to_parameters(Tensor([2.0, 3.0]), net.parameters())
    >>> net.bias.tolist()
    [3.0]
    """
    targets = list(parameters)
    count = sum(parameter.numel() for parameter in targets)
    if vec.shape != (count,):
        raise ShapeError(
            f"vector_to_parameters: a vector of shape {vec.shape} for {count} elements; use one of ({count},)"
        )
    start = 0
    with no_grad():
        for parameter in targets:
            parameter.copy_(vec[start : start + parameter.numel()].reshape(parameter.shape))
            start += parameter.numel()


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale all gradients by one factor, such that their common norm is at most `max_norm`. Returns the norm before.

    The step that follows computes the norm along with the parameters. `norm_type` may be infinity. error_if_nonfinite
    computes the norm at once, and raises ConfigError where it is infinite or nan, as for invalid limits.

    >>> from rulegrad import Tensor, nn
    >>> x = Tensor([3.0, 4.0], requires_grad=True)
    >>> _ = (x * x).sum().backward()
    >>> nn.utils.clip_grad_norm_([x], 1.0).item()
    10.0
    """
    if not max_norm > 0.0 or not norm_type > 0.0:
        raise ConfigError(f"clip_grad_norm_: max_norm={max_norm}, norm_type={norm_type}; use numbers above 0")
    found = _with_gradients(parameters)
    if not found:
        return Tensor(0.0)
    with no_grad():
        norm = _norm([gradient for _, gradient in found], norm_type)
        if error_if_nonfinite:
            _require_finite(norm, "clip_grad_norm_")
        factor = (max_norm / (norm + 1e-6)).minimum(1.0)
        for parameter, gradient in found:
            updates.replace_gradient(parameter, gradient, gradient * factor.cast(gradient.dtype))
    # Reads of the norm are computed together with the gradients.
    norm._gradient_of = tuple({id(call): call for _, gradient in found for call in gradient._gradient_of}.values())
    updates.add(norm)
    return norm


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all elements of tensors together, as `clip_grad_norm_` has it of gradients; 0 of none.

    `norm_type` may be infinity; `foreach` changes nothing. Raises ConfigError for another one that is not above 0, and
    with error_if_nonfinite, which computes the norm at once, where it is infinite or nan.

    >>> from rulegrad import Tensor, nn
    >>> nn.utils.get_total_norm([Tensor([3.0]), Tensor([[4.0]])]).item()
    5.0
    """
    if not norm_type > 0.0:
        raise ConfigError(f"get_total_norm: norm_type={norm_type}; use a number above 0")
    listed = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not listed:
        return Tensor(0.0)
    with no_grad():
        norm = _norm(listed, norm_type)
    if error_if_nonfinite:
        _require_finite(norm, "get_total_norm")
    return norm


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """A module of this class whose parameters and buffers have no values yet; no random numbers are drawn for them.

    Raises ModuleError for what is not a class of modules with an argument `device`.

    >>> from rulegrad import nn
    >>> nn.utils.skip_init(nn.Linear, 2, 3).weight.shape
    (3, 2)
    """
    if not issubclass(module_cls, Module) or "device" not in inspect.signature(module_cls).parameters:
        raise ModuleError(f"skip_init: {module_cls} is not a class of modules that have an argument device")
    with fork_rng():
        module = module_cls(*args, **kwargs)
    return module.to_empty(device=kwargs.get("device"))


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Limit every element of the gradients to -clip_value … clip_value. Raises ConfigError, DtypeError if complex.

    >>> from rulegrad import Tensor, nn
    >>> x = Tensor([3.0, -4.0], requires_grad=True)
    >>> _ = (x * x).sum().backward()
    >>> nn.utils.clip_grad_value_([x], 7.0); x.grad.tolist()
    [6.0, -7.0]
    """
    if not clip_value >= 0.0:
        raise ConfigError(f"clip_grad_value_: clip_value={clip_value}; use a number of 0 or more")
    with no_grad():
        for parameter, gradient in _with_gradients(parameters):
            if gradient.dtype.is_complex:
                raise DtypeError(
                    f"clip_grad_value_: a gradient is {gradient.dtype}, and complex numbers have no order; use "
                    "clip_grad_norm_"
                )
            updates.replace_gradient(parameter, gradient, gradient.clip(-clip_value, clip_value))


def _with_gradients(parameters: Tensor | Iterable[Tensor]) -> list[tuple[Tensor, Tensor]]:
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    unique = {id(parameter): parameter for parameter in listed}
    return [(parameter, parameter.grad) for parameter in unique.values() if parameter.grad is not None]


def _require_finite(norm: Tensor, name: str) -> None:
    if not math.isfinite(norm.item()):
        raise ConfigError(
            f"{name}: the norm is {norm.item()}, so the gradients cannot be scaled; lower the learning rate, or look "
            "for a division by zero with error_if_nonfinite=False"
        )


def _norm(gradients: list[Tensor], norm_type: float) -> Tensor:
    sizes = [gradient.abs() if gradient.dtype.is_complex else gradient for gradient in gradients]
    wide = [size if size.dtype == "float64" else size.cast("float32") for size in sizes]
    if norm_type == math.inf:
        return _folded([gradient.abs().max() for gradient in wide], largest=True)
    if norm_type == 2.0:
        return _folded([gradient.square().sum() for gradient in wide]).sqrt()
    return _folded([(gradient.abs() ** norm_type).sum() for gradient in wide]) ** (1.0 / norm_type)


def _folded(parts: list[Tensor], largest: bool = False) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total.maximum(part) if largest else total + part
    return total
