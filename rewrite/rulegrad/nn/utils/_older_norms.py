"""PyTorch's older functions of weights, whose state has `weight_g` and `weight_v`, or `weight_orig`."""

from __future__ import annotations

from typing import Any, TypeVar

from rulegrad.errors import ConfigError
from rulegrad.nn import _computed as computed
from rulegrad.nn import _weight_norm as formulas
from rulegrad.nn._module import Module
from rulegrad.nn.parameter import Parameter
from rulegrad.tensor.axes import one_axis
from rulegrad.tensor.gradient_mode import no_grad

M = TypeVar("M", bound=Module)


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Train the lengths and the directions of a weight's slices along `dim`, for None of all of it. Returns the module.

    The parameters are `weight_g` and `weight_v`; those of `nn.utils.parametrizations.weight_norm` have newer names.

    >>> from rulegrad import nn
    >>> list(nn.utils.weight_norm(nn.Linear(3, 2)).state_dict())
    ['bias', 'weight_g', 'weight_v']
    """
    weight = computed.require_tensor(module, name, "weight_norm")
    lengths = formulas.lengths(weight.detach(), dim)
    delattr(module, name)
    module.register_parameter(f"{name}_g", Parameter(lengths.clone()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    _remember(module, name, dim)
    computed.add(module, computed.Attribute(name, _weight_of_length, computed.read_only))
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """The weight is a parameter again. Returns the module. Raises ConfigError where it has no weight norm.

    >>> from rulegrad import nn
    >>> list(nn.utils.remove_weight_norm(nn.utils.weight_norm(nn.Linear(3, 2))).state_dict())
    ['bias', 'weight']
    """
    return _removed(module, name, "weight_norm", _weight_of_length, ("_g", "_v"))


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Divide a weight by its largest singular value, an estimate that each call in training mode makes better.

    The state has `weight_orig`, `weight_u` and `weight_v`. Returns the module.

    >>> from rulegrad import nn
    >>> list(nn.utils.spectral_norm(nn.Linear(3, 2)).state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    formulas.require_iterations(n_power_iterations)
    weight = computed.require_tensor(module, name, "spectral_norm")
    rows = one_axis(formulas.axis_of_rows(module, dim), weight.ndim, "spectral_norm")
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    for end, size in zip("uv", formulas.as_matrix(weight.detach(), rows).shape, strict=True):
        module.register_buffer(f"{name}_{end}", formulas.unit_vector(weight, size, eps))
    _remember(module, name, (rows, n_power_iterations, eps))
    computed.add(module, computed.Attribute(name, _weight_of_spectrum, computed.read_only))
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """The weight is a parameter again. Returns the module. Raises ConfigError where it has no spectral norm.

    >>> from rulegrad import nn
    >>> list(nn.utils.remove_spectral_norm(nn.utils.spectral_norm(nn.Linear(3, 2))).state_dict())
    ['bias', 'weight']
    """
    return _removed(module, name, "spectral_norm", _weight_of_spectrum, ("_orig", "_u", "_v"))


def _remember(module: Module, name: str, settings: Any) -> None:
    module.__dict__.setdefault("_norms", {})[name] = settings


def _weight_of_length(module: Any, name: str) -> Any:
    return formulas.scaled(getattr(module, f"{name}_v"), getattr(module, f"{name}_g"), module._norms[name])


def _weight_of_spectrum(module: Any, name: str) -> Any:
    weight, u, v = (getattr(module, f"{name}_{end}") for end in ("orig", "u", "v"))
    rows, count, eps = module._norms[name]
    matrix = formulas.as_matrix(weight, rows)
    if module.training:
        formulas.improve(matrix.conj().T, v, u, count, eps)  # in PyTorch's order of then
    return formulas.divided(weight, matrix, u, v)


def _removed(module: M, name: str, operation: str, read: computed.Read, ends: tuple[str, ...]) -> M:
    if computed.reader(module, name) is not read:
        raise ConfigError(f"remove_{operation}: {name!r} of {type(module).__name__} has no {operation}")
    training = module._training
    module.training = False  # the value as it is, without another step
    with no_grad():
        value = getattr(module, name).detach().clone()
    module.training = training
    computed.remove(module, name)
    for end in ends:
        delattr(module, f"{name}{end}")
    del module.__dict__["_norms"][name]
    module.register_parameter(name, Parameter(value))
    return module
