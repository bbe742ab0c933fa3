"""Reads and writes of each step of a schedule, and steps whose kernels write over what they read.

Whether a kernel may is for the rules to say (rules/schedule/memory.rules). Such a kernel has one parameter for both
buffers: two parameters are never the same memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rulegrad import engine
from rulegrad.compile.memory_plan import Use
from rulegrad.compile.ordering import writes_of
from rulegrad.compile.schedule import number_buffers
from rulegrad.runtime.kernel import stores_of

if TYPE_CHECKING:
    from rulegrad.compile.schedule import Step
    from rulegrad.ir import UOp


def uses_of(steps: Sequence[Step]) -> list[Use]:
    """Of each step the buffers that it reads, and those that it writes (and may read too)."""
    return [
        Use(
            tuple(number for number in step.buffers if number not in written),
            tuple(number for number in step.buffers if number in written),
        )
        for step, written in zip(steps, writes_of(steps), strict=True)
    ]


def overwritable(endings: Iterable[tuple[Step, Sequence[int]]], target: str | None) -> set[tuple[int, int]]:
    """Pairs (read, written) of buffers that a step's kernel may have in one place, for those it reads that end there.

    endings: steps, and the buffers whose last use each is. Equal kernels are asked about once.
    """
    known: dict[tuple[UOp, tuple[int, ...]], list[tuple[int, int]]] = {}
    found: set[tuple[int, int]] = set()
    for step, ending in endings:
        slots = tuple(step.buffers.index(number) for number in ending)
        if (step.graph, slots) not in known:
            known[step.graph, slots] = _overwritable_slots(step.graph, slots, target)
        found.update((step.buffers[read], step.buffers[written]) for read, written in known[step.graph, slots])
    return found


def _overwritable_slots(graph: UOp, ending: Sequence[int], target: str | None) -> list[tuple[int, int]]:
    if not ending:
        return []
    stores = stores_of(graph.src)
    parameters = {node.attrs["slot"]: node for node in graph.toposort("PARAM")}
    call = engine.program(target).call
    found = []
    for slot in ending:
        read = parameters[slot]
        for store in stores:
            if call("may_overwrite", store, read) and all(call("leaves", root, store, read) for root in graph.src):
                found.append((slot, store.src[0].attrs["slot"]))
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
