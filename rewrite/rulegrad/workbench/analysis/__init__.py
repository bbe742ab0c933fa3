"""Deep analyses of checked rule files: what the rules of a pass do to nodes and to each other. Run by the tool `check`.

Rules are tried on instances: the left sides of their tests, the same in other dtypes, and nodes made out of their
patterns at random, from seeds that are the rules' names. What the instances do not show is not reported.
"""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad import _core
from rulegrad.lang import syntax, targets
from rulegrad.lang.compiler import compile_op_table, library_of
from rulegrad.lang.compiler.assembler import Assembler
from rulegrad.lang.compiler.rules import RuleCompiler, TargetFacts
from rulegrad.lang.diagnostics import NOTE, Diagnostic
from rulegrad.lang.walk import expressions_in
from rulegrad.workbench.analysis.asked import EVERYTHING, Asked
from rulegrad.workbench.analysis.costs import check_costs
from rulegrad.workbench.analysis.covered import check_costs_of_ops
from rulegrad.workbench.analysis.critical import CriticalPairs
from rulegrad.workbench.analysis.cycles import Cycles
from rulegrad.workbench.analysis.findings import Findings
from rulegrad.workbench.analysis.kept import check_kept
from rulegrad.workbench.analysis.laboratory import Laboratory, Samples
from rulegrad.workbench.analysis.loops import check_loops
from rulegrad.workbench.analysis.lowering import check_lowering, program_to_lower
from rulegrad.workbench.analysis.overlaps import Overlaps
from rulegrad.workbench.analysis.shadowed import Shadows
from rulegrad.workbench.analysis.unmatchable import Preempted, Unmatchable
from rulegrad.workbench.analysis.whole_targets import check_targets
from rulegrad.workbench.rule_tests import RuleTests

__all__ = ["analyse"]


def analyse(
    files: Sequence[syntax.File],
    target: str | None = None,
    notes: bool = False,
    asked: Asked = EVERYTHING,
    tests: RuleTests | None = None,
) -> list[Diagnostic]:
    """The problems of checked rule files, by place.

    notes: also findings that are not problems, but could not be excluded.
    target: only that one; else no target, every target that renders (where it may have
    features, with none and with all), and one that has every flag.
    tests: the test lines of the rules that are asked about, where the caller has them.
    asked: what the problems are to be of. Without a target, that is looked at for no target, for the targets that are
    asked about (else the first that renders), and for as many more as it takes for each rule to be there.
    The op table in force must be the one of these files. Raises RuleError when a target is unknown or the files cannot
    be compiled.
    """
    if not _core.table_loaded():
        _core.Program(compile_op_table(files), op_table=True)
    findings = Findings(files)
    check_targets(findings, files, asked)
    shadows, unmatchable, preempted, overlaps = Shadows(), Unmatchable(), Preempted(), Overlaps()
    cycles, critical = Cycles(), CriticalPairs()
    samples = Samples(asked, tests or RuleTests(files, only=asked.files))
    chosen = _targets(files, target) if target is not None or not asked.files else _enough_targets(files, asked)
    for one in chosen:
        laboratory = Laboratory(files, one, samples)
        check_kept(findings, laboratory)
        check_loops(findings, laboratory)
        cycles.check(findings, laboratory)
        check_costs_of_ops(findings, laboratory)
        if one is not None and one.render:
            check_lowering(findings, files, one, laboratory.program, asked)
        overlaps.check(findings, laboratory)
        critical.check(findings, laboratory)
        for collected in (shadows, unmatchable, preempted):
            collected.add(laboratory)
    for collected in (shadows, unmatchable, preempted):
        collected.report(findings)
    check_costs(findings, files, library_of(files), asked)
    if asked.ops and target is None:
        for one in _targets(files, None):
            if one is not None and one.render and one.name not in {t.name for t in chosen if t is not None}:
                check_lowering(findings, files, one, program_to_lower(files, one, asked), asked)
    return [d for d in findings.diagnostics if notes or d.severity != NOTE]


def _targets(files: Sequence[syntax.File], name: str | None) -> list[syntax.Target | None]:
    declarations = [d for f in files for d in f.declarations]
    if name is not None:
        return [targets.find(declarations, name)]
    declared = targets.examples(declarations)
    return [None, *(d for d in declared if d.render), *_with_other_flags(files, declared)]


def _enough_targets(files: Sequence[syntax.File], asked: Asked) -> list[syntax.Target | None]:
    """No target, those that are asked about, or else one that renders; and more, until each rule is there for one."""
    available = [one for one in _targets(files, None) if one is not None]
    mine = [one for one in available if one.name.split("+")[0] in asked.targets]
    chosen = [None, *(mine or [one for one in available if one.render][:1])]
    rules = [r for f in files for d in f.declarations for r in getattr(d, "rules", ()) if r in asked]
    library = library_of(files)

    def without(one: syntax.Target | None) -> list[syntax.Rule]:
        compiler = RuleCompiler(library, Assembler(), TargetFacts.of(one))
        return [rule for rule in rules if compiler.generics(rule) is None]

    for one in chosen:
        rules = without(one)
    for one in available:
        if len(left := without(one)) < len(rules):
            chosen.append(one)
            rules = left
    return chosen


def _with_other_flags(files: Sequence[syntax.File], declared: Sequence[syntax.Target]) -> list[syntax.Target]:
    """A target that has everything, and the flags that rules ask for and no target has; none when there are none."""
    asked: dict[str, syntax.Span] = {}
    for rule in (r for f in files for d in f.declarations for r in getattr(d, "rules", ())):
        for clause in rule.clauses:
            if clause.keyword == "needs" and clause.expression is not None:
                for call in expressions_in(clause.expression):
                    if isinstance(call, syntax.Call) and call.function == "flag":
                        asked.update((a.name, a.span) for a in call.arguments if isinstance(a, syntax.Name))
    flags = frozenset(asked).difference(*(d.flags for d in declared))
    if not flags:
        return []
    table = library_of(files).table
    span = asked[min(flags)]
    return [syntax.Target("every flag", span, frozenset(table.ops), frozenset(table.dtypes), flags=flags)]
