"""The notations of a node: `a + b`, `-a`, `ADD[...](a, b)` and `add(a, b)` are read as one thing, here only.

A negative number is one literal, as the parser reads it, and `not p` a Negation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from rulegrad.lang import syntax
from rulegrad.lang.optable import INFIX_OPS, PREFIX_OPS, SWAPPED_OPS, OpTable

#: The op of a multiset's members.
CHAIN_OPS: Final = {"sum": "ADD", "prod": "MUL", "all": "AND"}


class Notation(NamedTuple):
    """A node, whatever its notation. name: of an op, an op variable, or a function as it is called."""

    name: str
    attributes: tuple[syntax.Attribute, ...]
    arguments: tuple[syntax.Expression, ...]
    ordered: bool = False  # sources are taken as they stand, although the op commutes


def notation_of(x: syntax.Expression) -> Notation | None:
    """The name, attributes and sources of an expression in any notation of a node; None for another expression.

    >>> span = syntax.Span("", 1, 1, 1, 1)
    >>> a, b = syntax.Name(span, "a"), syntax.Name(span, "b")
    >>> notation_of(syntax.Infix(span, ">", a, b)) == Notation("CMPLT", (), (b, a))
    True
    """
    match x:
        case syntax.Infix(operator=operator, left=left, right=right):
            if operator in SWAPPED_OPS:
                return Notation(SWAPPED_OPS[operator], (), (right, left), x.ordered)
            return Notation(INFIX_OPS[operator], (), (left, right), x.ordered) if operator in INFIX_OPS else None
        case syntax.Prefix(operator=operator, operand=operand):
            return Notation(PREFIX_OPS[operator], (), (operand,)) if operator in PREFIX_OPS else None
        case syntax.OpCall():
            return Notation(x.op, x.attributes, x.arguments)
        case syntax.Call():
            return Notation(x.function, (), x.arguments)
    return None


def op_of(table: OpTable, x: syntax.Expression, variables: Mapping[str, str]) -> Notation | None:
    """The notation of a node, with the op in the place of its name or variable; None where that is not an op."""
    found = notation_of(x)
    op = variables.get(found.name) or table.op_called(found.name) if found is not None else None
    return found._replace(name=op) if found is not None and op is not None else None
