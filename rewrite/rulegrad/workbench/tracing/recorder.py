"""The records of a trace: the passes that run while it is active, the rules that fire, the kernels that are made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulegrad.compile import forget_kernels
from rulegrad.engine import watching
from rulegrad.engine.pass_run import PassRun
from rulegrad.engine.watching import Change, CompiledKernel, Part, changes_of
from rulegrad.errors import ConfigError
from rulegrad.ir import UOp
from rulegrad.runtime.profile import Profile
from rulegrad.runtime.timeline import Span, save_timeline
from rulegrad.support import forks
from rulegrad.workbench.tracing.document import Selection, document
from rulegrad.workbench.tracing.nodes import Difference, NodeTable, difference
from rulegrad.workbench.tracing.page import page
from rulegrad.workbench.tracing.provenance import Location, Provenance
from rulegrad.workbench.tracing.rule_text import rule_text
from rulegrad.workbench.tracing.text import as_text

if TYPE_CHECKING:
    from types import TracebackType

    from rulegrad._core import Inside


#: Candidates of one round of a choose pass that are kept: those of least cost.
MOST_CANDIDATES = 64


@dataclass(frozen=True, slots=True)
class TracedFiring:
    """A rule that fired. Nodes are numbers of the trace's table."""

    rule: str  #: SET.RULE
    location: str  #: of the rule: file:line
    found: int  #: the node before, as the pass found it
    before: tuple[int, ...]
    after: tuple[int, ...]
    difference: Difference
    line: Location | None  #: the user's
    inside: Traced


@dataclass(frozen=True, slots=True)
class TracedInside:
    """Rewriting inside a pass: a part of a template, or a candidate of a choose pass.

    kind: rewritten or given; graph, with which candidates are compared; candidate. verdict: done, failed; given
    (that graph), taken, not taken, no cost.
    """

    kind: str
    runs: str  #: the pass or the rule sets that rewrote it
    rule: str  #: of a candidate
    location: str
    verdict: str
    before: int
    after: int | None  #: None where it failed
    cost: float | None
    firings: list[TracedFiring]
    remaining: Traced  #: what led to no firing
    omitted: tuple[int, int]  #: after how many firings how many are left out, where it failed after very many


@dataclass(frozen=True, slots=True)
class Traced:
    """The rewrites inside a firing, or after the last one; examined: the candidates, shown or not."""

    parts: tuple[TracedInside, ...] = ()
    examined: int = 0


@dataclass(slots=True, eq=False)
class TracedPass:
    """A pass that ran: on the same graph once or several times."""

    name: str
    target: str | None
    part: Part
    before: int
    after: int
    visited: int
    start: float  #: seconds, on the clock of time.perf_counter
    seconds: float
    firings: list[TracedFiring]
    runs: int = 1
    error: str = ""  #: what it failed with; `after` is then the graph before, or the wrong one that it left
    remaining: Traced = Traced()  #: rewriting inside that led to no firing: before an error, or when a search ended
    omitted: tuple[int, int] = (0, 0)  #: after how many firings how many are left out, where it failed after very many

    @property
    def fired(self) -> int:
        """How many rules fired, listed or not."""
        return len(self.firings) + self.omitted[1]

    def numbered(self, before: int) -> list[tuple[int, TracedFiring]]:
        """The firings with their steps, of which there were so many before."""
        at, left_out = self.omitted
        return [(before + k + (left_out if k > at else 0), firing) for k, firing in enumerate(self.firings, 1)]


@dataclass(frozen=True, slots=True)
class TracedKernel:
    """A kernel that was made, and the graph that was cut out for it."""

    kernel: CompiledKernel
    target: str
    graph: UOp
    line: Location | None


class Trace:
    """A record of the compilations inside a `with` block, step by step.

    >>> import rulegrad as rg
    >>> with rg.trace() as t:
    ...     _ = (Tensor([1.0, 2.0]) * 1).numpy()
    >>> [f.rule for p in t.passes for f in p.firings if p.name == "tensor"]
    []
    >>> len(t.kernels)
    1
    """

    def __init__(self) -> None:
        self.table = NodeTable()
        self.kernels: list[TracedKernel] = []
        self.profile = Profile()  #: the launches
        self.rules: dict[tuple[str, str], str] = {}  #: the text of each rule that fired, by its name and location
        self._passes: dict[tuple[str, str | None, str, UOp], TracedPass] = {}
        self._provenance = Provenance(self.table)
        self._lock = forks.lock()

    @property
    def passes(self) -> list[TracedPass]:
        """The passes in order; those of one kernel stand together."""
        order: dict[TracedPass, int] = {}
        first: dict[UOp, int] = {}
        for place, one in enumerate(self._passes.values()):
            order[one] = place if one.part.kernel is None else first.setdefault(one.part.kernel, place)
        return sorted(order, key=lambda one: order[one])

    def kernel_of(self, one: TracedPass) -> int | None:
        """The place in `kernels` of the kernel that a pass ran for."""
        graph, target = one.part.kernel, one.target
        places = [k for k, made in enumerate(self.kernels) if made.graph == graph and target in (None, made.target)]
        return places[0] if places else None

    def line_of(self, number: int) -> Location | None:
        """The user's line that a node of the table comes from."""
        return self._provenance.exactly(number)

    # ---- recording: see rulegrad.engine.watching ----

    def follows(self, graph: UOp) -> Sequence[UOp]:
        """The nodes whose user's lines are known, so that these can be passed on."""
        with self._lock:
            numbers = self._provenance.known(self.table.below([self.table.number(graph)]))
            return [self.table.nodes[number] for number in numbers]

    def ran(self, run: PassRun) -> None:
        """A pass has run."""
        with self._lock:
            key = (run.name, run.target, run.part.pipeline, run.before)
            known = self._passes.get(key)
            if known is not None:
                known.runs += 1
                known.seconds += run.seconds
                return
            before = self.table.number(run.before)
            self._provenance.known(self.table.below([before]))
            firings = [self._firing(change) for change in run.changes]
            remaining = self._inside(run.remaining, None)
            after = self.table.number(run.after)
            results = {old: new for old, new in run.followed.items() if new is not None}
            number = self.table.number
            self._provenance.became({number(old): number(new) for old, new in results.items()})
            made = TracedPass(
                run.name, run.target, run.part, before, after, run.visited, run.start, run.seconds, firings
            )
            made.error, made.remaining, made.omitted = run.error, remaining, run.omitted
            self._passes[key] = made

    def failed(self, name: str, target: str | None, graph: UOp, problem: str) -> None:
        """The result of a pass is wrong."""
        with self._lock:
            for (other, of, _, before), one in self._passes.items():
                if (other, of, before) == (name, target, graph):
                    one.error = problem

    def _note_rule(self, rule: str, location: str) -> None:
        if (rule, location) not in self.rules:
            self.rules[rule, location] = rule_text(location)

    def _inside(self, parts: Sequence[Inside], line: Location | None) -> Traced:
        """Of many candidates those of least cost, in the order in which they were examined."""
        judged = [(one["cost"], k) for k, one in enumerate(parts) if one["verdict"] in ("not taken", "no cost")]
        judged.sort(key=lambda item: (item[0] is None, item[0] or 0, item[1]))
        left_out = {k for _, k in judged[MOST_CANDIDATES:]}
        shown = [one for k, one in enumerate(parts) if k not in left_out]
        return Traced(tuple(self._part(one, line) for one in shown), sum(bool(one["rule"]) for one in parts))

    def _part(self, one: Inside, line: Location | None) -> TracedInside:
        kind, _, runs = one["name"].partition(" ")
        if one["rule"]:
            self._note_rule(one["rule"], one["location"])
        after = one["after"]
        return TracedInside(
            kind or ("candidate" if one["rule"] else "graph"),
            runs.removeprefix("rules "),
            one["rule"],
            one["location"],
            one["verdict"],
            self.table.number(one["before"]),
            None if after is None else self.table.number(after),
            one["cost"],
            [self._firing(change, line) for change in changes_of(one)],
            self._inside(one["remaining"], line),
            one["omitted"],
        )

    def _firing(self, change: Change, outer: Location | None = None) -> TracedFiring:
        self._note_rule(change.rule, change.location)
        found = self.table.number(change.found)
        before = tuple(self.table.number(node) for node in change.before)
        first_new = len(self.table.nodes)
        after = tuple(self.table.number(node) for node in change.after)
        changed = difference(self.table, before, after)
        if len(before) > 1:  # a gradient: it takes nothing away
            changed = changed._replace(removed=())
        line = self._provenance.of(found, *before) or outer
        if line is not None:
            self._provenance.made((*before[:1], *changed.added, *range(first_new, len(self.table.nodes))), line)
        inside = self._inside(change.inside, line)
        return TracedFiring(change.rule, change.location, found, before, after, changed, line, inside)

    def compiled(self, graph: UOp, kernel: CompiledKernel, target: str) -> None:
        """A kernel was made."""
        with self._lock:
            line = self._provenance.of(self.table.number(graph))
            self.kernels.append(TracedKernel(kernel, target, graph, line))

    def __enter__(self) -> Trace:
        forget_kernels()  # what is compiled already would not be compiled again
        watching.watchers.append(self)
        self.profile.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.profile.__exit__()
        watching.watchers.remove(self)

    # ---- giving it to somebody ----

    def text(self, title: str = "", selection: Selection | None = None, colored: bool = False) -> str:
        """The trace for people; `colored`: with the escape codes of a terminal."""
        return as_text(self, title, selection, colored)

    def data(self, title: str = "", selection: Selection | None = None) -> dict[str, Any]:
        """The trace as plain data; docs/tracing.md says what each field means."""
        return document(self, title, selection)

    def save(self, path: str | Path, title: str = "", selection: Selection | None = None) -> None:
        """Writes the trace as a page for a browser (.html), as JSON (.json) or as text (.txt).

        Raises ConfigError for another ending, and OSError.
        """
        ending = Path(path).suffix.lower()
        if ending == ".html":
            text = page(self.data(title, selection))
        elif ending == ".json":
            text = json.dumps(self.data(title, selection))
        elif ending == ".txt":
            text = self.text(title, selection) + "\n"
        else:
            raise ConfigError(f"a trace is saved as .html, .json or .txt, not as {ending or 'a file without one'}")
        Path(path).write_text(text, encoding="utf-8")

    def save_timeline(self, path: str | Path) -> None:
        """Writes passes and launches as a timeline for Perfetto and Chrome's `about:tracing`. Raises OSError."""
        names = {one.graph: one.kernel.name for one in self.kernels}
        spans = [
            Span(
                one.name,
                "passes",
                one.start,
                one.seconds,
                {
                    "pipeline": one.part.pipeline,
                    "kernel": names.get(one.part.kernel, "") if one.part.kernel is not None else "",
                    "visited": one.visited,
                    "fired": one.fired,
                },
            )
            for one in self.passes
        ]
        save_timeline(path, [*spans, *self.profile.spans()])
