"""Graphs of very many nodes, computed in subgraphs.

A loop of a user's program that never asks for a value builds one graph of all its steps: fifty steps of a diffusion
model, ten thousand samples of a filter. Compiled whole it would be thousands of kernels, each for one step. Where a
step recurs (`rewrite/core/partition.cpp` finds it), the graph is partitioned between steps: the second subgraph is like
those after it, which differ in numbers and sizes at most, and find its plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, NamedTuple, TypeAlias

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
_FEWEST: Final = 4  # times that a step recurs
#: The same of graphs whose schedule is made of those of steps: a model of many layers is not one of them.
_LONG_SCHEDULE: Final = 3_000
_FEWEST_SCHEDULED: Final = 64
_MOST_KNOWN: Final = 1_000
_OFTEN: Final = 4  # partitioned so often, a long graph gets a plan as a whole


class _Ops(NamedTuple):
    """Whose results are not outputs of a subgraph, but computed again where they are read."""

    free: list[str]  #: these show other values, or are them
    elementwise: list[str]  #: where what they are computed from is in memory


@cache
def _ops() -> _Ops:
    ops = engine.summary()["ops"]
    found = _Ops([], [])
    for name, (classes, *_) in ops.items():
        if {"Movement", "Identity"} & {*classes} and name != "MATERIALIZE":
            found.free.append(name)
        elif "Elementwise" in classes:
            found.elementwise.append(name)
    return found


_whole: set[tuple[int, int]] = set()  # hashes of the signatures of long graphs that are computed at once; the setting
_seen: Counter[int] = Counter()  # the same of graphs that were partitioned


def _forget() -> None:
    _ops.cache_clear()
    _whole.clear()
    _seen.clear()


kernels._also_forget.append(_forget)


def is_long(key: bytes) -> bool:
    """Whether graphs of this signature may have so many nodes that they are partitioned, as far as it is known."""
    most = config.longest_graph
    return most > 0 and len(key) >= most // 2 * _core.SIGNATURE_BYTES and (hash(key), most) not in _whole


def partition(uops: Sequence[UOp], key: bytes) -> tuple[Sequence[UOp], list[Subgraph]]:
    """Long graphs without what only gradients need, and the subgraphs they are computed in; none for all at once.

    That is so where nothing recurs, and for those that come again and again, as the steps of a training do, if a plan
    of all is soon made.
    """
    most = config.longest_graph
    graph = UOp("SINK", tuple(uops))
    plain, pairs = without_gradients(graph, graph.toposort() if source_lines.recording() else ())
    source_lines.carry_nodes(pairs)
    if len(_seen) > _MOST_KNOWN:
        _seen.clear()
    _seen[hash(key)] += 1
    is_frequent = _seen[hash(key)] > _OFTEN and bool(recurring_subgraphs(plain))
    found = [] if is_frequent else _core.partition(plain.src, *_ops(), most, _SIZE, _FEWEST)
    if not found:
        _whole.add((hash(key), most))
    return plain.src, found


def recurring_subgraphs(graph: UOp) -> list[Subgraph]:
    """The subgraphs of a SINK in which a step recurs so often that schedules are made of steps; none for others."""
    return _core.partition(graph.src, *_ops(), _LONG_SCHEDULE, _SIZE, _FEWEST_SCHEDULED)


def without_gradients(graph: UOp, nodes: Sequence[UOp]) -> tuple[UOp, list[tuple[UOp, UOp]]]:
    """The graph without what only gradients need, and what became of nodes: pairs (after, before).

    Of weights that a step shares there may be a chain of what only gradients need, longer with each step, and no two
    subgraphs would be alike.
    """
    plain, info = engine.run(graph, "forget_gradients", follow=nodes)
    return plain, [(new, old) for old, new in zip(nodes, info["followed"], strict=True) if new is not None]


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
