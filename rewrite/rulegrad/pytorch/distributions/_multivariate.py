"""Distributions of vectors: the normal one, and axes of a batch that are axes of a value."""

from __future__ import annotations

from typing import Any, ClassVar

from rulegrad import linalg
from rulegrad._core import Size
from rulegrad.errors import ConfigError, ShapeError
from rulegrad.pytorch.distributions import constraints
from rulegrad.pytorch.distributions._base import LOG_ROOT_OF_TAU, Distribution
from rulegrad.pytorch.distributions.utils import lazy_property
from rulegrad.tensor.tensor import Tensor

__all__ = ["Independent", "MultivariateNormal"]


class MultivariateNormal(Distribution):
    """The normal distribution of vectors of n numbers.

    loc: of shape (…, n). One of covariance_matrix, precision_matrix (its inverse) and scale_tril (its Cholesky
    factor), of shape (…, n, n). Raises ConfigError unless it is one.

    >>> from rulegrad import Tensor
    >>> d = MultivariateNormal(Tensor.zeros(2), Tensor([[1.0, 0.5], [0.5, 1.0]]))
    >>> d.sample((3,)).shape, round(d.log_prob(Tensor([0.0, 0.0])).item(), 4)
    ((3, 2), -1.694)
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support: Any = constraints.real_vector

    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if sum(one is not None for one in (covariance_matrix, precision_matrix, scale_tril)) != 1:
            raise ConfigError("MultivariateNormal: give one of covariance_matrix, precision_matrix and scale_tril")
        matrix: Any = next(one for one in (covariance_matrix, precision_matrix, scale_tril) if one is not None)
        if loc.ndim < 1 or matrix.ndim < 2 or matrix.shape[-2:] != loc.shape[-1:] * 2:
            raise ShapeError(
                f"MultivariateNormal: a mean of shape {loc.shape} and a matrix of shape {matrix.shape}; "
                "give the shapes (…, n) and (…, n, n)"
            )
        if scale_tril is None:
            scale_tril = (linalg.inv(matrix) if covariance_matrix is None else matrix).cholesky()
        self._event_shape = Size(loc.shape[-1:])
        self.loc = loc.expand(*Tensor.broadcast_tensors(loc, scale_tril[..., 0])[0].shape)
        self._batch_shape = self.loc.shape[:-1]
        #: PyTorch's name, which classes that derive from it set.
        self._unbroadcasted_scale_tril = scale_tril.expand(*self.loc.shape, self.loc.shape[-1])

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariances."""
        return self._unbroadcasted_scale_tril.expand(*self.batch_shape, *self.event_shape, *self.event_shape)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.loc

    mode = mean

    @property
    def variance(self) -> Any:
        """The variances of the numbers."""
        return (self.scale_tril**2).sum(-1)

    @property
    def covariance_matrix(self) -> Any:
        """The covariances."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Any:
        """The inverse of the covariances."""
        return linalg.inv(self.covariance_matrix)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow."""
        normal = Tensor.randn(self._shape(sample_shape), device=self.loc.device).cast(self.loc.dtype)
        return self.loc + (self.scale_tril @ normal.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        distance = squared_distance(self.scale_tril, value - self.loc)
        return -0.5 * distance - self._log_scale() - self.loc.shape[-1] * LOG_ROOT_OF_TAU

    def entropy(self) -> Any:
        """The entropy."""
        return self._log_scale() + self.loc.shape[-1] * (0.5 + LOG_ROOT_OF_TAU)

    def _log_scale(self) -> Any:
        """The logarithm of the root of the determinant of the covariances."""
        return self.scale_tril.diagonal(0, -2, -1).log().sum(-1)


def squared_distance(scale_tril: Tensor, vectors: Tensor) -> Tensor:
    """The squared lengths of vectors after a triangular matrix is taken out of them (Mahalanobis's distance)."""
    triangles = scale_tril.expand(*vectors.shape, vectors.shape[-1])
    solved = linalg.solve_triangular(triangles, vectors.unsqueeze(-1), upper=False)
    return (solved**2).sum((-2, -1))


class Independent(Distribution):
    """Another distribution whose last axes of the batch are axes of a value: densities are multiplied along them.

    >>> from rulegrad import Tensor
    >>> from rulegrad.distributions import Normal
    >>> Independent(Normal(Tensor.zeros(2, 3), 1.0), 1).log_prob(Tensor.zeros(3)).shape
    (2,)
    """

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        count = reinterpreted_batch_ndims
        if not 0 <= count <= len(base_distribution.batch_shape):
            raise ConfigError(
                f"Independent: {count} of the {len(base_distribution.batch_shape)} axes of a batch of shape "
                f"{tuple(base_distribution.batch_shape)}; give a number from 0 to that of the axes"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, count
        front = len(base_distribution.batch_shape) - count
        both = (*base_distribution.batch_shape, *base_distribution.event_shape)
        self._batch_shape, self._event_shape = Size(both[:front]), Size(both[front:])

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether gradients flow through samples."""
        return bool(self.base_dist.has_rsample)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.base_dist.mean

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.base_dist.variance

    @property
    def mode(self) -> Any:
        """The value of the largest density."""
        return self.base_dist.mode

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Whether all values can be listed: where no axis is a part of a value."""
        return not self.reinterpreted_batch_ndims and bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Any:
        """The set of the values."""
        found = self.base_dist.support
        count = self.reinterpreted_batch_ndims
        return constraints.independent(found, count) if count else found

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values, where no axis is a part of one. Raises ConfigError otherwise."""
        if self.reinterpreted_batch_ndims:
            raise ConfigError("Independent.enumerate_support: products of values are not listed")
        return self.base_dist.enumerate_support(expand)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples without a gradient."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        return sum_of_last(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        """The entropy."""
        return sum_of_last(self.base_dist.entropy(), self.reinterpreted_batch_ndims)


def sum_of_last(values: Any, count: int) -> Any:
    """The sums over the last `count` axes."""
    return values.sum(tuple(range(-count, 0))) if count else values
