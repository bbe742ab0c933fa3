"""The user's source lines: which line of a program made a node. Kept only while somebody reads them.

They are for `DEBUG=2` and `profile()`, which print the line that a kernel comes from. The table is outside
the nodes: it changes neither their identity nor what is compiled.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Final

from rulegrad.config import config
from rulegrad.runtime import profile

if TYPE_CHECKING:
    from rulegrad.ir import UOp

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MOST: Final = 100_000

_lines: dict[int, str] = {}


def recording() -> bool:
    """Whether somebody reads lines: a profile is active, or the setting debug is at 2 or more."""
    return config.debug >= 2 or bool(profile._active)


def note(uop: UOp) -> None:
    """Remember the user's line for `uop`; the first line that made a node stays."""
    if len(_lines) >= _MOST:
        _lines.clear()
    _lines.setdefault(uop.key, user_line())


def line_of(uop: UOp) -> str:
    """`file.py:12` of the user's line that made `uop`; "" when it was not recorded."""
    return _lines.get(uop.key, "")


def user_line() -> str:
    """`file.py:12` of the innermost frame outside rulegrad; "" when there is none."""
    frame = sys._getframe(1)
    # `contextlib` stands between a function of ours and its caller where a context manager decorates it.
    while frame.f_code.co_filename.startswith(_PACKAGE) or frame.f_code.co_filename == contextlib.__file__:
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
