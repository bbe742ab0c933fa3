"""Views and tables in expressions, as the simpler expressions that they stand for."""

from __future__ import annotations

from rulegrad.lang import syntax
from rulegrad.lang.compiler.assembler import DtypeName, OpName
from rulegrad.lang.compiler.scope import Emitter, Library, problem


def body_of_view(view: syntax.View) -> syntax.Expression:
    """What a view makes of its parameters: a case `with k = 1` where k is that, else the first other one."""
    general = [case for case in view.cases if not case.values]
    last = general[0] if general else view.cases[-1]
    body = last.expression
    for case in reversed([c for c in view.cases if c.values and c is not last]):
        conditions = [syntax.Infix(case.span, "==", syntax.Name(case.span, name), value) for name, value in case.values]
        condition: syntax.Expression = conditions[0]
        for other in conditions[1:]:
            condition = syntax.Infix(case.span, "and", condition, other)
        body = syntax.Conditional(case.span, condition, case.expression, body)
    return body


def rows_of_table(library: Library, name: str) -> tuple[object, ...] | None:
    """A table as a constant, or None when no table has this name."""
    if name not in library.tables:
        return None
    return tuple(tuple(_constant(library, value) for value in row) for row in library.tables[name].rows)


def _constant(library: Library, x: syntax.Expression) -> object:
    match x:
        case syntax.Literal():
            return x.value
        case syntax.Sequence():
            return tuple(_constant(library, item) for item in x.items)
        case syntax.Name(name=name) if name in library.table.ops:
            return OpName(name)
        case syntax.Name(name=name) if name in library.table.dtypes:
            return DtypeName(name)
    raise problem("a row holds literals, tuples of them, and names of ops and dtypes", x.span)


def table_of(e: Emitter, x: syntax.Expression, row: bool = False) -> syntax.Table | None:
    """The table that an expression is, or, with `row`, of which it is a row; None when it is neither."""
    if isinstance(x, syntax.Name):
        bound = e.names.get(x.name)
        if bound is not None:
            return e.library.tables.get(bound.table) if row else None
        return None if row else e.library.tables.get(x.name)
    return table_of(e, x.sequence) if row and isinstance(x, syntax.Subscript) else None


def column(table: syntax.Table, x: syntax.Member) -> int:
    """Which column a member of a row is."""
    names = [name for name, _ in table.columns]
    if x.name not in names:
        raise problem(f"the table `{table.name}` has no column `{x.name}`", x.span, "it has " + ", ".join(names))
    return names.index(x.name)
