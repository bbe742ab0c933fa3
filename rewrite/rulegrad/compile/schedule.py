"""From a tensor graph to kernels: which buffers each reads and writes, in the order in which they run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from rulegrad import engine
from rulegrad.compile.checking import checks
from rulegrad.compile.fused import Fused
from rulegrad.compile.ordering import copying_last, freeing_early
from rulegrad.compile.recurrence import scheduled_by_steps
from rulegrad.config import config
from rulegrad.engine import watching
from rulegrad.errors import DtypeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.runtime import source_lines
from rulegrad.runtime.buffer import Parts
from rulegrad.runtime.kernel import stores_of
from rulegrad.support.locations import Stack, shown

if TYPE_CHECKING:
    from rulegrad._core import Information


Lines: TypeAlias = dict[UOp, Stack]  # the user's frames when a node was made
_JOINED = ("GROUP", "SEGMENTS")  # stores that are one kernel


class Step(NamedTuple):
    """One kernel: its graph as `isolate_kernels` and `number_buffers` left it, and the plan's buffers at its slots."""

    graph: UOp
    buffers: tuple[int, ...]
    stack: Stack  # the user's frames when its value was asked for, () where nobody records them

    @property
    def user_line(self) -> str:
        """`file.py:12`; "" where nobody records lines."""
        return shown(self.stack[-1]) if self.stack else ""


class Schedule(NamedTuple):
    """Kernels in order. Buffers are numbered: the inputs first, then those that the schedule makes."""

    inputs: int
    made: tuple[tuple[tuple[int, ...], str], ...]  # shape and dtype
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    parts: tuple[tuple[int, Parts], ...] = ()  # of buffers that it makes, how they lie on a mesh


def number_buffers(graph: UOp) -> tuple[UOp, list[UOp]]:
    """The graph with its buffers as parameters, and the buffers by slot."""
    numbered, info = engine.run(graph, "number_buffers")
    by_slot = info["numbered"]["place"]
    if config.check >= 2 and graph.src[0].dtype != "void":
        checks().check_numbering(graph, numbered, by_slot)
    return numbered, by_slot


def make_schedule(graph: UOp, inputs: int, target: str, lines: Lines, parts: Sequence[Parts | None] = ()) -> Schedule:
    """Splits a numbered SINK of tensors into kernels by the `schedule` pipeline's passes.

    Where a step of a loop recurs very often, its kernels are found once. lines: the user's lines of nodes of the graph,
    for those that are known. parts: how each result lies on a mesh.
    """

    def scheduled(part: UOp, count: int, known: Lines) -> Schedule:
        return _scheduled(part, count, target, known, ())

    schedule = scheduled_by_steps(graph, inputs, lines, scheduled) if not parts else None
    if schedule is None:
        schedule = _scheduled(graph, inputs, target, lines, parts)
    return copying_last(freeing_early(schedule))


def _scheduled(graph: UOp, inputs: int, target: str, lines: Lines, parts: Sequence[Parts | None]) -> Schedule:
    roots = graph.src
    fallback = lines.get(graph.src[0], next(iter(lines.values()), ()))
    numbered, fused = graph, Fused(graph) if config.debug >= 2 else None
    graph, lines = _passed(graph, target, lines, fused)
    numbers: dict[UOp, int] = {}
    made: list[tuple[tuple[int, ...], str]] = []
    steps: list[Step] = []
    _require_real(graph)
    kernels = graph.toposort("STORE", *_JOINED)
    grouped = {part for node in kernels if node.op in _JOINED for part in node.src}
    stores = [node for node in kernels if node not in grouped]
    for node, (kernel, slots) in zip(stores, _numbered(stores, target), strict=True):
        for slot in slots:
            if slot.op == "BUFFER" and slot not in numbers:
                numbers[slot] = inputs + len(made)
                made.append((slot.shape, str(slot.dtype)))
        buffers = tuple(_number(slot, numbers) for slot in slots)
        steps.append(Step(kernel, buffers, _line_of(stores_of([node])[0].src[1], lines) or fallback))
    outputs = tuple(_number(result.src[0] if result.op == "AFTER" else result, numbers) for result in graph.src)
    for root, number in zip(roots, outputs, strict=True):
        if number >= inputs:  # complex numbers are stored as pairs of floats
            made[number - inputs] = (root.shape, str(root.dtype))
    placed = {number: one for number, one in zip(outputs, parts) if one is not None and number >= inputs}
    schedule = Schedule(inputs, tuple(made), tuple(steps), outputs, tuple(placed.items()))
    if fused:
        print(fused.text(stores, {node: shown(stack[-1]) for node, stack in lines.items()}, target), file=sys.stderr)
    if config.check >= 2:
        checks().check_schedule(numbered, schedule)
    return schedule


def _numbered(stores: Sequence[UOp], target: str) -> Iterator[tuple[UOp, list[UOp]]]:
    """Each kernel as a graph of its own, and its buffers by slot."""
    roots = [UOp("SINK", (node,)) for node in stores]
    if not engine.is_looked_at():
        yield from map(number_buffers, engine.run_all(roots, ["isolate_kernels"], target))
        return
    for root in roots:
        with watching.part("kernel") as part:
            found = number_buffers(engine.run(root, "isolate_kernels", target)[0])
            part.kernel = found[0]
        yield found


def _passed(graph: UOp, target: str, lines: Lines, fused: Fused | None) -> tuple[UOp, Lines]:
    """The graph after all passes of the pipeline, and its nodes' lines."""
    steps = [name for name in engine.pipeline("schedule") if name != "number_buffers"]
    if not (lines or fused or engine.is_looked_at()):
        return engine.run_all([graph], steps, target)[0], lines
    run = _runner(graph, target)
    for name in steps:
        nodes = list(lines)
        with watching.part("schedule"):
            graph, info = run(graph, name, [*nodes, *(fused.kept if fused else ())])
        results = info["followed"]
        lines = {new: lines[old] for old, new in zip(nodes, results, strict=False) if new is not None}
        if fused:
            fused.passed(info["firings"], results[len(nodes) :])
    return graph, lines


def _runner(graph: UOp, target: str) -> Callable[[UOp, str, Sequence[UOp]], tuple[UOp, Information]]:
    """How passes are run on this graph: plainly, or checked as the setting `check` says."""
    if config.check == 0:
        trace = config.debug >= 2  # it is printed which rules fired
        return lambda before, name, follow: engine.run(before, name, target, trace, follow)
    checker = checks().Checker(graph, target)
    return lambda before, name, follow: checker.run(before, name, "tensor", follow)


def _require_real(graph: UOp) -> None:
    """Raises DtypeError where the pass `complex_numbers` has left a complex number."""
    if not any(as_dtype(dtype).is_complex for dtype in graph.dtypes()):
        return
    for node in graph.toposort():
        if node.op not in ("BUFFER", "COMPLEX", "AFTER") and as_dtype(node.dtype).is_complex:
            what = f"{node.op} by {node.attrs['op']}" if "op" in node.attrs else node.op
            raise DtypeError(f"no rule computes {what} on {node.dtype}; use .real and .imag, or another operation")


def _line_of(value: UOp, lines: Lines) -> Stack:
    """The user's line of a kernel: of the value that it stores, or of the nearest node below it that has one."""
    waiting = [value] if lines else []
    seen = set(waiting)
    for node in waiting:
        if node in lines:
            return lines[node]
        sources = [source for source in node.src if source.op != "AFTER" and source not in seen]
        seen.update(sources)
        waiting.extend(sources)
    return ()


def _number(slot: UOp, numbers: dict[UOp, int]) -> int:
    number: int = slot.attrs["slot"] if slot.op == "PARAM" else numbers[slot]
    return number


def numbered_lines(graphs: Sequence[UOp]) -> Lines:
    """The user's lines of the nodes of graphs, as `number_buffers` leaves these; {} where nobody reads them."""
    lines = find_lines(graphs)
    if not lines:
        return {}
    nodes = list(lines)
    with watching.part("schedule"):  # the lines are known of the graph with buffers
        _, info = engine.run(UOp("SINK", tuple(graphs)), "number_buffers", follow=nodes)
    return {new: lines[old] for old, new in zip(nodes, info["followed"], strict=True) if new is not None}


def find_lines(graphs: Sequence[UOp]) -> Lines:
    """The user's lines of a graph's nodes, where somebody reads them."""
    return source_lines.inherited(graphs) if source_lines.reading() else {}
