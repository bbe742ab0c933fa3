"""Values of graphs on a mesh of devices: each node on all ranks at once, collectives between them in this process.

What a rule of `rules/sharding` makes of a tensor is compared with the tensor by it, and a whole graph before and after
the pass `shard` (`CHECK=2`). SHARDED puts the parts of all ranks together, as its placement says: a node outside of one
has the same value on all ranks, if the graph is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from rulegrad.communication.collective import place_of
from rulegrad.communication.in_process import run
from rulegrad.communication.meshes import bounds_of
from rulegrad.communication.reductions import reduce_into
from rulegrad.compile.sharding import KINDS, OPERATIONS, collective_of
from rulegrad.errors import DeviceError, GraphError
from rulegrad.interpreter.evaluation import evaluate_all
from rulegrad.interpreter.numerics import Array
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.ir.substitution import substituted
from rulegrad.runtime.buffer import Parts

MESHED: Final = ("SHARDED", "COORDINATE", "HALO", *KINDS)
_FIRST_SLOT: Final = 1 << 20  # of the values of nodes that ranks exchange

#: What a PARAM or BUFFER has on a rank.
Storage = Callable[[UOp, int], Array]


def mesh_of(graphs: Sequence[UOp]) -> tuple[int, ...]:
    """The mesh of graphs; () where they have none. Raises DeviceError for meshes of different numbers of devices."""
    found = {node.attrs["mesh"] for graph in graphs for node in graph.toposort("REDISTRIBUTE", *MESHED)}
    if len({math.prod(mesh) for mesh in found}) > 1:
        raise DeviceError(f"meshes of different sizes: {' and '.join(map(str, sorted(found)))}")
    return max(found, default=())


def values_on_mesh(roots: Sequence[UOp], ranks: int, storage: Storage) -> list[list[Array]]:
    """The value of each root on each rank. Raises DeviceError or GraphError for what the interpreter cannot run."""
    leaves: dict[UOp, UOp] = {}
    known: dict[UOp, list[Array]] = {}  # by leaf, on each rank

    def given(node: UOp, rank: int) -> Array:
        return known[node][rank] if node in known else storage(node, rank)

    def on_each(nodes: Sequence[UOp]) -> list[list[Array]]:
        values = evaluate_all([substituted(node, leaves) for node in nodes])
        found = [values(lambda node, rank=rank: given(node, rank)) for rank in range(ranks)]  # type: ignore[misc]
        return [list(of_node) for of_node in zip(*found, strict=True)]

    for number, node in enumerate(UOp("SINK", tuple(roots)).toposort(*MESHED)):
        leaf = UOp("PARAM", (), node.dtype, slot=_FIRST_SLOT + number, shape=node.shape)
        known[leaf] = _of_number(node, ranks) if node.op == "COORDINATE" else _exchanged(node, on_each(node.src)[0])
        leaves[node] = leaf
    return on_each(roots)


def _of_number(node: UOp, ranks: int) -> list[Array]:
    mesh, axes = node.attrs["mesh"], node.attrs["axes"]
    return [np.array(place_of(mesh, axes, rank)[1], as_dtype(node.dtype).numpy) for rank in range(ranks)]


def _exchanged(node: UOp, values: list[Array]) -> list[Array]:
    if node.op == "SHARDED":
        return assembled(node.attrs, values, str(node.dtype))
    if node.op == "HALO":
        return [_with_halo(node, values, rank) for rank in range(len(values))]
    collective = collective_of(UOp("SINK", (node,)))
    assert collective is not None  # one of KINDS
    results = [np.empty(collective.result_count, one.dtype) for one in values]
    run(collective, [np.ascontiguousarray(one).reshape(-1) for one in values], results)
    return [result.reshape(node.shape) for result in results]


def _with_halo(node: UOp, values: Sequence[Array], rank: int) -> Array:
    axis, step, first, count, begin, end = (
        node.attrs[name] for name in ("axis", "step", "first", "count", "begin", "end")
    )
    group, number = place_of(node.attrs["mesh"], node.attrs["axes"], rank)
    whole = np.concatenate([values[other] for other in group], axis)
    places = np.arange(count) + (step * number + first)
    inside = (begin <= places) & (places < end)
    taken = whole.take(np.where(inside, places, 0), axis)
    return np.where(inside.reshape(-1, *(1,) * (whole.ndim - axis - 1)), taken, np.zeros((), whole.dtype))


def assembled(placed: Any, values: Sequence[Array], dtype: str) -> list[Array]:
    """A tensor of which each rank has a part, as each rank sees it: with those that have all of what it has.

    placed: mesh, placement, shape and partial of a SHARDED.

    Raises GraphError where a part has another shape than its placement says.

    >>> assembled({"mesh": (2,), "placement": (0,), "shape": (3,)}, [np.array([1, 2]), np.array([3, 9])], "int64")
    [array([1, 2, 3]), array([1, 2, 3])]
    """
    mesh, placement, shape = placed["mesh"], placed["placement"], placed["shape"]
    parts = Parts(shape, mesh, tuple(max(axis, -1) for axis in placement))
    if values[0].shape != parts.local_shape:
        raise GraphError(f"SHARDED: a part of {shape} placed {placement} is {parts.local_shape}, not {values[0].shape}")
    split = tuple(k for k, axis in enumerate(placement) if axis >= 0)
    terms = tuple(k for k, axis in enumerate(placement) if axis == -2)
    sums = [_reduced(values, place_of(mesh, terms, rank)[0], placed, dtype) for rank in range(len(values))]
    found = []
    for rank in range(len(values)):
        whole = np.empty(shape, values[rank].dtype)
        for other in place_of(mesh, split, rank)[0]:
            bounds = bounds_of(parts, other)
            own = tuple(slice(0, last - first) for first, last in bounds)
            whole[tuple(slice(*one) for one in bounds)] = sums[other][own]
        found.append(whole)
    return found


def _reduced(values: Sequence[Array], group: Sequence[int], placed: Any, dtype: str) -> Array:
    if len(group) == 1:
        return values[group[0]]
    result = np.empty_like(values[group[0]])
    reduce_into(result, [values[rank] for rank in group], OPERATIONS[placed.get("partial", "ADD")], dtype)
    return result
