"""Graphs of tensors on a mesh of devices: what each device computes (`rules/sharding`), and steps that communicate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rulegrad import engine
from rulegrad.compile.checking import checks
from rulegrad.compile.ordering import in_order, needed_steps
from rulegrad.config import config
from rulegrad.engine import watching
from rulegrad.ir import UOp
from rulegrad.runtime.buffer import Buffer, Parts

if TYPE_CHECKING:
    from rulegrad.communication import Collective
    from rulegrad.compile.schedule import Schedule

#: What the collectives of the op table are called on the wire, and their reductions.
KINDS: Final = {
    "ALL_REDUCE": "all_reduce", "ALL_GATHER": "all_gather", "REDUCE_SCATTER": "reduce_scatter",
    "ALL_TO_ALL": "all_to_all", "OWN_PART": "part", "SHIFT": "shift",
}  # fmt: skip
OPERATIONS: Final = {"ADD": "sum", "MUL": "prod", "MAX": "max", "MIN": "min"}


_own_numbers: dict[int, UOp] = {}  # by the ids of buffers with the device's own number, what asks for it


def asks_for_own_number(number: int) -> UOp | None:
    """The COORDINATE whose value the buffer of this id has: the device's own number, which no tensor stands for."""
    return _own_numbers.get(number)


class Local(NamedTuple):
    """The computation of each device for a graph with numbered buffers."""

    graph: UOp
    inputs: tuple[
        int | Buffer, ...
    ]  # for each of its parameters the number of the buffer, or one with the device's own number
    parts: tuple[Parts | None, ...]  # of each result; None where all devices have all of it


def is_sharded(graph: UOp) -> bool:
    """Whether a graph has tensors that are placed on a mesh."""
    return bool(graph.toposort("SHARDED", "REDISTRIBUTE"))


def is_on_mesh(uops: Sequence[UOp]) -> bool:
    """Whether graphs of tensors read buffers in parts, or place something on a mesh.

    >>> is_on_mesh([Buffer((4,), "float32", "numpy").uop])
    False
    """
    found = UOp("SINK", tuple(uops)).toposort("BUFFER", "REDISTRIBUTE")
    return any(node.op == "REDISTRIBUTE" or node.attrs["mesh"] for node in found)


def localize(graph: UOp, device: str, target: str) -> Local:
    """The graph that each device computes of a SINK of tensors, with parameters in the place of buffers.

    Raises CommunicationError where the mesh has not as many devices as there are.
    """
    local, slots, parts = local_graph(graph, target)
    inputs = [own_number(slot, device) if slot.op == "COORDINATE" else slot.attrs["slot"] for slot in slots]
    return Local(local, tuple(inputs), parts)


def local_graph(graph: UOp, target: str) -> tuple[UOp, list[UOp], tuple[Parts | None, ...]]:
    """The graph that each device computes of a SINK of tensors, on a mesh that need not be there.

    With what its parameters stand for, by slot: parameters of `graph`, and the device's own numbers (COORDINATE); and
    how the results lie on the mesh.
    """
    with watching.part("schedule"):
        waiting, _ = engine.run(graph, "checkpoints", target)  # whose gradients are in parts soon
        placed, info = engine.run(waiting, "shard", target, trace=config.check >= 2)
        parts = tuple(_parts_of(result) for result in placed.src)
        local, _ = engine.run(placed, "local_results", target)
        if config.check >= 2:
            checks().check_sharding(graph, local, parts, [rule for rule, *_ in info["firings"]])
        local, info = engine.run(local, "number_buffers")
    return local, info["numbered"]["place"], parts


def _parts_of(result: UOp) -> Parts | None:
    if result.op != "SHARDED":
        return None
    return Parts(result.shape, result.attrs["mesh"], result.attrs["placement"])


@cache
def own_number(node: UOp, device: str) -> Buffer:
    """A buffer with the number of each device along the axes of a COORDINATE; one for all plans."""
    # late: few programs have tensors on a mesh
    from rulegrad.communication.collective import place_of
    from rulegrad.communication.meshes import check_mesh, world_of

    mesh, axes = node.attrs["mesh"], node.attrs["axes"]
    check_mesh(mesh, device)
    buffer = Buffer((), node.dtype, device)
    _own_numbers[buffer.id] = node
    numbers = [np.array(place_of(mesh, axes, rank)[1], buffer.dtype.numpy) for rank in world_of(device).local]
    buffer.copy_in_parts(numbers)
    return buffer


def collective_of(graph: UOp) -> Collective | None:
    """The collective that a step is, from the buffer of slot 1 to that of slot 0; None for a kernel."""
    store = graph.src[0] if graph.src else graph
    value = store.src[1] if store.op == "STORE" else store
    kind = KINDS.get(value.op)
    if kind is None:
        return None
    from rulegrad.communication import Collective  # late: few programs have tensors on a mesh

    mesh, axes = value.attrs["mesh"], value.attrs["axes"]
    operation = OPERATIONS[value.attrs["op"]] if "op" in value.attrs else ""
    count = math.prod(value.src[0].shape)
    return Collective(kind, mesh, axes, operation, count, str(value.dtype), value.attrs.get("by", 0))


def communicating_early(schedule: Schedule) -> Schedule:
    """The same steps in an order in which communication starts as soon as it can, and is waited for as late as it can.

    A step comes after fewer collectives first; of equal ones the order stays. So the gradients of the last layers of a
    network are on their way while those of the first are computed.
    """
    if not any(collective_of(step.graph) for step in schedule.steps):
        return schedule
    needs = needed_steps(schedule.steps)
    behind: list[int] = []  # how many collectives are on the way to each step
    for number in range(len(schedule.steps)):
        before = max(
            (behind[k] + (collective_of(schedule.steps[k].graph) is not None) for k in needs[number]), default=0
        )
        behind.append(before)
    order = in_order(needs, lambda number: _priority(schedule, number, behind))
    return schedule._replace(steps=tuple(schedule.steps[number] for number in order))


def _priority(schedule: Schedule, number: int, behind: Sequence[int]) -> tuple[int, int]:
    """Collectives that can start do so, then come steps that wait for few of them."""
    return (-1 if collective_of(schedule.steps[number].graph) else behind[number], number)
