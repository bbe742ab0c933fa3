"""Counters of what a rank has sent, and of how long it waited for it."""

from __future__ import annotations

from typing import NamedTuple

from rulegrad._core import Tally
from rulegrad.communication.collective import Collective
from rulegrad.support import forks


class Count(NamedTuple):
    """Collectives of one kind that have been started."""

    calls: int
    bytes: int
    """The bytes that one rank sends in them, by the textbook (`Collective.bytes_sent`)."""
    seconds: float
    """The time in which the plans of tensors on a mesh did nothing else than start them and wait for them."""


_tallies: dict[Collective, Tally] = {}
_lock = forks.lock()


def tally_of(collective: Collective) -> Tally:
    """The tally that counts the collectives that are like this one.

    >>> tally_of(Collective("all_gather", (1,), (0,), "", 5, "int8")).calls
    0
    """
    with _lock:
        return _tallies.setdefault(collective, Tally())


def started() -> dict[Collective, int]:
    """The collectives that this process has started, and how often; small ones that were sent as one are one.

    >>> reset_counters()
    >>> started()
    {}
    """
    with _lock:
        return {collective: tally.calls for collective, tally in _tallies.items() if tally.calls}


def counters() -> dict[str, Count]:
    """How many collectives of each kind this process has started, the bytes that each of its ranks sent, and waits.

    >>> reset_counters()
    >>> counters()
    {}
    """
    found: dict[str, Count] = {}
    with _lock:
        for collective, tally in _tallies.items():
            if tally.calls:
                calls, sent, seconds = found.get(collective.kind, (0, 0, 0.0))
                found[collective.kind] = Count(
                    calls + tally.calls, sent + tally.calls * collective.bytes_sent, seconds + tally.seconds
                )
    return found


def reset_counters() -> None:
    """Starts counting anew."""
    with _lock:
        for tally in _tallies.values():
            tally.clear()
