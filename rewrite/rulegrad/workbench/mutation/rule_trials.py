"""Trials of a rule's mutants: all are put into one program, each as a pass of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from rulegrad._core import Program, UOp
from rulegrad.errors import GraphError, RewriteError, RuleError, RulegradError
from rulegrad.lang import syntax
from rulegrad.lang.compiler import ProgramCompiler
from rulegrad.workbench.analysis.findings import one_line
from rulegrad.workbench.mutation.mutants import Subject
from rulegrad.workbench.mutation.verdicts import ERROR, Bench, Outcome, Verdict, tried
from rulegrad.workbench.rule_tests import WHOLE, Case


@dataclass(frozen=True, slots=True)
class _Line:
    """A test line with its sides."""

    case: Case
    left: tuple[UOp, ...]
    right: tuple[UOp, ...] | None


@dataclass(frozen=True)
class RuleTrial:
    """Tries mutants of a rule of a rule set or a pass."""

    bench: Bench
    subject: Subject

    def verdicts(self, rules: Mapping[int, syntax.Rule]) -> Iterator[tuple[int, Verdict]]:
        """The verdict on each of some rules in the place of this one."""
        programs: dict[str, Program] = {}
        for target in dict.fromkeys(("", *(line.case.test.target for line in self._lines))):
            programs[target], failed = self._program(target, rules)
            yield from ((k, Verdict("load", why)) for k, why in failed.items())
            rules = {k: rule for k, rule in rules.items() if k not in failed}
        for k, rule in rules.items():
            by = self._noticed(programs, f"mutant {k}")
            yield k, Verdict("test", by) if by else self._beside_lines(programs[""], f"mutant {k}", rule)

    @cached_property
    def _whole(self) -> bool:
        """Whether the rule makes sense only in its pass, on a whole graph."""
        d = self.subject.declaration
        return isinstance(d, syntax.Pass) and d.kind in WHOLE

    @cached_property
    def _cases(self) -> list[Case]:
        """The rule's lines; those of its whole pass, where it makes sense only there."""
        owner, rule = self.subject.owner, self.subject.rule
        return self.bench.lines(lambda case: case.rule is rule or (self._whole and case.owner == owner))

    @cached_property
    def _lines(self) -> list[_Line]:
        """Its test lines; those that are computed on values come last, as that takes long."""
        tests = self.bench.tests
        found = []
        for case in self._cases:
            left = tests.values(case)
            right = None if case.test.right is None else (tests.right(case, left[0]),)
            found.append(_Line(case, left, right))
        return sorted(found, key=lambda line: line.case.test.fires)

    def _program(self, target: str, rules: Mapping[int, syntax.Rule]) -> tuple[Program, dict[int, str]]:
        """A pass for each of the rules, and for the rule as it is written; and why some do not compile."""
        loader = self.bench.loader(target)
        compiler = loader.compiler()
        self._add(compiler, "as written", self.subject.rule)
        failed = {}
        for k, rule in rules.items():
            try:
                self._add(compiler, f"mutant {k}", rule)
            except RuleError as error:
                failed[k] = error.problem
        return loader.load(compiler, [] if target else [case for case, _ in self._varied]), failed

    def _add(self, compiler: ProgramCompiler, name: str, rule: syntax.Rule) -> None:
        d = self.subject.changed(rule)
        if self._whole and isinstance(d, syntax.Pass):
            compiler.add_pass(replace(d, name=name))
        else:
            compiler.add_alone(name, self.subject.owner, rule)

    def _applied(self, program: Program, name: str, node: UOp) -> UOp | None:
        if not self._whole:
            return program.apply(name, node)
        found, info = program.rewrite(name, node)
        return found if info["fired"] else None

    def _noticed(self, programs: Mapping[str, Program], name: str) -> str:
        """The location of the first line that does not hold; empty where all do."""
        results = []
        for line in self._lines:
            case = line.case
            try:
                found = self._applied(programs[case.test.target], name, line.left[0])
            except RulegradError:
                return case.location
            if self.bench.tests.problem(case, line.left, line.right, found):
                return case.location
            results.append((line, found))
        of_values = ((line, found) for line, found in results if line.case.test.fires)
        wrong = (line for line, found in of_values if self.bench.wrong_on_values(line.case, line.left[0], found))
        return next((line.case.location for line in wrong), "")

    # ---- beside the test lines ----

    def _beside_lines(self, program: Program, name: str, rule: syntax.Rule) -> Verdict:
        """The verdict on a mutant that no test line notices."""
        nodes = self._nodes(program)
        if rule.pattern is not self.subject.rule.pattern:
            nodes = dict.fromkeys((*nodes, *self._of_pattern(rule)))
        differs = ""
        for node in nodes:
            before = self._outcome(program, "as written", node)
            after = self._outcome(program, name, node)
            if before == after or before is ERROR:
                continue
            if after is ERROR or (after is not None and tried(_keeps, node, after) is not True):
                return Verdict("check", one_line(node))
            differs = differs or one_line(node)
        return Verdict("survives", differs) if differs else Verdict("same")

    @cached_property
    def _varied(self) -> list[tuple[Case, Case]]:
        return self.bench.instances.varied([case for case in self._cases if not case.test.target])

    def _nodes(self, program: Program) -> dict[UOp, None]:
        """Instances: left sides of the rule's lines, in other dtypes, varied; and nodes made out of its pattern."""
        if "_found" not in self.__dict__:
            lefts = [line.left[0] for line in self._lines]
            view = self.bench.tests.beside({"": program})
            varied = [node for case, _ in self._varied if (node := tried(view.left, case)) is not None]
            retyped = self.bench.instances.retyped(lefts)
            made = self._of_pattern(self.subject.rule)
            self.__dict__["_found"] = dict.fromkeys((*lefts, *varied, *retyped, *made))
        found: dict[UOp, None] = self.__dict__["_found"]
        return found

    def _of_pattern(self, rule: syntax.Rule) -> list[UOp]:
        generics = self.bench.loader("").compiler().rules.generics(rule)
        return [] if generics is None else self.bench.instances.made(rule, generics, self.subject.name)

    def _outcome(self, program: Program, name: str, node: UOp) -> Outcome:
        try:
            return self._applied(program, name, node)
        except (RewriteError, GraphError):
            return ERROR


def _keeps(node: UOp, after: UOp) -> bool:
    return after.dtype == node.dtype and after.shape == node.shape
