"""`CHECK=1`: every pass leaves a valid graph. `CHECK=2`: and one that means the same, by the interpreter.

Tensor graphs, kernels and programs are compared, on sample contents of their buffers. A pass whose graphs the
interpreter cannot run is not: at DEBUG=1 it is said why.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rulegrad import _core
from rulegrad.config import config
from rulegrad.diagnosis.blaming import blame
from rulegrad.diagnosis.meaning import (
    Meaning,
    NotComparableError,
    agree,
    contents,
    meaning,
    sample,
    sample_arrays,
)
from rulegrad.errors import DeviceError, GraphError, RewriteError
from rulegrad.ir import UOp
from rulegrad.lang import engine, watching
from rulegrad.runtime.kernel import stores_of

if TYPE_CHECKING:
    from rulegrad.compile.schedule import Schedule

_told: set[tuple[str, str]] = set()


class Checker:
    """Runs passes on one graph, and checks what they leave, as the setting `check` says.

    stage: of the graphs, `tensor`, `kernel` or `program`; what their slots contain follows from the first graph.
    """

    def __init__(self, graph: UOp, target: str | None) -> None:
        self.target = target
        self.level = config.check
        self.arrays = sample_arrays(graph) if self.level >= 2 else []
        self._known: tuple[UOp, Meaning] | None = None  # of the graph that the last pass left

    def run(self, before: UOp, name: str, stage: str, follow: Sequence[UOp] = ()) -> tuple[UOp, _core.Information]:
        """A pass, and what it did. Raises RewriteError that names the pass and the rules that fired."""
        after, info = engine.run(before, name, self.target, trace=self.level >= 1, follow=follow)
        try:
            self._check(before, after, name, stage, info)
        except RewriteError as error:
            watching.tell_failed(name, self.target, before, error.problem)
            raise
        return after, info

    def _check(self, before: UOp, after: UOp, name: str, stage: str, info: _core.Information) -> None:
        fired = ", ".join(dict.fromkeys(rule for rule, *_ in info["firings"])) or "none"
        if self.level >= 1:
            # a kernel becomes a program on the way: it is one once it has passed for one
            early = stage == "program" and bool(_core.verify(before, stage) and _core.verify(after, stage))
            require_valid(after, name, "kernel" if early else stage, fired)
        if self.level >= 2 and after != before:
            try:
                self._compare(before, after, name, "graph" if stage == "tensor" else "kernel", fired)
            except NotComparableError as error:
                tell_skipped(f"pass {name}", error.problem)

    def _compare(self, before: UOp, after: UOp, name: str, what: str, fired: str) -> None:
        try:
            known = self._known is not None and self._known[0] == before
            wanted = self._known[1] if self._known is not None and known else meaning(before, self.arrays)
        except (DeviceError, GraphError) as error:
            raise NotComparableError(f"the graph before it cannot be run: {error.problem}") from None

        def right(graph: UOp) -> bool | None:
            try:
                found = meaning(graph, self.arrays)
            except NotComparableError:
                return None
            except (DeviceError, GraphError):
                return False
            return agree(wanted, found)

        try:
            found = meaning(after, self.arrays)
        except (DeviceError, GraphError):
            found = []
        if not agree(wanted, found):
            blamed = blame(name, before, self.target, right)
            raise RewriteError(
                f"pass {name} changes what the {what} computes, {blamed or f'rules that fired: {fired}'}"
            )
        self._known = after, found


def require_valid(after: UOp, name: str, stage: str, fired: str) -> None:
    """Raises RewriteError, with the pass and the rules that fired, for a graph that may not stand at a stage."""
    problem = _core.verify(after, stage)
    if problem:
        raise RewriteError(f"pass {name} leaves a graph that is not valid: {problem}; rules that fired: {fired}")


def check_numbering(before: UOp, after: UOp, by_slot: Sequence[UOp]) -> None:
    """Raises RewriteError when a tensor graph means something else once its buffers are numbered."""
    try:
        arrays = sample_arrays(before)
        wanted = meaning(before, arrays)
        found = meaning(after, [contents(node, arrays) for node in by_slot])
    except NotComparableError as error:
        tell_skipped("pass number", error.problem)
        return
    if not agree(wanted, found):
        raise RewriteError("pass number changes what the graph computes: its parameters are not the graph's buffers")


def check_schedule(graph: UOp, schedule: Schedule) -> None:
    """Raises RewriteError when a schedule's kernels, one after the other, do not compute what the numbered graph does.

    That is what the passes `isolate` and `number` are to keep when they make a kernel of each store.
    """
    try:
        inputs = sample_arrays(graph)
        wanted = meaning(graph, inputs)
        inputs += [sample((0,), "int32", 0)] * (schedule.inputs - len(inputs))
        buffers = [*inputs, *(sample(shape, dtype, place) for place, (shape, dtype) in enumerate(schedule.made))]
        for step in schedule.steps:
            stored = sorted(store.src[0].attrs["slot"] for store in stores_of(step.graph.src))
            results = meaning(step.graph, [buffers[number] for number in step.buffers])
            for slot, result in zip(stored, results, strict=True):
                buffers[step.buffers[slot]] = result
    except NotComparableError as error:
        tell_skipped("the schedule (passes isolate, number)", error.problem)
        return
    if not agree(wanted, [buffers[number] for number in schedule.outputs]):
        message = "the kernels of the schedule do not compute what the graph does"
        raise RewriteError(f"{message}: pass isolate or number is wrong")


def tell_skipped(what: str, reason: str) -> None:
    """Says on stderr, once and at DEBUG=1, what CHECK=2 does not compare and why."""
    if config.debug >= 1 and (what, reason) not in _told:
        _told.add((what, reason))
        print(f"rulegrad: CHECK=2 does not compare {what}: {reason}", file=sys.stderr)
