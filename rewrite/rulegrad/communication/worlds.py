"""The ranks that a program runs on, as the compiler sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from rulegrad.communication.collective import Collective
from rulegrad.errors import CommunicationError
from rulegrad.ir.dtype import DType


class Work(Protocol):
    """A collective that has been started."""

    def wait(self) -> None:
        """Returns when the results are there. Raises CommunicationError when a rank failed, or did not come."""


class World(Protocol):
    """Ranks that communicate; `local` are those whose arrays this process has."""

    size: int
    """Ranks in all."""
    local: tuple[int, ...]
    """The ranks of this process, in order."""

    def start(self, collective: Collective, sources: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> Work:
        """Starts a collective, with a flat array for each local rank; it runs after those that were started before.

        Sources may not change, and results not be read, before `wait`; a result may be its source where they have one
        length. Raises CommunicationError where arrays do not fit.
        """

    def check_same(self, label: str, value: str) -> None:
        """Raises CommunicationError, naming the ranks, where they do not all give the same value; all call it.

        Of a value of several lines the message has those that differ.
        """

    def expect_same(self, what: str) -> None:
        """All ranks call it, and go on: where they do not all give the same, what follows is a CommunicationError."""


def bytes_of_all(ranks: World, own: bytes) -> list[bytes]:
    """The bytes that all ranks give, in their order, as many on each. Ranks are processes; all of them call it."""
    found = np.empty(ranks.size * len(own), np.uint8)
    step = Collective("all_gather", (ranks.size,), (0,), "", len(own), "uint8")
    ranks.start(step, [np.frombuffer(own, np.uint8).copy()], [found]).wait()
    return [found[k : k + len(own)].tobytes() for k in range(0, len(found), len(own))]


class Done:
    """A collective that has ended."""

    def wait(self) -> None:
        """Nothing is left to wait for."""


def named_ranks(ranks: Sequence[int]) -> str:
    """Ranks as messages name them.

    >>> named_ranks([2]), named_ranks([0, 1, 3])
    ('rank 2', 'ranks 0, 1, 3')
    """
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def not_the_same(label: str, values: Sequence[str]) -> CommunicationError:
    """The error of ranks that give different values; of lines that all values have nothing is said.

    >>> print(not_the_same("what runs", ["device c\\ndebug=0", "device c\\ndebug=1", "device c\\ndebug=0"]))
    what runs must be the same on all ranks, but there are:
        ranks 0, 2: debug=0
        rank 1: debug=1
    """
    lines = [value.split("\n") for value in values]
    common = set(lines[0]).intersection(*lines)
    ranks: dict[str, list[int]] = {}
    for rank, own in enumerate(lines):
        ranks.setdefault(", ".join(line for line in own if line not in common), []).append(rank)
    found = "".join(f"\n    {named_ranks(who)}: {text}" for text, who in ranks.items())
    return CommunicationError(f"{label} must be the same on all ranks, but there are:{found}")


def different(rank: int, ours: str, other: int, theirs: str) -> CommunicationError:
    """The error of two ranks that have started different collectives.

    >>> print(different(0, "this", 1, "that"))
    ranks do not do the same; all must take the same steps, on arrays of the same shapes, in one order:
        rank 0 this
        rank 1 that
    """
    return CommunicationError(
        "ranks do not do the same; all must take the same steps, on arrays of the same shapes, in one order:"
        f"\n    rank {rank} {ours}\n    rank {other} {theirs}"
    )


def check_arrays(
    collective: Collective, size: int, local: int, sources: Sequence[np.ndarray], results: Sequence[np.ndarray]
) -> None:
    """Raises CommunicationError unless the mesh has `size` ranks and there are arrays that fit for `local` of them."""
    ranks = len(collective.groups()) * collective.members
    if ranks != size:
        raise CommunicationError(f"{collective}: its mesh has {ranks} ranks, there are {size}")
    dtype = np.dtype(DType(collective.dtype).numpy)
    for what, arrays, count in (
        ("source", sources, collective.count),
        ("result", results, collective.result_count),
    ):
        if len(arrays) != local:
            raise CommunicationError(f"{collective}: {len(arrays)} {what}s are given for {local} ranks")
        for array in arrays:
            if array.shape != (count,) or array.dtype != dtype or not array.flags.c_contiguous:
                raise CommunicationError(
                    f"{collective}: a {what} is a contiguous array of shape ({count},) and type {dtype}; "
                    f"this is of shape {array.shape} and type {array.dtype}"
                )
