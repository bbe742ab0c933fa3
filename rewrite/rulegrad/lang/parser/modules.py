"""`use FILE: NAME, NAME` and `export`: what a file takes from others, and what it gives."""

from __future__ import annotations

from rulegrad.lang import syntax
from rulegrad.lang.lexer import NAME, Line, Source
from rulegrad.lang.parser.blocks import attempt, group, joined
from rulegrad.lang.parser.cursor import Cursor

EXPORTABLE = ("def", "record", "function", "view", "extern")


def parse_use(source: Source, line: Line, body: list[Line]) -> syntax.Use | None:
    """`use FOLDER/FILE: NAME, NAME`; the names may go on in indented lines."""
    whole = line
    for entry in group(source, body):
        whole = joined(whole, [joined(*entry)])
    return attempt(source, whole, _use)


def _use(cursor: Cursor) -> syntax.Use:
    first = cursor.expect("use")
    start, path = cursor.token, ""
    while not cursor.at(":") and not cursor.at_end():
        if path and cursor.token.kind == cursor.previous.kind == NAME:
            break
        path += cursor.advance().text
    if not path:
        raise cursor.expected("a rule file, by its path from `rules/` without `.rules`")
    place = cursor.span_from(start)
    cursor.expect(":", "it is written `use FOLDER/FILE: NAME, NAME`")
    names = [_name(cursor)]
    while cursor.accept(","):
        names.append(_name(cursor))
    return syntax.Use(path, tuple(names), place, cursor.span_from(first))


def _name(cursor: Cursor) -> tuple[str, syntax.Span]:
    token = cursor.name("a name that the file exports")
    return token.text, cursor.source.span(token)


def exported(source: Source, line: Line) -> Line | None:
    """The declaration that stands behind `export`; None, and a problem, where it is of a kind that is never private."""
    following = line.tokens[1] if len(line.tokens) > 1 else line.tokens[0]
    if following.kind == NAME and following.text in EXPORTABLE:
        return Line(line.indent, line.tokens[1:], line.broken)
    words = ", ".join(f"`{word}`" for word in EXPORTABLE)
    message = f"expected {words} after `export`"
    source.report("expected", message, source.span(following), "all other declarations are known by name in every file")
    return None
