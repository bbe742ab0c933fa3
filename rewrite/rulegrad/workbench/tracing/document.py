"""A trace as plain data: what `--json` prints and the viewer shows. docs/tracing.md says what each field means."""

from __future__ import annotations

import fnmatch
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rulegrad import __version__, engine
from rulegrad.errors import GraphError
from rulegrad.ir import UOp
from rulegrad.workbench.tracing.provenance import Location

if TYPE_CHECKING:
    from rulegrad.workbench.tracing.recorder import Trace, Traced, TracedFiring, TracedInside, TracedKernel, TracedPass

FORMAT = "rulegrad trace"
#: Raised when a field changes its meaning or goes away; not when one is added.
VERSION = 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which firings are listed: of a rule, in a pass (names, in which * stands for anything), and how many at most."""

    rule: str | None = None
    pass_name: str | None = None
    limit: int | None = None

    def passes(self, trace: Trace) -> Iterator[tuple[TracedPass, list[tuple[int, TracedFiring]]]]:
        """The passes that are wanted, with their wanted firings; these are counted over the whole trace, from 1."""
        step = 0
        left = self.limit if self.limit is not None else 1 << 62
        for one in trace.passes:
            numbered = one.numbered(step)
            step += one.fired
            if self.pass_name is not None and not fnmatch.fnmatchcase(one.name, self.pass_name):
                continue
            found = [(number, firing) for number, firing in numbered if self._wants(firing.rule)][:left]
            left -= len(found)
            if found or self.rule is None or one.error:
                yield one, found
            if not left:
                return

    def _wants(self, rule: str) -> bool:
        names = (rule, rule.rpartition(".")[2])
        return self.rule is None or any(fnmatch.fnmatchcase(name, self.rule) for name in names)


class _Numbered(Generic[T]):
    """Numbers for things, in the order in which they are first met."""

    def __init__(self) -> None:
        self.numbers: dict[T, int] = {}

    def __call__(self, thing: T) -> int:
        return self.numbers.setdefault(thing, len(self.numbers))


def document(trace: Trace, title: str = "", selection: Selection | None = None) -> dict[str, Any]:
    """The trace as dictionaries, lists, strings and numbers."""
    return _Document(trace).build(title, selection or Selection())


class _Document:
    """Numbers labels, shapes, lines and rules while passes and nodes are written down."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._labels: _Numbered[tuple[str, str, str]] = _Numbered()
        self._shapes: _Numbered[tuple[int, ...] | None] = _Numbered()
        self._lines: _Numbered[Location] = _Numbered()
        self._rules: _Numbered[tuple[str, str]] = _Numbered()

    def build(self, title: str, selection: Selection) -> dict[str, Any]:
        passes = [self._pass(*one) for one in selection.passes(self._trace)]
        kernels = [self._kernel(one) for one in self._trace.kernels]
        nodes = [self._node(number, node) for number, node in enumerate(self._trace.table.nodes)]
        return {
            "format": FORMAT,
            "version": VERSION,
            "rulegrad": __version__,
            "title": title,
            "passes": passes,
            "kernels": kernels,
            "rules": [
                {"name": name, "location": location, "text": self._trace.rules[name, location]}
                for name, location in self._rules.numbers
            ],
            "lines": [line_data(location) for location in self._lines.numbers],
            "labels": [
                {"op": op, "attributes": attributes, "dtype": dtype, **_op_facts(op)}
                for op, attributes, dtype in self._labels.numbers
            ],
            "shapes": [None if shape is None else list(shape) for shape in self._shapes.numbers],
            "nodes": nodes,
        }

    def _pass(self, one: TracedPass, firings: list[tuple[int, TracedFiring]]) -> dict[str, Any]:
        return {
            "name": one.name,
            "kind": engine.summary()["passes"].get(one.name, "children_first"),
            "pipeline": one.part.pipeline,
            "kernel": self._trace.kernel_of(one),
            "target": one.target,
            "before": one.before,
            "after": one.after,
            "start": one.start,
            "seconds": one.seconds,
            "runs": one.runs,
            "visited": one.visited,
            "fired": one.fired,
            "firings": [self._firing(step, firing) for step, firing in firings],
            "error": one.error,
            "omitted": list(one.omitted),
            **self._inside(one.remaining),
        }

    def _inside(self, traced: Traced) -> dict[str, Any]:
        return {"inside": [self._part(one) for one in traced.parts], "examined": traced.examined}

    def _part(self, one: TracedInside) -> dict[str, Any]:
        return {
            "kind": one.kind,
            "runs": one.runs,
            "rule": self._rules((one.rule, one.location)) if one.rule else None,
            "verdict": one.verdict,
            "before": one.before,
            "after": one.after,
            "cost": one.cost,
            "firings": [self._firing(None, firing) for firing in one.firings],
            "omitted": list(one.omitted),
            **self._inside(one.remaining),
        }

    def _firing(self, step: int | None, firing: TracedFiring) -> dict[str, Any]:
        return {
            "step": step,
            "rule": self._rules((firing.rule, firing.location)),
            "found": firing.found,
            "before": list(firing.before),
            "after": list(firing.after),
            "removed": list(firing.difference.removed),
            "added": list(firing.difference.added),
            "complete": firing.difference.complete,
            "line": self._line(firing.line),
            **self._inside(firing.inside),
        }

    def _kernel(self, one: TracedKernel) -> dict[str, Any]:
        launches = [record for record in self._trace.profile.kernels if record.name == one.kernel.name]
        return {
            "name": one.kernel.name,
            "target": one.target,
            "graph": self._trace.table.number(one.graph),
            "line": self._line(one.line),
            "source": one.kernel.source,
            "grid": list(one.kernel.grid),
            "flops": one.kernel.flops,
            "nbytes": one.kernel.nbytes,
            "launches": len(launches),
            "seconds": sum(record.seconds for record in launches),
        }

    def _node(self, number: int, node: UOp) -> list[Any]:
        try:
            shape = node.shape
        except GraphError:  # a pass may make nodes that it takes away again, and only those that stay must be valid
            shape = None
        line = self._line(self._trace.line_of(number))
        return [self._labels(label(node)), list(self._trace.table.sources[number]), self._shapes(shape), line]

    def _line(self, location: Location | None) -> int | None:
        return None if location is None else self._lines(location)


def label(node: UOp) -> tuple[str, str, str]:
    """A node's op, its attributes as text, and its dtype."""
    op, dtype = node.op, str(node.dtype)
    return op, node.describe()[len(op) + 1 : -len(dtype) - 2], dtype


def _op_facts(op: str) -> dict[str, Any]:
    """The first class of an op, and whether it is commutative."""
    classes, flags = engine.summary()["ops"].get(op, ((), ()))
    return {"class": (*classes, "")[0], "commutative": "commutative" in flags}


def line_data(location: Location) -> dict[str, Any]:
    """A line of the user's program, with its text."""
    file, line = location
    return {"file": _shown(file), "line": line, "text": linecache.getline(file, line).strip()}


def _shown(file: str) -> str:
    """A file as a trace names it: relative to the current folder, or its name alone."""
    path = Path(file)
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else path.name
