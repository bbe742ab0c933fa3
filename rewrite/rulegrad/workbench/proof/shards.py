"""Contents of memory on which rules about tensors on a mesh are compared: what each rank has of each leaf."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Final

import numpy as np

from rulegrad._core import UOp
from rulegrad.communication.collective import groups_of
from rulegrad.communication.meshes import bounds_of
from rulegrad.interpreter.elements import Key, Memory, storage_key
from rulegrad.interpreter.nodes import STORAGE
from rulegrad.interpreter.numerics import Array
from rulegrad.ir.dtype import as_dtype
from rulegrad.runtime.buffer import Parts

_MESHES: Final = ((2,), (3,), (2, 2), (2, 3))


class MeshMemory(Memory):
    """The contents of memory on each rank of a mesh; as a dict, those on the first."""

    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.ranks = ranks
        self._on: dict[Key, list[Array]] = {}

    def put(self, node: UOp, arrays: list[Array]) -> None:
        """Sets the contents of a BUFFER or PARAM on each rank."""
        self._on[storage_key(node)] = arrays
        self[storage_key(node)] = arrays[0].reshape(-1)

    def of(self, node: UOp, rank: int) -> Array:
        """The contents on a rank, in the dtype and shape of the node."""
        return self._on[storage_key(node)][rank].view(as_dtype(node.dtype).numpy).reshape(node.shape)


def sample_on_mesh(graphs: Sequence[UOp], mesh: tuple[int, ...], r: random.Random) -> MeshMemory:
    """Random contents for the memory of graphs, the first of which says what is in parts: what its SHARDED are of.

    Devices along an axis of the mesh that splits nothing have the same. What lies behind the end of an axis is
    anything, infinities and nan too. Numbers are small, so that sums are exact in every order.
    """
    memory = MeshMemory(math.prod(mesh))
    placed: dict[UOp, UOp] = {}
    for node in graphs[0].toposort("SHARDED"):
        for leaf in (n for n in node.src[0].toposort() if n.op in STORAGE):
            placed.setdefault(leaf, node)
    for leaf in (n for graph in graphs for n in graph.toposort() if n.op in STORAGE):
        if storage_key(leaf) not in memory:
            memory.put(leaf, _contents(leaf, placed.get(leaf), memory.ranks, r))
    return memory


def _contents(leaf: UOp, sharded: UOp | None, ranks: int, r: random.Random) -> list[Array]:
    if sharded is None:
        return [_numbers(leaf, r)] * ranks
    mesh, placement = sharded.attrs["mesh"], sharded.attrs["placement"]
    found: list[Array] = [np.empty(0)] * ranks
    for group in groups_of(mesh, tuple(k for k, axis in enumerate(placement) if axis == -1)):
        array = _numbers(leaf, r)
        for rank in group:
            found[rank] = array
    if sharded.src[0] != leaf:
        return found
    parts = Parts(sharded.shape, mesh, tuple(max(axis, -1) for axis in placement))
    return [_with_any_rest(array, bounds_of(parts, rank), r) for rank, array in enumerate(found)]


def _with_any_rest(array: Array, bounds: Sequence[tuple[int, int]], r: random.Random) -> Array:
    inside = tuple(slice(0, last - first) for first, last in bounds)
    dtype = as_dtype(array.dtype)
    pool = [np.nan, np.inf, -np.inf, 1e9] if dtype.is_float else [0, 1] if dtype.kind == "bool" else [0, 7, 99]
    found = np.full_like(array, r.choice(pool))
    found[inside] = array[inside]
    return found


def _numbers(leaf: UOp, r: random.Random) -> Array:
    """Halves from -2 to 2 of floats, places of short axes of integers."""
    dtype = as_dtype(leaf.dtype)
    generator = np.random.default_rng(r.getrandbits(32))
    if dtype.is_inexact:
        return np.asarray(generator.integers(-4, 5, leaf.shape) / 2).astype(dtype.numpy)
    return np.asarray(generator.integers(0, 2, leaf.shape)).astype(dtype.numpy)


def placed_otherwise(graph: UOp, r: random.Random) -> UOp:
    """The graph with its tensors in parts, of the same shapes, on another mesh and in other placements.

    Axes are split that are not a multiple of the devices, by several axes of the mesh, not at all, or into terms.
    Raises GraphError for what the ops do not allow.
    """
    mesh = r.choice(_MESHES)
    made: dict[UOp, UOp] = {}
    for node in graph.toposort():
        sources = [made[source] for source in node.src]
        if node.op == "SHARDED" and node.src[0].op == "PARAM":
            placement = tuple(r.choice((-2, *range(-1, len(node.shape)))) for _ in mesh)
            local = Parts(node.shape, mesh, tuple(max(axis, -1) for axis in placement)).local_shape
            partial = r.choice(("ADD", "ADD", "ADD", "MUL", "MAX", "MIN"))
            leaf = node.src[0].replace(shape=local)
            made[node] = node.replace([leaf], mesh=mesh, placement=placement, partial=partial)
        elif "mesh" in node.attrs and node.op != "BUFFER":
            placement = tuple(r.choice(range(-1, len(node.shape))) for _ in mesh)
            made[node] = node.replace(sources, mesh=mesh, placement=placement)
        else:
            made[node] = node.replace(sources)
    return made[graph]
