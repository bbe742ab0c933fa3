"""Rules as programs of the engine: each alone, whatever the target has, to see what it does with a graph."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from rulegrad._core import Program, UOp
from rulegrad.lang import syntax
from rulegrad.lang.compiler import ProgramCompiler
from rulegrad.lang.compiler.scope import Library
from rulegrad.workbench.rule_tests import WHOLE, EveryNeedMet, OwnedRule, RuleTests, owners

TEXT = -1  # the number of a rule that gives text


@dataclass(frozen=True, slots=True)
class Entry(OwnedRule):
    """A rule with its number; the function when it is a case of one."""

    function: str = ""
    number: int = 0


@dataclass(slots=True)
class Rules:
    """The rules of some checked files, ready to be applied one at a time; `only`: of these files, where not of all."""

    files: Sequence[syntax.File]
    only: Collection[str] = ()
    entries: list[Entry] = field(init=False)
    tests: RuleTests = field(init=False)
    library: Library = field(init=False)
    program: Program = field(init=False)
    whole: frozenset[str] = frozenset()  # passes whose rules make sense only together, on a whole graph

    def __post_init__(self) -> None:
        compiler = ProgramCompiler(self.files, None, False, tested=True)
        compiler.rules = EveryNeedMet(compiler.library, compiler.assembler, compiler.rules.facts)
        compiler.compile()
        self.library = compiler.library
        self.entries = [entry for entry in entries_of(self.files) if entry.number != TEXT]
        self.whole = frozenset(p.name for p in compiler.passes if p.kind in WHOLE)
        for entry in self.entries:
            is_asked = not self.only or entry.rule.span.file in self.only
            if is_asked and not entry.function and entry.owner not in self.whole:
                entry.add_alone(compiler, entry.number)
        self.program = Program(compiler.serialize())
        self.tests = RuleTests(self.files, only=self.only)

    def apply(self, entry: Entry, root: UOp) -> UOp | None:
        """The rule's result for a node; None where it does not fire. A rule of a collect or flow pass: the pass."""
        if entry.owner in self.whole:
            found, info = self.program.rewrite(entry.owner, root)
            return found if info["fired"] else None
        return self.program.apply(f"rule {entry.number}", root)

    def measured(self, entry: Entry, root: UOp) -> UOp | None:
        """The unit of the rule's error on a node, as a node; None for the result itself."""
        return None if entry.measure() is None else self.program.apply(f"measure {entry.number}", root)

    def walk(self, entry: Entry, root: UOp) -> UOp | None:
        """The result of a walk with the rule alone; None where it does not fire."""
        found, info = self.program.rewrite(f"rule {entry.number}", root)
        return found if info["fired"] else None

    def examples(self, entry: Entry) -> list[UOp]:
        """The left sides of the rule's test lines."""
        found: list[UOp] = []
        for case in self.tests.cases:
            test = case.test
            has_values = (test.right is not None or test.fires) and not test.target
            if case.owner == entry.owner and case.rule is entry.rule and has_values:
                found.append(self.tests.left(case))
        return found


def entries_of(files: Sequence[syntax.File]) -> list[Entry]:
    """All rules of some files; those that are applied to nodes are numbered as `Rules` numbers them."""
    found: list[Entry] = []
    for owner, function, rules in owners(files):
        found.extend(Entry(owner, rule, function, number) for number, rule in enumerate(rules, len(found)))
    return found + _texts(files)


def _texts(files: Sequence[syntax.File]) -> list[Entry]:
    """The rules that give text, which only a device can test."""
    return [
        Entry(declaration.name, rule, number=TEXT)
        for declaration in (d for f in files for d in f.declarations)
        if isinstance(declaration, syntax.Ruleset | syntax.Pass)
        for rule in declaration.rules
        if isinstance(rule.template, syntax.Text)
    ]
