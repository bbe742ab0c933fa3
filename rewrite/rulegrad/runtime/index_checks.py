"""Indices in tensors that were out of range: kernels flag them, and whoever reads a result is told.

A realization whose kernels check indices (rules/kernel/index_checks.rules) gets a buffer of flags, words of zeros, one
for each check. A kernel stores an index that is out of range into its check's word. Nobody waits for a kernel because
of this: the words are looked at when a result is read, or at once where a launch ends before it returns. A result that
depends on a wrong index stays wrong, and so does what is computed from it: reading it is an error each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from rulegrad import engine
from rulegrad.errors import IndexRangeError
from rulegrad.ir import UOp
from rulegrad.runtime import devices, source_lines
from rulegrad.runtime.buffer import Buffer

#: Of the checks that a result waits for, the oldest are looked at when there are more than this.
_MOST_WAITING: Final = 64

_clean: dict[tuple[str, int], list[Buffer]] = {}  # flags that are zeros, by device and number of words


def new_flags(device: str, words: int) -> Buffer:
    """A buffer of so many zeros (int32) on a device."""
    known = _clean.get((device, words))
    if known:
        return known.pop()
    flags = Buffer((words,), "int32", device)
    flags.copy_in(np.zeros(words, np.int32))
    return flags


class IndexCheck:
    """The checks of one realization of these graphs, whose kernels have the flags."""

    def __init__(self, flags: Buffer, graphs: Sequence[UOp]) -> None:
        self._flags: Buffer | None = flags
        self._graphs = tuple(graphs)
        self._wrong: dict[int, int] = {}  # an index out of range, by the number of the check

    @property
    def is_settled(self) -> bool:
        """Whether the flags were looked at."""
        return self._flags is None

    @property
    def has_passed(self) -> bool:
        """Whether the flags were looked at, and none was set."""
        return self._flags is None and not self._wrong

    def settle(self) -> None:
        """Looks at the flags, once all launches before this have ended."""
        if self._flags is None:
            return
        flags, self._flags = self._flags, None
        words, *others = flags.arrays_of_parts()
        for one in others:  # of a device with several parts
            words = np.where(words == 0, one, words)
        if words.any():
            self._wrong = {int(place): int(words[place]) for place in np.flatnonzero(words)}
        else:
            self._graphs = ()
            _clean.setdefault((flags.device, flags.shape[0]), []).append(flags)

    def is_wrong(self, places: int) -> bool:
        """Whether one of the checks of a set (bit p: check p) has failed, as far as is known."""
        return any(places >> place & 1 for place in self._wrong)

    def error(self, places: int) -> Exception:
        """The error of the first failed check of a set."""
        place = min(place for place in self._wrong if places >> place & 1)
        return _error(self._graphs, place, self._wrong[place])


class Waiting(NamedTuple):
    """Dependences of a result: checks of a realization, as a set of bits."""

    check: IndexCheck
    places: int

    @property
    def may_be_wrong(self) -> bool:
        return not self.check.is_settled or self.check.is_wrong(self.places)

    def verify(self) -> None:
        """Looks at the flags. Raises IndexRangeError where a check has failed."""
        self.check.settle()
        if self.check.is_wrong(self.places):
            raise self.check.error(self.places)


def joined(groups: Sequence[Sequence[Waiting]]) -> tuple[Waiting, ...]:
    """The checks of a result that depends on others, each with its own: the sets of a check as one."""
    places: dict[IndexCheck, int] = {}
    for group in groups:
        for one in group:
            if one.may_be_wrong:
                places[one.check] = places.get(one.check, 0) | one.places
    found = [Waiting(check, bits) for check, bits in places.items()]
    for one in found[:-_MOST_WAITING]:
        one.check.settle()
    return tuple(one for one in found if one.may_be_wrong)


class Dependencies:
    """Dependences of the roots of a numbered graph: checks of indices, and inputs, as sets of bits."""

    def __init__(self, words: int, checks: Sequence[int], inputs: Sequence[int] = (), graph: UOp | None = None) -> None:
        """words: of the flags; 0 where the graph checks nothing. checks, inputs: for each root.

        graph: of which the inputs are found out once somebody asks.
        """
        self.words = words
        self.checks = checks
        self._inputs = inputs
        self._graph = graph

    @classmethod
    def of(cls, graph: UOp) -> Dependencies:
        """Those of a graph."""
        nodes = graph.toposort("INSIDE")
        words = nodes[0].attrs["words"] if nodes else 0
        return cls(words, _of_roots(graph, "INSIDE", "place") if nodes else [0] * len(graph.src), (), graph)

    @property
    def inputs(self) -> Sequence[int]:
        """For each root the slots that it depends on."""
        if not self._inputs and self._graph is not None:
            self._inputs = _of_roots(self._graph, "PARAM", "slot")
        return self._inputs


def _of_roots(graph: UOp, op: str, number: str) -> list[int]:
    return [int.from_bytes(bits, "little") for bits in graph.numbers_below(op, number)]


def are_visible(device: str) -> bool:
    """Whether flags are at an address of this process, and are what they will be once a launch returns."""
    found = devices.get(device)
    return getattr(found, "launches_wait", False) and getattr(found, "in_host_memory", False)


def launched(flags: Buffer, graphs: Sequence[UOp]) -> IndexCheck:
    """The check of a realization that was just launched; looked at now where that needs no waiting."""
    check = IndexCheck(flags, graphs)
    if getattr(devices.get(flags.device), "launches_wait", False):
        check.settle()
    return check


def tell(
    results: Sequence[Buffer], dependencies: Dependencies, check: IndexCheck | None, inputs: Sequence[Buffer]
) -> None:
    """Lets results wait for what they depend on: the realization's own check, and the checks of inputs."""
    uncertain = [(number, buffer.checks) for number, buffer in enumerate(inputs) if buffer.checks]
    if not uncertain and (check is None or check.has_passed):
        return
    for place, result in enumerate(results):
        if result in inputs:
            continue
        own = [Waiting(check, dependencies.checks[place])] if check is not None and dependencies.checks[place] else []
        above = [checks for number, checks in uncertain if dependencies.inputs[place] >> number & 1]
        if own or above:
            result.checks = joined([own, *above])


def _error(graphs: Sequence[UOp], place: int, index: int) -> Exception:
    _, info = engine.run(UOp("SINK", tuple(graphs)), "number_buffers")
    node = info["numbered"]["check"][place]
    extent, facts = node.src[1].attrs["value"], node.attrs
    if facts["wraps"] and index < 0:
        index -= extent
    least = -extent if facts["wraps"] else 0
    where = source_lines.line_of(node)
    return IndexRangeError(
        f"{facts['operation']}: {index} is out of range for axis {facts['axis']} of size {extent}; "
        f"use {least} to {extent - 1}" + (f" ({where})" if where else "")
    )
