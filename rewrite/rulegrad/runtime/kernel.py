"""A kernel: what the compiler hands to a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rulegrad.ir import UOp


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch: the graph that an interpreting device runs, and the source that a compiling one builds.

    `slots` is the number of buffers it takes: PARAM slot k is the k-th handle of a launch. `flops` and
    `nbytes` are what one launch computes and moves, for the profile; `user_line` is where the user asked.
    """

    name: str
    graph: UOp
    source: str
    grid: tuple[int, ...]
    local: tuple[int, ...]
    slots: int
    flops: int = 0
    nbytes: int = 0
    user_line: str = ""
