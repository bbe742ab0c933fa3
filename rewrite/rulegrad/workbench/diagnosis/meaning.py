"""The meaning of a graph: the arrays that it computes, by the interpreter, out of sample contents of its buffers.

Tensor graphs, kernels and programs are compared by it before and after a pass (`CHECK=2`) and by `bisect`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from rulegrad import engine
from rulegrad.compile.sharding import KINDS
from rulegrad.errors import DeviceError, GraphError, RewriteError, RulegradError
from rulegrad.interpreter.evaluation import KernelProgram, evaluate_all
from rulegrad.interpreter.nodes import VECTORS
from rulegrad.interpreter.numerics import Array
from rulegrad.interpreter.statements import Statements
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.runtime.kernel import stored_into, stores_of
from rulegrad.workbench.diagnosis.on_mesh import mesh_of, values_on_mesh
from rulegrad.workbench.diagnosis.samples import Samples, place_of, sample

#: Relative difference that reordering a kernel's float operations may make.
TOLERANCE = 1e-3

#: What makes the reductions of a kernel that has vectors, copies or registers statements, in order.
_TO_STATEMENTS = ("finish_schedule", "vectors", "name_nested_loops", "accumulate")
_OF_VECTORS = (*VECTORS, "ACROSS")
_LOWERED = ("REDUCE", "LABEL", "RAMP", "ACROSS")

Meaning = list[Array]


class NotComparableError(RulegradError):
    """The interpreter cannot run a graph: the text says why."""


def meaning(graph: UOp, arrays: Sequence[Array]) -> Meaning:
    """The results of a graph: its value, the values below a SINK, or the slots that it stores, in order.

    A BUFFER that has no slot has sample contents too. Raises NotComparableError for a graph that the interpreter cannot
    run, and DeviceError or GraphError for one that goes wrong when it is run.
    """
    return runner(graph)(arrays)


def runner(graph: UOp) -> Callable[[Sequence[Array]], Meaning]:
    """The graph, ready to be run on the contents of its slots. Raises NotComparableError."""
    run = _runner(graph)

    def quiet(arrays: Sequence[Array]) -> Meaning:
        with np.errstate(all="ignore"):  # of infinities and nan
            return run(arrays)

    return quiet


def _runner(graph: UOp) -> Callable[[Sequence[Array]], Meaning]:
    if graph.op == "SCHEDULED":  # it means what its kernel means, whatever steps are still to be taken
        graph = graph.src[0]
    roots = graph.src if graph.op == "SINK" else (graph,)
    try:
        if any(as_dtype(root.dtype).kind == "void" for root in roots):
            return _statements(graph, roots)
        if any(node.op in KINDS for node in graph.toposort()):
            return _of_devices(roots)
        values = evaluate_all(roots)
        return lambda arrays: values(_Contents(arrays).of)
    except (DeviceError, GraphError) as error:
        raise NotComparableError(error.problem) from None


def _of_devices(roots: Sequence[UOp]) -> Callable[[Sequence[Array]], Meaning]:
    """Of what each device of a mesh computes, all from the same contents, which they may exchange."""
    ranks = math.prod(mesh_of(roots))

    def run(arrays: Sequence[Array]) -> Meaning:
        contents = _Contents(arrays)
        values = values_on_mesh(roots, ranks, lambda node, rank: contents.of(node))
        return [np.stack(on_ranks) for on_ranks in values]

    return run


def _statements(graph: UOp, roots: Sequence[UOp]) -> Callable[[Sequence[Array]], Meaning]:
    """Of stores: of whole tensors, as a kernel begins; inside loops; or in the order of a program with registers."""
    stores = stores_of(roots)
    if all(store.op == "STORE" and stored_into(store).op == "PARAM" for store in stores):
        return _whole_stores(stores)
    graph = graph if graph.op == "SINK" else UOp("SINK", (graph,))  # a statement alone is one too
    nodes, slots = graph.toposort(), slots_stored(graph).tolist()
    # registers, memory that a loop reads again after it has changed it, or vectors
    if any(node.op in ("AFTER", *_OF_VECTORS) or (node.op == "BUFFER" and _is_register(node)) for node in nodes):
        try:
            if any(node.op in _LOWERED for node in nodes):
                for name in _TO_STATEMENTS:
                    graph, _ = engine.program().rewrite(name, graph)
            ordered = engine.program().order("linearize", graph)
        except RewriteError as error:  # a reduction that is not a statement yet
            raise NotComparableError(error.problem) from None
        program: KernelProgram | Statements = Statements(ordered)
    else:
        program = KernelProgram(graph)
    if not slots:
        raise NotComparableError("nothing is stored to a slot")

    def run(arrays: Sequence[Array]) -> Meaning:
        copies = copied(arrays)
        program.run(_Contents(copies).of)
        return [copies[slot] for slot in slots if slot < len(copies)]

    return run


def _whole_stores(stores: Sequence[UOp]) -> Callable[[Sequence[Array]], Meaning]:
    """Of stores into buffers, or into the parts of them that views show."""
    memory = [stored_into(store) for store in stores]
    values = evaluate_all([store.src[1] for store in stores])
    places = evaluate_all([_of_positions(store.src[0]) for store in stores])(
        lambda node: np.arange(math.prod(node.shape)).reshape(node.shape)
    )
    order = np.argsort([buffer.attrs["slot"] for buffer in memory])

    def run(arrays: Sequence[Array]) -> Meaning:
        contents = _Contents(arrays)
        results = list(values(contents.of))
        for k, (store, buffer) in enumerate(zip(stores, memory, strict=True)):
            if store.src[0] is not buffer:
                whole = np.array(contents.of(buffer))
                whole.reshape(-1)[places[k]] = results[k]
                results[k] = whole
        return [results[k] for k in order]

    return run


def _of_positions(place: UOp) -> UOp:
    """A part of a buffer, as the same part of one of integers."""
    if place.op == "PARAM":
        return UOp("PARAM", (), "int64", **place.attrs)
    return UOp(place.op, (_of_positions(place.src[0]),), **place.attrs)


def _is_register(buffer: UOp) -> bool:
    return buffer.attrs["space"] in ("register", "vector")


def contents(node: UOp, arrays: Sequence[Array]) -> Array:
    """The contents of a PARAM or BUFFER node, of a graph whose slots contain these."""
    return _Contents(arrays).of(node)


def _stored(address: UOp) -> int:
    """The slot that is stored to, through views and effects; -1 for a register."""
    while address.src and "slot" not in address.attrs:
        address = address.src[0]
    slot: int = address.attrs.get("slot", -1)
    return slot


def slots_stored(graph: UOp) -> Array:
    """The slots that a graph stores to, in order: two graphs that store the same to others do not compute the same.

    >>> x, y = (UOp("PARAM", (), "float32", slot=slot, shape=(2,)) for slot in (3, 1))
    >>> slots_stored(UOp("SINK", (UOp("STORE", (x, y)),))).tolist(), slots_stored(x).tolist()
    ([3], [])
    """
    stores = (
        node
        for node in graph.toposort()
        if node.op in ("STORE", "STORE_VECTOR", "COPY_ELEMENTS", "COPY_OR_ZERO", "UPDATE")
    )
    return np.array(sorted({_stored(store.src[0]) for store in stores} - {-1}), np.int64)


def copied(arrays: Sequence[Array]) -> Sequence[Array]:
    """Copies of the arrays, to be written."""
    copies = [array.copy() for array in arrays]
    return Samples(copies, arrays.kind, arrays.places, arrays.adds) if isinstance(arrays, Samples) else copies


class _Contents:
    """The arrays of a graph's leaves: those of slots in the shape that the graph has them in, samples for buffers."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self._arrays = arrays
        self._samples = arrays if isinstance(arrays, Samples) else Samples()
        self._buffers: dict[UOp, Array] = {}
        self._added: dict[int, Array] = {}

    def of(self, node: UOp) -> Array:
        if node.op == "PARAM":
            slot = node.attrs["slot"]
            if slot >= len(self._arrays):  # a pass has added it: the flags of checks, which are zeros
                return self._added.setdefault(slot, np.zeros(node.shape, as_dtype(node.dtype).numpy))
            found: Array = self._arrays[slot]
            dtype = as_dtype(node.dtype).numpy
            if found.dtype != dtype and found.nbytes == math.prod(node.shape) * dtype.itemsize:
                found = found.reshape(-1).view(dtype)  # memory that a pass gives another dtype has the same bits
            if found.size != math.prod(node.shape):
                raise DeviceError(f"{node.describe()} has no contents of its size")
            return found.reshape(node.shape)
        if node not in self._buffers:
            kind = "whole" if place_of(node) in self._samples.places else self._samples.kind
            self._buffers[node] = sample(node.shape, node.dtype, node.attrs["id"] & 0xFFFF, kind, self._samples.adds)
        return self._buffers[node]


def agree(wanted: Meaning, found: Meaning, kind: str = "whole", adds: bool = True) -> bool:
    """Whether two results are the same, up to what another order of float operations may change.

    kind: of the samples. adds: whether sums or products of many are in it, whose error follows from their largest part.
    Integers and truth values are the same; a nan is a nan, and an infinity that infinity.

    >>> agree([np.ones(2)], [np.ones(2) + 1e-6]), agree([np.ones(2)], [np.ones(3)])
    (True, False)
    """
    return len(wanted) == len(found) and all(_near(a, b, kind, adds) for a, b in zip(wanted, found, strict=True))


def _near(wanted: Array, found: Array, kind: str, adds: bool) -> bool:
    if wanted.dtype.kind == "c" and found.dtype.kind == "f":  # complex numbers in memory are pairs
        wanted = np.ascontiguousarray(wanted).reshape(-1).view(wanted.real.dtype)
    if wanted.size != found.size:
        return False
    if wanted.dtype.kind in "iub" and found.dtype.kind in "iub":
        return bool(np.array_equal(wanted.reshape(-1), found.reshape(-1)))
    if wanted.dtype.kind == "c":
        parts = zip((wanted.real, wanted.imag), (found.real, found.imag), strict=True)
        return all(_near(a, b, kind, adds) for a, b in parts)
    tolerance = max(TOLERANCE, 8 * 2.0 ** -as_dtype(wanted.dtype).mantissa)
    a, b = wanted.astype("float64").reshape(-1), found.astype("float64").reshape(-1)
    absolute = tolerance
    if kind == "magnitudes":
        finite = np.abs(a[np.isfinite(a)])
        absolute = tolerance * float(finite.max(initial=0.0)) if adds else 0.0
    return np.allclose(a, b, rtol=tolerance, atol=absolute, equal_nan=True)
