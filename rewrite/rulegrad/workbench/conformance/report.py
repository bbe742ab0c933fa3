"""The findings of the conformance checks, as data."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rulegrad.errors import RulegradError

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

#: The rungs, from the lowest: each needs what is below it.
RUNGS = {
    "load": "the files, the module and the target",
    "copy": "memory: allocate, copy in and out, free",
    "add": "sums of two tensors",
    "reduce": "reductions",
    "matmul": "matrix products",
    "ops": "every op on every dtype that the target declares",
    "suite": "the op test-suite: whole programs",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: about what, what is wrong with it, and what to do."""

    about: str  # "EXP on float32", "allocate", "softmax"
    problem: str
    hint: str = ""


@dataclass(slots=True)
class Rung:
    """One rung: how many things were tried, and what is wrong with them; notes are not problems."""

    name: str
    tried: int = 0
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped: str = ""  # why it was not tried
    seconds: float = 0.0

    @property
    def status(self) -> str:
        """passed, failed or skipped.

        >>> Rung("add", 3).status, Rung("add", 3, [Finding("add", "is wrong")]).status
        ('passed', 'failed')
        """
        return SKIPPED if self.skipped else FAILED if self.findings else PASSED

    def found(self, about: str, problem: str, hint: str = "") -> None:
        """Adds a finding."""
        self.findings.append(Finding(about, problem, hint))

    def as_data(self) -> dict[str, Any]:
        """The same as plain data.

        >>> Rung("add", 3).as_data()["status"]
        'passed'
        """
        findings = [{"about": f.about, "problem": f.problem, "hint": f.hint} for f in self.findings]
        data = {"rung": self.name, "status": self.status, "tried": self.tried, "seconds": round(self.seconds, 2)}
        return {**data, "findings": findings, "notes": self.notes, "skipped": self.skipped}


class Deadline:
    """The time that a ladder may take; `over()` once it has passed."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def over(self) -> bool:
        """Whether the time has passed."""
        return time.monotonic() > self._end


def problem_of(error: BaseException, folder: Path | None = None) -> str:
    """The message of an exception; of a foreign one also its type, and the line of the backend where it arose."""
    if isinstance(error, RulegradError):
        return error.problem
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if folder is not None and Path(f.filename).is_relative_to(folder)]
    where = f" ({Path(inside[-1].filename).name}, line {inside[-1].lineno}: {inside[-1].line})" if inside else ""
    return f"{type(error).__name__}: {error}{where}"
