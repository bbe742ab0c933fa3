"""The search for the firing of a pass that changes a graph's values: any rule's, and the case of a function in it.

Rules that a program needs cannot be left out, but a pass can be stopped after any number of firings, and what it leaves
then must mean the same too, wherever the interpreter can run it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rulegrad import engine
from rulegrad.errors import RulegradError
from rulegrad.ir import UOp
from rulegrad.lang import syntax
from rulegrad.workbench.diagnosis.bisecting import smallest

Right = Callable[[UOp], bool | None]  # None: the interpreter cannot run the graph
_PROBES = 64  # graphs around a middle one that cannot be run
_EXACT = re.compile(
    r"pass (\w+) changes what the \w+ computes, at its firing (\d+): rule (\S+) \((.*?:\d+)\)"
    r"(?:, (by the case|which uses) (.*),)? is wrong on\n((?:%.*\n)*)for which it gives\n((?:%.*\n?)*)"
)
_SEVERAL = re.compile(
    r"pass (\w+) changes what the \w+ computes, at one of its firings (\d+) to (\d+); .*; rules: (.*)"
)
_NO_FIRING = re.compile(r"pass (\w+) changes what the \w+ computes, rules that fired: (.*)")


class Blame(NamedTuple):
    """The firing of a pass that changes the meaning; or several, of which the interpreter can tell no more."""

    in_pass: str
    first: int  # the firings of the pass, from 1
    last: int
    rules: tuple[str, ...]  # one, where it is one firing
    location: str  # of that rule, and what it did
    before: str
    after: str
    cases: tuple[str, ...]  # the cases of functions that the firing needs and that may be wrong: NAME (file:line)
    certain: bool  # of one case: without it the firing is right

    @property
    def exact(self) -> bool:
        """Whether it is one rule's firing."""
        return len(self.rules) == 1 and bool(self.location)

    def __str__(self) -> str:
        if not self.exact:
            where = f"one of its firings {self.first} to {self.last}"
            return f"at {where}; between them the interpreter cannot run the graph; rules: {', '.join(self.rules)}"
        through = ""
        if self.cases:
            names = ", ".join(self.cases)
            through = f", by the case {names}," if self.certain else f", which uses {names},"
        text = f"rule {self.rules[0]} ({self.location}){through} is wrong on"
        return f"at its firing {self.last}: {text}\n{self.before}\nfor which it gives\n{self.after}"


def read_blame(text: str) -> Blame | None:
    """The error of a run under CHECK=2, anywhere in a text; None when there is none."""
    found = _EXACT.search(text)
    if found is not None:
        name, number, rule, location, how, cases, before, after = found.groups()
        used = tuple(cases.split(", ")) if cases else ()
        return Blame(
            name,
            int(number),
            int(number),
            (rule,),
            location,
            before.rstrip(),
            after.rstrip(),
            used,
            how == "by the case",
        )
    found = _SEVERAL.search(text)
    if found is not None:
        name, first, last, rules = found.groups()
        return Blame(name, int(first), int(last), tuple(rules.split(", ")), "", "", "", (), False)
    found = _NO_FIRING.search(text)
    if found is not None:
        return Blame(found.group(1), 0, 0, tuple(found.group(2).split(", ")), "", "", "", (), False)
    return None


def blame(name: str, before: UOp, target: str | None, right: Right, off: Sequence[str] = ()) -> Blame | None:
    """The firing that changes the meaning, of a pass whose result has another; None when its result is right.

    off: rules that are left out.
    """
    search = _Search(name, before, target, right, off)
    count = len(search.firings)
    if not count or search.right(count) is not False:
        return None
    low, high = _narrowed(search, 0, count)
    if high - low == 1:
        return search.exactly(high)
    found = _one_rule(search)
    if found is not None:
        return found
    rules = tuple(dict.fromkeys(rule for rule, *_ in search.firings[low:high]))
    return Blame(name, low + 1, high, rules, "", "", "", (), False)


def _narrowed(search: _Search, low: int, high: int) -> tuple[int, int]:
    """Numbers of firings after which the graph is right and wrong, next to each other as far as graphs can be run."""
    while high - low > 1:
        middle = (low + high) // 2
        around = sorted(range(low + 1, high), key=lambda number: abs(number - middle))[:_PROBES]
        known = next((number for number in around if search.right(number) is not None), None)
        if known is None:
            break
        if search.right(known):
            low = known
        else:
            high = known
    return low, high


def _one_rule(search: _Search) -> Blame | None:
    """The rule without which the others fire and the result is right; the first of its firings that makes it wrong."""
    rules = dict.fromkeys(firing[0] for firing in search.firings)
    for rule in rules:
        if search.right(0, rule) and search.fired_without(rule) >= rules.keys() - {rule}:
            fired = sum(firing[0] == rule for firing in search.firings)
            number = smallest(0, fired, lambda limit, rule=rule: not search.right(limit, rule))  # type: ignore[misc]
            return search.firing_of(rule, number)
    return None


class _Search:
    """A pass on a graph, stopped after some firings."""

    def __init__(self, name: str, before: UOp, target: str | None, right: Right, off: Sequence[str]) -> None:
        self.name = name
        self.before = before
        self._program = engine.fresh_program(target)
        for rule in {rule for rule, _ in self._program.rules}.intersection(off):
            self._program.disable(rule)
        self._meaning = right
        self._known: dict[tuple[int, str], bool | None] = {}
        self.firings = self._program.rewrite(name, before, trace=True)[1]["firings"]

    def right(self, limit: int, rule: str = "") -> bool | None:
        """Whether the meaning is kept when all rules, or this one, stop after so many firings."""
        if (limit, rule) not in self._known:
            self._known[limit, rule] = self._tried(limit, rule)
        return self._known[limit, rule]

    def _tried(self, limit: int, rule: str) -> bool | None:
        try:
            after, _ = self._program.rewrite(self.name, self.before, limit=limit, limited=rule)
        except RulegradError:
            return None
        return self._meaning(after)

    def fired_without(self, rule: str) -> set[str]:
        """The rules that fire when this one is left out."""
        info = self._program.rewrite(self.name, self.before, trace=True, limit=0, limited=rule)[1]
        return {firing[0] for firing in info["firings"]}

    def exactly(self, number: int) -> Blame:
        """The firing of that number, of all rules."""
        rule, location, before, after = self.firings[number - 1]
        cases, certain = self._cases(number, rule)
        return Blame(self.name, number, number, (rule,), location, str(before), str(after), cases, certain)

    def firing_of(self, rule: str, number: int) -> Blame:
        """The firing of that number, of one rule; the other rules fire as they do then."""
        firings = self._program.rewrite(self.name, self.before, trace=True, limit=number, limited=rule)[1]["firings"]
        at = [place for place, firing in enumerate(firings, start=1) if firing[0] == rule][-1]
        _, location, before, after = firings[at - 1]
        return Blame(self.name, at, at, (rule,), location, str(before), str(after), (), False)

    def _cases(self, number: int, rule: str) -> tuple[tuple[str, ...], bool]:
        """The case without which the rule still fires there, and rightly; else all that the firing uses.

        Those that build nodes come first: what others compute mostly decides whether something is done, not what.
        """
        facts = engine.rules()
        counted = [self._counted(limit) for limit in (number - 1, number)]
        used = [
            case
            for case, fired in counted[1].items()
            if fired > counted[0].get(case, 0) and case in facts and facts[case].kind == "case"
        ]
        computing = _computing()
        used.sort(key=lambda case: case in computing)
        named = {case: f"{case} ({facts[case].location})" for case in used}
        for case in used:
            self._program.disable(case)
            try:
                after, info = self._program.rewrite(self.name, self.before, trace=True, limit=number)
                fires = len(info["firings"]) == number and info["firings"][-1][0] == rule
                if fires and self._meaning(after):
                    return (named[case],), True
            except RulegradError:
                pass
            finally:
                self._program.disable(case, False)
        return tuple(named.values()), False

    def _counted(self, limit: int) -> dict[str, int]:
        """How often each rule fires up to then, cases of functions too."""
        self._program.count(True)
        self._program.rewrite(self.name, self.before, limit=limit)
        return {rule: fired for rule, _, fired, _ in self._program.counts}


def _computing() -> frozenset[str]:
    """The cases of functions whose result is a value, not a node."""
    functions = [d for d in engine.loaded().sources.declarations() if isinstance(d, syntax.Function)]
    return frozenset(
        f"{function.name}.{rule.name}"
        for function in functions
        for rule in function.rules
        if isinstance(rule.template, syntax.Compute)
    )
