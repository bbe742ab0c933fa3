"""Counters of what a rank has sent."""

from __future__ import annotations

from typing import NamedTuple

from rulegrad.communication.collective import Collective
from rulegrad.support import forks


class Count(NamedTuple):
    """Collectives of one kind that have been started."""

    calls: int
    bytes: int
    """What one rank sends in them, by the textbook (`Collective.bytes_sent`)."""


_counts: dict[str, Count] = {}
_lock = forks.lock()


def count(collective: Collective) -> None:
    """Adds one collective."""
    with _lock:
        calls, sent = _counts.get(collective.kind, (0, 0))
        _counts[collective.kind] = Count(calls + 1, sent + collective.bytes_sent)


def counters() -> dict[str, Count]:
    """How many collectives of each kind this process has started, and the bytes that each of its ranks sent in them.

    >>> reset_counters()
    >>> counters()
    {}
    """
    with _lock:
        return dict(_counts)


def reset_counters() -> None:
    """Starts counting anew."""
    with _lock:
        _counts.clear()
