"""Names with what may be written behind them: `x:T`, `c:const`, `i:range(4)`; and integers."""

from __future__ import annotations

from rulegrad.lang import syntax
from rulegrad.lang.lexer import NUMBER, Token, number_value
from rulegrad.lang.parser.cursor import Cursor


def parse_annotated(cursor: Cursor, first: Token, name: str, annotations: bool, one: bool = False) -> syntax.Name:
    """The rest of `x`, `x:T`, `c:const`, `c:const:T`, `i:range(4)`, `x:float32[4, 8]`."""
    is_const, dtype, bounds, shape = False, None, None, None
    if annotations and cursor.at(":"):
        cursor.advance()
        kind = cursor.name("a kind: `const`, a dtype, a dtype class or a dtype variable").text
        if kind == "const":
            is_const = True
            if cursor.accept(":"):
                dtype = cursor.name("a dtype, a dtype class or a dtype variable").text
        elif kind == "range" and cursor.at("("):
            bounds = _bounds(cursor)
        else:
            dtype = kind
            if cursor.at("["):
                shape = _shape(cursor)
    return syntax.Name(cursor.span_from(first), name, is_const, dtype, bounds, shape, one)


def _bounds(cursor: Cursor) -> tuple[int, int]:
    cursor.expect("(")
    first = parse_integer(cursor)
    bounds = (0, first)
    if cursor.accept(","):
        bounds = (first, parse_integer(cursor))
    cursor.expect(")")
    return bounds


def _shape(cursor: Cursor) -> tuple[int, ...]:
    cursor.expect("[")
    sizes: list[int] = []
    while not cursor.at("]"):
        sizes.append(parse_integer(cursor))
        if not cursor.accept(","):
            break
    cursor.expect("]")
    return tuple(sizes)


def parse_integer(cursor: Cursor) -> int:
    """An integer with an optional minus sign."""
    negative = cursor.accept("-")
    if cursor.token.kind == NUMBER:
        value = number_value(cursor.token.text)
        if isinstance(value, int):
            cursor.advance()
            return -value if negative else value
    raise cursor.expected("an integer")
