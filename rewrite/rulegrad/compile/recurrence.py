"""Schedules of graphs in which a step recurs very often: the kernels of a step are found once.

A loop of a user's program, captured, is one graph of all its steps. It is partitioned between steps, as a long graph is
that nobody captured (`partition`). Each subgraph has a schedule, which equal ones share, and the schedule of the graph
is all of these, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rulegrad.compile.partition import Subgraph, recurring_subgraphs, without_gradients
from rulegrad.ir import UOp
from rulegrad.ir.substitution import substituted
from rulegrad.runtime.source_lines import changed_nodes
from rulegrad.support.locations import Stack

if TYPE_CHECKING:
    from rulegrad.compile.schedule import Lines, Schedule, Step


def scheduled_by_steps(
    graph: UOp, inputs: int, lines: Lines, scheduled: Callable[[UOp, int, Lines], Schedule]
) -> Schedule | None:
    """The schedule of a numbered SINK with a step that recurs; None where none does often enough.

    lines: the user's lines of its nodes, for those that are known. scheduled: makes the schedule of a numbered SINK of
    so many inputs, with its lines.
    """
    if not recurring_subgraphs(graph):
        return None
    plain, pairs = without_gradients(graph, list(lines))
    found = recurring_subgraphs(plain)
    if not found:
        return None
    # of several nodes that became one the first counts
    whole = _Joined(inputs, {new: lines[old] for new, old in reversed(pairs)}, scheduled)
    for subgraph in found:
        whole.add(subgraph)
    return whole.schedule(plain.src)


class _Joined:
    """The schedules of subgraphs, one after the other."""

    def __init__(self, inputs: int, lines: Lines, scheduled: Callable[[UOp, int, Lines], Schedule]) -> None:
        self._inputs, self._lines, self._scheduled = inputs, lines, scheduled
        self._known: dict[tuple[UOp, tuple[Stack, ...]], Schedule] = {}
        self._made: list[tuple[tuple[int, ...], str]] = []
        self._steps: list[Step] = []
        self._numbers: dict[UOp, int] = {}  # of the buffers that outputs are in
        self._last: Schedule

    def add(self, subgraph: Subgraph) -> None:
        reads, outputs, _ = subgraph
        before = UOp("SINK", tuple(outputs))
        named = substituted(
            before,
            {node: UOp("PARAM", (), node.dtype, slot=self._numbers[node], shape=node.shape) for node in reads},
        )
        given = named.toposort("PARAM")
        graph = substituted(named, {node: node.replace(slot=slot) for slot, node in enumerate(given)})
        part = self._last = self._schedule_of(graph, len(given), before)
        first = self._inputs + len(self._made)
        places = [node.attrs["slot"] for node in given] + [first + k for k in range(len(part.made))]
        self._made.extend(part.made)
        for step in part.steps:
            self._steps.append(step._replace(buffers=tuple([places[buffer] for buffer in step.buffers])))
        self._numbers.update((node, places[number]) for node, number in zip(outputs, part.outputs, strict=True))

    def _schedule_of(self, graph: UOp, inputs: int, before: UOp) -> Schedule:
        """Of a subgraph in which parameters are in the places of what earlier ones have computed."""
        key = graph, tuple([self._lines.get(node, ()) for node in before.src] if self._lines else ())
        if key not in self._known:
            self._known[key] = self._scheduled(graph, inputs, _lines_of(graph, before, self._lines))
        return self._known[key]

    def schedule(self, roots: Sequence[UOp]) -> Schedule:
        outputs = tuple([self._numbers[root] for root in roots])
        return self._last._replace(
            inputs=self._inputs, made=tuple(self._made), steps=tuple(self._steps), outputs=outputs
        )


def _lines_of(graph: UOp, before: UOp, lines: Lines) -> Lines:
    """The lines of a graph in which parameters are in the places of some nodes, from those of the graph before."""
    if not lines:
        return {}
    changed = {after: lines[node] for after, node in changed_nodes(before, graph) if node in lines}
    return {**changed, **{node: lines[node] for node in graph.toposort() if node in lines}}
