"""Communication between ranks: collectives on flat arrays, in one process or between many.

A program runs on `world()`; `Collective` says what its ranks do together, and `counters()` what they have sent.
"""

from __future__ import annotations

from rulegrad.communication.collective import KINDS, OPERATIONS, Collective
from rulegrad.communication.counting import Count, counters, reset_counters
from rulegrad.communication.current import world
from rulegrad.communication.in_process import InProcess
from rulegrad.communication.nccl import DeviceArray, NcclWorld
from rulegrad.communication.worlds import Work, World

__all__ = [
    "KINDS", "OPERATIONS", "Collective", "Count", "DeviceArray", "InProcess", "NcclWorld", "Work", "World", "counters",
    "reset_counters", "world",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
