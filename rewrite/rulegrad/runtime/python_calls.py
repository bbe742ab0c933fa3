"""Calls of Python functions as spans of a profile: the user's functions, and modules of networks by their class."""

from __future__ import annotations

import os
import sys
import sysconfig
import time
from types import CodeType, FrameType
from typing import Any, Final

from rulegrad.runtime.profile import host_row
from rulegrad.runtime.timeline import Span
from rulegrad.support.locations import is_ours, shown

_LEAST: Final = 5e-6  # seconds: shorter calls have no span, for they are many and say little
_LIBRARY: Final = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_PACKAGES: Final = ("site-packages", "dist-packages")  # in the library's folder, and not the library
_MODULE: Final = os.path.join("nn", "_module.py")


class PythonCalls:
    """Adds a span for each call in this thread, once it returns.

    >>> spans = []
    >>> calls = PythonCalls(spans)
    >>> def slow():
    ...     return sum(range(100_000))
    >>> calls.start(); _ = slow(); calls.stop()
    >>> [span.name for span in spans]
    ['slow']
    """

    def __init__(self, spans: list[Span]) -> None:
        self._spans = spans
        self._open: list[tuple[FrameType, str, float]] = []
        self._labels: dict[CodeType, str] = {}
        self._before: Any = None
        self._row = ""

    def start(self) -> None:
        self._before, self._row = sys.getprofile(), host_row()
        sys.setprofile(self._event)

    def stop(self) -> None:
        """Stops recording; calls that have not returned end now."""
        sys.setprofile(self._before)
        while self._open:
            self._close()

    def _event(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            label = self._labels.get(frame.f_code)
            if label is None:
                label = self._labels[frame.f_code] = _label(frame.f_code)
            if label:
                name = type(frame.f_locals["self"]).__name__ if label == _MODULE else label
                self._open.append((frame, name, time.perf_counter()))
        elif event == "return" and self._open and self._open[-1][0] is frame:
            self._close()

    def _close(self) -> None:
        frame, name, start = self._open.pop()
        seconds = time.perf_counter() - start
        if seconds >= _LEAST:
            place = shown((frame.f_code.co_filename, frame.f_code.co_firstlineno))
            caller = frame.f_back
            called_at = shown((caller.f_code.co_filename, caller.f_lineno)) if caller is not None else ""
            details = {"function": place, "called_at": called_at}
            self._spans.append(Span(name, self._row, start, seconds, details, "python"))


def _label(code: CodeType) -> str:
    """The name of a function's spans; "" for one without, `_MODULE` for the call of a module."""
    file = code.co_filename
    if file.endswith(_MODULE) and is_ours(file) and code.co_name == "_call":
        return _MODULE
    in_library = file.startswith(_LIBRARY) and not any(part in file for part in _PACKAGES)
    if (
        is_ours(file)
        or in_library
        or code.co_name in ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<lambda>")
    ):
        return ""
    return getattr(code, "co_qualname", code.co_name)  # of Python 3.11 and newer
