"""Indentation: which lines belong to which, and recovery from an error at the next entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rulegrad.lang.lexer import STRING, Line, Source, Token
from rulegrad.lang.parser.cursor import Cursor, Problem
from rulegrad.lang.syntax import Span

Result = TypeVar("Result")


def group(source: Source, lines: list[Line]) -> list[tuple[Line, list[Line]]]:
    """The entries of a block: each line at the block's indentation, with the deeper lines below it."""
    entries: list[tuple[Line, list[Line]]] = []
    for line in lines:
        indent = entries[0][0].indent if entries else line.indent
        if line.indent > indent:
            entries[-1][1].append(line)
            continue
        if line.indent < indent and not line.broken:
            first = line.tokens[0]
            message = f"indented by {line.indent} spaces, but the block it belongs to by {indent}"
            source.report("bad-indentation", message, source.span(first))
            line.broken = True
        entries.append((line, []))
    return entries


def joined(line: Line, deeper: list[Line]) -> Line:
    """A line with the deeper lines that continue it."""
    if not deeper:
        return line
    tokens: list[Token] = [token for part in (line, *deeper) for token in part.tokens]
    return Line(line.indent, tokens, line.broken or any(part.broken for part in deeper))


def join_head(line: Line, deeper: list[Line]) -> tuple[Line, list[Line]]:
    """A rule's head with the lines that finish it.

    They come after `:`, `->` or `=`, or start with `->`, `close` or a string.
    """
    count = 0
    last = line
    while count < len(deeper) and _goes_on(last, deeper[count]):
        last = deeper[count]
        count += 1
    return joined(line, deeper[:count]), deeper[count:]


def _goes_on(line: Line, following: Line) -> bool:
    if not line.tokens or not following.tokens:
        return False
    first = following.tokens[0]
    return line.tokens[-1].text in (":", "->", "=") or first.text in ("->", "close") or first.kind == STRING


def attempt(source: Source, line: Line, read: Callable[[Cursor], Result]) -> Result | None:
    """Reads one logical line to its end; a problem is recorded and None given back."""
    if line.broken or not line.tokens:
        return None
    cursor = Cursor(source, line.tokens)
    try:
        result = read(cursor)
        cursor.end()
    except Problem as problem:
        source.diagnostics.append(problem.diagnostic)
        return None
    return result


def refuse_block(source: Source, line: Line, body: list[Line], what: str) -> None:
    """Reports indented lines under a declaration that takes none."""
    if body and not line.broken:
        source.report("unexpected-block", f"{what} takes no indented lines", source.span(body[0].tokens[0]))


def require_block(source: Source, line: Line, body: list[Line], what: str, hint: str) -> None:
    """Reports a declaration without the indented lines that it needs."""
    if not body and not line.broken:
        source.report("empty-block", f"{what} has no indented lines", line_span(source, line), hint)


def line_span(source: Source, line: Line) -> Span:
    """The span of a logical line."""
    return source.span(line.tokens[0], line.tokens[-1])


def block_span(source: Source, line: Line, body: list[Line]) -> Span:
    """The span of a line and its block."""
    last = next((part.tokens[-1] for part in reversed(body) if part.tokens), line.tokens[-1])
    return source.span(line.tokens[0], last)
