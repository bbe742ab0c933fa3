"""The names in patterns and expressions, and those parameters of a view that are values."""

from __future__ import annotations

from rulegrad.lang import syntax
from rulegrad.lang.optable import OpTable
from rulegrad.lang.walk import expressions_in, part_names


def names_in(x: syntax.Expression) -> frozenset[str]:
    """The names in an expression."""
    found = set()
    for y in expressions_in(x):
        match y:
            case syntax.Name() | syntax.Capture():
                found.add(y.name)
            case syntax.Call():
                found.add(y.function)
            case syntax.OpCall():
                found.add(y.op)
            case _:
                pass
    return frozenset(found)


def names_bound(table: OpTable, x: syntax.Expression) -> list[tuple[str, bool, bool]]:
    """The names that a pattern binds, each with whether it is `:const`, and whether it is `one`."""
    names: list[tuple[str, bool, bool]] = []
    waiting: list[object] = [x]
    while waiting:
        match waiting.pop():
            case syntax.Negation() | syntax.Compute():
                pass
            case tuple(items):
                waiting.extend(reversed(items))
            case syntax.Name(name=name) as y if name != "_":
                names.append((name, y.is_const, y.one))
            case syntax.Capture() as y:
                names.append((y.name, False, False))
                waiting.append(y.pattern)
            case syntax.Expression() as y:
                waiting.extend(reversed([getattr(y, part) for part in part_names(type(y))]))
            case _:
                pass
    known = (table.ops, table.op_classes, table.dtypes, table.dtype_classes)
    return list({n[0]: n for n in names if not any(n[0] in k for k in known)}.values())


def values_of_view(view: syntax.View) -> frozenset[str]:
    """The parameters that are values in some case: `:const`, or given after `with`."""
    found = {parameter for case in view.cases for parameter, _ in case.values}
    for case in view.cases:
        found.update(y.name for y in expressions_in(case.expression) if isinstance(y, syntax.Name) and y.is_const)
    return frozenset(found)
