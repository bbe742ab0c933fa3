"""The history of each node in a pass, replayed from its firings; steps are firings, counted from 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rulegrad.ir import UOp


class Step(NamedTuple):
    """A firing: its number, the rule and its place, the node before and after."""

    number: int
    rule: str
    location: str
    before: UOp
    after: UOp


class History:
    """The results of all nodes that a pass went through.

    tried: the node as the rules saw it (in most passes: with final sources), by the node as it was found.
    final: its result. found: the first node for which the rules saw that one.
    """

    def __init__(self, graph: UOp, direction: str, steps: Sequence[Step]) -> None:
        self.graph = graph
        self.direction = direction
        self.steps = steps
        self.at: dict[UOp, Step] = {}
        self.made: dict[UOp, Step] = {}
        for step in steps:
            self.at.setdefault(step.before, step)
            self.made.setdefault(step.after, step)
        self.tried: dict[UOp, UOp] = {}
        self.final: dict[UOp, UOp] = {}
        self.found: dict[UOp, UOp] = {}
        self._open = {graph}
        self._replay()

    def steps_of(self, node: UOp) -> list[Step]:
        """The firings that lead from a node, as it was found, to its result."""
        steps: list[Step] = []
        while (step := self.at.get(self.tried.get(node, node))) is not None and step not in steps:
            steps.append(step)
            if self.direction not in ("children_first", "parents_first"):
                break
            node = step.after
        return steps

    def origin(self, tried: UOp) -> tuple[UOp, Step | None]:
        """The node of the graph that one which the rules saw comes from, and the firing that made it, if one did."""
        made: Step | None = None
        node = self.found.get(tried, tried)
        inside = set(self.graph.toposort())
        seen: set[UOp] = set()
        while node not in inside and node not in seen:
            seen.add(node)
            step = self.made.get(node)
            if step is None:
                break
            made = made or step
            node = self.found.get(step.before, step.before)
        return node, made

    def _replay(self) -> None:
        stack = [self.graph]
        while stack:
            node = stack[-1]
            waiting = [] if node in self.final else self._visit(node)
            stack.extend(waiting)
            self._open.update(waiting)
            if not waiting:
                stack.pop()

    def _visit(self, node: UOp) -> list[UOp]:
        """The nodes whose results are needed first; none when this node's result is known."""
        step = self.at.get(node) if self.direction == "parents_first" else None
        waiting = [n for n in ([step.after] if step else node.src) if n not in self.final and n not in self._open]
        if waiting:
            return list(dict.fromkeys(waiting))
        if step:
            return self._finish(node, node, self.final.get(step.after, step.after))
        rebuilt = self._rebuilt(node)
        if self.direction not in ("children_first", "parents_first", "walk"):  # rules see the graph as it was given
            given = self.at.get(node)
            return self._finish(node, node, given.after if given else rebuilt)
        if self.direction == "parents_first":
            return self._finish(node, node, rebuilt)
        step = self.at.get(rebuilt)
        if step is None or self.direction != "children_first":
            return self._finish(node, rebuilt, step.after if step else rebuilt)
        if step.after not in self.final and step.after not in self._open:
            return [step.after]
        return self._finish(node, rebuilt, self.final.get(step.after, step.after))

    def _finish(self, node: UOp, tried: UOp, final: UOp) -> list[UOp]:
        self.tried[node] = tried
        self.found.setdefault(tried, node)
        self.final[node] = final
        return []

    def _rebuilt(self, node: UOp) -> UOp:
        sources = tuple(self.final.get(source, source) for source in node.src)
        return node if sources == node.src else node.replace(src=sources)
