"""The user's source lines: which line of a program made a node. Kept only while somebody reads them.

They are for `DEBUG=2`, `profile()` and `trace()`, which say what line a kernel or a node comes from. The table is
outside the nodes: it changes neither their identity nor what is compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rulegrad.config import config
from rulegrad.runtime import profile
from rulegrad.support.places import shown, user_place

if TYPE_CHECKING:
    from rulegrad.ir import UOp

_MOST: Final = 100_000

_lines: dict[int, tuple[str, int]] = {}


def recording() -> bool:
    """Whether somebody reads lines: a profile is active, or the setting debug is at 2 or more."""
    return config.debug >= 2 or bool(profile._active)


def note(uop: UOp) -> None:
    """Remember the user's line for `uop`; the first line that made a node stays."""
    if len(_lines) >= _MOST:
        _lines.clear()
    place = user_place()
    if place:
        _lines.setdefault(uop.key, place)


def line_of(uop: UOp) -> str:
    """`file.py:12` of the user's line that made `uop`; "" when it was not recorded."""
    return shown(place_of(uop))


def place_of(uop: UOp) -> tuple[str, int] | None:
    """The file, in full, and line of the user's program that made `uop`; None when it was not recorded."""
    return _lines.get(uop.key)


def user_line() -> str:
    """`file.py:12` of the innermost frame outside rulegrad; "" when there is none."""
    return shown(user_place())
