"""What a trace records: the passes that run while it is active, the rules that fire, the kernels that are made."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulegrad.errors import ConfigError
from rulegrad.ir import UOp
from rulegrad.lang import watching
from rulegrad.lang.watching import Change, Part, PassRun
from rulegrad.runtime.profile import Profile
from rulegrad.runtime.timeline import Span, save_timeline
from rulegrad.tracing.nodes import Difference, NodeTable, difference
from rulegrad.tracing.provenance import Place, Provenance
from rulegrad.tracing.rule_text import rule_text

if TYPE_CHECKING:
    from types import TracebackType

    from rulegrad.runtime.kernel import Kernel
    from rulegrad.tracing.document import Selection


@dataclass(frozen=True, slots=True)
class TracedFiring:
    """A rule that fired. Nodes are numbers of the trace's table."""

    rule: str  #: SET.RULE
    place: str  #: of the rule: file:line
    found: int  #: the node before, as the pass found it
    before: tuple[int, ...]
    after: tuple[int, ...]
    difference: Difference
    line: Place | None  #: the user's


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


@dataclass(frozen=True, slots=True)
class TracedKernel:
    """A kernel that was made, and the graph that was cut out for it."""

    kernel: Kernel
    target: str
    graph: UOp
    line: Place | None


class Trace:
    """What was compiled inside a `with` block, step by step.

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
        self.rules: dict[tuple[str, str], str] = {}  #: the text of each rule that fired, by its name and place
        self._passes: dict[tuple[str, str | None, str, UOp], TracedPass] = {}
        self._provenance = Provenance(self.table)
        self._lock = threading.Lock()

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

    def line_of(self, number: int) -> Place | None:
        """The user's line that a node of the table comes from."""
        return self._provenance.exactly(number)

    # ---- recording: see rulegrad.lang.watching ----

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
            after = self.table.number(run.after)
            results = {old: new for old, new in run.followed.items() if new is not None}
            number = self.table.number
            self._provenance.became({number(old): number(new) for old, new in results.items()})
            self._passes[key] = TracedPass(
                run.name, run.target, run.part, before, after, run.visited, run.start, run.seconds, firings
            )

    def _firing(self, change: Change) -> TracedFiring:
        if (change.rule, change.place) not in self.rules:
            self.rules[change.rule, change.place] = rule_text(change.place)
        found = self.table.number(change.found)
        before = tuple(self.table.number(node) for node in change.before)
        first_new = len(self.table.nodes)
        after = tuple(self.table.number(node) for node in change.after)
        changed = difference(self.table, before, after)
        if len(before) > 1:  # a gradient: it takes nothing away
            changed = changed._replace(removed=())
        line = self._provenance.of(found, *before)
        if line is not None:
            self._provenance.made((*before[:1], *changed.added, *range(first_new, len(self.table.nodes))), line)
        return TracedFiring(change.rule, change.place, found, before, after, changed, line)

    def compiled(self, graph: UOp, kernel: Kernel, target: str) -> None:
        """A kernel was made."""
        with self._lock:
            line = self._provenance.of(self.table.number(graph))
            self.kernels.append(TracedKernel(kernel, target, graph, line))

    def __enter__(self) -> Trace:
        from rulegrad.compile import forget_kernels

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
        from rulegrad.tracing.text import as_text

        return as_text(self, title, selection, colored)

    def data(self, title: str = "", selection: Selection | None = None) -> dict[str, Any]:
        """The trace as plain data; docs/tracing.md says what each field means."""
        from rulegrad.tracing.document import document

        return document(self, title, selection)

    def save(self, path: str | Path, title: str = "", selection: Selection | None = None) -> None:
        """Writes the trace as a page for a browser (.html), as JSON (.json) or as text (.txt).

        Raises ConfigError for another ending, and OSError.
        """
        ending = Path(path).suffix.lower()
        if ending == ".html":
            from rulegrad.tracing.page import page

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
                    "fired": len(one.firings),
                },
            )
            for one in self.passes
        ]
        save_timeline(path, [*spans, *self.profile.spans()])
