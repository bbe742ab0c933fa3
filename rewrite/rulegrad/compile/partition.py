"""Graphs of very many nodes, computed in subgraphs.

A loop of a user's program that never asks for a value builds one graph of all its steps: fifty steps of a diffusion
model, ten thousand samples of a filter. Compiled whole it would be thousands of kernels, each for one step. Where a
step recurs (`rewrite/core/partition.cpp` finds it), the graph is partitioned between steps: the second subgraph is like
those after it, which differ in numbers and sizes at most, and find its plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, TypeAlias

from rulegrad import _core, engine
from rulegrad.compile import kernels
from rulegrad.config import config
from rulegrad.ir import UOp
from rulegrad.ir.substitution import substituted
from rulegrad.runtime import source_lines
from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.eager import eager

#: The outputs of earlier subgraphs that one reads, its outputs, and those outputs that no later one reads.
Subgraph: TypeAlias = "tuple[list[UOp], list[UOp], list[UOp]]"

_SIZE: Final = 400  # nodes of a subgraph, where a step has fewer


@cache
def _free() -> list[str]:
    """The ops whose results are computed again where they are read: they show other values, or are them."""
    ops = engine.summary()["ops"]
    return [
        name for name, (classes, *_) in ops.items() if {"Movement", "Identity"} & {*classes} and name != "MATERIALIZE"
    ]


_whole: set[tuple[bytes, int]] = set()  # signatures of long graphs that are computed at once, and the setting


def _forget() -> None:
    _free.cache_clear()
    _whole.clear()


kernels._also_forget.append(_forget)


def is_long(key: bytes) -> bool:
    """Whether graphs of this signature may have so many nodes that they are partitioned, as far as it is known."""
    most = config.longest_graph
    return most > 0 and len(key) >= most // 2 * _core.SIGNATURE_BYTES and (key, most) not in _whole


def partition(uops: Sequence[UOp], key: bytes) -> tuple[Sequence[UOp], list[Subgraph]]:
    """Long graphs of this signature, and the subgraphs they are computed in; none where they are computed at once.

    The graphs are without what only gradients need: of weights that a step shares there may be a chain of such nodes,
    longer with each step, which no two subgraphs would have in common.
    """
    most = config.longest_graph
    graph = UOp("SINK", tuple(uops))
    plain = engine.rewrite(graph, "forget_gradients")
    if source_lines.recording():
        source_lines.carry(graph, plain)
    found = _core.partition(plain.src, _free(), most, _SIZE)
    if not found:
        _whole.add((key, most))
    return plain.src, found


def realize_subgraphs(
    found: Sequence[Subgraph], uops: Sequence[UOp], realize: Callable[[Sequence[UOp]], list[Buffer]]
) -> list[Buffer]:
    """The buffers of graphs, whose subgraphs `realize` computes one after the other."""
    with_others = source_lines.with_others if source_lines.recording() else substituted
    held: dict[UOp, Buffer] = {}
    for reads, outputs, unread in found:
        buffers = [held[node] for node in reads]
        results = eager.compute(outputs, reads, buffers)
        if results is None:
            others = {node: buffer.uop for node, buffer in zip(reads, buffers, strict=True)}
            results = realize(with_others(UOp("SINK", tuple(outputs)), others).src)
        held.update(zip(outputs, results, strict=True))
        for node in unread:
            del held[node]
    return [held[uop] for uop in uops]
