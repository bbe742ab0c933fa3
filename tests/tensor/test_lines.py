"""The user's source lines of nodes."""

from __future__ import annotations

import inspect
import os

from rulegrad import Tensor, config
from rulegrad.runtime.profile import profile
from rulegrad.runtime.source_lines import line_of, user_line


def _here(offset: int) -> str:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return f"{os.path.basename(__file__)}:{frame.f_back.f_lineno + offset}"


def test_lines_are_recorded_while_somebody_reads_them():
    a, b = Tensor.ones(2), Tensor.full((2,), 11)
    unseen = a + b
    assert line_of(unseen.uop) == ""
    with config(debug=2):
        total = (a * b).sum(axis=0)
        place = _here(-1)
    assert line_of(total.uop) == place
    assert line_of((a * b).uop) == place
    with profile():
        other = a - b
        place = _here(-1)
    assert line_of(other.uop) == place


def test_user_line_is_outside_the_library():
    assert user_line() == _here(0)
