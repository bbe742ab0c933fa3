"""Functions of vectors and matrices with an inverse, and others along axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rulegrad._core import Size
from rulegrad.errors import ConfigError, ShapeError
from rulegrad.ir.limits import finfo
from rulegrad.nn.functional import pad
from rulegrad.pytorch.distributions import constraints
from rulegrad.pytorch.distributions._multivariate import sum_of_last
from rulegrad.pytorch.distributions._transforms_of_numbers import Transform, _clipped_sigmoid, _with_axes
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "CatTransform", "CorrCholeskyTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "ReshapeTransform", "SoftmaxTransform", "StackTransform", "StickBreakingTransform",
]  # fmt: skip

#: Probabilities and products are kept above it, so that their logarithms are numbers.
_TINY = 1e-37
_EPS = 2.0**-23


class _OfVectors(Transform):
    """One without parameters: two of a kind are equal."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = object.__hash__


class SoftmaxTransform(_OfVectors):
    """Probabilities of logits. `inv` gives logits, but more logits lead to the same probabilities.

    >>> SoftmaxTransform()(Tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Any) -> Any:
        return x.softmax(-1)

    def _inverse(self, y: Any) -> Any:
        return y.log()


class StickBreakingTransform(_OfVectors):
    """Probabilities of n + 1 classes by n numbers: each says which part is broken off of what is left of a stick."""

    bijective = True
    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Any) -> Any:
        part = _clipped_sigmoid(x - self._offset(x))
        left = (1 - part).cumprod(-1)
        return pad(part, (0, 1), value=1.0) * pad(left, (1, 0), value=1.0)

    def _inverse(self, y: Any) -> Any:
        first = y[..., :-1]
        left = (1 - first.cumsum(-1)).clamp(min=_EPS)
        return first.log() - left.log() + self._offset(first)

    @staticmethod
    def _offset(x: Any) -> Any:
        """So that zeros lead to equal probabilities."""
        count = x.shape[-1]
        return (count - Tensor.arange(count, device=x.device).cast(x.dtype)).log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the volume."""
        moved = x - self._offset(x)
        return (-moved + moved.logsigmoid() + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        """One more class than numbers."""
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        """One number less than classes."""
        return Size((*shape[:-1], shape[-1] - 1))


def _with_diagonal(lower: Any, diagonal: Any) -> Any:
    return lower.tril(-1) + diagonal.diag_embed()


class LowerCholeskyTransform(_OfVectors):
    """The lower triangle of a matrix, whose diagonal is made positive by `exp`."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return _with_diagonal(x, x.diagonal(0, -2, -1).exp())

    def _inverse(self, y: Any) -> Any:
        return _with_diagonal(y, y.diagonal(0, -2, -1).log())


class PositiveDefiniteTransform(_OfVectors):
    """The product of such a triangle and its transpose."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(y.cholesky())


class CorrCholeskyTransform(_OfVectors):
    """Cholesky factors of correlations of n numbers by n * (n - 1) / 2 numbers: the rows have the length 1.

    >>> CorrCholeskyTransform()(Tensor([0.0])).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    bijective = True
    domain, codomain = constraints.real_vector, constraints.corr_cholesky

    def _call(self, x: Any) -> Any:
        below_one = 1 - float(finfo(x.dtype).eps)
        partial = _strictly_lower(x.tanh().clamp(-below_one, below_one))
        size = partial.shape[-1]
        eye = Tensor.eye(size, device=x.device).cast(x.dtype)
        left = (1 - partial.square()).cumprod(-1).sqrt()  # of a row's length, after its first numbers
        before = pad(left[..., :-1], (1, 0), value=1.0)
        return (partial + eye) * before

    def _inverse(self, y: Any) -> Any:
        taken = 1 - y.square().cumsum(-1)
        before = pad(taken[..., :-1], (1, 0), value=1.0)
        partial = _vector(y) / _vector(before).clamp(min=_TINY).sqrt()
        return (partial.log1p() - (-partial).log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the volume."""
        left = 1 - y.square().cumsum(-1)
        of_rows = 0.5 * _vector(left[..., 2:, :], strictly=False).clamp(min=_TINY).log().sum(-1)
        return of_rows - 2 * (x + (-2.0 * x).softplus() - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        """A matrix for a vector. Raises ShapeError for a length that has none."""
        size = _side(shape[-1])
        return Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Any) -> Any:
        """A vector for a matrix."""
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


def _side(count: int) -> int:
    size = round(math.sqrt(0.25 + 2 * count) + 0.5)
    if size * (size - 1) // 2 != count:
        raise ShapeError(f"CorrCholeskyTransform: {count} numbers; a matrix of n rows needs n * (n - 1) / 2")
    return size


def _strictly_lower(x: Any) -> Any:
    """The numbers of a vector below the diagonal of a matrix, row by row."""
    size = _side(x.shape[-1])
    rows, columns = Tensor.arange(size).reshape(-1, 1), Tensor.arange(size)
    places = (rows * (rows - 1) // 2 + columns).clamp(0, max(x.shape[-1] - 1, 0))
    if not x.shape[-1]:
        return Tensor.zeros(*x.shape[:-1], size, size, dtype=x.dtype, device=x.device)
    return (columns < rows).to(x.device).where(x[..., places.to(x.device)], 0.0)


def _vector(matrix: Any, strictly: bool = True) -> Any:
    """The numbers of a matrix below its diagonal, or up to it, row by row."""
    size = matrix.shape[-1]
    places = [
        (row, column) for row in range(matrix.shape[-2]) for column in range(row + (not strictly)) if column < size
    ]
    rows, columns = ([place[k] for place in places] for k in (0, 1))
    if not places:
        return Tensor.zeros(*matrix.shape[:-2], 0, dtype=matrix.dtype, device=matrix.device)
    return matrix[..., rows, columns]


class IndependentTransform(Transform):
    """Another transform whose slopes are added along the last axes, which are one value."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size) if cache_size else base_transform
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def domain(self) -> Any:
        """That of the other one, with more axes."""
        return _with_axes(
            self.base_transform.domain, self.base_transform.domain.event_dim + self.reinterpreted_batch_ndims
        )

    @property
    def codomain(self) -> Any:
        """That of the other one, with more axes."""
        return _with_axes(
            self.base_transform.codomain, self.base_transform.codomain.event_dim + self.reinterpreted_batch_ndims
        )

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether it has an inverse."""
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        """That of the other one."""
        return self.base_transform.sign

    def _call(self, x: Any) -> Any:
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The sums of the other one's."""
        return sum_of_last(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> Any:
        """The shape of f of values of this shape."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of values whose f has this shape."""
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """The same numbers in another shape: `in_shape` and `out_shape` are those of the last axes."""

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ShapeError(f"ReshapeTransform: {self.in_shape} and {self.out_shape} have not as many elements")
        self.domain = _with_axes(constraints.real, len(self.in_shape))
        self.codomain = _with_axes(constraints.real, len(self.out_shape))

    def _call(self, x: Any) -> Any:
        return x.reshape(*x.shape[: x.ndim - len(self.in_shape)], *self.out_shape)

    def _inverse(self, y: Any) -> Any:
        return y.reshape(*y.shape[: y.ndim - len(self.out_shape)], *self.in_shape)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """0."""
        return Tensor.zeros(*x.shape[: x.ndim - len(self.in_shape)], dtype=x.dtype, device=x.device)

    def forward_shape(self, shape: Any) -> Any:
        """The shape of f of values of this shape."""
        return Size((*shape[: len(shape) - len(self.in_shape)], *self.out_shape))

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of values whose f has this shape."""
        return Size((*shape[: len(shape) - len(self.out_shape)], *self.in_shape))


class _OfParts(Transform):
    """Transforms of parts along an axis."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms = [one.with_cache(cache_size) for one in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all have an inverse."""
        return all(one.bijective for one in self.transforms)

    def _split(self, value: Any) -> Sequence[Any]:
        raise ConfigError(f"{type(self).__name__} has no _split; define it")

    def _join(self, parts: Sequence[Any]) -> Any:
        raise ConfigError(f"{type(self).__name__} has no _join; define it")

    def _call(self, x: Any) -> Any:
        return self._join([one(part) for one, part in zip(self.transforms, self._split(x), strict=True)])

    def _inverse(self, y: Any) -> Any:
        return self._join([one.inv(part) for one, part in zip(self.transforms, self._split(y), strict=True)])


class StackTransform(_OfParts):
    """Transforms of the slices along an axis.

    >>> StackTransform([SoftmaxTransform(), SoftmaxTransform()])(Tensor([[0.0, 0.0], [2.0, 2.0]])).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """

    @property
    def domain(self) -> Any:
        """Those of the slices."""
        return constraints.stack([one.domain for one in self.transforms], self.dim)

    @property
    def codomain(self) -> Any:
        """Those of the slices."""
        return constraints.stack([one.codomain for one in self.transforms], self.dim)

    def _split(self, value: Any) -> Sequence[Any]:
        parts: Sequence[Any] = value.unbind(self.dim)
        return parts

    def _join(self, parts: Sequence[Any]) -> Any:
        return Tensor.stack(list(parts), self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Those of the slices."""
        found = zip(self.transforms, self._split(x), self._split(y), strict=True)
        return self._join([one.log_abs_det_jacobian(before, after) for one, before, after in found])


class CatTransform(_OfParts):
    """Transforms of parts along an axis, of these lengths (1 by default)."""

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)

    @property
    def length(self) -> int:
        """The size of the axis."""
        return sum(self.lengths)

    @property
    def event_dim(self) -> int:
        """The largest of the parts."""
        return max(one.event_dim for one in self.transforms)

    @property
    def domain(self) -> Any:
        """Those of the parts."""
        return constraints.cat([one.domain for one in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Any:
        """Those of the parts."""
        return constraints.cat([one.codomain for one in self.transforms], self.dim, self.lengths)

    def _split(self, value: Any) -> Sequence[Any]:
        parts: Sequence[Any] = value.split(self.lengths, self.dim)
        return parts

    def _join(self, parts: Sequence[Any]) -> Any:
        return Tensor.cat(list(parts), self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Those of the parts, or their sum along an axis that is in the value."""
        slopes = []
        for one, before, after in zip(self.transforms, self._split(x), self._split(y), strict=True):
            slope = one.log_abs_det_jacobian(before, after)
            slopes.append(sum_of_last(slope, self.event_dim - one.event_dim))
        axis = self.dim - x.ndim if self.dim >= 0 else self.dim
        axis += self.event_dim
        if axis < 0:
            return Tensor.cat(slopes, axis)
        total = slopes[0]
        for slope in slopes[1:]:
            total = total + slope
        return total
