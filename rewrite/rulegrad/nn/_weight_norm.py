"""Weights as a length and a direction, and weights divided by their largest singular value: the formulas."""

from __future__ import annotations

from rulegrad import linalg
from rulegrad.errors import ConfigError
from rulegrad.nn import functional
from rulegrad.nn._module import Described
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


def largest(matrix: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """The largest singular value, from its singular vectors."""
    return (u.conj() * (matrix @ v)).sum()


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
            self._iterate(matrix, 15)  # as many as PyTorch takes
            Tensor.realize(self._u, self._v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim < 2:
            return functional.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        return weight / largest(matrix, self._u.detach().clone(), self._v.detach().clone())

    def right_inverse(self, weight: Tensor) -> Tensor:
        """The weight itself: whether it is divided already cannot be seen."""
        return weight

    @no_grad()
    def _iterate(self, matrix: Tensor, count: int) -> None:
        u, v = self._u, self._v
        for _ in range(count):
            u = functional.normalize(matrix @ v, dim=0, eps=self.eps)
            v = functional.normalize(matrix.conj().T @ u, dim=0, eps=self.eps)
        self._u.assign(u)
        self._v.assign(v)
