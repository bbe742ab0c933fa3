"""How many ways a pattern may be tried on one node: orders of commutative ops, options, choices out of chains."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rulegrad.lang import syntax
from rulegrad.lang.compiler.assembler import Assembler
from rulegrad.lang.compiler.heads import head_of
from rulegrad.lang.compiler.orders import swappable
from rulegrad.lang.compiler.rules import RuleCompiler, TargetFacts
from rulegrad.lang.compiler.scope import Emitter, Library
from rulegrad.lang.walk import expressions_in

CHAIN = 8  # members of a chain that costs are counted for


@dataclass(frozen=True, slots=True)
class Cost:
    """One rule: ways = orders x options x choices (out of chains of CHAIN members, and rows of tables)."""

    name: str
    place: str
    orders: int
    options: int
    choices: int

    @property
    def ways(self) -> int:
        return self.orders * self.options * self.choices


def costs(files: Sequence[syntax.File], library: Library) -> list[tuple[syntax.Rule, Cost]]:
    """The cost of every rule, the dearest first."""
    assembler = Assembler()
    compiler = RuleCompiler(library, assembler, TargetFacts())
    rows = {d.name: len(d.rows) for f in files for d in f.declarations if isinstance(d, syntax.Table)}
    found = []
    for owner, rule in _rules(files):
        generics = compiler.generics(rule)
        if generics is None:
            continue
        emitter = Emitter(library, assembler, generics)
        cost = Cost(
            f"{owner}.{rule.name}",
            f"{rule.span.file}:{rule.span.line}",
            _orders(emitter, rule.pattern),
            _options(rule.pattern),
            _choices(rule, rows),
        )
        found.append((rule, cost))
    return sorted(found, key=lambda pair: -pair[1].ways)


def _rules(files: Sequence[syntax.File]) -> Iterator[tuple[str, syntax.Rule]]:
    for declaration in (d for f in files for d in f.declarations):
        if isinstance(declaration, syntax.Ruleset | syntax.Pass | syntax.Function):
            for rule in declaration.rules:
                yield declaration.name, rule


def _orders(emitter: Emitter, pattern: syntax.Expression) -> int:
    heads = [(x, head_of(emitter, x)) for x in expressions_in(pattern) if _is_op(emitter, x)]
    return int(2 ** sum(found is not None and swappable(found) for _, found in heads))


def _is_op(emitter: Emitter, x: syntax.Expression) -> bool:
    if isinstance(x, syntax.Call):
        return x.function in emitter.generics.ops or x.function in emitter.library.table.by_function_name
    return isinstance(x, syntax.Infix | syntax.Prefix | syntax.OpCall)


def _options(pattern: syntax.Expression) -> int:
    """`maybe` doubles what is tried; `or` adds an alternative."""
    parts = list(expressions_in(pattern))
    options = sum(isinstance(x, syntax.Maybe) or (isinstance(x, syntax.Infix) and x.operator == "or") for x in parts)
    return int(2**options)


def _choices(rule: syntax.Rule, rows: dict[str, int]) -> int:
    """Items of a multiset are chosen one after the other; a `for` tries each row of a table, or each item."""
    total = 1
    for x in expressions_in(rule.pattern):
        if isinstance(x, syntax.Multiset):
            items = sum(not isinstance(item, syntax.Splice) for item in x.items)
            total *= math.perm(CHAIN, min(items, CHAIN))
    for clause in rule.clauses:
        if clause.keyword == "for":
            name = clause.expression.name if isinstance(clause.expression, syntax.Name) else ""
            total *= rows.get(name, CHAIN)
    return total


def as_table(found: Sequence[Cost]) -> str:
    """The costs as text, one rule a line."""
    lines = [f"{'ways':>8} {'orders':>7} {'options':>8} {'choices':>8}  rule"]
    for cost in found:
        lines.append(f"{cost.ways:>8} {cost.orders:>7} {cost.options:>8} {cost.choices:>8}  {cost.name} ({cost.place})")
    return "\n".join(lines)
