"""`torch.distributions.constraints`: sets of values, as programs name those that parameters may have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from rulegrad import linalg
from rulegrad.errors import ConfigError
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "Constraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property", "greater_than",
    "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval", "is_dependent", "less_than",
    "lower_cholesky", "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive",
    "positive_definite", "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square",
    "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A set of values, of numbers or (`event_dim` axes) of vectors and matrices.

    >>> class Even(Constraint):
    ...     def check(self, value):
    ...         return value % 2 == 0
    >>> Even().check(Tensor([1, 2])).tolist()
    [False, True]
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Any:
        """Which elements, or vectors, or matrices are in the set.

        >>> positive.check(Tensor([-1.0, 2.0])).tolist(), simplex.check(Tensor([[0.5, 0.5], [1.0, 1.0]])).tolist()
        ([False, True], [True, False])
        >>> positive_definite.check(Tensor([[2.0, 1.0], [1.0, 2.0]])).item()
        True
        """
        raise ConfigError(f"{type(self).__name__} has no check; define it")

    def __repr__(self) -> str:
        return f"{type(self).__name__.lstrip('_')}()"


class _Dependent(Constraint):
    """A set that depends on other values, of which nothing is said."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        """The same, of which more is known."""
        return _Dependent(
            is_discrete=self.is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self.event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Any) -> Any:
        raise ConfigError("this set depends on other values: ask an object's own constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether the set depends on other values.

    >>> is_dependent(dependent), is_dependent(positive)
    (True, False)
    """
    return isinstance(constraint, _Dependent)


class dependent_property(property, _Dependent):  # noqa: N801  (PyTorch's name)
    """A property of a distribution that is the set of its values; of the class it is a set that depends on others.

    >>> class Below:
    ...     limit = 3.0
    ...     @dependent_property(is_discrete=False, event_dim=0)
    ...     def support(self):
    ...         return less_than(self.limit)
    >>> Below().support.check(Tensor([1.0, 5.0])).tolist(), is_dependent(Below.support)
    ([True, False], True)
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        super().__init__(fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> Any:  # type: ignore[override]
        """The property of a function."""
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


class _IndependentConstraint(Constraint):
    """Tensors whose elements along so many more axes are all in a set."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> Any:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        found = self.base_constraint.check(value)
        for _ in range(self.reinterpreted_batch_ndims):
            found = found.all(-1)
        return found


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete, event_dim = True, 1

    def check(self, value: Any) -> Any:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Bounded(Constraint):
    """Numbers, whole ones where it is discrete, of which one or two bounds are known."""

    lower_bound: Any = None
    upper_bound: Any = None
    _with_lower = _with_upper = True

    def check(self, value: Any) -> Any:
        low, high = self.lower_bound, self.upper_bound
        found = _is_whole(value) if self.is_discrete else None
        if low is not None:
            above = value >= low if self._with_lower else value > low
            found = above if found is None else found & above
        if high is not None:
            below = value <= high if self._with_upper else value < high
            found = below if found is None else found & below
        return found

    def __repr__(self) -> str:
        bounds = [f"{name}={getattr(self, name)}" for name in ("lower_bound", "upper_bound") if name in vars(self)]
        return f"{type(self).__name__.lstrip('_')}({', '.join(bounds)})"


class _Above(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _Below(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _Between(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _GreaterThan(_Above):
    """Numbers above a bound."""

    _with_lower = False


class _GreaterThanEq(_Above):
    """A bound, and numbers above it."""


class _LessThan(_Below):
    """Numbers below a bound."""

    _with_upper = False


class _Interval(_Between):
    """Two bounds, and numbers between them."""


class _HalfOpenInterval(_Between):
    """The lower one of two bounds, and numbers between them."""

    _with_upper = False


class _IntegerInterval(_Between):
    """Two bounds, and whole numbers between them."""

    is_discrete = True


class _IntegerLessThan(_Below):
    """A bound, and whole numbers below it."""

    is_discrete = True


class _IntegerGreaterThan(_Above):
    """A bound, and whole numbers above it."""

    is_discrete = True


class _Real(Constraint):
    def check(self, value: Any) -> Any:
        return value == value


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of counts whose sum is at most a bound."""

    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return (value.tril() == value).all(-1).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Any) -> Any:
        return super().check(value) & (value.diagonal(0, -2, -1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Cholesky factors of correlations: the rows have the length 1."""

    def check(self, value: Any) -> Any:
        unit = (value.square().sum(-1) - 1).abs() <= 1e-4
        return super().check(value) & unit.all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return Tensor.full(value.shape[:-2], value.shape[-2] == value.shape[-1], device=value.device)


class _Symmetric(_Square):
    def check(self, value: Any) -> Any:
        return ((value - value.mT).abs() <= 1e-6).all(-1).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        return super().check(value) & (linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        return super().check(value) & (linalg.eigvalsh(value) > 0).all(-1)


class _Parts(Constraint):
    """Tensors whose parts along an axis are in sets of their own."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self) -> Any:
        return any(one.is_discrete for one in self.cseq)

    @property
    def event_dim(self) -> Any:
        return max(one.event_dim for one in self.cseq)


class _Cat(_Parts):
    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    def check(self, value: Any) -> Any:
        parts = value.split(self.lengths, self.dim)
        return Tensor.cat([one.check(part) for one, part in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Parts):
    def check(self, value: Any) -> Any:
        parts = value.unbind(self.dim)
        return Tensor.stack([one.check(part) for one, part in zip(self.cseq, parts, strict=True)], self.dim)


def _is_whole(value: Tensor) -> Tensor:
    return value % 1 == 0


greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval
independent, multinomial, cat, stack = _IndependentConstraint, _Multinomial, _Cat, _Stack

#: Values that depend on others: nothing is said of them.
dependent: Final = _Dependent()
boolean: Final = _Boolean()
one_hot: Final = _OneHot()
real: Final = _Real()
real_vector: Final = independent(real, 1)
positive: Final = greater_than(0.0)
nonnegative: Final = greater_than_eq(0.0)
unit_interval: Final = interval(0.0, 1.0)
positive_integer: Final = _IntegerGreaterThan(1)
nonnegative_integer: Final = _IntegerGreaterThan(0)
simplex: Final = _Simplex()
lower_triangular: Final = _LowerTriangular()
lower_cholesky: Final = _LowerCholesky()
corr_cholesky: Final = _CorrCholesky()
square: Final = _Square()
symmetric: Final = _Symmetric()
positive_semidefinite: Final = _PositiveSemidefinite()
positive_definite: Final = _PositiveDefinite()
