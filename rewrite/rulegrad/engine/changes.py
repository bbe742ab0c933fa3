"""Callbacks for a change of the rules in force."""

from __future__ import annotations

from collections.abc import Callable

_listeners: list[Callable[[], None]] = []


def on_change(listener: Callable[[], None]) -> None:
    """Calls `listener()` whenever the rules in force change."""
    _listeners.append(listener)


def forget() -> None:
    """Reads the rule files again when they are next needed, and lets go of kernels made by the old ones."""
    for listener in _listeners:
        listener()
