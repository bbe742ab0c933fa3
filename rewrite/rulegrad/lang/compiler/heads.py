"""The root of a pattern: its op pattern, and the ops that a node matching it can have."""

from __future__ import annotations

from dataclasses import dataclass

from rulegrad.lang import syntax
from rulegrad.lang.compiler.scope import Emitter, problem
from rulegrad.lang.notation import CHAIN_OPS, notation_of


@dataclass(frozen=True, slots=True)
class Head:
    """An op pattern, whatever its notation: possible ops, attributes, source patterns."""

    ops: frozenset[str]
    variable: str | None
    attributes: tuple[syntax.Attribute, ...]
    arguments: tuple[syntax.Expression, ...]
    commutes: bool
    span: syntax.Span


def head_of(e: Emitter, x: syntax.Expression) -> Head | None:
    """The op pattern that an expression is, or None for names, literals, multisets and views."""
    table = e.library.table
    found = notation_of(x)
    if found is None or found.name in e.library.views or is_constant(x):
        return None
    if found.name in e.generics.ops:
        ops, variable = e.generics.ops[found.name], found.name
    else:
        op_name = table.op_called(found.name)
        if op_name is None:
            raise problem(f"no op is called `{found.name}`", x.span)
        ops, variable = frozenset((op_name,)), None
    commutes = len(found.arguments) == 2 and not found.ordered and all(table.ops[n].commutative for n in ops)
    return Head(ops, variable, found.attributes, found.arguments, commutes, x.span)


def is_constant(x: syntax.Expression) -> bool:
    """Whether a pattern only matches a CONST: in a commutative node that is always the last source."""
    match x:
        case syntax.Literal() | syntax.Compute():
            return True
        case syntax.Name():
            return x.is_const
        case syntax.Capture():
            return is_constant(x.pattern)
    return False


def constant_symbol(x: syntax.Expression) -> str:
    """The dispatch's name for the constants that a pattern matches: `CONST`, or `CONST 0`, `CONST 1`, `CONST -1`."""
    value = literal_value(x)
    if isinstance(value, (int, float)) and value in (0, 1, -1):
        return f"CONST {int(value)}"
    return "CONST"


def literal_value(x: syntax.Expression) -> int | float | bool | str | None:
    return x.value if isinstance(x, syntax.Literal) else None


def bare(x: syntax.Expression) -> syntax.Expression:
    """A pattern without the names that capture the whole node."""
    while isinstance(x, syntax.Capture):
        x = x.pattern
    return x


def members_of(x: syntax.Multiset) -> list[syntax.Expression]:
    """The items of a multiset but for the rest."""
    return [item for item in x.items if not isinstance(item, syntax.Splice)]


def symbols_of(e: Emitter, x: syntax.Expression, root: bool = False) -> frozenset[str] | None:
    """The ops (or `CONST 0`, `CONST 1`, `CONST -1`) of the nodes that a pattern can match; None: any.

    root: the pattern is that of a rule; a multiset is a chain there, elsewhere a single node is one of one member.
    """
    x = bare(x)
    match x:
        case syntax.Name():
            return frozenset(("CONST",)) if x.is_const else None
        case syntax.Negation():
            return None
        case syntax.Multiset():
            members = members_of(x)
            chain = frozenset((CHAIN_OPS[x.kind],))
            if root or len(members) > 1:
                return chain
            only = symbols_of(e, members[0]) if members else None
            return None if only is None else chain | only
        case syntax.Call(function=name) if name in e.library.views:
            return _symbols_of_view(e, e.library.views[name], x)
    head = head_of(e, x)
    return head.ops if head is not None else frozenset((constant_symbol(x),))


def _symbols_of_view(e: Emitter, view: syntax.View, x: syntax.Call) -> frozenset[str] | None:
    arguments = dict(zip(view.parameters, x.arguments, strict=True))
    found: frozenset[str] = frozenset()
    for case in view.cases:
        shape = bare(case.expression)
        if isinstance(shape, syntax.Name) and shape.name in arguments and not shape.is_const:
            shape = arguments[shape.name]
        symbols = symbols_of(e, shape)
        if symbols is None:
            return None
        found |= symbols
    return found


def told_by_symbol(e: Emitter, x: syntax.Expression) -> bool:
    """Whether a node's symbol tells that it has the op, or is a constant, that a pattern wants."""
    inner = bare(x)
    if isinstance(inner, (syntax.Multiset, syntax.Negation)):
        return False
    return head_of(e, inner) is not None or (is_constant(inner) and not isinstance(inner, syntax.Compute))
