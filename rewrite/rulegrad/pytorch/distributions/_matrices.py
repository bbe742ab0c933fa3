"""Distributions of matrices, and of vectors whose covariances are few factors and a diagonal."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from rulegrad import linalg
from rulegrad._core import Size
from rulegrad.errors import ConfigError, ShapeError
from rulegrad.pytorch.distributions import constraints
from rulegrad.pytorch.distributions._base import LOG_ROOT_OF_TAU, Distribution, ExponentialFamily
from rulegrad.pytorch.distributions._gamma import Beta, standard_gamma
from rulegrad.pytorch.distributions._multivariate import squared_distance
from rulegrad.tensor.tensor import Tensor

__all__ = ["LKJCholesky", "LowRankMultivariateNormal", "Wishart"]


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors whose covariances are `cov_factor @ cov_factor.T + diag(cov_diag)`.

    >>> d = LowRankMultivariateNormal(Tensor.zeros(2), Tensor([[1.0], [0.0]]), Tensor.ones(2))
    >>> d.covariance_matrix.tolist(), d.sample((3,)).shape
    ([[2.0, 0.0], [0.0, 1.0]], (3, 2))
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support: Any = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        if cov_factor.ndim < 2 or loc.shape[-1:] != cov_factor.shape[-2:-1] or cov_diag.shape[-1:] != loc.shape[-1:]:
            raise ShapeError(
                f"LowRankMultivariateNormal: shapes {loc.shape}, {cov_factor.shape} and {cov_diag.shape}; "
                "give the shapes (…, n), (…, n, k) and (…, n)"
            )
        found = Tensor.broadcast_tensors(loc, cov_factor[..., 0], cov_diag)
        self.loc, self.cov_diag = found[0], found[2]
        self.cov_factor = cov_factor.expand(*self.loc.shape, cov_factor.shape[-1])
        self._batch_shape, self._event_shape = self.loc.shape[:-1], Size(self.loc.shape[-1:])

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.loc

    mode = mean

    @property
    def variance(self) -> Any:
        """The variances of the numbers."""
        return self.cov_factor.square().sum(-1) + self.cov_diag

    @property
    def covariance_matrix(self) -> Any:
        """The covariances."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariances."""
        return self.covariance_matrix.cholesky()

    @property
    def precision_matrix(self) -> Any:
        """The inverse of the covariances."""
        over = self.cov_factor / self.cov_diag.unsqueeze(-1)
        solved = linalg.solve_triangular(self._capacitance(), over.mT, upper=False)
        return self.cov_diag.reciprocal().diag_embed() - solved.mT @ solved

    def _capacitance(self) -> Any:
        """The Cholesky factor of 1 + cov_factor.T / cov_diag @ cov_factor, which is as small as there are factors."""
        count = self.cov_factor.shape[-1]
        eye = Tensor.eye(count, device=self.loc.device).cast(self.loc.dtype)
        return (self.cov_factor.mT @ (self.cov_factor / self.cov_diag.unsqueeze(-1)) + eye).cholesky()

    def _log_scale(self) -> Any:
        """The logarithm of the root of the determinant of the covariances."""
        return self._capacitance().diagonal(0, -2, -1).log().sum(-1) + 0.5 * self.cov_diag.log().sum(-1)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow."""
        shape = self._shape(sample_shape)
        factors = Tensor.randn((*shape[:-1], self.cov_factor.shape[-1], 1), device=self.loc.device)
        own = Tensor.randn(shape, device=self.loc.device).cast(self.loc.dtype)
        return self.loc + (self.cov_factor @ factors.cast(self.loc.dtype)).squeeze(-1) + self.cov_diag.sqrt() * own

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        away = value - self.loc
        over = away / self.cov_diag
        inside = (self.cov_factor.mT @ over.unsqueeze(-1)).squeeze(-1)
        distance = (away * over).sum(-1) - squared_distance(self._capacitance(), inside)
        return -0.5 * distance - self._log_scale() - self.loc.shape[-1] * LOG_ROOT_OF_TAU

    def entropy(self) -> Any:
        """The entropy."""
        return self._log_scale() + self.loc.shape[-1] * (0.5 + LOG_ROOT_OF_TAU)


class LKJCholesky(Distribution):
    """Cholesky factors of correlations, by D. Lewandowski, D. Kurowicka and H. Joe: uniform for a concentration of 1.

    >>> LKJCholesky(3, 1.0).sample((2,)).shape
    (2, 3, 3)
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive}
    support: Any = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ConfigError(f"LKJCholesky: {dim} rows; there are correlations from 2 on")
        self.dim = dim
        (self.concentration,) = self._broadcast(concentration)
        self._event_shape = Size((dim, dim))

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples: each row is a direction, and a length that a beta variate says."""
        shape = self._shape(sample_shape)
        like = self.concentration.detach()
        before = Tensor.arange(self.dim - 1, device=like.device).cast(like.dtype)
        zero = before[:1] * 0
        firsts = Tensor.cat([zero, before]) + 0.5
        others = like.unsqueeze(-1) + 0.5 * (self.dim - 2) - 0.5 * Tensor.cat([zero, before])
        front = tuple(shape[: len(shape) - 2 - len(self.batch_shape)])
        part = Beta(firsts.expand(*others.shape), others).sample(front).unsqueeze(-1)
        directions = Tensor.randn(shape, device=like.device).cast(like.dtype).tril(-1)
        lengths = directions.square().sum(-1, keepdims=True).sqrt()
        rows = part.sqrt() * directions / (lengths == 0).where(1.0, lengths)
        left = (1 - rows.square().sum(-1)).clamp(min=1e-37).sqrt()
        return rows + left.diag_embed()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        n, less = self.dim, self.dim - 1
        order = Tensor.arange(2, n + 1, device=value.device).cast(value.dtype)
        powers = 2 * (self.concentration - 1).unsqueeze(-1) + n - order
        found = (powers * value.diagonal(0, -2, -1)[..., 1:].log()).sum(-1)
        alpha = self.concentration + 0.5 * less
        return found - 0.5 * less * math.log(math.pi) - _mvlgamma(alpha - 0.5, less) + alpha.lgamma() * less


class Wishart(ExponentialFamily):
    """J. Wishart's distribution of positive definite matrices: sums of `df` products of normal vectors.

    One of covariance_matrix, precision_matrix and scale_tril, of shape (…, n, n). Raises ConfigError unless it is one.

    >>> Wishart(3.0, Tensor.eye(2)).mean.tolist()
    [[3.0, 0.0], [0.0, 3.0]]
    """

    arg_constraints: ClassVar[Any] = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
        "df": constraints.greater_than(0),
    }
    support: Any = constraints.positive_definite
    has_rsample = True

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if sum(one is not None for one in (covariance_matrix, precision_matrix, scale_tril)) != 1:
            raise ConfigError("Wishart: give one of covariance_matrix, precision_matrix and scale_tril")
        if scale_tril is None:
            given = linalg.inv(precision_matrix) if covariance_matrix is None else covariance_matrix
            scale_tril = given.cholesky()
        size = scale_tril.shape[-1]
        count = df if isinstance(df, Tensor) else Tensor(float(df), scale_tril.dtype, scale_tril.device)
        found = Tensor.broadcast_tensors(count, scale_tril[..., 0, 0])
        self.df = found[0]
        self.scale_tril = scale_tril.expand(*self.df.shape, size, size)
        self._batch_shape, self._event_shape = self.df.shape, Size((size, size))

    @property
    def covariance_matrix(self) -> Any:
        """The covariances of the vectors."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Any:
        """The inverse of the covariances."""
        return linalg.inv(self.covariance_matrix)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.df.unsqueeze(-1).unsqueeze(-1) * self.covariance_matrix

    @property
    def mode(self) -> Any:
        """The value of the largest density, nan where the degrees of freedom are too few."""
        factor = self.df - self.event_shape[-1] - 1
        return (factor > 0).where(factor, math.nan).unsqueeze(-1).unsqueeze(-1) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        """The variances of the numbers."""
        found = self.covariance_matrix
        diagonal = found.diagonal(0, -2, -1)
        return self.df.unsqueeze(-1).unsqueeze(-1) * (found**2 + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples, through which gradients flow, by the method of M. S. Bartlett (1933)."""
        shape, size = self._shape(sample_shape), self.event_shape[-1]
        less = Tensor.arange(size, device=self.df.device).cast(self.df.dtype)
        squares = 2 * standard_gamma((self.df.unsqueeze(-1) - less) / 2, shape[:-1])
        lower = Tensor.randn(shape, device=self.df.device).cast(self.df.dtype).tril(-1)
        found = self.scale_tril @ (lower + squares.clamp(min=1e-37).sqrt().diag_embed())
        return found @ found.mT

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        size, nu = self.event_shape[-1], self.df
        value, factor = Tensor.broadcast_tensors(value, self.scale_tril)
        inside = linalg.solve_triangular(factor, value, upper=False)
        trace = linalg.solve_triangular(factor.mT, inside, upper=True).diagonal(0, -2, -1).sum(-1)
        return (
            -nu * (size * math.log(2.0) / 2 + self._log_scale())
            - _mvlgamma(nu / 2, size)
            + (nu - size - 1) / 2 * linalg.slogdet(value)[1]
            - trace / 2
        )

    def entropy(self) -> Any:
        """The entropy."""
        size, nu = self.event_shape[-1], self.df
        digammas: Any = 0.0
        for k in range(size):
            digammas = digammas + (nu / 2 - 0.5 * k).digamma()
        return (
            (size + 1) * (size * math.log(2.0) / 2 + self._log_scale())
            + _mvlgamma(nu / 2, size)
            - (nu - size - 1) / 2 * digammas
            + nu * size / 2
        )

    def _log_scale(self) -> Any:
        return self.scale_tril.diagonal(0, -2, -1).log().sum(-1)


def _mvlgamma(value: Tensor, size: int) -> Any:
    """The logarithm of the gamma function of `size` rows."""
    total: Any = size * (size - 1) / 4 * math.log(math.pi)
    for k in range(size):
        total = total + (value - 0.5 * k).lgamma()
    return total
