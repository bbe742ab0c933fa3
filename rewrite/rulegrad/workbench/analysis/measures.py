"""The effect of a rule on the numbers of ops in a graph: measures that can only fall show that rules come to an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from rulegrad.lang import syntax
from rulegrad.lang.notation import CHAIN_OPS, notation_of
from rulegrad.lang.optable import OpTable
from rulegrad.workbench.analysis.laboratory import Subject

_EVERY = ""  # the measure that counts all ops


@dataclass(slots=True)
class Change:
    """By how much the number of each op changes at most when a rule fires; of those not named, by nothing.

    Constants and leaves are not counted. A rule that has one of its nodes more often in its template than in its
    pattern has no Change: what is below it is multiplied.
    """

    named: Counter[str]
    variables: list[tuple[frozenset[str], int]] = field(default_factory=list)  # ops that it may be, and the change

    def of(self, op: str) -> int:
        """The change of the number of one op, or of all."""
        if op == _EVERY:
            return sum(self.named.values()) + sum(change for _, change in self.variables)
        found = self.named[op]
        for members, change in self.variables:
            if op in members and (change > 0 or len(members) == 1):
                found += change
        return found

    def ops(self) -> set[str]:
        """The ops whose number may change."""
        return {op for op, change in self.named.items() if change} | {
            op for members, change in self.variables if change and len(members) < 8 for op in members
        }


def explains(changes: Mapping[int, Change | None]) -> set[int]:
    """The rules, of these, that make a measure smaller which none of them makes larger; the first measure counts."""
    known = [change for change in changes.values() if change is not None]
    if len(known) < len(changes):
        return set()
    for measure in (_EVERY, *sorted(set[str]().union(*(change.ops() for change in known)))):
        amounts = {place: change.of(measure) for place, change in changes.items() if change is not None}
        if all(amount <= 0 for amount in amounts.values()):
            smaller = {place for place, amount in amounts.items() if amount < 0}
            if smaller:
                return smaller
    return set()


def change_of(subject: Subject, table: OpTable) -> Change | None:
    """The change that a rule makes; None where it cannot be told."""
    before = _Count(subject, table)
    after = _Count(subject, table, before)
    if not before.add(subject.rule.pattern) or not after.add(subject.rule.template):
        return None
    if any(number > before.names[name] for name, number in after.names.items()):
        return None
    named, variables = Counter(after.ops), []
    named.subtract(before.ops)
    for name, members in subject.generics.ops.items():
        change = named.pop(name, 0)
        if change:
            variables.append((frozenset(members), change))
    return Change(named, variables)


class _Count:
    """The ops and the names in a pattern, or in the template of that pattern, each as often as it stands there."""

    def __init__(self, subject: Subject, table: OpTable, pattern: _Count | None = None) -> None:
        self.generics = subject.generics.ops
        self.table = table
        self.of_pattern = pattern
        self.ops: Counter[str] = Counter()
        self.names: Counter[str] = Counter()
        self.captured: dict[str, syntax.Expression] = {}

    def add(self, x: syntax.Expression) -> bool:
        """Whether the expression could be counted."""
        pattern = self.of_pattern
        match x:
            case syntax.Literal() | syntax.Compute():
                return True
            case syntax.Name(name=name):
                if pattern is not None and name in pattern.captured:
                    return self.add(pattern.captured[name])
                if pattern is not None and name not in pattern.names:
                    return False  # bound by a `let`
                if not x.is_const and name != "_":
                    self.names[name] += 1
                return True
            case syntax.Capture(name=name):
                self.captured[name] = x.pattern
                return self.add(x.pattern)
            case syntax.Splice():
                return isinstance(x.inner, syntax.Name) and self.add(x.inner)
            case syntax.Multiset():
                items = sum(not isinstance(item, syntax.Splice) for item in x.items)
                self.ops[CHAIN_OPS[x.kind]] += items - 1
                return all(self.add(item) for item in x.items)
        return self._add_op(x)

    def _add_op(self, x: syntax.Expression) -> bool:
        found = notation_of(x)
        if found is None:
            return False
        op, arguments = found.name, found.arguments
        if isinstance(x, syntax.Call) and op not in self.generics:
            op = self.table.op_called(op) or ""
            if not op:
                return False
        if op != "CONST":
            self.ops[op] += 1
        return all(self.add(argument) for argument in arguments)
