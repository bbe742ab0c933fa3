"""Results of one computation: those asked for, and values on the way that are stored as tensors stand for them.

A tensor that somebody holds is a value that may be asked for. When a computation needs it anyway, and computing it
again costs more than a little (`rules/schedule/live_values.rules`), it is a result too, as if it had been asked for.
Graphs that were built before find values in buffers by their nodes. All references are weak: no memory is kept that
nobody holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rulegrad._core import are_above, remember, resolved
from rulegrad.config import config
from rulegrad.ir import UOp
from rulegrad.runtime import devices
from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.eager import eager
from rulegrad.tensor.history import join, point_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rulegrad.tensor.core import TensorCore


class Computation(NamedTuple):
    """Graphs to compute, and the tensors that stand for each."""

    graphs: list[UOp]
    holders: list[list[TensorCore]]
    buffers: list[Buffer]  #: that the graphs read in the place of nodes; to be held until they are computed
    cheap: list[TensorCore]  #: that stand for values on the way that are not kept

    @property
    def tensors(self) -> list[TensorCore]:
        """All of the tensors, in order.

        >>> x = Tensor([1, 2]) + 1
        >>> computation([x], x.device).tensors[0] is x
        True
        """
        return [tensor for holders in self.holders for tensor in holders]

    def created(self, asked: int) -> list[TensorCore]:
        """Of those on the way to the first `asked` results: what is made of nothing, or of random numbers.

        A program makes it once, and what is computed from it reads it from memory from then on. Where it does so the
        first time too, that is the same computation, which is compiled once.
        """
        graphs = self.graphs[asked:]
        if not graphs:
            return []
        read = UOp("SINK", tuple(graphs)).toposort("BUFFER", "ARGUMENT")
        reading = are_above(graphs, [node for node in read if not _is_state_of_generator(node)])
        return [holders[0] for holders, reads in zip(self.holders[asked:], reading, strict=True) if not reads]


def computation(asked: Sequence[TensorCore], device: str, used_up: Sequence[TensorCore] = ()) -> Computation:
    """The computation when these tensors, on one device, are asked for; used_up: tensors that are not kept."""
    roots = [tensor._uop for tensor in asked]
    graphs, buffers, named = resolved(roots)
    others = _computed_together([*asked, *(tensor for _, _, holders in named for tensor in holders)])
    if others:
        graphs, buffers, named = resolved([*roots, *(tensor._uop for tensor in others)])
    found = Computation(graphs[: len(roots)], [[tensor] for tensor in asked], buffers, [])
    if named:
        _add_kept(found, named, {id(tensor) for tensor in (*asked, *used_up)}, device)
    return found


def _computed_together(tensors: Sequence[TensorCore]) -> list[TensorCore]:
    """The gradients of the calls of `backward` that these tensors are part of, and what these were called on.

    They share most of their work, so one is not computed without the others. A sum of gradients of several calls is
    only computed for its own sake.
    """
    calls = {id(call): call for tensor in tensors for call in tensor._gradient_of if len(tensor._gradient_of) == 1}
    seen = {id(tensor) for tensor in tensors}
    found = (tensor for call in calls.values() for tensor in call.tensors())
    return [tensor for tensor in found if id(tensor) not in seen and len(tensor._gradient_of) == 1]


def _add_kept(
    found: Computation, named: Sequence[tuple[UOp, UOp, list[TensorCore]]], passed_over: set[int], device: str
) -> None:
    """Add what is worth keeping, and the others that stand for what is computed anyway."""
    places = {graph: place for place, graph in enumerate(found.graphs)}
    candidates: list[tuple[UOp, UOp, list[TensorCore]]] = []
    for uop, marked, tensors in named:
        others = [t for t in tensors if id(t) not in passed_over and _may_be_kept(t, device)]
        if uop in places:
            holders = found.holders[places[uop]]
            holders.extend(others if not holders[0]._leaf else ())
        elif others:
            candidates.append((uop, marked, others))
    from rulegrad.compile.keeping import decide  # late: a program that computes nothing needs no compiler

    # a point of a gradient has work of its own, and whoever looks for nan looks at results
    small = [not (config.detect_nan or any(t._requires_grad for t in others)) for _, _, others in candidates]
    kept = decide([marked for _, marked, _ in candidates], device, small) if candidates else ()
    for (uop, _, others), is_kept in zip(candidates, kept):
        if is_kept:
            found.graphs.append(uop)
            found.holders.append(others)
        else:
            found.cheap.extend(others)


def tell_engine(found: Computation, asked: TensorCore) -> None:
    """Let the engine decide the same for tensors with such graphs, which it may compute by itself."""
    if not found.buffers:
        cheap = list(dict.fromkeys(tensor._uop for tensor in found.cheap))
        eager.decide(asked, found.graphs[1:], cheap, devices.default())


def _may_be_kept(tensor: TensorCore, device: str) -> bool:
    """A leaf has a buffer of its own, a view its base's; a tensor for which no device was named is the default one's.

    Of that tensor it is known to be wanted there now: a loop that computes a value from the one before, and looks at
    it, would begin with the first one each time.
    """
    of_device = tensor._device == device or (not tensor._device and device == devices.default())
    return not tensor._leaf and tensor._view is None and of_device and 0 not in tensor.shape


def _is_state_of_generator(node: UOp) -> bool:
    """Whether it is what random numbers are drawn from: a counter and a key (rulegrad.tensor.random)."""
    return node.op == "BUFFER" and str(node.dtype) == "uint64" and tuple(node.shape) == (2,)


def settle(found: Computation, results: Sequence[Buffer], first: int) -> None:
    """Let the tensors stand for the buffers with their values, and remember these for graphs that need them.

    first: buffers that were made for these results have larger numbers.
    """
    pairs = [(t, buffer) for holders, buffer in zip(found.holders, results, strict=True) for t in holders]
    settled: dict[int, TensorCore] = {}  # by the id of the buffer
    known = {buffer.id for buffer in found.buffers}
    for tensor, buffer in sorted(pairs, key=lambda pair: not pair[0]._leaf):  # leaves own their buffers
        uop = tensor._uop
        tensor._settle(buffer.alias() if tensor._leaf and buffer.id in known else buffer, buffer.id > first)
        if not tensor._leaf:
            remember(uop, buffer)
            settled[buffer.id] = tensor
    for tensor in found.cheap:
        _read_kept(tensor, settled)


def _read_kept(tensor: TensorCore, settled: dict[int, TensorCore]) -> None:
    """Let the graph of a tensor begin at the buffers with values in it: it is cheap as long as these are there."""
    (graph,), buffers, _ = resolved([tensor._uop])
    if not buffers or (tensor._requires_grad and any(buffer.id not in settled for buffer in buffers)):
        return  # of another buffer it is not known where gradients go on
    nodes = graph.toposort()
    if tensor._requires_grad and any(node.op == "ARGUMENT" and point_of(node) is None for node in nodes):
        return  # it has changed below a result that gradients go on from by a function, which is known by its node
    history = tensor._history if tensor._requires_grad else None
    for node in nodes:
        if node.op == "BUFFER":
            buffer = Buffer.of(node)
            known = settled.get(buffer.id)
            history = join(history, buffer if known is None else known._history)
    tensor._uop, tensor._history = graph, history


eager.read_kept = _read_kept
