"""The path of the layer that an error was raised in: put together while the error goes up through the modules."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rulegrad.nn import _walking as walking
from rulegrad.support.locations import is_ours, shown, user_location

if TYPE_CHECKING:
    from rulegrad.errors import RulegradError


def note(error: RulegradError, module: walking.Walked) -> None:
    """An error leaves the call of a module: innermost first."""
    steps: list[Any] = error.__dict__.setdefault("_layers", [])
    if not steps or steps[-1] is not module:
        steps.append(module)
    innermost = type(steps[0]).__name__
    path = ".".join(filter(None, (_name_in(outer, inner) for inner, outer in _pairs(steps))))
    whole = f"{path} ({innermost}) of {type(module).__name__}" if path else innermost
    lines = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    place = next((line for line in reversed(lines) if not is_ours(line[0])), None) or user_location()
    error.layer = whole + (f", at {shown(place)}" if place else "")


def _pairs(steps: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Each module with the one that called it, the outermost first."""
    return zip(reversed(steps[:-1]), reversed(steps[1:]), strict=True)


def _name_in(outer: walking.Walked, inner: walking.Walked) -> str:
    """The path of a module in the one that called it; its class, in brackets, where it is not a part of that."""
    waiting = list(walking.modules(outer))
    for path, part in waiting:
        if part is inner:
            return path
        waiting.extend((f"{path}.{name}", below) for name, below in walking.modules(part))
    return f"<{type(inner).__name__}>"
