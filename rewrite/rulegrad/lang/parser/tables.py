"""`table` and `view`: rows of values, and expressions that are read both ways."""

from __future__ import annotations

from rulegrad.lang import syntax
from rulegrad.lang.lexer import NAME, Line, Source
from rulegrad.lang.parser.blocks import attempt, group, joined, line_span, require_block
from rulegrad.lang.parser.cursor import Cursor
from rulegrad.lang.parser.expressions import parse_expression, parse_primary
from rulegrad.lang.parser.passes import parse_parameters, parse_typed_names
from rulegrad.lang.parser.rules import parse_pattern


def parse_view(source: Source, line: Line, body: list[Line]) -> syntax.View | None:
    """`view NAME(parameters):` and a case a line."""
    head = attempt(source, line, _view_head)
    require_block(source, line, body, "a view", "write its cases, such as `t * k:const` and `t with k = 1`")
    cases = [attempt(source, joined(*entry), _case) for entry in group(source, body)]
    if head is None:
        return None
    name, parameters = head
    return syntax.View(name, parameters, tuple(c for c in cases if c is not None), line_span(source, line))


def _view_head(cursor: Cursor) -> tuple[str, tuple[str, ...]]:
    cursor.expect("view")
    name = cursor.name("the name of the view").text
    parameters = parse_parameters(cursor)
    cursor.expect(":")
    return name, parameters


def _case(cursor: Cursor) -> syntax.ViewCase:
    first = cursor.token
    expression = parse_pattern(cursor)
    values: list[tuple[str, syntax.Expression]] = []
    if cursor.accept("with"):
        while True:
            parameter = cursor.name("a parameter of the view").text
            cursor.expect("=", "a value is written `with k = 1`")
            values.append((parameter, parse_expression(cursor)))
            if not cursor.accept(","):
                break
    return syntax.ViewCase(expression, tuple(values), cursor.span_from(first))


def parse_table(source: Source, line: Line, body: list[Line]) -> syntax.Table | None:
    """`table NAME(column: type, ...):` and a row a line; without the colon all rows are those of targets."""
    head = attempt(source, line, _table_head)
    if head is None:
        return None
    name, columns, has_rows = head
    if has_rows:
        require_block(source, line, body, "a table", "write its rows, values separated by spaces")
    elif body:
        hint = "write `:` after its columns"
        source.report("expected", "a table without `:` has no rows of its own", line_span(source, body[0]), hint)
    rows = [attempt(source, joined(*entry), parse_row) for entry in group(source, body)]
    return syntax.Table(name, columns, tuple(r for r in rows if r is not None), line_span(source, line))


def _table_head(cursor: Cursor) -> tuple[str, tuple[tuple[str, str], ...], bool]:
    cursor.expect("table")
    name = cursor.name("the name of the table").text
    columns = parse_typed_names(cursor, "a column")
    has_rows = not cursor.at_end()
    if has_rows:
        cursor.expect(":")
    return name, columns, has_rows


def parse_row(cursor: Cursor) -> tuple[syntax.Expression, ...]:
    """The values of a row, up to the end of the line."""
    values: list[syntax.Expression] = []
    while not cursor.at_end():
        values.append(_value(cursor))
    return tuple(values)


def _value(cursor: Cursor) -> syntax.Expression:
    """A literal, a tuple of them, or the name of an op or a dtype; what follows is the next value."""
    token = cursor.token
    if token.kind == NAME and token.text not in ("true", "false", "none", "inf", "nan"):
        cursor.advance()
        return syntax.Name(cursor.span_from(token), token.text)
    if cursor.accept("-"):
        number = parse_primary(cursor)
        if isinstance(number, syntax.Literal) and isinstance(number.value, (int, float)):
            return syntax.Literal(cursor.span_from(token), -number.value)
        raise cursor.problem("expected", "expected a number after `-`", number.span)
    return parse_primary(cursor)
