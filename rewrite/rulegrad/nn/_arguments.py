"""Arguments of layers, checked when a layer is made: sizes and probabilities."""

from __future__ import annotations

from numbers import Real
from typing import Any

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.tensor.axes import whole_number


def require_sizes(layer: str, least: int = 0, **sizes: Any) -> None:
    """Raises ShapeError for a size that is not a whole number, or less than `least`."""
    for name, size in sizes.items():
        if whole_number(size, f"{layer}: {name}") < least:
            raise ShapeError(f"{layer}: {name}={size}; use a number of {least} or more")


def require_probability(layer: str, **shares: Any) -> None:
    """Raises ConfigError for what is not a number from 0 to 1."""
    for name, share in shares.items():
        if not isinstance(share, Real) or not 0.0 <= float(share) <= 1.0:
            raise ConfigError(f"{layer}: {name}={share!r}; use a probability, from 0 to 1")


def require_numbers(layer: str, **numbers: Any) -> None:
    """Raises ConfigError for what is not a real number."""
    for name, number in numbers.items():
        if not isinstance(number, Real):
            raise ConfigError(f"{layer}: {name}={number!r}; use a number")
