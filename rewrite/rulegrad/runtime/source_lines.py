"""The user's source lines: which line of a program made a node. Kept only while somebody reads them.

They are for `DEBUG=2`, `profile()` and `trace()`, which say what line a kernel or a node comes from; those of a
captured function are kept at its one trace, for a profile of later calls. The table is outside the nodes: it changes
neither their identity nor what is compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rulegrad.config import config
from rulegrad.runtime import profile
from rulegrad.support.places import Stack, shown, user_place, user_stack

if TYPE_CHECKING:
    from rulegrad.ir import UOp

_MOST: Final = 100_000

_stacks: dict[int, Stack] = {}
_traces = 0  # of captured functions, in all threads: their lines may be read later


def recording() -> bool:
    """Whether lines are kept: a profile is active, the setting debug is at 2 or more, or a function is captured."""
    return _traces > 0 or reading()


def reading() -> bool:
    """Whether somebody reads lines now."""
    return config.debug >= 2 or bool(profile._active)


def count_traces(more: int) -> None:
    """A trace of a captured function has begun (1) or ended (-1). The caller holds the lock of traces."""
    global _traces
    _traces += more


def note(uop: UOp) -> None:
    """Remember the user's line for `uop`; the first line that made a node stays."""
    key = uop.key
    if key in _stacks:
        return
    if len(_stacks) >= _MOST:
        _stacks.clear()
    stack = user_stack()
    if stack:
        _stacks[key] = stack


def line_of(uop: UOp) -> str:
    """`file.py:12` of the user's line that made `uop`; "" when it was not recorded."""
    return shown(place_of(uop))


def place_of(uop: UOp) -> tuple[str, int] | None:
    """The file, in full, and line of the user's program that made `uop`; None when it was not recorded."""
    stack = _stacks.get(uop.key)
    return stack[-1][:2] if stack else None


def stack_of(uop: UOp) -> Stack:
    """The user's frames when `uop` was made, the outermost first; () when they were not recorded."""
    return _stacks.get(uop.key, ())


def user_line() -> str:
    """`file.py:12` of the innermost frame outside rulegrad; "" when there is none."""
    return shown(user_place())
