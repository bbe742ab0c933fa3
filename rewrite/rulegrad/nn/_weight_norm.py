"""Weights as a length and a direction, and weights divided by their largest singular value: the formulas."""

from __future__ import annotations

from rulegrad import linalg
from rulegrad.errors import ConfigError
from rulegrad.nn import functional
from rulegrad.nn._convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from rulegrad.nn._module import Described, Module
from rulegrad.tensor.axes import one_axis
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.tensor import Tensor

#: The axis that stands for "the norm of all elements", as in PyTorch.
_ALL = -1


def lengths(weight: Tensor, dim: int | None) -> Tensor:
    """The norms of the slices of `weight` along `dim`, kept as axes of size 1; of all elements for None and -1."""
    if dim is None or dim == _ALL:
        return linalg.vector_norm(weight)
    kept = one_axis(dim, weight.ndim, "weight_norm")
    rest = tuple(axis for axis in range(weight.ndim) if axis != kept)
    return linalg.vector_norm(weight, dim=rest, keepdim=True) if rest else weight.abs()


def scaled(direction: Tensor, length: Tensor, dim: int | None) -> Tensor:
    """`direction`, with slices of these lengths."""
    return direction * (length / lengths(direction, dim))


class WeightNorm(Described):
    """The weight of `original0`, lengths, and `original1`, a direction."""

    def __init__(self, dim: int | None = 0) -> None:
        self.dim = _ALL if dim is None else dim

    def forward(self, length: Tensor, direction: Tensor) -> Tensor:
        return scaled(direction, length, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The tensors whose weight is `weight`."""
        return lengths(weight, self.dim), weight


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The axis `dim` as rows, all others as columns."""
    return weight.movedim(dim, 0).reshape(weight.shape[dim], -1)


def axis_of_rows(module: Module, dim: int | None) -> int:
    """The axis of a layer's weight that is the rows of its matrix: by default the one of the outputs."""
    transposed = isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d))
    return dim if dim is not None else int(transposed)


@no_grad()
def improve(matrix: Tensor, u: Tensor, v: Tensor, count: int, eps: float) -> None:
    """Bring `u` and then `v` nearer to the singular vectors of the largest singular value, by power iterations."""
    new_u, new_v = u, v
    for _ in range(count):
        new_u = functional.normalize(matrix @ new_v, dim=0, eps=eps)
        new_v = functional.normalize(matrix.conj().T @ new_u, dim=0, eps=eps)
    u.assign(new_u)
    v.assign(new_v)


def divided(weight: Tensor, matrix: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """`weight` over the largest singular value of its matrix, which its singular vectors give."""
    return weight / (u.detach().clone().conj() * (matrix @ v.detach().clone())).sum()


def unit_vector(like: Tensor, size: int, eps: float) -> Tensor:
    """A random direction."""
    return functional.normalize(Tensor.randn(size, dtype=like.dtype, device=like.device), dim=0, eps=eps)


def require_iterations(count: int) -> None:
    if count < 1:
        raise ConfigError(f"spectral_norm: n_power_iterations={count}; use a number of 1 or more")


class SpectralNorm(Described):
    """A weight divided by its largest singular value. Each call in training mode brings the vectors nearer to it."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        require_iterations(n_power_iterations)
        self.dim, self.eps = one_axis(dim, weight.ndim, "spectral_norm"), eps
        self.n_power_iterations = n_power_iterations
        if weight.ndim > 1:
            matrix = as_matrix(weight.detach(), self.dim)
            for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                self.register_buffer(name, unit_vector(weight, size, eps))
            improve(matrix, self._u, self._v, 15, eps)  # as many as PyTorch takes
            Tensor.realize(self._u, self._v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim < 2:
            return functional.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            improve(matrix, self._u, self._v, self.n_power_iterations, self.eps)
        return divided(weight, matrix, self._u, self._v)

    def right_inverse(self, weight: Tensor) -> Tensor:
        """The weight itself: whether it is divided already cannot be seen."""
        return weight
