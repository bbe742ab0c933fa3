"""The base class of all distributions: shapes, and errors for functions that a distribution does not define."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, ClassVar

from rulegrad._core import Size
from rulegrad.errors import ConfigError
from rulegrad.pytorch.distributions import constraints
from rulegrad.pytorch.distributions.utils import broadcast_all
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.tensor import Tensor

__all__ = ["Distribution", "ExponentialFamily"]

#: The shape of a number.
NO_AXES = Size()


def _validating(cls: type[Any], made: Callable[..., None]) -> Callable[..., None]:
    """The constructor of a class, which compares parameters where `validate_args=True` asks for it."""

    names = list(signature(made).parameters)
    place = names.index("validate_args") - 1 if "validate_args" in names else math.inf

    @wraps(made)
    def constructed(self: Any, *arguments: Any, **options: Any) -> None:
        made(self, *arguments, **options)
        is_asked_for = arguments[int(place)] if place < len(arguments) else options.get("validate_args")
        self._validate_args |= bool(is_asked_for)
        if self._validate_args and cls is next(one for one in type(self).__mro__ if "__init__" in vars(one)):
            self._require_valid()

    return constructed


class Distribution:
    """The base: `batch_shape` is that of the parameters; samples have `sample_shape` in front of it.

    One sample has `event_shape` behind it, where a value is several numbers that depend on each other.
    """

    has_rsample: ClassVar[bool] = False
    has_enumerate_support: ClassVar[bool] = False
    #: The sets that parameters, by their names, and values are in.
    arg_constraints: ClassVar[Any] = {}
    support: Any = constraints.dependent
    #: Whether parameters have been compared with what they can be; values are not.
    _validate_args = False
    _batch_shape: Size = NO_AXES
    _event_shape: Size = NO_AXES

    def __init__(
        self, batch_shape: Any = NO_AXES, event_shape: Any = NO_AXES, validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__init__ = _validating(cls, cls.__init__)  # type: ignore[method-assign]

    def _require_valid(self) -> None:
        """Raises ConfigError where a parameter is not in the set that `arg_constraints` says; this reads values."""
        for name, constraint in self.arg_constraints.items():
            value = getattr(self, name, None)
            if constraints.is_dependent(constraint) or not isinstance(value, Tensor):
                continue
            if not constraint.check(value).all().item():
                raise ConfigError(f"{type(self).__name__}: {name} is not {constraint}: {value.tolist()}")

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Changes nothing: parameters are read and compared where `validate_args=True` is given."""

    def _validate_sample(self, value: Any) -> None:
        """Nothing: see there."""

    @property
    def batch_shape(self) -> Size:
        """The shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one value."""
        return self._event_shape

    @property
    def mode(self) -> Any:
        """The value of the largest density. Raises ConfigError where no formula is known."""
        raise self._not_defined("mode")

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values, along a new first axis. Raises ConfigError where they are not finitely many."""
        raise self._not_defined("enumerate_support")

    @property
    def mean(self) -> Any:
        """The mean. Raises ConfigError where no formula is known."""
        raise self._not_defined("mean")

    @property
    def variance(self) -> Any:
        """The variance. Raises ConfigError where no formula is known."""
        raise self._not_defined("variance")

    @property
    def stddev(self) -> Any:
        """The standard deviation, by the variance."""
        return self.variance.sqrt()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples through which gradients flow to the parameters. Raises ConfigError where they cannot."""
        raise ConfigError(f"{type(self).__name__}.rsample: its samples have no gradient; use sample")

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def sample_n(self, n: int) -> Any:
        """`n` samples."""
        return self.sample((n,))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, of a value."""
        raise self._not_defined("log_prob")

    def cdf(self, value: Any) -> Any:
        """The probability of at most this value."""
        raise self._not_defined("cdf")

    def icdf(self, value: Any) -> Any:
        """The value below which is this probability."""
        raise self._not_defined("icdf")

    def entropy(self) -> Any:
        """The entropy."""
        raise self._not_defined("entropy")

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution with parameters of a larger batch. _instance: what gets them, of a class that derives."""
        new, old = copy.copy(self) if _instance is None else _instance, len(self.batch_shape)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                value = value.expand(*batch_shape, *value.shape[old:])
            elif isinstance(value, Distribution):
                value = value.expand((*batch_shape, *value.batch_shape[old:]))
            setattr(new, name, value)
        new._batch_shape = Size(batch_shape)
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """For `expand` of a class that derives: what gets the parameters. Raises ConfigError where it needs its own."""
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise ConfigError(f"{type(self).__name__} has an __init__ of its own; it needs an expand of its own")
        return type(self).__new__(type(self))

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return self.entropy().exp()

    def _not_defined(self, name: str) -> ConfigError:
        return ConfigError(f"{type(self).__name__}.{name} is not defined; write its formula")

    def _broadcast(self, *parameters: Any) -> list[Tensor]:
        """The parameters as tensors of one shape, which is `batch_shape`; numbers have the dtype of the tensors."""
        found = list(broadcast_all(*parameters))
        self._batch_shape = found[0].shape
        return found

    def _extended_shape(self, sample_shape: Any = NO_AXES) -> Size:
        """The shape of samples."""
        return Size(self._shape(sample_shape))

    def _shape(self, sample_shape: Any) -> tuple[int, ...]:
        front = tuple(sample_shape) if isinstance(sample_shape, (tuple, list)) else (int(sample_shape),)
        return (*front, *self.batch_shape, *self.event_shape)

    def _uniform(self, sample_shape: Any, parameter: Tensor) -> Tensor:
        """Numbers from 0 up to, not including, 1, where the parameter is and of its dtype."""
        return Tensor.rand(self._shape(sample_shape), device=parameter.device).cast(parameter.dtype)

    def _within(self, sample_shape: Any, parameter: Tensor) -> Tensor:
        """Numbers above 0 and below 1, which logarithms can take."""
        return self._uniform(sample_shape, parameter).clamp(min=2.0**-25)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_shape={tuple(self.batch_shape)}, event_shape={tuple(self.event_shape)})"


class ExponentialFamily(Distribution):
    """The base of distributions whose densities are exponentials of products, for programs that ask."""


#: The logarithm of the square root of 2 pi.
LOG_ROOT_OF_TAU = 0.5 * math.log(2 * math.pi)
