"""The outcome of each rule: proved, tested, unsound, assumed, a text; or its problem."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rulegrad import engine
from rulegrad._core import UOp
from rulegrad.errors import RuleError, RulegradError
from rulegrad.lang import syntax
from rulegrad.workbench.proof import counterexamples
from rulegrad.workbench.proof.derivatives import gradient_functions, test_gradient
from rulegrad.workbench.proof.lines import on_values
from rulegrad.workbench.proof.programs import TEXT, Entry, Rules
from rulegrad.workbench.proof.testing import Difference, Tester, Trial

if TYPE_CHECKING:
    from rulegrad.workbench.proof.symbolic import Attempt

#: In the order of the table; the last three are problems.
KINDS = ("proved", "tested", "unsound", "assumed", "text", "failed", "untested", "vacuous")
#: What the outcome of a rule says where it is only tested for some integers.
NOT_PROVED = "not proved for"
PROBLEMS = frozenset(("failed", "untested", "vacuous"))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one rule. how: in words; line: a test line that shows what is wrong."""

    name: str
    location: str
    kind: str
    how: str = ""
    line: str = ""

    @property
    def file(self) -> str:
        return self.location.rpartition(":")[0]

    @property
    def plain(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(slots=True)
class Workbench:
    """Rule files, ready to be proved; `only`: the rules of these, where not of all."""

    files: Sequence[syntax.File]
    only: Collection[str] = ()
    rules: Rules = field(init=False)
    tester: Tester = field(init=False)
    _gradients: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.rules = Rules(self.files, self.only)
        self.tester = Tester(self.rules)
        self._gradients = gradient_functions(self.files)

    def outcome(self, entry: Entry) -> Outcome:
        """Proves a rule, or tests it."""
        assumed = [name for c in entry.rule.clauses if c.keyword == "assumes" for name in c.names]
        if assumed:
            return _made(entry, "assumed", f"assumes {', '.join(assumed)}")
        if entry.function:
            return self._function(entry)
        unsound = [c.text for c in entry.rule.clauses if c.keyword == "unsound"]
        if unsound:
            return self._unsound(entry, unsound[0])
        return self._rule(entry)

    # ---- rules ----

    def _rule(self, entry: Entry) -> Outcome:
        proof = self._proof(entry)
        trial = self.tester.test(entry, proof.seeds)
        difference = trial.difference or proof.difference  # the first has variables, where z3 has numbers
        if difference is not None:
            return self._failed(entry, difference)
        if proof.complete:
            return _made(entry, "proved", proof.described)
        if not trial.fired:
            if proof.vacuous:
                return _made(entry, "vacuous", "its guard holds for nothing that its pattern matches")
            return self._lines(entry) or _made(entry, "untested", _why_untested(trial))
        return _made(entry, "tested", f"on {_graphs(trial)}{proof.partly}")

    def _lines(self, entry: Entry) -> Outcome | None:
        """Of a rule that fires on no graph without its target: its test lines, on values."""
        cases = [c for c in self.rules.tests.cases if c.rule is entry.rule]
        found = [(case, on_values(self.rules.tests, case)) for case in cases]
        for case, outcome in found:
            if outcome.kind == "differ":
                return _made(entry, "failed", f"its test line {case.location} {outcome.how}")
        agree = sum(outcome.kind == "agree" for _, outcome in found)
        return _made(entry, "tested", f"on {agree} test line{'s' * (agree != 1)}") if agree else None

    def _proof(self, entry: Entry) -> _Proof:
        from rulegrad.workbench.proof.symbolic import Prover  # late: it needs z3, which is optional

        return _Proof.of(Prover(self.rules.library).attempts(entry.rule), lambda a: self._confirmed(entry, a))

    def _confirmed(self, entry: Entry, attempt: Attempt) -> Difference | str:
        from rulegrad.workbench.proof.models import confirmed  # late: it needs z3, which is optional

        return confirmed(self.tester, entry, attempt)

    def _unsound(self, entry: Entry, reason: str) -> Outcome:
        trial = self.tester.test(entry)
        if trial.difference is None:
            return _made(entry, "failed", f"it says that it is unsound, but {_graphs(trial)} show no difference")
        return _made(entry, "unsound", reason)

    def _failed(self, entry: Entry, difference: Difference) -> Outcome:
        graph = self.shrunk(entry, difference.before)
        found = self._differs(entry, graph)
        values = found.values if isinstance(found, Difference) else difference.values
        return _made(entry, "failed", values, counterexamples.test_line(graph))

    def shrunk(self, entry: Entry, graph: UOp) -> UOp:
        """A smallest graph on which the rule fires and gives something else."""
        return counterexamples.shrink(graph, lambda g: isinstance(self._differs(entry, g), Difference))

    def _differs(self, entry: Entry, graph: UOp) -> Difference | bool | None:
        for seed in range(3):
            try:
                found = self.tester.compare(entry, graph, random.Random(seed))
            except RulegradError:
                return None
            if isinstance(found, Difference):
                return found
        return None

    # ---- functions ----

    def _function(self, entry: Entry) -> Outcome:
        """The rules of a function define it: its test lines say what it is to give."""
        if entry.function in self._gradients:
            trial, problem = test_gradient(self.rules, entry)
            if problem:
                return _made(entry, "failed", problem)
            if trial.fired:
                return _made(entry, "tested", f"on {trial.fired} slopes")
        cases = [c for c in self.rules.tests.cases if c.rule is entry.rule]
        for case in cases:
            problem = self.rules.tests.run(case)
            if problem:
                return _made(entry, "failed", f"its test line {case.location} {problem}")
        if not cases:
            return _made(entry, "untested", "a rule of a function, without a test line")
        return _made(entry, "tested", f"a definition, with {len(cases)} test line{'s' * (len(cases) > 1)}")


@dataclass(slots=True)
class _Proof:
    """All attempts at one rule."""

    verdicts: Counter[str] = field(default_factory=Counter)
    bounded: bool = False
    reason: str = ""
    open: dict[str, list[str]] = field(default_factory=dict)  # why integers are not proved: reason to dtypes
    seeds: list[dict[str, int]] = field(default_factory=list)
    difference: Difference | None = None

    @classmethod
    def of(cls, attempts: Iterator[Attempt], confirmed: Callable[[Attempt], Difference | str]) -> _Proof:
        """What came of attempts, up to the first whose difference is confirmed; else the reason says that it is not."""
        proof = cls()
        for attempt in attempts:
            if attempt.verdict == "refuted":
                found = confirmed(attempt)
                if isinstance(found, Difference):
                    proof.difference = found
                    proof.seeds = [attempt.model]
                    return proof
                attempt.reason = attempt.reason if attempt.dropped else found
            proof.verdicts[attempt.verdict] += 1
            proof.bounded |= attempt.bounded
            if attempt.verdict in ("unknown", "refuted"):
                proof.reason = proof.reason or attempt.reason
                if attempt.dtypes and not attempt.has_float:
                    proof.open.setdefault(attempt.reason, []).append(", ".join(attempt.dtypes))
            if attempt.model:
                proof.seeds.append(attempt.model)
        return proof

    @property
    def complete(self) -> bool:
        """Whether every choice of ops and dtypes for which the rule can fire is proved."""
        return bool(self.verdicts["proved"]) and not (self.verdicts["unknown"] or self.verdicts["refuted"])

    @property
    def vacuous(self) -> bool:
        return set(self.verdicts) == {"never"}

    @property
    def described(self) -> str:
        count = self.verdicts["proved"]
        choices = f"for {count} choices of ops and dtypes" if count > 1 else "by z3"
        return choices + (", sequences up to length 3" if self.bounded else "")

    @property
    def partly(self) -> str:
        proved = self.verdicts["proved"]
        total = proved + self.verdicts["unknown"] + self.verdicts["refuted"]
        said = f"; proved for {proved} of {total} choices of ops and dtypes" if proved else ""
        return said + "".join(
            f"; {NOT_PROVED} {' and '.join(dict.fromkeys(d))}: {reason}" for reason, d in self.open.items()
        )


def _made(entry: Entry, kind: str, how: str, line: str = "") -> Outcome:
    return Outcome(entry.name, entry.location, kind, how, line)


def _why_untested(trial: Trial) -> str:
    if trial.problem:
        return f"it fired, but both sides could not be computed: {trial.problem}"
    return f"it fired on none of {trial.tried} graphs"


def _graphs(trial: Trial) -> str:
    return f"{trial.fired} graph{'s' * (trial.fired != 1)}"


# ---- many rules ----


def prove(files: Sequence[syntax.File], entries: Sequence[Entry], jobs: int = 1) -> Iterator[Outcome]:
    """The outcomes of rules of some files, as they come. Raises RuleError where z3 is missing."""
    require_z3()
    yield from (_made(entry, "text", "a text: devices test it") for entry in entries if entry.number == TEXT)
    applied = [entry for entry in entries if entry.number != TEXT]
    only = {entry.rule.span.file for entry in applied}
    if jobs <= 1 or len(applied) < 2:
        workbench = Workbench(files, only) if applied else None
        for entry in applied:
            assert workbench is not None
            yield workbench.outcome(entry)
        return
    with ProcessPoolExecutor(jobs, initializer=_start, initargs=(files, only)) as pool:
        waiting = [pool.submit(_outcome, entry.number) for entry in applied]
        yield from (done.result() for done in as_completed(waiting))


_workbench: Workbench | None = None


def _start(files: Sequence[syntax.File], only: Collection[str]) -> None:
    global _workbench
    engine.install_op_table()
    _workbench = Workbench(files, only)


def _outcome(number: int) -> Outcome:
    assert _workbench is not None
    return _workbench.outcome(_workbench.rules.entries[number])


def require_z3() -> None:
    """Raises RuleError where z3 is not installed."""
    try:
        import z3  # noqa: F401  # late: z3 is optional
    except ImportError:
        raise RuleError("proving needs z3; install it with: pip install 'rulegrad[prove]'") from None
