"""The line of the user's program that a node comes from, from tensors to the nodes of kernels.

The lines of tensors' nodes are recorded as they are made (`rulegrad.runtime.source_lines`). A node that a pass makes of
another takes that node's line. The table is beside the nodes: it changes neither their identity nor what is compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rulegrad.runtime import source_lines as lines
from rulegrad.workbench.tracing.nodes import NodeTable

#: The file, in full, and the line.
Location = tuple[str, int]

_MOST_VISITED = 64


class Provenance:
    """The user's lines of the nodes of a table. Leaves have none: equal constants of a program are one node."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._locations: dict[int, Location] = {}

    def known(self, graph: Iterable[int]) -> list[int]:
        """The nodes of a graph whose lines are known; those of tensors are looked up."""
        found = []
        for number in graph:
            if number not in self._locations and self._table.sources[number]:
                location = lines.location_of(self._table.nodes[number])
                if location:
                    self._locations[number] = location
            if number in self._locations:
                found.append(number)
        return found

    def exactly(self, number: int) -> Location | None:
        """The line of a node itself."""
        return self._locations.get(number)

    def of(self, *numbers: int) -> Location | None:
        """The line of the first of the nodes that has one, or else of the nearest node below them."""
        waiting = list(numbers)
        seen = set(waiting)
        for number in waiting:
            if number in self._locations:
                return self._locations[number]
            if len(waiting) < _MOST_VISITED:
                new = [source for source in self._table.sources[number] if source not in seen]
                seen.update(new)
                waiting.extend(new)
        return None

    def became(self, results: Mapping[int, int]) -> None:
        """Nodes became others in a pass."""
        for old, new in results.items():
            if old in self._locations:
                self.made((new,), self._locations[old])

    def made(self, numbers: Iterable[int], location: Location) -> None:
        """Nodes were made of a node with that line; those that have a line keep it."""
        for number in numbers:
            if self._table.sources[number]:
                self._locations.setdefault(number, location)
