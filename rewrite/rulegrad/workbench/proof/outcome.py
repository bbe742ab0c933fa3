"""The results of a graph, for comparing both sides of a rule: of arrays at once, or of effects element by element."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rulegrad._core import UOp
from rulegrad.errors import RulegradError
from rulegrad.interpreter.builder import Builder
from rulegrad.interpreter.elements import InvalidError, Key, Run, has_effects, loop_key, view
from rulegrad.interpreter.evaluation import evaluate
from rulegrad.interpreter.evaluators import evaluators
from rulegrad.interpreter.nodes import LOOPS, STORAGE, extent
from rulegrad.interpreter.numerics import Array
from rulegrad.ir.dtype import as_dtype
from rulegrad.workbench.diagnosis.on_mesh import values_on_mesh
from rulegrad.workbench.proof.shards import MeshMemory

#: Iterations of all loops together that are computed, and those at each end of a loop that is too long.
_MOST_ITERATIONS, _ENDS = 1 << 24, 32


class NoMeaningError(Exception):
    """The graph cannot be run: an index is out of bounds, or an op has no value."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a graph; of one array, only where `certain` holds, if that is given."""

    arrays: list[Array]
    certain: Array | None = None


def outcome(root: UOp, memory: Mapping[Key, Array], loops: Sequence[UOp]) -> Outcome:
    """The results of a graph: its value for every value of the open loops; or, without one, what it leaves in memory.

    Of long loops the first iterations and the last. Raises NoMeaningError when it cannot be run.
    """
    try:
        if isinstance(memory, MeshMemory):
            return _on_mesh(root, memory)
        root, loops = _shortened(root, loops)
        with np.errstate(all="ignore"):
            if as_dtype(root.dtype).kind != "void" and not has_effects(root):
                return _by_arrays(root, memory, loops)
            return Outcome(_by_elements(root, memory, loops))
    except (RulegradError, InvalidError, TypeError, KeyError, IndexError, ValueError, OverflowError) as error:
        raise NoMeaningError(str(error)) from error


def _on_mesh(root: UOp, memory: MeshMemory) -> Outcome:
    """Each result on all ranks."""
    roots = root.src if root.op == "SINK" else (root,)
    with np.errstate(all="ignore"):
        return Outcome([np.stack(values) for values in values_on_mesh(roots, memory.ranks, memory.of)])


def _shortened(root: UOp, loops: Sequence[UOp]) -> tuple[UOp, Sequence[UOp]]:
    """The graph with the first and the last values of the counters of open loops, where they have too many together."""
    if math.prod(map(extent, loops)) > _MOST_ITERATIONS:
        made: dict[UOp, UOp] = {}
        long = {loop: extent(loop) - 2 * _ENDS for loop in loops if extent(loop) > 2 * _ENDS and loop.op == "RANGE"}
        short = {loop: loop.replace([UOp.const(2 * _ENDS, loop.src[0].dtype)]) for loop in long}
        for node in root.toposort():
            if node in long:
                counter, last = short[node], UOp.const(long[node], node.dtype)
                is_first = UOp("CMPLT", (counter, UOp.const(_ENDS, node.dtype)))
                made[node] = UOp("WHERE", (is_first, counter, UOp("ADD", (counter, last))))
            else:
                made[node] = node.replace([made[source] for source in node.src])
        root, loops = made[root], [short.get(loop, loop) for loop in loops]
    counters = {loop_key(node): node for node in root.toposort() if node.op in LOOPS and node.src[0].op == "CONST"}
    if math.prod(map(extent, counters.values())) > _MOST_ITERATIONS:
        raise NoMeaningError("its loops have too many iterations")
    return root, loops


def _by_arrays(root: UOp, memory: Mapping[Key, Array], loops: Sequence[UOp]) -> Outcome:
    """All elements at once. A value that depends on INVALID is not certain, nor are the bits of a computed nan."""
    arrays = {n: view(dict(memory), n) for n in root.toposort() if n.op in STORAGE}
    found = evaluate(root, arrays, loops).astype(as_dtype(root.dtype).numpy)
    certain: Array | None = None
    builder = Builder([root], loops, evaluators(), "evaluate")
    mask = builder.valid_slot(root)
    if mask is not None:
        (valid,) = builder.program.run(lambda node: arrays[node], [mask])
        certain = np.broadcast_to(
            valid.reshape((*valid.shape[: len(loops)], *valid.shape[builder.rank :])), found.shape
        )
    for node in root.toposort():
        if node.op == "BITCAST" and as_dtype(node.src[0].dtype).is_float and node.src[0].op not in STORAGE:
            value = evaluate(node.src[0], arrays, loops)
            known = np.broadcast_to(value == value, found.shape)
            certain = known if certain is None else certain & known
    return Outcome([found], certain)


def _by_elements(root: UOp, memory: Mapping[Key, Array], loops: Sequence[UOp]) -> list[Array]:
    own = {key: array.copy() for key, array in memory.items()}
    items = tuple(n for n in root.toposort() if n.op == "SPECIAL")
    open_loops = (*items, *loops)
    values: dict[int, list[Any]] = {}
    roots = root.src if root.op == "SINK" else (root,)
    starts = Run(own)
    for _ in starts.over(open_loops):
        run = Run(own, dict(starts.loops))
        for number, node in enumerate(roots):
            if as_dtype(node.dtype).kind == "void":
                run.effect(node)
            else:
                values.setdefault(number, []).append(run.tensor(node) if node.shape else run.value(node))
    found = [np.asarray(v, as_dtype(roots[n].dtype).numpy) for n, v in values.items()]
    if as_dtype(root.dtype).kind != "void":
        return found
    kept = sorted((key for key in own if key[0] == "PARAM" or key[2] == "global"), key=repr)
    return [*found, *(own[key] for key in kept)]


def elements(node: UOp) -> int:
    """Number of elements of a BUFFER or PARAM."""
    return math.prod(node.shape)
