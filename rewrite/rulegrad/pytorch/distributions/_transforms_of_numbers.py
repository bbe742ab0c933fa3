"""Functions of each number with an inverse, and what they do to densities."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, Final

from rulegrad.errors import ConfigError
from rulegrad.ir.limits import finfo
from rulegrad.pytorch.distributions import constraints
from rulegrad.pytorch.distributions._multivariate import sum_of_last
from rulegrad.tensor.movement import broadcast_shapes
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "AbsTransform", "AffineTransform", "ComposeTransform", "CumulativeDistributionTransform", "ExpTransform",
    "PowerTransform", "SigmoidTransform", "SoftplusTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip


class Transform:
    """The base of functions y = f(x): `_call` is f, `_inverse` its inverse, `log_abs_det_jacobian(x, y)` its slope.

    `domain` and `codomain` are the sets that it leads from and to. cache_size: 1 keeps the last value and result, so
    that `inv` of a result is the value itself; 0 keeps nothing.

    >>> square = PowerTransform(2.0)
    >>> square(Tensor([3.0])).tolist(), square.inv(Tensor([9.0])).tolist()
    ([9.0], [3.0])
    """

    bijective = False
    domain: Any = constraints.real
    codomain: Any = constraints.real
    _sign: Any = None
    _cache_size = 0
    _cached_x_y: tuple[Any, Any] = (None, None)

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ConfigError(f"{type(self).__name__}: cache_size is {cache_size}; it is 0 or 1")
        self._cache_size = cache_size

    def __call__(self, x: Any) -> Any:
        """f of the values."""
        if not self._cache_size:
            return self._call(x)
        known, y = self._cached_x_y
        if x is not known:
            y = self._call(x)
            self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Any) -> Any:
        if not self._cache_size:
            return self._inverse(y)
        x, known = self._cached_x_y
        if y is not known:
            x = self._inverse(y)
            self._cached_x_y = x, y
        return x

    @property
    def inv(self) -> Any:
        """The inverse, which is a transform too."""
        return _Inverse(self)

    @property
    def event_dim(self) -> int:
        """How many of the last axes are one value of f, where as many are one result."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ConfigError(f"{type(self).__name__}: results have other axes; ask domain.event_dim")
        return int(self.domain.event_dim)

    @property
    def sign(self) -> Any:
        """1 where f rises, -1 where it falls. Raises ConfigError where it does both."""
        if self._sign is None:
            raise ConfigError(f"{type(self).__name__} neither only rises nor only falls")
        return self._sign

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same with or without a kept value."""
        new = copy.copy(self)
        new._cache_size, new._cached_x_y = cache_size, (None, None)
        return new

    def _call(self, x: Any) -> Any:
        raise ConfigError(f"{type(self).__name__} has no _call; define it")

    def _inverse(self, y: Any) -> Any:
        raise ConfigError(f"{type(self).__name__} has no _inverse; define it")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the absolute slope at x, where the value is y."""
        raise ConfigError(f"{type(self).__name__} has no log_abs_det_jacobian; define it")

    def forward_shape(self, shape: Any) -> Any:
        """The shape of f of values of this shape."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of values whose f has this shape."""
        return shape

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._inv = transform

    @property
    def domain(self) -> Any:
        return self._inv.codomain

    @property
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Any:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._inv.with_cache(cache_size).inv

    def __call__(self, x: Any) -> Any:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Any) -> Any:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Inverse) and self._inv == other._inv

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Inverse({self._inv!r})"


class ComposeTransform(Transform):
    """Transforms one after the other.

    >>> ComposeTransform([ExpTransform(), AffineTransform(1.0, 2.0)])(Tensor([0.0])).tolist()
    [3.0]
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    @property
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        found, axes = self.parts[0].domain, self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            axes = max(axes + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return _with_axes(found, axes)

    @property
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        found, axes = self.parts[-1].codomain, self.parts[0].domain.event_dim
        for part in self.parts:
            axes = max(axes + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return _with_axes(found, axes)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        """1 where f rises, -1 where it falls."""
        found: Any = 1
        for part in self.parts:
            found = found * part.sign
        return found

    @property
    def inv(self) -> Any:
        """The inverse."""
        return ComposeTransform([part.inv for part in reversed(self.parts)])

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same with or without kept values."""
        new: Any = ComposeTransform([part.with_cache(cache_size) for part in self.parts])
        new._cache_size = cache_size
        return new

    def __call__(self, x: Any) -> Any:
        """f of the values."""
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part.inv(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The sum of those of the parts."""
        if not self.parts:
            return x.zeros_like()
        total: Any = 0.0
        axes = self.domain.event_dim
        for place, part in enumerate(self.parts):
            after = y if place == len(self.parts) - 1 else part(x)
            total = total + sum_of_last(part.log_abs_det_jacobian(x, after), axes - part.domain.event_dim)
            axes += part.codomain.event_dim - part.domain.event_dim
            x = after
        return total

    def forward_shape(self, shape: Any) -> Any:
        """The shape of f of values of this shape."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of values whose f has this shape."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__


def _with_axes(constraint: Any, axes: int) -> Any:
    more = axes - constraint.event_dim
    return constraints.independent(constraint, more) if more else constraint


#: The transform that changes nothing.
identity_transform: Final = ComposeTransform([])


class _OfNumbers(Transform):
    """One without parameters, that rises: two of a kind are equal."""

    bijective = True
    _sign: Any = 1

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = object.__hash__


class ExpTransform(_OfNumbers):
    """exp(x)."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """x."""
        return x


class PowerTransform(_OfNumbers):
    """x to the power of `exponent`, of positive x."""

    domain = codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else Tensor(float(exponent))

    @property
    def sign(self) -> Any:
        """1 where f rises, -1 where it falls."""
        return self.exponent.sign()

    def forward_shape(self, shape: Any) -> Any:
        """The shape of f of values of this shape."""
        return broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _equal(self.exponent, other.exponent)

    __hash__ = object.__hash__

    def _call(self, x: Any) -> Any:
        return x**self.exponent

    def _inverse(self, y: Any) -> Any:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of |exponent * y / x|."""
        return (self.exponent * y / x).abs().log()


def _inside_unit_interval(y: Tensor) -> Tensor:
    """Neither 0 nor 1, by as little as the dtype has."""
    info = finfo(y.dtype)
    return y.clamp(float(info.tiny), 1 - float(info.eps))


def _clipped_sigmoid(x: Tensor) -> Tensor:
    return _inside_unit_interval(x.sigmoid())


class SigmoidTransform(_OfNumbers):
    """sigmoid(x)."""

    codomain = constraints.unit_interval

    def _call(self, x: Any) -> Any:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Any) -> Any:
        y = _inside_unit_interval(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of y * (1 - y)."""
        return -(-x).softplus() - x.softplus()


class SoftplusTransform(_OfNumbers):
    """log(1 + exp(x))."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.softplus()

    def _inverse(self, y: Any) -> Any:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of sigmoid(x)."""
        return -(-x).softplus()


class TanhTransform(_OfNumbers):
    """tanh(x)."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of 1 - y * y, by x."""
        return 2.0 * (math.log(2.0) - x - (-2.0 * x).softplus())


def _equal(one: Any, other: Any) -> bool:
    """Whether two parameters are the same; values are waited for."""
    return one is other or bool(((one == other) if isinstance(one, Tensor) else Tensor(one) == other).all())


class AbsTransform(Transform):
    """|x|, of which there is no inverse: `inv` gives the positive value."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    __hash__ = object.__hash__


class CumulativeDistributionTransform(_OfNumbers):
    """The probability of at most x by a distribution of numbers."""

    codomain = constraints.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        """The set of the distribution's values."""
        return self.distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the density."""
        return self.distribution.log_prob(x)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


class AffineTransform(_OfNumbers):
    """loc + scale * x."""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale = loc, scale
        self.domain = self.codomain = _with_axes(constraints.real, event_dim)

    @property
    def sign(self) -> Any:
        """1 where f rises, -1 where it falls."""
        return self.scale.sign() if isinstance(self.scale, Tensor) else 1 if self.scale > 0 else -1

    def forward_shape(self, shape: Any) -> Any:
        """The shape of f of values of this shape."""
        return broadcast_shapes(shape, *(one.shape for one in (self.loc, self.scale) if isinstance(one, Tensor)))

    inverse_shape = forward_shape

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _equal(self.loc, other.loc) and _equal(self.scale, other.scale)

    __hash__ = object.__hash__

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of |scale|."""
        scale = self.scale if isinstance(self.scale, Tensor) else x.full_like(float(self.scale))
        return sum_of_last(scale.abs().log().expand(*x.shape), self.event_dim)
