"""The number of ways to try a pattern on one node: orders of commutative ops, choices out of chains."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rulegrad.lang import syntax
from rulegrad.lang.compiler.assembler import Assembler
from rulegrad.lang.compiler.orders import orders_of
from rulegrad.lang.compiler.rules import RuleCompiler, TargetFacts
from rulegrad.lang.compiler.scope import Emitter, Library
from rulegrad.lang.walk import expressions_in, most_kept
from rulegrad.workbench.analysis.asked import EVERYTHING, Asked
from rulegrad.workbench.analysis.findings import Findings

THRESHOLD = 1000
CHAIN = 8  # members of a chain, and items of a sequence, that costs are counted for


@dataclass(frozen=True, slots=True)
class Cost:
    """One rule: its alternatives (orders), and the choices in each (from chains, tables, sequences)."""

    name: str
    location: str
    alternatives: int
    choices: int

    @property
    def ways(self) -> int:
        return self.alternatives * self.choices


def costs(files: Sequence[syntax.File], library: Library, asked: Asked = EVERYTHING) -> list[tuple[syntax.Rule, Cost]]:
    """The costs of the rules that are asked about, the dearest first. Raises RuleError for one that has no code."""
    assembler = Assembler()
    compiler = RuleCompiler(library, assembler, TargetFacts())
    rows = {d.name: len(d.rows) for f in files for d in f.declarations if isinstance(d, syntax.Table)}
    found = []
    for owner, rule in _rules(files):
        if rule not in asked:
            continue
        generics = compiler.generics(rule)
        if generics is not None:
            count = len(list(orders_of(Emitter(library, assembler, generics), rule.pattern)))
            location = f"{rule.span.file}:{rule.span.line}"
            found.append((rule, Cost(f"{owner}.{rule.name}", location, count, _choices(rule, rows))))
    return sorted(found, key=lambda pair: -pair[1].ways)


def _rules(files: Sequence[syntax.File]) -> Iterator[tuple[str, syntax.Rule]]:
    for declaration in (d for f in files for d in f.declarations):
        if isinstance(declaration, syntax.Ruleset | syntax.Pass | syntax.Function):
            for rule in declaration.rules:
                yield declaration.name, rule


def _choices(rule: syntax.Rule, rows: dict[str, int]) -> int:
    """Items of a multiset are chosen one after the other; a `for` tries each row of a table, or each item.

    A `least` is there to try them all: what follows it is tried for those that it keeps.
    """
    total = 1
    for x in expressions_in(rule.pattern):
        if isinstance(x, syntax.Multiset):
            items = sum(not isinstance(item, syntax.Splice) for item in x.items)
            total *= math.perm(CHAIN, min(items, CHAIN))
    choices = 1
    for clause in rule.clauses:
        if clause.keyword == "for":
            choices *= _items(clause.expression, rows)
        elif clause.keyword == "least":
            choices = most_kept(clause)
    return total * choices


def _items(x: syntax.Expression | None, rows: dict[str, int]) -> int:
    if isinstance(x, syntax.Sequence) and all(isinstance(item, syntax.Literal) for item in x.items):
        return len(x.items)
    return rows.get(x.name, CHAIN) if isinstance(x, syntax.Name) else CHAIN


def check_costs(findings: Findings, files: Sequence[syntax.File], library: Library, asked: Asked) -> None:
    """Warns of patterns that may be tried in more than THRESHOLD ways."""
    for rule, cost in costs(files, library, asked):
        if cost.ways > THRESHOLD:
            message = f"`{rule.name}` may be tried in {cost.ways} ways on one node"
            hint = "split the rule, write `ordered` where an order is known, or match less of a chain"
            notes = (f"{cost.alternatives} alternatives, {cost.choices} choices out of {CHAIN} members or items",)
            findings.report("costly-pattern", message, rule.name_span, hint, notes)


def as_table(found: Sequence[Cost]) -> str:
    """The costs as text, one rule a line."""
    lines = [f"{'ways':>8} {'alternatives':>12} {'choices':>8}  rule"]
    lines += [f"{c.ways:>8} {c.alternatives:>12} {c.choices:>8}  {c.name} ({c.location})" for c in found]
    return "\n".join(lines)
