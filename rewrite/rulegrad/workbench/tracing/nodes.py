"""One table of all the nodes of a trace, and what two graphs of it differ in.

A node's number is above the numbers of its sources. Equal nodes are one node, so that a graph is the number of its
root, and the graphs before and after a rule share what the rule left alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple

from rulegrad.ir import UOp

#: Nodes that one firing is shown to remove, and to add: a rule that drops a large graph did not look at it.
MOST_CHANGED = 64


class NodeTable:
    """Nodes by number, sources first."""

    def __init__(self) -> None:
        self.nodes: list[UOp] = []
        self.sources: list[tuple[int, ...]] = []
        self._numbers: dict[UOp, int] = {}

    def number(self, root: UOp) -> int:
        """The number of a node; it and the nodes below it are added where they are new."""
        found = self._numbers.get(root)
        if found is not None:
            return found
        stack = [(root, root.src)]
        while stack:
            node, sources = stack[-1]
            new = next((source for source in sources if source not in self._numbers), None)
            if new is not None:
                stack.append((new, new.src))
                continue
            stack.pop()
            self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
            self.sources.append(tuple(self._numbers[source] for source in sources))
        return self._numbers[root]

    def below(self, roots: Iterable[int]) -> list[int]:
        """All nodes of a graph, sources first."""
        seen = set(roots)
        stack = list(seen)
        while stack:
            for source in self.sources[stack.pop()]:
                if source not in seen:
                    seen.add(source)
                    stack.append(source)
        return sorted(seen)


class Difference(NamedTuple):
    """The nodes of one of two graphs that are not in the other, consumers first."""

    removed: tuple[int, ...]
    added: tuple[int, ...]
    complete: bool  # whether that is all, and not the first MOST_CHANGED


_BEFORE, _AFTER = 1, 2


def difference(table: NodeTable, before: Iterable[int], after: Iterable[int]) -> Difference:
    """The nodes that only one of two graphs has; what both have is not entered."""
    reached: dict[int, int] = {}
    queue: list[int] = []

    def reach(number: int, side: int) -> None:
        if number not in reached:
            heapq.heappush(queue, -number)
        reached[number] = reached.get(number, 0) | side

    for number in before:
        reach(number, _BEFORE)
    for number in after:
        reach(number, _AFTER)
    sides: dict[int, list[int]] = {_BEFORE: [], _AFTER: []}
    # A node is taken after all its consumers: which graphs reach it is known by then.
    while queue:
        number = -heapq.heappop(queue)
        side = reached[number]
        if side == _BEFORE | _AFTER:
            continue
        if len(sides[side]) == MOST_CHANGED:
            return Difference(tuple(sides[_BEFORE]), tuple(sides[_AFTER]), False)
        sides[side].append(number)
        for source in table.sources[number]:
            reach(source, side)
    return Difference(tuple(sides[_BEFORE]), tuple(sides[_AFTER]), True)
