"""Trials of mutants of functions and definitions: each has a program, with the test lines of all that uses it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rulegrad._core import Program
from rulegrad.errors import RuleError
from rulegrad.lang import syntax
from rulegrad.workbench.mutation.mutants import Subject
from rulegrad.workbench.mutation.verdicts import ERROR, Bench, Outcome, Verdict, tried
from rulegrad.workbench.rule_tests import Case, RuleTests


@dataclass(frozen=True)
class FunctionTrial:
    """Tries mutants of a rule of a function, or of a definition."""

    bench: Bench
    subject: Subject

    def verdicts(self, rules: Mapping[int, syntax.Rule]) -> Iterator[tuple[int, Verdict]]:
        """The verdict on each of some rules in the place of this one."""
        for k, rule in rules.items():
            try:
                yield k, self._verdict(self.subject.changed(rule))
            except RuleError as error:
                yield k, Verdict("load", error.problem)

    def _verdict(self, changed: syntax.Declaration) -> Verdict:
        for cases in self._cases:
            by = next((case.location for case in self._noticing(changed, cases)), "")
            if by:
                return Verdict("test", by)
        for (case, _), before, after in zip(self._varied, self._as_written, self._outcomes(changed), strict=True):
            if before != after and before is not ERROR:
                return Verdict("survives", self.bench.written.text(case.test.left.span))
        return Verdict("same")

    @cached_property
    def _cases(self) -> tuple[list[Case], list[Case]]:
        """The lines of its own function, or file; and those of others that use it."""
        d, uses = self.subject.declaration, self.bench.uses
        users = uses.users(d.name)
        near: list[Case] = []
        far: list[Case] = []
        for case in self.bench.lines(lambda case: case.function in users or uses.asks(case.rule, users)):
            own = case.function == d.name or case.rule.span.file == d.span.file
            (near if own else far).append(case)
        return near, far

    def _noticing(self, changed: syntax.Declaration, cases: Sequence[Case]) -> Iterator[Case]:
        """The lines that do not hold. Raises RuleError where what is changed does not compile."""
        views: list[tuple[Case, RuleTests]] = []
        for target in dict.fromkeys(case.test.target for case in cases):
            mine = [case for case in cases if case.test.target == target]
            view = self.bench.tests.beside({target: self._program(target, changed, mine, mine)})
            yield from (case for case in mine if view.run(case))
            fired = (case for case in mine if not case.function and (case.test.fires or case.test.right is not None))
            views.extend((case, view) for case in fired)
        for case, view in views:
            left = view.left(case)
            if self.bench.wrong_on_values(case, left, view.applied(case, left)):
                yield case

    def _program(
        self, target: str, changed: syntax.Declaration | None, cases: Iterable[Case], sides: Iterable[Case]
    ) -> Program:
        """The rules of some lines, with a function or definition changed, and both sides of lines."""
        loader = self.bench.loader(target)
        compiler = loader.compiler(changed)
        added: set[str] = set()
        for case in cases:
            name = case.owner if case.whole else f"rule {case.number}"
            if name in added or case.function:
                continue
            added.add(name)
            if case.whole:
                compiler.add_pass(next(d for d in compiler.passes if d.name == case.owner))
            else:
                compiler.add_alone(name, case.owner, case.rule)
        return loader.load(compiler, sides)

    # ---- beside the test lines ----

    @cached_property
    def _varied(self) -> list[tuple[Case, Case]]:
        """Lines that are made of these, and these, each with the line that it was made of."""
        near, far = self._cases
        cases = [case for case in (*near, *far) if not case.test.target]
        return [*((case, case) for case in cases), *self.bench.instances.varied(cases)]

    @cached_property
    def _as_written(self) -> list[Outcome]:
        return self._outcomes(None)

    def _outcomes(self, changed: syntax.Declaration | None) -> list[Outcome]:
        """The outcomes of the varied lines."""
        program = self._program("", changed, (of for _, of in self._varied), (case for case, _ in self._varied))
        view = self.bench.tests.beside({"": program})
        return [tried(self._outcome, view, case, of, other=ERROR) for case, of in self._varied]

    @staticmethod
    def _outcome(view: RuleTests, case: Case, of: Case) -> Outcome:
        return view.values(case) if case.function else view.applied(of, view.left(case))
