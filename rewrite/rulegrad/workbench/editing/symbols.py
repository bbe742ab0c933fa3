"""Declarations of rule files, each with its name, kind and place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from rulegrad.lang import syntax
from rulegrad.lang.syntax import File, Span

# what a declaration is called in rule text
KINDS: dict[type, str] = {
    syntax.DtypeDeclaration: "dtype",
    syntax.ClassDeclaration: "class",
    syntax.OpDeclaration: "op",
    syntax.Ruleset: "ruleset",
    syntax.View: "view",
    syntax.Table: "table",
    syntax.Pass: "pass",
    syntax.Function: "function",
    syntax.Definition: "def",
    syntax.Extern: "extern",
    syntax.Target: "target",
    syntax.Limit: "limit",
    syntax.Flag: "flag",
    syntax.Pipeline: "pipeline",
}
_WORD = re.compile(r"\w+")
RULE = "rule"
FACT = "fact"  # of a collect pass
RECORD = "record"
STATE = "state"  # of a flow pass
OF_FILES = ("function", "def", RECORD, "view", "extern")  # names are the file's own, but for those that it exports


@dataclass(frozen=True, slots=True)
class Symbol:
    """A declaration or a part of one: `span` is its name, `whole` all of its lines; `owner` is the set of a rule."""

    kind: str
    name: str
    span: Span
    whole: Span
    file: File
    owner: str = ""
    children: tuple[Symbol, ...] = field(default=(), compare=False)

    @property
    def text(self) -> str:
        """Its lines, with the indentation of the first taken away."""
        lines = self.file.text.split("\n")[self.whole.line - 1 : self.whole.end_line]
        indent = len(lines[0]) - len(lines[0].lstrip())
        return "\n".join(line[indent:] if not line[:indent].strip() else line for line in lines)

    @property
    def comment(self) -> str:
        """The comment lines right above it."""
        lines = self.file.text.split("\n")
        first = self.whole.line - 1
        while first and lines[first - 1].lstrip().startswith("#"):
            first -= 1
        return "\n".join(line.strip().lstrip("#").strip() for line in lines[first : self.whole.line - 1])


def symbols(file: File) -> Iterator[Symbol]:
    """The declarations of a file that have names, with their rules."""
    lines = file.text.removeprefix("\ufeff").split("\n")
    for declaration in file.declarations:
        is_record = isinstance(declaration, syntax.Definition) and declaration.is_record
        kind = RECORD if is_record else KINDS.get(type(declaration))
        if kind is None:
            continue
        name: str = getattr(declaration, "name")  # noqa: B009  (every kind in KINDS has one)
        whole = _block(lines, declaration.span)
        children = tuple(_part(file, lines, name, *part) for part in _parts(declaration))
        yield Symbol(kind, name, _named(lines, whole, name), whole, file, "", children)


def _parts(declaration: syntax.Declaration) -> Iterator[tuple[str, str, Span]]:
    """Named entries below a declaration: kind, name, lines."""
    if isinstance(declaration, syntax.Ruleset | syntax.Function):
        yield from ((RULE, rule.name, rule.span) for rule in declaration.rules)
    elif isinstance(declaration, syntax.Pass):
        yield from ((FACT, fact.name, fact.span) for fact in declaration.facts)
        yield from ((STATE, state.name, state.span) for state in declaration.states)
        rules = (*(send.rule for send in declaration.sends), *declaration.rules)
        yield from ((RULE, rule.name, rule.span) for rule in rules)


def _part(file: File, lines: list[str], owner: str, kind: str, name: str, span: Span) -> Symbol:
    return Symbol(kind, name, _named(lines, span, name), span, file, owner)


def _block(lines: list[str], span: Span) -> Span:
    """The lines from a declaration's first to the last indented one below it."""
    last = span.line
    for number in range(span.line, len(lines)):
        text = lines[number]
        if text[:1] not in ("", " ", "#", "\r"):
            break
        if text.strip() and text[:1] == " " and not text.lstrip().startswith("#"):
            last = number + 1
    last = max(last, span.end_line)
    return Span(span.file, span.line, 0, last, len(lines[last - 1]))


def _named(lines: list[str], span: Span, name: str) -> Span:
    """Where the name stands on the first line of a span."""
    words = _WORD.finditer(lines[span.line - 1], span.column)
    start, end = next((word.span() for word in words if word.group() == name), (span.column, span.column + 1))
    return Span(span.file, span.line, start, span.line, end)
