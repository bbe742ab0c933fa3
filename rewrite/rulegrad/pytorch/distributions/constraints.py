"""`torch.distributions.constraints`: sets of values, as programs name those that parameters may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rulegrad import linalg
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "Constraint", "boolean", "dependent", "greater_than", "greater_than_eq", "half_open_interval", "independent",
    "integer_interval", "interval", "less_than", "lower_cholesky", "lower_triangular", "nonnegative",
    "nonnegative_integer", "positive", "positive_definite", "positive_integer", "real", "real_vector", "simplex",
    "square", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A set of values, of numbers or (`event_dim` axes) of vectors and matrices."""

    def __init__(self, check: Callable[[Tensor], Tensor], event_dim: int = 0, is_discrete: bool = False) -> None:
        self._check = check
        self.event_dim = event_dim
        self.is_discrete = is_discrete

    def check(self, value: Tensor) -> Tensor:
        """Which elements, or vectors, or matrices are in the set.

        >>> positive.check(Tensor([-1.0, 2.0])).tolist(), simplex.check(Tensor([[0.5, 0.5], [1.0, 1.0]])).tolist()
        ([False, True], [True, False])
        >>> positive_definite.check(Tensor([[2.0, 1.0], [1.0, 2.0]])).item()
        True
        """
        return self._check(value)


def _is_whole(value: Tensor) -> Tensor:
    return value % 1 == 0


def greater_than(lower_bound: Any) -> Constraint:
    """Numbers above a bound."""
    return Constraint(lambda value: value > lower_bound)


def greater_than_eq(lower_bound: Any) -> Constraint:
    """A bound, and numbers above it."""
    return Constraint(lambda value: value >= lower_bound)


def less_than(upper_bound: Any) -> Constraint:
    """Numbers below a bound."""
    return Constraint(lambda value: value < upper_bound)


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Two bounds, and numbers between them."""
    return Constraint(lambda value: (value >= lower_bound) & (value <= upper_bound))


def half_open_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """The lower one of two bounds, and numbers between them."""
    return Constraint(lambda value: (value >= lower_bound) & (value < upper_bound))


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Two bounds, and whole numbers between them."""
    return Constraint(
        lambda value: _is_whole(value) & (value >= lower_bound) & (value <= upper_bound), is_discrete=True
    )


def independent(base_constraint: Constraint, reinterpreted_batch_ndims: int) -> Constraint:
    """Tensors whose elements along so many more axes are all in a set."""

    def check(value: Tensor) -> Tensor:
        found = base_constraint.check(value)
        for _ in range(reinterpreted_batch_ndims):
            found = found.all(-1)
        return found

    return Constraint(check, base_constraint.event_dim + reinterpreted_batch_ndims, base_constraint.is_discrete)


def _is_lower_triangular(value: Tensor) -> Tensor:
    return (value.tril() == value).all(-1).all(-1)


def _is_symmetric(value: Tensor) -> Tensor:
    return ((value - value.mT).abs() <= 1e-6).all(-1).all(-1)


def _is_square(value: Tensor) -> Tensor:
    return Tensor.full(value.shape[:-2], value.shape[-2] == value.shape[-1], device=value.device)


def _is_positive_definite(value: Tensor) -> Tensor:
    return _is_symmetric(value) & (linalg.eigvalsh(value) > 0).all(-1)


#: Values that depend on others: nothing is said of them.
dependent: Final = Constraint(lambda value: value == value)
boolean: Final = Constraint(lambda value: (value == 0) | (value == 1), is_discrete=True)
real: Final = Constraint(lambda value: value == value)
real_vector: Final = independent(real, 1)
positive: Final = greater_than(0)
nonnegative: Final = greater_than_eq(0)
unit_interval: Final = interval(0, 1)
positive_integer: Final = Constraint(lambda value: _is_whole(value) & (value >= 1), is_discrete=True)
nonnegative_integer: Final = Constraint(lambda value: _is_whole(value) & (value >= 0), is_discrete=True)
simplex: Final = Constraint(lambda value: (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6), 1)
lower_triangular: Final = Constraint(_is_lower_triangular, 2)
lower_cholesky: Final = Constraint(
    lambda value: _is_lower_triangular(value) & (value.diagonal(0, -2, -1) > 0).all(-1), 2
)
square: Final = Constraint(_is_square, 2)
symmetric: Final = Constraint(_is_symmetric, 2)
positive_definite: Final = Constraint(_is_positive_definite, 2)
