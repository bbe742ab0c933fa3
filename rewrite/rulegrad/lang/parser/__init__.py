"""The parser: from the text of a rule file to its syntax tree.

>>> file = parse_file("ruleset r:\\n    zero: x + 0 -> x\\n", "example.rules")
>>> file.declarations[0].rules[0].name
'zero'
"""

from __future__ import annotations

from collections.abc import Callable

from rulegrad.errors import RuleError
from rulegrad.lang import syntax
from rulegrad.lang.diagnostics import Diagnostic, did_you_mean, report
from rulegrad.lang.foreign import hint_for
from rulegrad.lang.lexer import Line, Source, tokenize
from rulegrad.lang.modules import Own
from rulegrad.lang.parser.declarations import parse_definition, parse_extern, parse_record
from rulegrad.lang.parser.edits import parse_insert, parse_off, parse_remove
from rulegrad.lang.parser.modules import exported, parse_use
from rulegrad.lang.parser.op_table import parse_class, parse_dtype, parse_op
from rulegrad.lang.parser.passes import parse_function, parse_pass, parse_pipeline, parse_ruleset
from rulegrad.lang.parser.tables import parse_table, parse_view
from rulegrad.lang.parser.targets import parse_flag, parse_limit, parse_target

__all__ = ["DECLARATION_WORDS", "parse_file", "parse_what_can_be"]

_Parse = Callable[[Source, Line, list[Line]], syntax.Declaration | None]
_DECLARATIONS: dict[str, _Parse] = {
    "dtype": parse_dtype,
    "class": parse_class,
    "op": parse_op,
    "ruleset": parse_ruleset,
    "view": parse_view,
    "table": parse_table,
    "pass": parse_pass,
    "function": parse_function,
    "def": parse_definition,
    "record": parse_record,
    "extern": parse_extern,
    "target": parse_target,
    "limit": parse_limit,
    "flag": parse_flag,
    "pipeline": parse_pipeline,
    "insert": parse_insert,
    "remove": parse_remove,
    "off": parse_off,
}
DECLARATION_WORDS = ("use", "export", *_DECLARATIONS)


def parse_file(text: str, path: str) -> syntax.File:
    """The syntax tree of a rule file; `path` is what messages call it.

    Raises RuleError with all problems found, as `diagnostics`: reading goes on at the next line that can
    start something new.
    """
    file, diagnostics = parse_what_can_be(text, path)
    if diagnostics:
        raise RuleError(report(diagnostics), tuple(diagnostics))
    return file


def parse_what_can_be(text: str, path: str) -> tuple[syntax.File, list[Diagnostic]]:
    """The declarations and rules that can be read, and all problems, in order: for text that is being written."""
    source = Source(path, text)
    declarations: list[syntax.Declaration] = []
    uses: list[syntax.Use] = []
    exports: set[str] = set()
    for head, body in _blocks(source, tokenize(source)):
        word = head.tokens[0].text
        if word == "use":
            if declarations:
                source.report("expected", "`use` lines stand above all declarations", source.span(head.tokens[0]))
            if (use := parse_use(source, head, body)) is not None:
                uses.append(use)
            continue
        line = exported(source, head) if word == "export" else head
        declaration = _declaration(source, line, body) if line is not None else None
        if declaration is not None:
            declarations.append(declaration)
            if word == "export" and isinstance(declaration, Own):
                exports.add(declaration.name)
    ordered = sorted(source.diagnostics, key=lambda d: (d.span.line, d.span.column))
    return syntax.File(path, text, tuple(declarations), tuple(uses), frozenset(exports)), ordered


def _blocks(source: Source, lines: list[Line]) -> list[tuple[Line, list[Line]]]:
    """Each line in column 0 with the indented lines below it."""
    blocks: list[tuple[Line, list[Line]]] = []
    for line in lines:
        if not line.tokens:
            continue
        if line.indent == 0:
            blocks.append((line, []))
        elif blocks:
            blocks[-1][1].append(line)
        elif not line.broken:
            span = source.span(line.tokens[0])
            source.report("bad-indentation", "a declaration starts in column 0", span)
    return blocks


def _declaration(source: Source, head: Line, body: list[Line]) -> syntax.Declaration | None:
    keyword = head.tokens[0]
    parse = _DECLARATIONS.get(keyword.text)
    if parse is not None:
        return parse(source, head, body)
    if not head.broken:
        hint = hint_for(source.physical[keyword.line - 1], keyword.column) or did_you_mean(
            keyword.text, DECLARATION_WORDS
        )
        hint = hint or "one of " + ", ".join(DECLARATION_WORDS)
        message = f"`{keyword.text}` starts no declaration"
        source.report("unknown-declaration", message, source.span(keyword), hint)
    return None
