"""Running a pass with a rule that is watched: on which nodes it was tried, how far it came, and what fired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rulegrad.explaining.failing import Reader
from rulegrad.explaining.history import History, Step
from rulegrad.explaining.naming import Namer
from rulegrad.ir import UOp
from rulegrad.lang import syntax
from rulegrad.lang.compiler.watched import PROBE, WatchedProgram

if TYPE_CHECKING:
    from rulegrad._core import Information


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


@dataclass(slots=True)
class Run:
    """A subject's pass, and what the rule did in it."""

    subject: Subject
    watched: WatchedProgram
    direction: str
    function: str
    attempts: list[Attempt] = field(default_factory=list)
    error: str = ""
    steps: list[Step] = field(default_factory=list)
    _namer: Namer | None = None
    _history: History | None = None

    @property
    def namer(self) -> Namer:
        self._namer = self._namer or Namer(self.subject.graph, self.watched.table)
        return self._namer

    @property
    def problem(self) -> str:
        """The error without what it says about looking further."""
        return self.error.partition("\n")[0]

    @property
    def history(self) -> History:
        self._history = self._history or History(self.subject.graph, self.direction, self.steps)
        return self._history


class _Watcher:
    """Writes down what the engine tells."""

    def __init__(self, made: Run) -> None:
        self.made = made

    def attempt(self, *attempt: Any) -> None:
        self.made.attempts.append(Attempt(*attempt))

    def enter(self, name: str, rule: str, place: str, at: UOp | None, graph: UOp) -> None:
        pass

    def leave(self, information: Information, error: str) -> None:
        pass


def progress(attempt: Attempt, readers: Sequence[Reader]) -> tuple[bool, int, int]:
    """How far an attempt came."""
    matched, _ = readers[attempt.alternative].progress(attempt.place)
    return attempt.done, matched, attempt.place


def run(
    subject: Subject, watched: WatchedProgram, declaration: syntax.Pass, function: str, nodes: Sequence[UOp]
) -> Run:
    """Runs the pass; the registers of attempts are known for `nodes` only."""
    direction = declaration.direction if declaration.kind == "rewrite" else declaration.kind
    made = Run(subject, watched, direction, function)
    seed = _seed(subject.graph) if declaration.kind == "reverse" else None
    watcher = _Watcher(made)
    information, made.error = watched.program.explain(
        subject.pass_name, PROBE, subject.graph, watcher, function, list(nodes), seed
    )
    made.steps = [Step(number, *firing) for number, firing in enumerate(information["firings"], 1)]
    return made


def _seed(graph: UOp) -> UOp:
    """A gradient of a graph, to start a reverse pass with: a tensor that nothing is known of."""
    return UOp("PARAM", (), graph.dtype, slot=0, shape=graph.shape)
