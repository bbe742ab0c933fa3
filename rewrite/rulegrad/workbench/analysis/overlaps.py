"""Two rules of one pass that match the same node: their results must lead to the same end, or their order is declared.

Order is declared by `before`, `after` and `fallback`, and between sets by the union that names them one after the
other. The order in which the rules of one set happen to stand in their file declares nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from rulegrad.errors import RulegradError
from rulegrad.ir import UOp
from rulegrad.lang.diagnostics import location
from rulegrad.workbench.analysis.cells import Contradiction, Opaque, join
from rulegrad.workbench.analysis.findings import Findings, one_line
from rulegrad.workbench.analysis.instances import Maker
from rulegrad.workbench.analysis.laboratory import Key, Laboratory, PassRules, Subject

_DRAWS = 8  # unifications tried for each pair
_PEAKS = 4  # nodes that both match, looked at for each pair


class Overlaps:
    """Looks for nodes on which two rules fire and whose results have different normal forms; once for all targets."""

    def __init__(self) -> None:
        self._done: set[tuple[str, Key, Key]] = set()

    def check(self, findings: Findings, laboratory: Laboratory) -> None:
        """The pairs of rules of each pass of one target that no other target had with the same variables."""
        for of in laboratory.passes:
            ordered = declared_orders(of)
            for place_in_pass, later in enumerate(of.subjects):
                for earlier in of.subjects[:place_in_pass]:
                    if earlier.owner != later.owner or (earlier.number, later.number) in ordered:
                        continue
                    # a user's rules come before ours, which need not say so
                    if earlier.rule not in laboratory.asked or later.rule not in laboratory.asked:
                        continue
                    pair = (of.name, earlier.key, later.key)
                    if pair not in self._done and may_meet(earlier, later):
                        self._done.add(pair)
                        _check(findings, laboratory, of, earlier, later)


def declared_orders(of: PassRules) -> set[tuple[int, int]]:
    """The pairs of rules, the first before the second, whose order is stated: by `before`, `after` or `fallback`."""
    by_name: dict[str, list[Subject]] = {}
    for subject in of.subjects:
        by_name.setdefault(subject.name, []).append(subject)
    follows: dict[int, set[int]] = {s.number: set() for s in of.subjects}
    for subject in of.subjects:
        for clause in subject.rule.clauses:
            for name in clause.names if clause.keyword in ("before", "after") else ():
                for other in by_name.get(name if "." in name else f"{subject.owner}.{name}", ()):
                    first, second = (subject, other) if clause.keyword == "before" else (other, subject)
                    follows[first.number].add(second.number)
    found = {(first, second) for first in follows for second in _reached(first, follows)}
    last = {s.number for s in of.subjects if any(c.keyword == "fallback" for c in s.rule.clauses)}
    return found | {(s.number, number) for s in of.subjects for number in last}


def _reached(start: int, follows: dict[int, set[int]]) -> set[int]:
    found: set[int] = set()
    waiting = [start]
    while waiting:
        for number in follows[waiting.pop()] - found:
            found.add(number)
            waiting.append(number)
    return found


def may_meet(a: Subject, b: Subject) -> bool:
    """Whether the roots of two patterns have an op in common."""
    if a.cell is None or b.cell is None or a.cell.ops is None or b.cell.ops is None:
        return not (a.contradictory or b.contradictory)
    return bool(a.cell.ops.root().names & b.cell.ops.root().names)


def _check(findings: Findings, laboratory: Laboratory, of: PassRules, earlier: Subject, later: Subject) -> None:
    seen: set[UOp] = set()
    for node in _peaks(laboratory, of, earlier, later):
        if node in seen:
            continue
        seen.add(node)
        if _disagrees(findings, laboratory, of, earlier, later, node) or len(seen) >= _PEAKS:
            return


def _peaks(laboratory: Laboratory, of: PassRules, earlier: Subject, later: Subject) -> Iterator[UOp]:
    """Nodes that both rules fire on, as the pass would show them: children first, the sources are final."""
    for node in _candidates(laboratory, of, earlier, later):
        try:
            if of.direction == "children_first" and node.src:
                sources = [laboratory.normal(of, source) for source in node.src]
                node = node.replace(src=sources)
            if laboratory.apply(earlier, node) is not None and laboratory.apply(later, node) is not None:
                yield node
        except RulegradError:
            continue


def _candidates(laboratory: Laboratory, of: PassRules, earlier: Subject, later: Subject) -> Iterator[UOp]:
    for one, other in ((earlier, later), (later, earlier)):
        for node in one.instances:
            if laboratory.fires(other, node):
                yield node
    numbers = random.Random(f"{earlier.name} {later.name}")
    for _ in range(_DRAWS):
        try:
            cell = laboratory.drawn(earlier, numbers)
            join(cell, laboratory.drawn(later, numbers))
            yield Maker(laboratory.table, laboratory.texts, numbers, of.tensors).make(cell)
        except (Contradiction, Opaque, RulegradError, OverflowError):
            continue


def _disagrees(
    findings: Findings, laboratory: Laboratory, of: PassRules, earlier: Subject, later: Subject, node: UOp
) -> bool:
    try:
        first, second = laboratory.apply(earlier, node), laboratory.apply(later, node)
        if first is None or second is None or first == second:
            return False
        if of.direction != "walk":
            first, second = laboratory.normal(of, first), laboratory.normal(of, second)
    except RulegradError:
        return False
    if first == second:
        return False
    message = f"`{later.rule.name}` and {earlier.name} both match a node in {of.name}, and lead to different results"
    hint = f"write `after {earlier.name}` if the order is meant; or mend one of them"
    notes = (
        f"on {one_line(node)}",
        f"{earlier.name} ({location(earlier.rule.span)}) leads to {one_line(first)}",
        f"{later.name} leads to {one_line(second)}",
    )
    findings.report("rules-disagree", message, later.rule.name_span, hint, notes, earlier.name)
    return True
