"""Views and tables in expressions, as the simpler expressions that they stand for."""

from __future__ import annotations

from rulegrad.lang import syntax
from rulegrad.lang.compiler.assembler import DtypeName, OpName, RecordValue
from rulegrad.lang.compiler.scope import Library, problem


def body_of_view(view: syntax.View) -> syntax.Expression:
    """The expression that a view stands for: a case `with k = 1` where k is that, else the first other one."""
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


def rows_of_table(library: Library, name: str) -> tuple[RecordValue, ...] | None:
    """A table as a constant, or None when no table has this name."""
    if name not in library.tables:
        return None
    table = library.tables[name]
    columns = tuple(column for column, _ in table.columns)
    return tuple(RecordValue(name, columns, tuple(_constant(library, value) for value in row)) for row in table.rows)


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
