"""Running a pass with a rule that is watched: on which nodes it was tried, how far it came, and what fired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rulegrad.ir import UOp
from rulegrad.lang import syntax
from rulegrad.workbench.explaining.failing import Reader
from rulegrad.workbench.explaining.history import History, Step
from rulegrad.workbench.explaining.naming import Namer
from rulegrad.workbench.explaining.watched import PROBE, WatchedProgram

if TYPE_CHECKING:
    from rulegrad._core import Information, Inside


class Subject(NamedTuple):
    """A graph that goes through a pass."""

    graph: UOp
    pass_name: str
    target: str | None = None


class Attempt(NamedTuple):
    """One alternative of the rule on one node: whether it gave a result, else the place of the furthest failed test."""

    node: UOp
    alternative: int
    done: bool
    place: int
    result: Any
    registers: list[Any]
    error: str


class Entered(NamedTuple):
    """Rewriting inside a pass: of a part of a template, or of a candidate (name is ""), for a rule at a node."""

    name: str  # rewritten or given, and the pass that runs
    rule: str
    location: str
    at: UOp | None
    graph: UOp

    @property
    def runs(self) -> str:
        return self.name.partition(" ")[2]


@dataclass(slots=True)
class Run:
    """A subject's pass, and what the rule did in it; or rewriting inside it, which `entered` says and `outer` has."""

    subject: Subject
    watched: WatchedProgram
    direction: str
    function: str
    attempts: list[Attempt] = field(default_factory=list)
    error: str = ""
    steps: list[Step] = field(default_factory=list)
    rounds: list[list[Inside]] = field(default_factory=list)  # of a choose pass
    entered: Entered | None = None
    outer: Run | None = None
    times_entered: int = 0  # how often something was rewritten inside
    _namer: Namer | None = None
    _history: History | None = None

    @property
    def namer(self) -> Namer:
        if self.outer is not None:
            return self.outer.namer
        self._namer = self._namer or Namer(self.subject.graph, self.watched.table)
        return self._namer

    @property
    def graph(self) -> UOp:
        return self.entered.graph if self.entered else self.subject.graph

    @property
    def problem(self) -> str:
        """The error without what it says about looking further."""
        return self.error.partition("\n")[0]

    @property
    def history(self) -> History:
        self._history = self._history or History(self.graph, self.direction, self.steps)
        return self._history


class _Watcher:
    """Writes down what the engine tells."""

    def __init__(self, made: Run) -> None:
        self.open = [made]
        self.inside: list[Run] = []

    def attempt(self, *attempt: Any) -> None:
        self.open[-1].attempts.append(Attempt(*attempt))

    def enter(self, name: str, rule: str, location: str, at: UOp | None, graph: UOp) -> None:
        outer, entered = self.open[-1], Entered(name, rule, location, at, graph)
        by_sets = not name or entered.runs.startswith("rules ")
        direction = "children_first" if by_sets else self.open[0].direction
        self.open[0].times_entered += 1
        one = Run(outer.subject, outer.watched, direction, outer.function, entered=entered, outer=outer)
        self.open.append(one)
        self.inside.append(one)

    def leave(self, information: Information, error: str) -> None:
        one = self.open.pop()
        one.steps, one.error = _steps(information), error


def progress(attempt: Attempt, readers: Sequence[Reader]) -> tuple[bool, int, int]:
    """How far an attempt came."""
    matched, _ = readers[attempt.alternative].progress(attempt.place)
    return attempt.done, matched, attempt.place


def run(
    subject: Subject,
    watched: WatchedProgram,
    declaration: syntax.Pass,
    function: str,
    nodes: Sequence[UOp],
    inside: Sequence[str] = (),
) -> list[Run]:
    """Runs the pass, and what it rewrites inside; the registers of attempts are known for `nodes` only.

    inside: the compiled passes that the rule is watched in; those that no rule of the target asks for are not there,
    and where none is there is nothing to run. What was rewritten inside without the rule is left out.
    """
    direction = declaration.direction if declaration.kind == "rewrite" else declaration.kind
    made = Run(subject, watched, direction, function)
    compiled = {one.name for one in watched.assembler.passes}
    there = [name for name in inside if name in compiled]
    if inside and not there:
        return [made]
    seed = _seed(subject.graph) if declaration.kind == "reverse" else None
    watcher = _Watcher(made)
    information, made.error = watched.program.explain(
        subject.pass_name, PROBE, subject.graph, watcher, function, list(nodes), seed, there
    )
    made.steps = _steps(information)
    if declaration.kind == "choose":
        made.rounds = [one for one in [*information["inside"], information["remaining"]] if one]
    return [made, *(one for one in watcher.inside if one.attempts)]


def _steps(information: Information) -> list[Step]:
    return [Step(number, *firing) for number, firing in enumerate(information["firings"], 1)]


def _seed(graph: UOp) -> UOp:
    """A gradient of a graph, to start a reverse pass with: a tensor that nothing is known of."""
    return UOp("PARAM", (), graph.dtype, slot=0, shape=graph.shape)
