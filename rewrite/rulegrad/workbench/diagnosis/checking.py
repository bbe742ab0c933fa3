"""`CHECK=1`: every pass leaves a valid graph. `CHECK=2`: and one that means the same, by the interpreter.

Tensor graphs, kernels and programs are compared, on sample contents of their buffers. A pass whose graphs the
interpreter cannot run is not: it is said which, and why, once.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rulegrad import _core, engine
from rulegrad.communication.collective import place_of
from rulegrad.config import config
from rulegrad.engine import watching
from rulegrad.errors import DeviceError, GraphError, RewriteError
from rulegrad.interpreter.numerics import Array
from rulegrad.ir import UOp
from rulegrad.runtime.buffer import Parts
from rulegrad.runtime.kernel import stored_into, stores_of
from rulegrad.workbench.diagnosis.blaming import blame
from rulegrad.workbench.diagnosis.comparing import Comparison, Meanings, unsound
from rulegrad.workbench.diagnosis.meaning import NotComparableError, agree, contents, meaning
from rulegrad.workbench.diagnosis.on_mesh import assembled, mesh_of, values_on_mesh
from rulegrad.workbench.diagnosis.samples import KINDS, Samples, all_samples, sample

if TYPE_CHECKING:
    from rulegrad.compile.schedule import Schedule

_told: set[tuple[str, str]] = set()


class Checker:
    """Runs passes on one graph, and checks what they leave, as the setting `check` says.

    level: the IR level of the graphs, `tensor`, `kernel` or `program`. What their slots contain follows from the first.
    """

    def __init__(self, graph: UOp, target: str | None) -> None:
        self.target = target
        self.setting = config.check
        self._comparison = Comparison(graph) if self.setting >= 2 else None
        self._known: tuple[UOp, Meanings] | None = None  # of the graph that the last pass left

    def run(self, before: UOp, name: str, level: str, follow: Sequence[UOp] = ()) -> tuple[UOp, _core.Information]:
        """A pass, and what it did. Raises RewriteError that names the pass and the rules that fired."""
        after, info = engine.run(before, name, self.target, trace=self.setting >= 1, follow=follow)
        try:
            self._check(before, after, name, level, info)
        except RewriteError as error:
            watching.tell_failed(name, self.target, before, error.problem)
            raise
        return after, info

    def _check(self, before: UOp, after: UOp, name: str, level: str, info: _core.Information) -> None:
        fired = ", ".join(dict.fromkeys(rule for rule, *_ in info["firings"])) or "none"
        if self.setting >= 1:
            # a kernel becomes a program on the way: it is one once it has passed for one
            early = level == "program" and bool(_core.verify(before, level) and _core.verify(after, level))
            require_valid(after, name, "kernel" if early else level, fired)
        if self.setting >= 2 and after != before:
            try:
                self._compare(before, after, name, "graph" if level == "tensor" else "kernel", fired)
            except NotComparableError as error:
                tell_skipped(f"pass {name}", error.problem)

    def _compare(self, before: UOp, after: UOp, name: str, what: str, fired: str) -> None:
        comparison = self._comparison
        assert comparison is not None
        if self._known is not None and self._known[0] == before:
            wanted = self._known[1]
        else:
            try:
                wanted = comparison.meanings(before)
            except NotComparableError as error:
                raise NotComparableError(f"the graph before it cannot be run: {error.problem}") from None
        kind = comparison.different(wanted, after)
        if kind and not comparison.excused(wanted, before, name, self.target, kind):
            off = () if kind == KINDS[0] else unsound()
            blamed = blame(name, before, self.target, comparison.right(wanted, kind), off)
            raise RewriteError(
                f"pass {name} changes what the {what} computes, {blamed or f'rules that fired: {fired}'}"
            )
        self._known = (after, wanted) if not kind else None


def require_valid(after: UOp, name: str, level: str, fired: str) -> None:
    """Raises RewriteError, with the pass and the rules that fired, for a graph that may not stand at an IR level."""
    problem = _core.verify(after, level)
    if problem:
        raise RewriteError(f"pass {name} leaves a graph that is not valid: {problem}; rules that fired: {fired}")


def check_numbering(before: UOp, after: UOp, by_slot: Sequence[UOp]) -> None:
    """Raises RewriteError when a tensor graph means something else once its buffers are numbered."""

    def numbered(samples: Samples) -> list[Array]:
        given = (contents(node, samples) for node in by_slot)
        return meaning(after, Samples(given, samples.kind, adds=samples.adds))

    message = "pass number_buffers changes what the graph computes: its parameters are not the graph's buffers"
    _require_meaning(before, numbered, "pass number_buffers", message)


def check_schedule(graph: UOp, schedule: Schedule) -> None:
    """Raises RewriteError when a schedule's kernels, one after the other, do not compute what the numbered graph does.

    That is what the passes `isolate_kernels` and `number_buffers` are to keep when they make a kernel of each store.
    """
    found = "the kernels of the schedule do not compute what the graph does"
    message = f"{found}: pass isolate_kernels or number_buffers is wrong"
    _require_meaning(
        graph,
        lambda samples: _run_steps(schedule, samples),
        "the schedule (passes isolate_kernels, number_buffers)",
        message,
    )


def check_sharding(graph: UOp, local: UOp, parts: Sequence[Parts | None], fired: Sequence[str]) -> None:
    """Raises RewriteError where what the devices of a mesh compute, put together, is not what a graph does.

    parts: how each result of the graph `local`, which each device runs, lies on the mesh.
    """
    mesh = mesh_of((graph, local))
    ranks = math.prod(mesh)
    for samples in all_samples(graph):
        storage = _on_each_rank(graph, samples)
        try:
            with np.errstate(all="ignore"):
                wanted = values_on_mesh(graph.src, ranks, storage)
                found = values_on_mesh(local.src, ranks, storage)
                found = [_as_whole(values, one) for values, one in zip(found, parts, strict=True)]
        except (DeviceError, GraphError) as error:
            if samples.kind == KINDS[0]:
                tell_skipped("pass shard", error.problem)
                return
            continue  # these contents are none that the graph can be run on
        if not all(agree(a, b, samples.kind) for a, b in zip(wanted, found, strict=True)):
            rules = ", ".join(dict.fromkeys(fired))
            raise RewriteError(f"pass shard changes what the graph computes; rules that fired: {rules}")


def _on_each_rank(graph: UOp, samples: Samples) -> Callable[[UOp, int], Array]:
    """Samples on each rank: of what is in parts others than on the first, where devices have parts of their own."""
    own: dict[UOp, UOp] = {}
    for node in graph.toposort("SHARDED"):
        own.update((leaf, node) for leaf in node.src[0].toposort("PARAM"))

    def on_rank(leaf: UOp, rank: int) -> Array:
        array = contents(leaf, samples)
        if leaf not in own:
            return array
        mesh, placement = own[leaf].attrs["mesh"], own[leaf].attrs["placement"]
        split = tuple(k for k, axis in enumerate(placement) if axis != -1)
        return np.roll(array, place_of(mesh, split, rank)[1])

    return on_rank


def _as_whole(values: list[Array], parts: Parts | None) -> list[Array]:
    return values if parts is None else assembled(parts._asdict(), values, str(values[0].dtype))


def _require_meaning(graph: UOp, compute: Callable[[Samples], list[Array]], what: str, message: str) -> None:
    """Raises RewriteError with this message when `compute` gives other values than the graph, on some samples."""
    for samples in all_samples(graph):
        try:
            wanted, found = meaning(graph, samples), compute(samples)
        except NotComparableError as error:
            tell_skipped(what, error.problem)
            return
        except (DeviceError, GraphError):
            if samples.kind == KINDS[0]:
                raise
            continue  # these contents are none that the graph can be run on
        if not agree(wanted, found, samples.kind):
            raise RewriteError(message)


def _run_steps(schedule: Schedule, samples: Samples) -> list[Array]:
    """The outputs of the kernels of a schedule, run one after the other."""
    inputs = [*samples, *[sample((0,), "int32", 0)] * (schedule.inputs - len(samples))]
    buffers = [*inputs, *(sample(shape, dtype, place) for place, (shape, dtype) in enumerate(schedule.made))]
    for step in schedule.steps:
        stored = sorted(stored_into(store).attrs["slot"] for store in stores_of(step.graph.src))
        read = Samples((buffers[number] for number in step.buffers), samples.kind, adds=samples.adds)
        for slot, result in zip(stored, meaning(step.graph, read), strict=True):
            buffers[step.buffers[slot]] = result
    return [buffers[number] for number in schedule.outputs]


def tell_skipped(what: str, reason: str) -> None:
    """Says on stderr, once, what CHECK=2 does not compare and why; reasons that differ in numbers are one."""
    alike = re.sub(r"\d+", "0", reason)
    if (what, alike) not in _told:
        _told.add((what, alike))
        print(f"rulegrad: CHECK=2 does not compare {what}: {reason}", file=sys.stderr)
