"""Reads and writes of each step of a schedule, and steps whose kernels write over what they read.

Whether a kernel may is for the rules to say (rules/schedule/memory.rules). Such a kernel has one parameter for both
buffers: two parameters are never the same memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rulegrad import engine
from rulegrad.compile.memory_plan import Use
from rulegrad.compile.ordering import written_by
from rulegrad.compile.schedule import number_buffers
from rulegrad.runtime.kernel import stores_of

if TYPE_CHECKING:
    from rulegrad.compile.schedule import Step


def use_of(step: Step) -> Use:
    """The buffers that a step reads, and those that it writes (and may read too)."""
    written = written_by(step)
    return Use(
        tuple(number for number in step.buffers if number not in written),
        tuple(number for number in step.buffers if number in written),
    )


def overwritable(step: Step, ending: Iterable[int], target: str | None) -> list[tuple[int, int]]:
    """Pairs (read, written) of buffers that the step's kernel may have in one place, for the `ending` ones it reads."""
    stores = stores_of(step.graph.src)
    parameters = {node.attrs["slot"]: node for node in step.graph.toposort("PARAM")}
    call = engine.program(target).call
    found = []
    for number in ending:
        read = parameters[step.buffers.index(number)]
        for store in stores:
            if call("may_overwrite", store, read) and all(call("leaves", root, store, read) for root in step.graph.src):
                found.append((number, step.buffers[store.src[0].attrs["slot"]]))
    return found


def overwriting(step: Step, pairs: Sequence[tuple[int, int]], target: str | None) -> Step | None:
    """The step with each first buffer of the pairs in the place of the second; None where nothing is left to do."""
    graph, slots = step.graph, {number: slot for slot, number in enumerate(step.buffers)}
    for read, written in pairs:
        parameters = {node.attrs["slot"]: node for node in graph.toposort("PARAM")}
        graph = engine.program(target).call("moved_into", graph, parameters[slots[read]], parameters[slots[written]])
    if all(store.src[0] == store.src[1] for store in stores_of(graph.src)):
        return None  # a copy of a buffer to itself
    numbered, by_slot = number_buffers(graph)
    return step._replace(graph=numbered, buffers=tuple(step.buffers[node.attrs["slot"]] for node in by_slot))
