"""Computing tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rulegrad.config import config
from rulegrad.errors import RulegradError
from rulegrad.runtime import source_lines
from rulegrad.runtime.buffer import Buffer, next_id
from rulegrad.runtime.eager import eager
from rulegrad.tensor import keeping
from rulegrad.tensor.aliasing import prepare, renew
from rulegrad.tensor.capturing import is_tracing
from rulegrad.tensor.core import TensorCore, pending_leaves
from rulegrad.tensor.storage import upload

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]


def realize_all(tensors: list[TensorCore], used_up: Sequence[TensorCore] = ()) -> None:
    """Compute the tensors, all in one call, and let each point at the buffer with its values.

    What other tensors stand for is kept too, where it is needed and costs much: not of those that are `used_up`. Inside
    a function that is being captured nothing is computed before its end.
    """
    if is_tracing() or (len(tensors) == 1 and eager.realize(tensors[0])):
        return
    for tensor in tensors:
        renew(tensor)
    waiting = {id(tensor): tensor for tensor in tensors if needs_buffer(tensor)}
    groups: dict[str, list[TensorCore]] = {}
    for tensor in waiting.values():
        groups.setdefault(tensor.device, []).append(tensor)
    for device, group in groups.items():
        _realize_group(group, device, used_up)


def _realize_group(
    tensors: list[TensorCore], device: str, used_up: Sequence[TensorCore], are_created: bool = False
) -> None:
    """are_created: the tensors are made of nothing, and computed before another computation that needs them."""
    for tensor in tensors:
        if tensor._view is not None:
            prepare(tensor)
    if source_lines.recording():
        for tensor in tensors:
            source_lines.note(tensor._uop)
    filled = [tensor for tensor in tensors if 0 not in tensor.shape]
    found = keeping.computation(filled, device, used_up)
    created = [] if are_created else found.created(len(filled))
    if created:
        _realize_group(created, device, (), are_created=True)
        found = keeping.computation(filled, device, used_up)
    graphs = found.graphs
    from rulegrad.compile.realize import realize  # late: a program that computes nothing needs no compiler

    if source_lines.recording():
        for tensor, graph in zip(filled, graphs):
            source_lines.carry(tensor._uop, graph)
    # Where results are looked at, what they are computed from may be needed once more.
    holders = None if config.detect_nan else _Histories(found.tensors)
    first = next_id()
    try:
        results = realize(graphs, holders, device) if graphs else []
        if config.detect_nan:
            from rulegrad.tensor import nan_checks  # late: few programs have a use for it

            nan_checks.check(graphs, results)
        if len(filled) == 1:
            keeping.tell_engine(found, filled[0])
    except RulegradError:
        if any(node.op == "BATCHED" for graph in graphs for node in graph.toposort()):
            raise RulegradError(
                "vmap: the value of a mapped tensor was asked for inside the function, but there is one for each "
                "element; use where(condition, a, b) in the place of `if`, and ask for values outside"
            ) from None
        raise
    keeping.settle(found, results, first)
    for tensor in tensors:
        if 0 in tensor.shape:
            tensor._settle(upload(np.empty(tensor.shape, tensor.dtype.numpy), tensor._device))


class _Histories:
    """The histories of tensors that are computed: they keep buffers alive that nobody may need afterwards."""

    def __init__(self, tensors: list[TensorCore]) -> None:
        # A result that gradients flow through keeps what it was computed from.
        self._tensors = [tensor for tensor in tensors if tensor._leaf or not tensor._requires_grad]

    def let_go(self) -> None:
        for tensor in self._tensors:
            tensor._history = None

    def take_back(self, buffers: Sequence[Buffer]) -> None:
        for tensor in self._tensors:
            tensor._history = tuple(buffers)


def needs_buffer(tensor: TensorCore) -> bool:
    """Whether the values are not in a buffer (of the tensor's own, for a leaf with a gradient) yet."""
    return tensor._uop.op != "BUFFER" or id(tensor) in pending_leaves


def settle_leaves(device: str) -> None:
    """Compute the leaves with gradients that are not in buffers yet: together, so that it is one compilation.

    A leaf needs a buffer before it is used: two equal graphs are one node, and their gradients would be too.
    """
    while leaves := [leaf for leaf in pending_leaves.values() if leaf.device == device]:
        realize_all([leaf for leaf in leaves if not _is_view_of_waiting_leaf(leaf)])


def _is_view_of_waiting_leaf(tensor: TensorCore) -> bool:
    """Whether the node of a view is made of that of a leaf that is not in its buffer yet."""
    link = tensor._view
    while link is not None and link.base is not None:
        if id(link.base) in pending_leaves:
            return True
        link = link.base._view
    return False


eager.prepare = prepare
