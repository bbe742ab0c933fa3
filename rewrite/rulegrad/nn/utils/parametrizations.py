"""Parametrizations of weights, by PyTorch's names; `remove_parametrizations(module, name)` takes one away again."""

from __future__ import annotations

from typing import TypeVar

from rulegrad.nn import _computed as computed
from rulegrad.nn._module import Module
from rulegrad.nn._weight_norm import SpectralNorm, WeightNorm, axis_of_rows
from rulegrad.nn.utils.parametrize import is_parametrized, register_parametrization

__all__ = ["spectral_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


def __dir__() -> list[str]:
    return __all__


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Train the lengths and the directions of a weight's slices along `dim`, for None of all of it. Returns the module.

    Its state has `parametrizations.weight.original0` (lengths) and `original1` (directions), as PyTorch's; states with
    `weight_g` and `weight_v` load as well.

    >>> from rulegrad import nn
    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> list(layer.state_dict())
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    register_parametrization(module, name, WeightNorm(dim), unsafe=True)
    return module


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Divide a weight by its largest singular value, an estimate that each call in training mode makes better.

    dim: the axis that is the rows of the matrix; by default the one of the outputs. Returns the module.

    >>> from rulegrad import nn
    >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3))
    >>> abs(layer.weight.svd()[1].max().item() - 1) < 0.1
    True
    """
    if is_parametrized(module, name):
        weight = getattr(module, name)
    else:
        weight = computed.require_tensor(module, name, "spectral_norm")
    rows = axis_of_rows(module, dim)
    register_parametrization(module, name, SpectralNorm(weight, n_power_iterations, rows, eps))
    return module
