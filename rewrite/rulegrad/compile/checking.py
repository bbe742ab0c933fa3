"""The setting CHECK: where compile steps load the workbench, which looks at graphs before and after passes.

No other file of what programs need knows of the workbench; a program without CHECK loads none of it.
"""

from __future__ import annotations

from types import ModuleType


def checks() -> ModuleType:
    """The workbench's `Checker`, `check_numbering` and `check_schedule`."""
    from rulegrad.workbench.diagnosis import checking  # late: the seam; CHECK is 0 in most programs

    return checking
