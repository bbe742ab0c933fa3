"""`torch.distributions.transforms`: functions with an inverse, and what they do to densities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from rulegrad.errors import ConfigError
from rulegrad.pytorch.distributions._multivariate import sum_of_last
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "AffineTransform",
    "ComposeTransform",
    "ExpTransform",
    "PowerTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


class Transform:
    """The base of functions y = f(x): `_call` is f, `_inverse` its inverse, `log_abs_det_jacobian(x, y)` its slope.

    >>> square = PowerTransform(2.0)
    >>> square(Tensor([3.0])).tolist(), square.inv(Tensor([9.0])).tolist()
    ([9.0], [3.0])
    """

    bijective = True
    #: How many of the last axes are one value of f.
    event_dim: int = 0
    sign: Any = 1

    def __init__(self, cache_size: int = 0) -> None:
        """cache_size: PyTorch's; nothing is kept."""

    def __call__(self, x: Any) -> Any:
        """f of the values."""
        return self._call(x)

    @property
    def inv(self) -> Any:
        """The inverse, which is a transform too."""
        return _Inverse(self)

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

    inverse_shape = forward_shape


class _Inverse(Transform):
    def __init__(self, transform: Transform) -> None:
        self._of, self.event_dim, self.sign, self.bijective = (
            transform,
            transform.event_dim,
            transform.sign,
            transform.bijective,
        )

    @property
    def inv(self) -> Any:
        return self._of

    def _call(self, x: Any) -> Any:
        return self._of._inverse(x)

    def _inverse(self, y: Any) -> Any:
        return self._of(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._of.log_abs_det_jacobian(y, x)


class ComposeTransform(Transform):
    """Transforms one after the other.

    >>> ComposeTransform([ExpTransform(), AffineTransform(1.0, 2.0)])(Tensor([0.0])).tolist()
    [3.0]
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        self.parts = list(parts)
        self.event_dim = max((part.event_dim for part in self.parts), default=0)
        self.bijective = all(part.bijective for part in self.parts)

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

    def _call(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The sum of the parts'."""
        total: Any = None
        for part in self.parts:
            after = part(x)
            found = sum_of_last(part.log_abs_det_jacobian(x, after), self.event_dim - part.event_dim)
            total, x = found if total is None else total + found, after
        return sum_of_last(x.zeros_like(), self.event_dim) if total is None else total


#: The transform that changes nothing.
identity_transform: Final = ComposeTransform([])


class ExpTransform(Transform):
    """exp(x)."""

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """x."""
        return x


class PowerTransform(Transform):
    """x to the power of `exponent`, of positive x."""

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        self.exponent = exponent if isinstance(exponent, Tensor) else Tensor(float(exponent))

    @property
    def sign(self) -> Any:
        """1 where f rises, -1 where it falls."""
        return self.exponent.sign()

    def _call(self, x: Any) -> Any:
        return x**self.exponent

    def _inverse(self, y: Any) -> Any:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of |exponent * y / x|."""
        return (self.exponent * y / x).abs().log()


class SigmoidTransform(Transform):
    """sigmoid(x)."""

    def _call(self, x: Any) -> Any:
        return x.sigmoid().clamp(1e-37, 1 - 2.0**-23)

    def _inverse(self, y: Any) -> Any:
        y = y.clamp(1e-37, 1 - 2.0**-23)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of y * (1 - y)."""
        return -(-x).softplus() - x.softplus()


class SoftplusTransform(Transform):
    """log(1 + exp(x))."""

    def _call(self, x: Any) -> Any:
        return x.softplus()

    def _inverse(self, y: Any) -> Any:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of sigmoid(x)."""
        return -(-x).softplus()


class TanhTransform(Transform):
    """tanh(x)."""

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of 1 - y * y, by x."""
        return 2.0 * (math.log(2.0) - x - (-2.0 * x).softplus())


class AffineTransform(Transform):
    """loc + scale * x."""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        self.loc, self.scale, self.event_dim = loc, scale, event_dim

    @property
    def sign(self) -> Any:
        """1 where f rises, -1 where it falls."""
        return self.scale.sign() if isinstance(self.scale, Tensor) else 1 if self.scale > 0 else -1

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of |scale|."""
        scale = self.scale if isinstance(self.scale, Tensor) else x.full_like(float(self.scale))
        return sum_of_last(scale.abs().log().expand(*x.shape), self.event_dim)
