"""Walking over syntax: the parts of an expression, the clauses of a rule, what a piece says."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from rulegrad.lang.syntax import Call, Expression, Rule


def expressions_in(root: Expression) -> Iterator[Expression]:
    """`root` and every expression inside it, in no particular order."""
    waiting: list[object] = [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            waiting.extend(item)
        elif isinstance(item, Expression):
            yield item
            waiting.extend(getattr(item, f.name) for f in dataclasses.fields(item) if f.name != "span")


def calls_in(root: Expression) -> set[str]:
    """The names of all functions called in an expression.

    An op variable, an op by its lower-case name, a built-in and a `def` are all written as calls.
    """
    return {item.function for item in expressions_in(root) if isinstance(item, Call)}


def has_clause(rule: Rule, keyword: str) -> bool:
    """Whether a rule has a clause such as `essential`, `unsound` or `fallback`."""
    return any(clause.keyword == keyword for clause in rule.clauses)


def meaning(item: object) -> object:
    """A piece of syntax without its places and comments: equal where two pieces say the same."""
    if isinstance(item, tuple):
        return tuple(meaning(part) for part in item)
    if isinstance(item, dict):
        return tuple((key, meaning(value)) for key, value in item.items())
    if not dataclasses.is_dataclass(item):
        return type(item).__name__, item
    fields = [f.name for f in dataclasses.fields(item) if f.name not in ("span", "spans", "comment")]
    return type(item).__name__, tuple(meaning(getattr(item, name)) for name in fields)
