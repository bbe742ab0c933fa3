"""The seam to the workbench: the setting CHECK, which looks at graphs before and after passes, and a step's guard.

No other file of what programs need knows of the workbench; a program without CHECK or a mistake loads none of it.
"""

from __future__ import annotations

from types import ModuleType

from rulegrad.ir import UOp


def checks() -> ModuleType:
    """The workbench's `Checker`, `check_numbering` and `check_schedule`."""
    from rulegrad.workbench.diagnosis import checking  # late: the seam; CHECK is 0 in most programs

    return checking


def stopping_guard(graph: UOp, target: str) -> str:
    """Which test of a rule the first step of a SCHEDULED did not pass, in lines for people."""
    from rulegrad.workbench.explaining import schedules  # late: the seam; only where a schedule is wrong

    return schedules.stopping_guard(graph, target)
