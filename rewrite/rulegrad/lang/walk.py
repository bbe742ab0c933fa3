"""Walking over syntax: the parts of an expression, the clauses of a rule, what a piece says."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Final

from rulegrad.lang.syntax import Call, Clause, Definition, Expression, Literal, Pass, Rule

_part_names: dict[type, tuple[str, ...]] = {}
_inside: dict[type, Callable[[Any], tuple[object, ...]]] = {}
_PLAIN: Final = frozenset(("str", "int", "float", "bool", "None", "tuple"))  # types of parts that hold no expression


def part_names(kind: type[Expression]) -> tuple[str, ...]:
    """The names of a kind of expression's parts, as they are written."""
    found = _part_names.get(kind)
    if found is None:
        found = _part_names[kind] = tuple(f.name for f in dataclasses.fields(kind) if f.name != "span")
    return found


def _inside_of(kind: type[Expression]) -> Callable[[Any], tuple[object, ...]]:
    """A function that gives those parts of a kind of expression that may hold others."""
    fields = [f for f in dataclasses.fields(kind) if f.name != "span"]
    names = [f.name for f in fields if not _PLAIN.issuperset(re.findall(r"\w+", str(f.type)))]
    found: Any = attrgetter(*names) if names else None
    _inside[kind] = found if len(names) > 1 else lambda x: (found(x),) if found else ()
    return _inside[kind]


def parts_of(root: Expression) -> list[Expression]:
    """The expressions right inside one, in the order in which they are written."""
    found: list[Expression] = []
    waiting: list[object] = [getattr(root, name) for name in reversed(part_names(type(root)))]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            waiting.extend(reversed(item))
        elif isinstance(item, Expression):
            found.append(item)
    return found


def expressions_in(root: Expression) -> Iterator[Expression]:
    """`root` and every expression inside it, in no particular order."""
    waiting: list[object] = [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            waiting.extend(item)
        elif isinstance(item, Expression):
            yield item
            kind = type(item)
            waiting.extend((_inside.get(kind) or _inside_of(kind))(item))


def transformed(root: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """`root` with `change` applied to every expression in it, the innermost first."""
    changed: dict[str, Any] = {}
    for name in part_names(type(root)):
        part = getattr(root, name)
        if isinstance(part, (Expression, tuple)) and (new := _transformed_part(part, change)) is not part:
            changed[name] = new
    return change(dataclasses.replace(root, **changed) if changed else root)


def _transformed_part(item: object, change: Callable[[Expression], Expression]) -> object:
    """What is in a field. A function of its own: one inside `transformed` would be a cycle for each expression."""
    if isinstance(item, tuple):
        parts = tuple([_transformed_part(part, change) for part in item])
        return item if all(new is old for new, old in zip(parts, item, strict=True)) else parts
    return transformed(item, change) if isinstance(item, Expression) else item


def same_but_spans(x: object, y: object) -> bool:
    """Whether two pieces of syntax are the same text, wherever they stand."""
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(map(same_but_spans, x, y))
    if isinstance(x, Expression) and type(x) is type(y):
        return all(same_but_spans(getattr(x, name), getattr(y, name)) for name in part_names(type(x)))
    return type(x) is type(y) and x == y


def calls_in(root: Expression) -> set[str]:
    """The names of all functions called in an expression.

    An op variable, an op by its lower-case name, a built-in and a `def` are all written as calls.
    """
    return {item.function for item in expressions_in(root) if isinstance(item, Call)}


def calls_of(declarations: Iterable[object], function: str) -> Iterator[Call]:
    """The calls of a function in the rules, facts, states and definitions of some declarations."""
    for declaration in declarations:
        rules = (*getattr(declaration, "rules", ()), *dataflow_rules(declaration))
        roots = [root for r in rules for root in (r.pattern, r.template, *(c.expression for c in r.clauses))]
        if isinstance(declaration, Definition):
            roots = [declaration.body, *(clause.expression for clause in declaration.lets)]
        for root in roots:
            if isinstance(root, Expression):
                yield from (x for x in expressions_in(root) if isinstance(x, Call) and x.function == function)


def has_clause(rule: Rule, keyword: str) -> bool:
    """Whether a rule has a clause such as `essential`, `unsound` or `fallback`."""
    return any(clause.keyword == keyword for clause in rule.clauses)


def most_kept(least: Clause) -> int:
    """How many choices a `least` keeps."""
    count = least.of.value if isinstance(least.of, Literal) else 1
    return count if isinstance(count, int) else 1


def dataflow_rules(declaration: object) -> tuple[Rule, ...]:
    """The rules of a pass's facts and sends: they give values, and rewrite nothing."""
    if not isinstance(declaration, Pass):
        return ()
    return (*(fact.rule for fact in declaration.facts), *(send.rule for send in declaration.sends))


_meant: dict[type, tuple[str, ...]] = {}  # kinds of syntax: the parts that say something


def meaning(item: object) -> object:
    """A piece of syntax without its places and comments: equal where two pieces say the same."""
    if isinstance(item, tuple):
        return tuple(meaning(part) for part in item)
    if isinstance(item, dict):
        return tuple((key, meaning(value)) for key, value in item.items())
    kind = type(item)
    names = _meant.get(kind)
    if names is None and dataclasses.is_dataclass(kind):
        said = (f.name for f in dataclasses.fields(kind))
        names = _meant[kind] = tuple(name for name in said if name not in ("span", "spans", "comment"))
    if names is None:
        return kind.__name__, item
    return kind.__name__, tuple([meaning(getattr(item, name)) for name in names])
