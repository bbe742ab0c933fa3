"""Parametrizations of weights, by PyTorch's names; `remove_parametrizations(module, name)` takes one away again."""

from __future__ import annotations

from typing import TypeVar

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.nn import _computed as computed
from rulegrad.nn._module import Module
from rulegrad.nn._orthogonal import MAPS, Map, Orthogonal
from rulegrad.nn._weight_norm import SpectralNorm, WeightNorm, axis_of_rows
from rulegrad.nn.utils.parametrize import is_parametrized, register_parametrization
from rulegrad.tensor.tensor import Tensor

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

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
    weight = _weight(module, name, "spectral_norm")
    rows = axis_of_rows(module, dim)
    register_parametrization(module, name, SpectralNorm(weight, n_power_iterations, rows, eps))
    return module


def orthogonal(
    module: M, name: str = "weight", orthogonal_map: Map | None = None, *, use_trivialization: bool = True
) -> M:
    """Make a weight a matrix with orthonormal columns, or rows where these are fewer, also of several axes of matrices.

    orthogonal_map: "matrix_exp", "cayley" or "householder", the maps to such matrices; by default "matrix_exp" for
    square and complex ones, else "householder". use_trivialization: multiply by a matrix that is set with the weight,
    which the first two maps need for that. Returns the module. Raises ConfigError, ShapeError, DtypeError.

    >>> from rulegrad import Tensor, nn
    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(2, 4))
    >>> product = layer.weight.T @ layer.weight
    >>> product.allclose(Tensor.eye(2), atol=1e-5)
    True
    """
    weight = _weight(module, name, "orthogonal")
    if weight.ndim < 2:
        raise ShapeError(f"orthogonal: {name!r} has the shape {weight.shape}; give a weight of two axes or more")
    if orthogonal_map is None:
        is_square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if is_square or weight.dtype.is_complex else "householder"
    if orthogonal_map not in MAPS:
        raise ConfigError(f"orthogonal: orthogonal_map={orthogonal_map!r}; use one of {', '.join(MAPS)}")
    register_parametrization(module, name, Orthogonal(weight, orthogonal_map, use_trivialization), unsafe=True)
    return module


def _weight(module: Module, name: str, operation: str) -> Tensor:
    """The tensor of this name, which may be parametrized. Raises ModuleError where there is none."""
    found: Tensor = (
        getattr(module, name) if is_parametrized(module, name) else computed.require_tensor(module, name, operation)
    )
    return found
