"""The search for a wrong rule: over rules that are left out, then over the firings of the one that is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rulegrad.errors import RulegradError


class Trial(NamedTuple):
    """The rules that are left out in one run."""

    off: tuple[str, ...] = ()
    limit: tuple[str, int] | None = None  # a rule, and how often it may fire


class Culprit(NamedTuple):
    """The rule whose firing of this number (from 1) makes the result wrong, with `off` left out."""

    rule: str
    firing: int
    off: tuple[str, ...]
    trials: int


class NoCulpritError(RulegradError):
    """The result is wrong with every suspect left out."""


MOST_FIRINGS = 1 << 40


def find_culprit(suspects: Sequence[str], right: Callable[[Trial], bool]) -> Culprit | None:
    """The rule and the firing that make the result wrong; None when it is right.

    Where several suspects are wrong, it is the last of them. Raises NoCulpritError when the result is wrong without
    all of them.
    """
    trials = 0

    def tried(trial: Trial) -> bool:
        nonlocal trials
        trials += 1
        return right(trial)

    if tried(Trial()):
        return None
    if not tried(Trial(tuple(suspects))):
        raise NoCulpritError(
            "the result is wrong without all rules that may be left out too: the cause is an essential rule, a case of "
            "a function, or no rule"
        )
    count = smallest(0, len(suspects), lambda n: tried(Trial(tuple(suspects[:n]))))
    rule, off = suspects[count - 1], tuple(suspects[: count - 1])

    def wrong(firings: int) -> bool:
        return not tried(Trial(off, (rule, firings)))

    high = 1
    while high < MOST_FIRINGS and not wrong(high):
        high *= 2
    firing = smallest(high // 2, high, wrong)
    return Culprit(rule, firing, off, trials)


def smallest(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """A number in (low, high] that holds while the one before does not; high holds, low does not.

    >>> smallest(0, 100, lambda n: n >= 17)
    17
    """
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
