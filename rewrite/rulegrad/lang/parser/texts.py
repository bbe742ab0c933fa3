"""Text templates: strings with fields, `{expression}`, `{expression:modifier}`, `{sequence:', '}`; `{{` is a brace."""

from __future__ import annotations

import re

from rulegrad.lang import syntax
from rulegrad.lang.lexer import NAME, NUMBER, STRING, SYMBOL, Token, field_tokens, number_problem
from rulegrad.lang.parser.cursor import Cursor, Problem
from rulegrad.lang.parser.expressions import parse_expression
from rulegrad.lang.parser.names import parse_integer

KINDS = ("inline", "expr", "stmt", "block")
ATOM = 16  # the C precedence of a text that never needs parentheses

_MODIFIER = re.compile(r"""\s*(?P<word>[A-Za-z_]\w*)?\s*(?P<separator>"[^"]*"|'[^']*')?\s*\}""")

Parts = tuple[str | syntax.Field, ...]


def at_text(cursor: Cursor) -> bool:
    """Whether a text template starts here: a kind, then a number or a string."""
    token = cursor.token
    return token.kind == NAME and token.text in KINDS and cursor.peek().kind in (NUMBER, STRING)


def parse_text(cursor: Cursor) -> syntax.Text:
    """`expr 14 "({type(T)}){x}"`, `block "for (...) {{" close "}}"`."""
    first = cursor.keyword(KINDS, "`inline`, `expr`, `stmt` or `block`")
    precedence = parse_integer(cursor) if cursor.token.kind == NUMBER else ATOM
    parts = parse_parts(cursor)
    close: Parts = ()
    if first.text == "block":
        cursor.expect("close", 'write `block "..." close "..."`')
        close = parse_parts(cursor)
    return syntax.Text(cursor.span_from(first), first.text, precedence, parts, close)


def parse_spelling(cursor: Cursor) -> syntax.Text:
    """`14 "-{a}"` after `c` in the op table."""
    first = cursor.token
    precedence = parse_integer(cursor) if cursor.token.kind == NUMBER else ATOM
    parts = parse_parts(cursor)
    return syntax.Text(cursor.span_from(first), "expr", precedence, parts)


def parse_parts(cursor: Cursor) -> Parts:
    """The parts of a string, or of several that follow each other."""
    if cursor.token.kind != STRING:
        raise cursor.expected("a text in quotes")
    parts: list[str | syntax.Field] = []
    while cursor.token.kind == STRING:
        _split(cursor, cursor.token, parts)
        cursor.advance()
    return tuple(parts)


def _split(cursor: Cursor, string: Token, parts: list[str | syntax.Field]) -> None:
    """Appends the parts of one string token, raw text joined to raw text."""
    raw = string.text
    index, start = 1, 1
    literal = ""
    while index < len(raw) - 1:
        character = raw[index]
        if character == "\\":
            index += 2
        elif character in "{}" and raw[index + 1 : -1].startswith(character):
            literal += cursor.unescape(raw[start : index + 1], string, start)
            index = start = index + 2
        elif character == "{":
            literal += cursor.unescape(raw[start:index], string, start)
            _append(parts, literal)
            literal = ""
            field, index = _field(cursor, string, index)
            parts.append(field)
            start = index
        elif character == "}":
            raise _bad_text(cursor, string, index, "a single `}` in a text", "write `}}` for a brace")
        else:
            index += 1
    _append(parts, literal + cursor.unescape(raw[start:-1], string, start))


def _append(parts: list[str | syntax.Field], literal: str) -> None:
    if not literal:
        return
    last = parts[-1] if parts else None
    if isinstance(last, str):
        parts[-1] = last + literal
    else:
        parts.append(literal)


def _field(cursor: Cursor, string: Token, opening: int) -> tuple[syntax.Field, int]:
    """The field whose `{` stands at `opening`, and the place after its `}`."""
    tokens = field_tokens(cursor.source, string, opening + 1)
    terminator = tokens[-1] if tokens else None
    if terminator is None or terminator.kind != SYMBOL or terminator.text not in ("}", ":"):
        if terminator is not None and terminator.kind not in (NAME, NUMBER, STRING, SYMBOL):
            index = terminator.column - string.column
            hint = "inside a field write strings in the other quotes"
            raise _bad_text(cursor, string, index, f"no token starts with {terminator.text[0]!r}", hint)
        raise _bad_text(cursor, string, opening, "this field has no closing `}`", "write `{{` for a brace")
    for token in tokens:
        problem = number_problem(token.text) if token.kind == NUMBER else ""
        if problem:
            raise cursor.problem("bad-number", problem, cursor.source.span(token))
    if len(tokens) == 1:
        raise _bad_text(cursor, string, opening, "an empty field", "write `{{` for a brace")
    inner = Cursor(cursor.source, tokens[:-1])
    inner.depth, inner.operators = cursor.depth, cursor.operators
    expression = parse_expression(inner, annotations=False)
    if not inner.at_end():
        raise inner.expected("`}` or `:` and a modifier")
    end = terminator.column - string.column
    if terminator.text == "}":
        return (expression, "", None), end + 1
    found = _MODIFIER.match(string.text, end + 1)
    if found is None or not (found["word"] or found["separator"]):
        hint = "write `{x:bare}`, or `{xs:', '}` for a sequence"
        raise _bad_text(cursor, string, end, "expected a modifier or a separator in quotes, and `}`, after `:`", hint)
    separator = found["separator"]
    if separator is not None:
        separator = cursor.unescape(separator[1:-1], string, found.start("separator") + 1)
    return (expression, found["word"] or "", separator), found.end()


def _bad_text(cursor: Cursor, string: Token, index: int, message: str, hint: str) -> Problem:
    column = string.column + index
    span = syntax.Span(cursor.source.path, string.line, column, string.line, column + 1)
    return cursor.problem("bad-text", message, span, hint)
