"""`torch.nn._reduction`: what losses that a program writes ask for, the number and the name of a reduction."""

from __future__ import annotations

from typing import Any, Final

from rulegrad.errors import ConfigError

__all__ = ["get_enum", "legacy_get_enum", "legacy_get_string"]

_NUMBERS: Final = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number of a reduction: 0 of "none", 1 of "mean", 2 of "sum".

    >>> [get_enum(name) for name in ("none", "mean", "sum")]
    [0, 1, 2]
    """
    if reduction not in _NUMBERS:
        raise ConfigError(f"reduction={reduction!r}; use mean, sum or none")
    return _NUMBERS[reduction]


def legacy_get_string(size_average: Any, reduce: Any, emit_warning: bool = True) -> str:
    """The name of the reduction that two flags mean, of which None is True.

    >>> legacy_get_string(None, None), legacy_get_string(False, None), legacy_get_string(True, False)
    ('mean', 'sum', 'none')
    """
    if reduce is not None and not reduce:
        return "none"
    return "mean" if size_average is None or size_average else "sum"


def legacy_get_enum(size_average: Any, reduce: Any, emit_warning: bool = True) -> int:
    """The number of that reduction.

    >>> legacy_get_enum(False, True)
    2
    """
    return get_enum(legacy_get_string(size_average, reduce))
