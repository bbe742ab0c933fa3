"""`def`, `record` and `extern pure`: names for expressions, for values with fields, and for host functions."""

from __future__ import annotations

from rulegrad.lang import syntax
from rulegrad.lang.lexer import Line, Source
from rulegrad.lang.parser.blocks import attempt, group, join_head, joined, line_span, refuse_block
from rulegrad.lang.parser.cursor import Cursor
from rulegrad.lang.parser.expressions import WORDS, parse_expression
from rulegrad.lang.parser.passes import parse_parameters, parse_typed_names
from rulegrad.lang.parser.rules import parse_let, parse_test_line


def parse_definition(source: Source, line: Line, body: list[Line]) -> syntax.Definition | None:
    """`def NAME(args) = expression`; or `let` lines and the expression, indented, below `=`."""
    if line.tokens[-1].text != "=":
        refuse_block(source, line, body, "a `def` with its expression on the same line")
        return attempt(source, line, _definition)
    entries = group(source, body)
    lets: list[syntax.Clause] = []
    while entries and entries[0][0].tokens[0].text == "let":
        let = attempt(source, joined(*entries.pop(0)), _let)
        if let is not None:
            lets.append(let)
    whole, rest = join_head(line, [joined(*entry) for entry in entries])
    definition = attempt(source, whole, _definition)
    if rest:
        source.report("expected", "expected one expression after the `let` lines", line_span(source, rest[0]))
    if definition is None:
        return None
    return syntax.Definition(
        definition.name, definition.parameters, tuple(lets), definition.body, line_span(source, line)
    )


def _definition(cursor: Cursor) -> syntax.Definition:
    first = cursor.expect("def")
    name = cursor.name("the name of the abbreviation").text
    parameters = parse_parameters(cursor)
    cursor.expect("=")
    body = parse_expression(cursor)
    return syntax.Definition(name, parameters, (), body, cursor.span_from(first))


def parse_record(source: Source, line: Line, body: list[Line]) -> syntax.Definition | None:
    """`record NAME(a, b)`."""
    refuse_block(source, line, body, "a `record` with its fields on the same line, or in brackets,")
    return attempt(source, line, _record)


def _record(cursor: Cursor) -> syntax.Definition:
    first = cursor.expect("record")
    name = cursor.name("the name of the record").text
    fields = parse_parameters(cursor, "a field")
    span = cursor.span_from(first)
    if not fields:
        raise cursor.problem("expected", "a record has at least one field", span, f"write `record {name}(a, b)`")
    for field in fields:
        if field in WORDS:
            hint = "take another name"
            raise cursor.problem("expected", f"`{field}` is a word of the language, not a field", span, hint)
    values = tuple(syntax.Name(span, field) for field in fields)
    return syntax.Definition(name, fields, (), syntax.Record(span, name, fields, values), span)


def _let(cursor: Cursor) -> syntax.Clause:
    return parse_let(cursor, cursor.expect("let"))


def parse_extern(source: Source, line: Line, body: list[Line]) -> syntax.Extern | None:
    """`extern pure NAME(arg: type) -> type = "module.function"` and its test lines."""
    tests: list[syntax.RuleTest] = []
    for test_line, continuation in group(source, body):
        test = attempt(source, joined(test_line, continuation), parse_test_line)
        if test is not None:
            tests.append(test)
    return attempt(source, line, lambda cursor: _extern(cursor, tuple(tests)))


def _extern(cursor: Cursor, tests: tuple[syntax.RuleTest, ...]) -> syntax.Extern:
    first = cursor.expect("extern")
    cursor.expect("pure", "only pure functions may be called from rules")
    name = cursor.name("the function's name").text
    parameters = parse_typed_names(cursor, "a parameter")
    cursor.expect("->")
    result = _result_types(cursor)
    cursor.expect("=")
    qualified_name = cursor.string('where it is: "module.function"')
    return syntax.Extern(name, parameters, result, qualified_name, tests, cursor.span_from(first))


def _result_types(cursor: Cursor) -> tuple[str, ...]:
    if not cursor.accept("("):
        return (cursor.name("the result's type").text,)
    types = [cursor.name("a type").text]
    while cursor.accept(","):
        types.append(cursor.name("a type").text)
    cursor.expect(")")
    return tuple(types)
