"""A kernel's schedule in words: the one that was chosen, the other candidates, and what stopped the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rulegrad import engine
from rulegrad.engine.schedules import CHOOSES, described
from rulegrad.ir import UOp
from rulegrad.lang import syntax
from rulegrad.workbench.explaining.explanation import Spot
from rulegrad.workbench.explaining.question import Question
from rulegrad.workbench.explaining.runs import Subject
from rulegrad.workbench.explaining.script import Recording

if TYPE_CHECKING:
    from rulegrad._core import Inside
    from rulegrad.engine.pass_run import PassRun
    from rulegrad.engine.watching import CompiledKernel


APPLIES = "apply_schedule"  # the pass that takes steps
STEPS = ("steps", "counter_form")  # the set of its rules, and the function that says what takes a counter's place


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule that a rule proposes. cost: the rule's estimate, by which the pass compares."""

    rule: str
    location: str
    cost: float | None
    taken: bool
    schedule: str  # the tactic and its steps


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rule that proposed nothing: its first false test, where that stands, and the names in it."""

    rule: str
    location: str
    message: str
    spot: Spot | None = None
    names: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScheduleExplanation:
    """The schedule of one kernel: "" where no rule proposed one."""

    kernel: str
    target: str | None
    schedule: str
    candidates: tuple[Candidate, ...]
    refusals: tuple[Refusal, ...]
    is_found: bool = False  # by search, or the next one, where the first candidate does not apply

    def __str__(self) -> str:
        tactic, _, steps = self.schedule.partition(": ")
        target = f" for {self.target}" if self.target else ""
        said = f"by {tactic}:" if steps else f"{tactic}, without steps" if tactic else "no rule gives it a schedule"
        found = "not the first candidate, " if self.is_found else ""
        lines = [f"{self.kernel}{target}: {found}{said}", *(f"    {step}" for step in steps.split("; ") if step)]
        if self.candidates:
            lines.append("  candidates:")
        for one in self.candidates:
            cost = "no cost" if one.cost is None else f"{one.cost:,.0f}"
            lines.append(f"    {cost:>20s}  {one.rule} ({one.location}){', taken' if one.taken else ''}")
            if not one.taken and one.schedule:
                lines.append(f"    {'':20s}    {one.schedule}")
        if self.refusals:
            lines.append("  do not apply:")
        for refusal in self.refusals:
            lines.append(f"    {refusal.rule} ({refusal.location}): {refusal.message}")
            lines += [f"      {line}" for line in str(refusal.spot).split("\n")[1:] if refusal.spot is not None]
            if refusal.names:
                lines.append("      with " + ", ".join(f"{name} = {value}" for name, value in refusal.names.items()))
        return "\n".join(lines)


class ScheduleRecording(Recording):
    """A recording of the pass that gives schedules, on each kernel of what runs inside a `with` block."""

    def __init__(self) -> None:
        super().__init__()
        self.chosen: list[tuple[PassRun, Sequence[Inside]]] = []
        self.names: dict[UOp, str] = {}
        self.schedules: dict[
            UOp | None, str
        ] = {}  # that kernels got: not the rules' choice where another was found by search

    def ran(self, run: PassRun) -> None:
        super().ran(run)
        if run.name == CHOOSES:
            inside = [one for change in run.changes for one in change.inside] or list(run.remaining)
            self.chosen.append((run, inside))

    def compiled(self, graph: UOp, kernel: CompiledKernel, target: str) -> None:
        self.names[graph] = kernel.name
        self.schedules[graph] = kernel.schedule

    def explained(self, kernel: str, target: str | None) -> list[ScheduleExplanation]:
        """The kernels whose names contain `kernel`, each once."""
        wanted: dict[tuple[str, UOp], tuple[PassRun, Sequence[Inside]]] = {}
        for run, inside in self.chosen:
            name = self.names.get(run.part.kernel, "a kernel") if run.part.kernel is not None else "a kernel"
            if kernel in name and target in (None, run.target):
                wanted[name, run.before] = run, inside
        refused = _Refusals()
        return [
            _told(name, run.target, (run.before, run.after), inside, refused, self.schedules.get(run.part.kernel, ""))
            for (name, _), (run, inside) in wanted.items()
        ]


def explain_schedule(graph: UOp, target: str) -> ScheduleExplanation:
    """The schedule of a kernel's graph as its pass gets it. Raises RuleError for an unknown target."""
    after, information = engine.run(graph, CHOOSES, target, True)
    inside = [one for round_ in information["inside"] for one in round_] or information["remaining"]
    return _told("the graph", target, (graph, after), inside, _Refusals())


def _told(
    name: str,
    target: str | None,
    graphs: tuple[UOp, UOp],
    inside: Sequence[Inside],
    refused: _Refusals,
    has: str = "",
) -> ScheduleExplanation:
    """graphs: before and after the pass. has: the schedule that the kernel got, where that is known."""
    found = tuple(_candidates(inside))
    proposed = {one.rule for one in found}
    refusals = tuple(one for one in refused.of(Subject(graphs[0], CHOOSES, target)) if one.rule not in proposed)
    chosen = described(graphs[1])
    return ScheduleExplanation(name, target, has or chosen, found, refusals, has not in ("", chosen))


def _candidates(inside: Sequence[Inside]) -> Iterator[Candidate]:
    """Those of the first round, the cheapest first; what the graph itself costs is none."""
    ours = [one for one in inside if one["rule"]]
    for one in sorted(ours, key=lambda one: (one["cost"] is None, one["cost"] or 0)):
        schedule = described(one["after"]) if one["after"] is not None else ""
        yield Candidate(one["rule"], one["location"], one["cost"], one["verdict"] == "taken", schedule)


def stopping_guard(graph: UOp, target: str) -> str:
    """Which test of a rule the first step of a SCHEDULED did not pass, and where it stands; "" where none is known."""
    passes = {d.name: d for d in engine.loaded().sources.declarations() if isinstance(d, syntax.Pass)}
    rules = [name for name in engine.rules() if name.partition(".")[0] in STEPS and not name.endswith(".done")]
    if APPLIES not in passes:
        return ""
    told = [Question(name, None, APPLIES, 1).answered([Subject(graph, APPLIES, target)]) for name in rules]
    answers = [(one, answer) for one in told for answer in one.answers if answer.part == "clause"]
    lines = []
    for one, answer in answers:
        lines.append(f"    {one.rule} ({one.location}): {answer.message}")
        lines += [f"      {line}" for line in str(answer.spot).split("\n")[1:] if answer.spot is not None]
        if answer.names:
            lines.append("      with " + ", ".join(f"{name} = {value}" for name, value in answer.names.items()))
    return "\n".join(lines)


class _Refusals:
    """Asks each rule of the pass why it does not fire; a rule is compiled once for all kernels."""

    def __init__(self) -> None:
        declared = [d for d in engine.loaded().sources.declarations() if isinstance(d, syntax.Pass)]
        (choosing,) = [one for one in declared if one.name == CHOOSES]
        self.questions = [Question(f"{CHOOSES}.{rule.name}", None, CHOOSES, 3) for rule in choosing.rules]

    def of(self, subject: Subject) -> Iterator[Refusal]:
        for question in self.questions:
            told = question.answered([subject])
            answer = next((one for one in told.answers if one.at and not one.fires), None)
            if answer is not None:
                yield Refusal(told.rule, told.location, answer.message, answer.spot, answer.names)
            elif not told.fires:
                yield Refusal(told.rule, told.location, told.summary, told.spot)


__all__ = ["Candidate", "Refusal", "ScheduleExplanation", "ScheduleRecording", "explain_schedule"]
