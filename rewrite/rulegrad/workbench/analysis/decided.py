"""Guards that can be decided without a node: of literals, constants that a pattern names, and known dtypes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from rulegrad.lang import syntax
from rulegrad.workbench.analysis.cells import UNKNOWN
from rulegrad.workbench.analysis.sketches import Sketch

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def refuted(rule: syntax.Rule, sketch: Sketch) -> bool:
    """Whether a guard of the rule is false for every node of the sketch's form."""
    bound: set[str] = set()
    for clause in rule.clauses:
        if clause.keyword in ("let", "for"):
            bound.update(clause.names)
        guard = clause.expression if clause.keyword == "if" else None
        if guard is not None and value(guard, sketch, frozenset(bound)) is False:
            return True
    return False


def value(x: syntax.Expression, sketch: Sketch, bound: frozenset[str] = frozenset()) -> Any:
    """The value of an expression; UNKNOWN where that depends on the node. bound: names of clauses."""
    match x:
        case syntax.Literal(value=literal):
            return literal
        case syntax.Compute():
            return value(x.inner, sketch, bound)
        case syntax.Name(name=name):
            return UNKNOWN if name in bound else _named(name, sketch)
        case syntax.Call(function="dtype", arguments=(syntax.Name(name=name),)) if name in sketch.cells:
            names = sketch.cells[name].root().dtype.root().names
            return next(iter(names)) if len(names) == 1 else UNKNOWN
        case syntax.Prefix(operator="not"):
            inner = value(x.operand, sketch, bound)
            return inner if inner is UNKNOWN else not inner
        case syntax.Prefix(operator="-"):
            inner = value(x.operand, sketch, bound)
            return -inner if isinstance(inner, (int, float)) else UNKNOWN
        case syntax.Infix(operator="and" | "or" as joined):
            sides = [value(x.left, sketch, bound), value(x.right, sketch, bound)]
            decisive = joined == "or"
            if any(side is not UNKNOWN and bool(side) is decisive for side in sides):
                return decisive
            return UNKNOWN if UNKNOWN in sides else not decisive
        case syntax.Infix(operator=sign) if sign in _COMPARISONS or sign in _ARITHMETIC:
            left, right = value(x.left, sketch, bound), value(x.right, sketch, bound)
            if left is UNKNOWN or right is UNKNOWN:
                return UNKNOWN
            try:
                return (_COMPARISONS.get(sign) or _ARITHMETIC[sign])(left, right)
            except TypeError:
                return UNKNOWN
    return UNKNOWN


def _named(name: str, sketch: Sketch) -> Any:
    if name in sketch.cells:
        return sketch.cells[name].root().value
    if name in sketch.slots:
        return sketch.slots[name].root().value
    if name in sketch.dtypes:
        names = sketch.dtypes[name].root().names
        return next(iter(names)) if len(names) == 1 else UNKNOWN
    return name if name in sketch.table.dtypes else UNKNOWN
