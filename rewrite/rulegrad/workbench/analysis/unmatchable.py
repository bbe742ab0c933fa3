"""Patterns that can never match: no node has their form, or a part of theirs is always rewritten first."""

from __future__ import annotations

import random
from collections.abc import Iterator

from rulegrad.errors import RulegradError
from rulegrad.ir import UOp
from rulegrad.lang.diagnostics import location
from rulegrad.lang.syntax import Span
from rulegrad.workbench.analysis.cells import Cell, below
from rulegrad.workbench.analysis.findings import Findings
from rulegrad.workbench.analysis.generality import conditions, covers
from rulegrad.workbench.analysis.laboratory import Laboratory, PassRules, Subject

_BUILT = 8  # nodes of the pattern's form, none of which matches, that settle it
_DRAWS = 24


class Unmatchable:
    """Collects, over several targets, which patterns match nowhere."""

    def __init__(self) -> None:
        self._never: dict[Span, tuple[Subject, bool]] = {}

    def add(self, laboratory: Laboratory) -> None:
        """Looks at all rules of one target."""
        for subject in laboratory.subjects.values():
            if subject.rule not in laboratory.asked:
                continue
            never = subject.contradictory or _misses(laboratory, subject)
            earlier = self._never.get(subject.rule.span, (subject, True))[1]
            self._never[subject.rule.span] = (subject, never and earlier)

    def report(self, findings: Findings) -> None:
        """Reports the patterns that match for no target."""
        for subject, never in self._never.values():
            if never:
                message = f"`{subject.rule.name}` fires on no node"
                hint = (
                    "its dtypes exclude each other, nodes are kept in another form, "
                    "or its template gives the matched node"
                )
                findings.report("never-matches", message, subject.rule.name_span, hint)


def _misses(laboratory: Laboratory, subject: Subject) -> bool:
    """Whether nodes of the pattern's form can be built, and an unguarded rule matches none of them."""
    if subject.instances or subject.sketch is None or not subject.sketch.whole or not subject.alone:
        return False
    if conditions(subject.rule, {}):
        return False
    numbers = random.Random(subject.name)
    built = [laboratory.instance(subject, numbers, False) for _ in range(_DRAWS)]
    nodes = [node for node in built if node is not None]
    return len(nodes) >= _BUILT and not any(laboratory.fires(subject, node) for node in nodes)


class Preempted:
    """Collects, over several targets, which rules fire in no pass: another always rewrites a part of theirs first."""

    def __init__(self) -> None:
        self._by: dict[Span, tuple[Subject, str, Subject | None]] = {}

    def add(self, laboratory: Laboratory) -> None:
        """Looks at the passes of one target; only those that rewrite children first keep a rule from firing."""
        for of in laboratory.passes:
            for subject in of.subjects:
                if subject.rule not in laboratory.asked:
                    continue
                known = self._by.get(subject.rule.span)
                if known is None or known[2] is not None:
                    by = _preempting(laboratory, of, subject)
                    self._by[subject.rule.span] = (subject, of.name, by)

    def report(self, findings: Findings) -> None:
        """Reports the rules that fire in none of their passes."""
        for subject, name, by in self._by.values():
            if by is not None:
                message = f"`{subject.rule.name}` never fires in {name}: {by.name} rewrites a part of its pattern first"
                notes = (f"{by.name} is at {location(by.rule.span)}",)
                findings.report("child-rewritten", message, subject.rule.name_span, "match what that rule gives", notes)


def _preempting(laboratory: Laboratory, of: PassRules, subject: Subject) -> Subject | None:
    """A rule of the pass that always rewrites a part of the pattern, if no instance survives that."""
    if of.direction != "children_first" or subject.cell is None or not subject.instances:
        return None
    by = next(_rewriters(laboratory, of, subject), None)
    if by is None or any(_survives(laboratory, of, subject, node) for node in subject.instances):
        return None
    return by


def _rewriters(laboratory: Laboratory, of: PassRules, subject: Subject) -> Iterator[Subject]:
    """Rules that match a part of the pattern whatever it is, under guards that the rule has too."""
    assert subject.sketch is not None and subject.cell is not None
    parts = [cell for cell in below(subject.cell) if cell.ops is not None and cell is not subject.cell]
    for other in of.subjects:
        for part in parts:
            if other is not subject and _rewrites(laboratory, other, subject, part):
                yield other
                break


def _rewrites(laboratory: Laboratory, other: Subject, subject: Subject, part: Cell) -> bool:
    assert subject.sketch is not None
    if other.cell is None or other.sketch is None or not other.sketch.whole or other.cell.ops is None:
        return False
    if part.ops is None or not part.ops.root().names <= other.cell.ops.root().names:
        return False
    for binding in covers(laboratory.table, other.cell, part):
        tokens = {name: binding.meaning(token) for name, token in other.sketch.tokens().items()}
        if conditions(other.rule, tokens) <= conditions(subject.rule, subject.sketch.tokens()):
            return True
    return False


def _survives(laboratory: Laboratory, of: PassRules, subject: Subject, node: UOp) -> bool:
    """Whether the rule still matches once the sources are final."""
    try:
        final = node.replace(src=[laboratory.normal(of, source) for source in node.src])
    except RulegradError:
        return True
    return laboratory.fires(subject, final)
