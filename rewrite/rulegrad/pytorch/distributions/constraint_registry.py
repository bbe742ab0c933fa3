"""`torch.distributions.constraint_registry`: the transform that leads from all numbers to a set of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rulegrad.errors import ConfigError
from rulegrad.pytorch.distributions import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

_Maker = Callable[[Any], Any]


class ConstraintRegistry:
    """Transforms by the kinds of sets that they lead to.

    >>> from rulegrad import Tensor
    >>> transform_to(constraints.positive)(Tensor([0.0])).tolist()
    [1.0]
    """

    def __init__(self) -> None:
        self._makers: dict[type, _Maker] = {}

    def register(self, constraint: Any, factory: _Maker | None = None) -> Callable[[_Maker], _Maker]:
        """Names what makes the transform of a set, or of a kind of sets; without it, a decorator."""
        if factory is None:
            return lambda found: self.register(constraint, found)
        kind = constraint if isinstance(constraint, type) else type(constraint)
        if not issubclass(kind, constraints.Constraint):
            raise ConfigError(f"register: {constraint!r} is not a constraint, nor a class of constraints")
        self._makers[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform to a set. Raises ConfigError where none is known."""
        maker = self._makers.get(type(constraint))
        if maker is None:
            raise ConfigError(f"no transform to {constraint!r} is known; register one")
        return maker(constraint)


#: Transforms that have an inverse and a slope: to each value of the set leads one.
biject_to: Final = ConstraintRegistry()
#: Transforms to the set, of which more values may lead to one.
transform_to: Final = ConstraintRegistry()


def _both(*kinds: type) -> Callable[[_Maker], _Maker]:
    def decorate(maker: _Maker) -> _Maker:
        for kind in kinds:
            biject_to.register(kind, maker)
            transform_to.register(kind, maker)
        return maker

    return decorate


@_both(constraints._Real)
def _real(constraint: Any) -> Any:
    return transforms.identity_transform


@_both(constraints._GreaterThan, constraints._GreaterThanEq)
def _above(constraint: Any) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


@_both(constraints._LessThan)
def _below(constraint: Any) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


@_both(constraints._Interval, constraints._HalfOpenInterval)
def _between(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


@transform_to.register(constraints._LowerCholesky)
def _lower_cholesky(constraint: Any) -> Any:
    return transforms.LowerCholeskyTransform()


@_both(constraints._CorrCholesky)
def _corr_cholesky(constraint: Any) -> Any:
    return transforms.CorrCholeskyTransform()


@transform_to.register(constraints._PositiveDefinite)
@transform_to.register(constraints._PositiveSemidefinite)
def _positive_definite(constraint: Any) -> Any:
    return transforms.PositiveDefiniteTransform()


@biject_to.register(constraints._Simplex)
def _sticks(constraint: Any) -> Any:
    return transforms.StickBreakingTransform()


@transform_to.register(constraints._Simplex)
def _softmax(constraint: Any) -> Any:
    return transforms.SoftmaxTransform()


def _of_parts(registry: ConstraintRegistry) -> None:
    """Sets that are made of others, whose transforms are those of the parts in the same registry."""

    def independent(constraint: Any) -> Any:
        base = registry(constraint.base_constraint)
        return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)

    def cat(constraint: Any) -> Any:
        return transforms.CatTransform([registry(one) for one in constraint.cseq], constraint.dim, constraint.lengths)

    def stack(constraint: Any) -> Any:
        return transforms.StackTransform([registry(one) for one in constraint.cseq], constraint.dim)

    registry.register(constraints._IndependentConstraint, independent)
    registry.register(constraints._Cat, cat)
    registry.register(constraints._Stack, stack)


_of_parts(biject_to)
_of_parts(transform_to)
