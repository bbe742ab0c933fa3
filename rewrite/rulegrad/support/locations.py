"""Lines of the user's program: where something was asked for."""

from __future__ import annotations

import contextlib
import os
import sys
from types import CodeType, FrameType
from typing import Final, TypeAlias

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MOST_FRAMES: Final = 64

Frame: TypeAlias = tuple[str, int, str]  # the file in full, the line, the function
Stack: TypeAlias = tuple[Frame, ...]  # the outermost first

_ours: dict[str, bool] = {}  # by file
_frames: dict[
    tuple[int, int], tuple[CodeType, Frame]
] = {}  # by the address of the code, which is kept, and the place in it


def user_location() -> tuple[str, int] | None:
    """The file and line of the innermost frame outside rulegrad; None when there is none."""
    frame = sys._getframe(1)
    # `contextlib` stands between a function of ours and its caller where a context manager decorates it.
    while frame.f_code.co_filename.startswith(_PACKAGE) or frame.f_code.co_filename == contextlib.__file__:
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def is_ours(file: str) -> bool:
    """Whether a frame of this file is not the user's: rulegrad's own, or Python's around a program that it runs."""
    return file.startswith((_PACKAGE, "<frozen ")) or file == contextlib.__file__


def user_stack() -> Stack:
    """The frames outside rulegrad, the innermost 64 of them at most.

    >>> user_stack()[-1][2]
    '<module>'
    """
    frame: FrameType | None = sys._getframe(1)
    found: list[Frame] = []
    while frame is not None and len(found) < _MOST_FRAMES:
        code = frame.f_code
        file = code.co_filename
        ours = _ours.get(file)
        if ours is None:
            ours = _ours[file] = is_ours(file)
        if not ours:
            key = id(code), frame.f_lasti
            known = _frames.get(key)
            if known is None or known[0] is not code:  # a line number takes as long as all else
                known = _frames[key] = code, (file, frame.f_lineno, code.co_name)
            found.append(known[1])
        frame = frame.f_back
    found.reverse()
    return tuple(found)


def shown(location: tuple[str, int] | Frame | None) -> str:
    """`file.py:12`; "" for None."""
    return f"{os.path.basename(location[0])}:{location[1]}" if location else ""


def user_line() -> str:
    """The user's line as a message adds it, ` (file.py:12)`; "" when there is none."""
    location = shown(user_location())
    return f" ({location})" if location else ""
