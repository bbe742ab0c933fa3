"""Lines of the user's program: where something was asked for."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Final

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def user_place() -> tuple[str, int] | None:
    """The file and line of the innermost frame outside rulegrad; None when there is none."""
    frame = sys._getframe(1)
    # `contextlib` stands between a function of ours and its caller where a context manager decorates it.
    while frame.f_code.co_filename.startswith(_PACKAGE) or frame.f_code.co_filename == contextlib.__file__:
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def shown(place: tuple[str, int] | None) -> str:
    """`file.py:12`; "" for None."""
    return f"{os.path.basename(place[0])}:{place[1]}" if place else ""


def user_line() -> str:
    """The user's line as a message adds it, ` (file.py:12)`; "" when there is none."""
    place = shown(user_place())
    return f" ({place})" if place else ""
