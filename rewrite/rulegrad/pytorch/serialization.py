"""`torch.serialization`: files of weights. `rulegrad.load` runs no code of a file, so there are no classes to allow."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rulegrad.nn._checkpoint_files import load, save

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "DEFAULT_PROTOCOL",
    "MAP_LOCATION",
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "safe_globals",
    "save",
]


#: The protocol of pickle that PyTorch's files have, which its callers hand on to `save`.
DEFAULT_PROTOCOL: Final = 2


def add_safe_globals(safe_globals: Any) -> None:
    """Nothing: `load` makes tensors, and plain values and containers, of every file."""


#: For annotations: what `load` takes as `map_location`.
MAP_LOCATION = Any


def clear_safe_globals() -> None:
    """Nothing: see `add_safe_globals`."""


def get_safe_globals() -> list[Any]:
    """No classes: see `add_safe_globals`.

    >>> get_safe_globals()
    []
    """
    return []


@contextmanager
def safe_globals(safe_globals: Any) -> Iterator[None]:
    """A block in which `load` does what it always does."""
    yield
