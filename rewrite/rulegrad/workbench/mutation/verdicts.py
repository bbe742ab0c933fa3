"""The verdict on a mutant, and what the trials of all kinds of mutants share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rulegrad._core import UOp
from rulegrad.errors import RuleError, RulegradError
from rulegrad.lang import syntax
from rulegrad.lang.checker.declarations import check_definition, check_function, check_pass, check_ruleset
from rulegrad.lang.checker.world import World
from rulegrad.workbench.analysis.instances import texts_of
from rulegrad.workbench.mutation.affected import Uses
from rulegrad.workbench.mutation.changes import Written
from rulegrad.workbench.mutation.instances import Instances
from rulegrad.workbench.mutation.loading import Loader
from rulegrad.workbench.mutation.mutants import Mutant, Mutator, Subject
from rulegrad.workbench.mutation.vocabulary import Vocabulary
from rulegrad.workbench.proof.lines import on_values
from rulegrad.workbench.rule_tests import Case, RuleTests

Kind = Literal["load", "test", "check", "proof", "same", "survives"]
Outcome = Any  #: of a rule on a node: the new node, None where it does not fire, or ERROR
ERROR = "error"
UNREACHED = "no line and no instance depends on this place"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a mutant: noticed on loading, by a test line, `check` or a proof; surviving; or the same.

    by: what notices it, or where it differs.
    """

    kind: Kind
    by: str = ""


@dataclass
class Bench:
    """Rule files, and all that is made of them once for trials of their mutants."""

    files: Sequence[syntax.File]
    _loaders: dict[str, Loader] = field(default_factory=dict)
    _held: set[int] = field(default_factory=set)  # lines that hold
    _wrong: dict[tuple[int, UOp, UOp | None], bool] = field(default_factory=dict)  # by line, its node and the result

    def __post_init__(self) -> None:
        self.tests = RuleTests(self.files, hosts=True)
        self.uses = Uses(self.files)
        self._world = World(self.files)
        tables = [d for f in self.files for d in f.declarations if isinstance(d, syntax.Table)]
        self.written = Written(self.files)
        words = Vocabulary(self._world.table, tables)
        self.mutator = Mutator(words, self.written)
        self.instances = Instances(words, self.written, self._world.views, texts_of(self.files))

    def loader(self, target: str) -> Loader:
        """The loader that compiles for a target."""
        if target not in self._loaders:
            self._loaders[target] = Loader(self.tests, target, self.uses)
        return self._loaders[target]

    def lines(self, belongs: Callable[[Case], bool]) -> list[Case]:
        """The test lines of some rules. Raises RuleError where one does not hold for the rules as they are written."""
        found = [case for case in self.tests.cases if belongs(case)]
        for case in found:
            if case.number not in self._held and (problem := self.tests.run(case)):
                message = f"{case.location}: a test line of {case.name} fails before anything is changed: it {problem}"
                raise RuleError(message)
            self._held.add(case.number)
        return found

    def refused(self, subject: Subject, mutant: Mutant) -> str:
        """Why the checker of rule files refuses a mutant; empty where it does not."""
        clauses = tuple(c for c in mutant.rule.clauses if c.keyword not in ("before", "after"))
        alone = replace(mutant.rule, clauses=clauses, tests=())
        d = subject.declaration
        self._world.diagnostics.clear()
        match d:
            case syntax.Definition():
                check_definition(self._world, replace(d, lets=clauses, body=alone.template))
            case syntax.Function():
                check_function(self._world, replace(d, rules=(alone,)))
            case syntax.Ruleset():
                check_ruleset(self._world, replace(d, rules=(alone,), union=()))
            case syntax.Pass():
                check_pass(self._world, replace(d, rules=(alone,)))
        return next((found.message for found in self._world.diagnostics if found.is_error), "")

    def wrong_on_values(self, case: Case, left: UOp, found: UOp | None) -> bool:
        """Whether what a rule gives in a line computes something else; or in a line `test fires` cannot be computed."""
        key = (case.number, left, found)
        if key not in self._wrong:
            self._wrong[key] = found != self.tests.applied(case, left) and self._differs(case, found)
        return self._wrong[key]

    def _differs(self, case: Case, found: UOp | None) -> bool:
        try:
            said = on_values(self.tests, case, found)
        except Exception:  # the interpreter need not understand every graph that a wrong rule makes
            return True
        return said.kind == "differ" or (said.kind == "left out" and case.test.fires and not case.has("unsound"))


def tried(make: Callable[..., Any], *arguments: Any, other: Any = None) -> Any:
    """The result of a function; `other` where it fails."""
    try:
        return make(*arguments)
    except (RulegradError, OverflowError):
        return other
