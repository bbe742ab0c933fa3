"""Deep analyses of checked rule files: what the rules of a pass do to nodes and to each other. Run by the tool `check`.

Rules are tried on instances: the left sides of their tests, the same in other dtypes, and nodes made out of their
patterns at random, from seeds that are the rules' names. What the instances do not show is not reported.
"""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad import _core
from rulegrad.lang import syntax, targets
from rulegrad.lang.analysis.costs import check_costs
from rulegrad.lang.analysis.covered import check_costs_of_ops
from rulegrad.lang.analysis.critical import CriticalPairs
from rulegrad.lang.analysis.cycles import Cycles
from rulegrad.lang.analysis.findings import Findings
from rulegrad.lang.analysis.kept import check_kept
from rulegrad.lang.analysis.laboratory import Laboratory, Samples
from rulegrad.lang.analysis.loops import check_loops
from rulegrad.lang.analysis.lowering import check_lowering
from rulegrad.lang.analysis.overlaps import Overlaps
from rulegrad.lang.analysis.shadowed import Shadows
from rulegrad.lang.analysis.unmatchable import Preempted, Unmatchable
from rulegrad.lang.compiler import compile_op_table, library_of
from rulegrad.lang.diagnostics import NOTE, Diagnostic
from rulegrad.lang.walk import expressions_in

__all__ = ["analyse"]


def analyse(files: Sequence[syntax.File], target: str | None = None, notes: bool = False) -> list[Diagnostic]:
    """The problems of checked rule files, by place.

    notes: also what is no problem, but could not be shown to be none.
    target: only that one; else no target, every target that renders (where it may have
    features, with none and with all), and one that has every flag. The op table in force
    must be the one of these files. Raises RuleError when a target is unknown or the files cannot be compiled.
    """
    if not _core.table_loaded():
        _core.Program(compile_op_table(files), op_table=True)
    findings = Findings(files)
    shadows, unmatchable, preempted, overlaps = Shadows(), Unmatchable(), Preempted(), Overlaps()
    cycles, critical = Cycles(), CriticalPairs()
    samples = Samples(files)
    for one in _targets(files, target):
        laboratory = Laboratory(files, one, samples)
        check_kept(findings, laboratory)
        check_loops(findings, laboratory)
        cycles.check(findings, laboratory)
        check_costs_of_ops(findings, laboratory)
        check_lowering(findings, laboratory)
        overlaps.check(findings, laboratory)
        critical.check(findings, laboratory)
        for collected in (shadows, unmatchable, preempted):
            collected.add(laboratory)
    for collected in (shadows, unmatchable, preempted):
        collected.report(findings)
    check_costs(findings, files, library_of(files))
    return [d for d in findings.diagnostics if notes or d.severity != NOTE]


def _targets(files: Sequence[syntax.File], name: str | None) -> list[syntax.Target | None]:
    declarations = [d for f in files for d in f.declarations]
    if name is not None:
        return [targets.find(declarations, name)]
    declared = targets.examples(declarations)
    return [None, *(d for d in declared if d.render), *_with_other_flags(files, declared)]


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
