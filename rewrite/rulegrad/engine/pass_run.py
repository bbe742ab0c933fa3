"""The record of a pass that ran, which observers get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rulegrad._core import UOp
from rulegrad.engine.watching import Change, Part

if TYPE_CHECKING:
    from rulegrad._core import Inside


@dataclass(slots=True, eq=False)
class PassRun:
    """A pass that ran on a graph. One that failed leaves the graph as it was."""

    name: str
    target: str | None
    part: Part
    before: UOp
    after: UOp
    changes: list[Change]
    visited: int
    start: float  # seconds, on the clock of time.perf_counter
    seconds: float
    followed: dict[
        UOp, UOp | None
    ]  # nodes that a watcher asked for, and their results; None: they are not in the graph any more
    error: str = ""  # what it failed with
    remaining: Sequence[Inside] = ()  # rewriting inside that led to no firing: before the error, or when a search ended
    omitted: tuple[int, int] = (0, 0)  # after how many firings how many are left out, where it failed after very many
