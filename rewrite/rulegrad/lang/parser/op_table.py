"""`dtype`, `class` and `op`: the declarations of the op table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rulegrad.lang import syntax
from rulegrad.lang.diagnostics import did_you_mean
from rulegrad.lang.lexer import NAME, NUMBER, Line, Source
from rulegrad.lang.parser.blocks import attempt, group, joined, refuse_block
from rulegrad.lang.parser.cursor import Cursor
from rulegrad.lang.parser.expressions import parse_expression
from rulegrad.lang.parser.names import parse_integer
from rulegrad.lang.parser.texts import parse_spelling

#: What may stand below a declaration: its word, the field that it fills, and how it is read.
Properties = Mapping[str, tuple[str, Callable[[Cursor], Any]]]


def parse_dtype(source: Source, line: Line, body: list[Line]) -> syntax.DtypeDeclaration | None:
    """`dtype float32: kind float, bits 32, exponent 8, mantissa 23`."""
    refuse_block(source, line, body, "a dtype")
    return attempt(source, line, _dtype)


def _dtype(cursor: Cursor) -> syntax.DtypeDeclaration:
    first = cursor.expect("dtype")
    name = cursor.name("the dtype's name").text
    cursor.expect(":")
    properties: dict[str, int | str] = {}
    while True:
        key = cursor.name("a property such as `kind` or `bits`")
        if key.text in properties:
            span = cursor.source.span(key)
            raise cursor.problem("duplicate-key", f"`{key.text}` is given twice", span)
        is_number = cursor.token.kind == NUMBER
        properties[key.text] = parse_integer(cursor) if is_number else cursor.name("a value").text
        if not cursor.accept(","):
            break
    return syntax.DtypeDeclaration(name, properties, cursor.span_from(first))


def parse_class(source: Source, line: Line, body: list[Line]) -> syntax.ClassDeclaration | None:
    """`class Int = Signed + Unsigned + index`."""
    refuse_block(source, line, body, "a class")
    return attempt(source, line, _class)


def _class(cursor: Cursor) -> syntax.ClassDeclaration:
    first = cursor.expect("class")
    name = cursor.name("the class's name").text
    cursor.expect("=")
    members = parse_union(cursor)
    return syntax.ClassDeclaration(name, members, cursor.span_from(first))


def parse_union(cursor: Cursor) -> tuple[str, ...]:
    """`a + b + c`."""
    names = [cursor.name().text]
    while cursor.accept("+"):
        names.append(cursor.name().text)
    return tuple(names)


def parse_op(source: Source, line: Line, body: list[Line]) -> syntax.OpDeclaration | None:
    """An op's head and the properties below it."""
    head = attempt(source, line, _op_head)
    properties = parse_properties(source, body, "an op", _PROPERTIES)
    if head is None:
        return None
    return syntax.OpDeclaration(**{"classes": (), "flags": (), **head, **properties})


def _op_head(cursor: Cursor) -> dict[str, Any]:
    first = cursor.expect("op")
    name = cursor.name("the op's name").text
    attributes: tuple[syntax.AttributeDeclaration, ...] = ()
    if cursor.at("["):
        attributes = _list(cursor, "[", "]", _attribute)
    parameters = _list(cursor, "(", ")", _parameter)
    cursor.expect("->")
    result = cursor.name("the result: a dtype, a variable or `explicit`").text
    where: dict[str, str] = {}
    if cursor.accept("where"):
        while True:
            variable = cursor.name("a dtype variable").text
            cursor.expect(":")
            where[variable] = cursor.name("a dtype class").text
            if not cursor.accept(","):
                break
    return {
        "name": name,
        "attributes": attributes,
        "parameters": parameters,
        "result": result,
        "where": where,
        "span": cursor.span_from(first),
    }


def _list(cursor: Cursor, opening: str, closing: str, read: Callable[[Cursor], Any]) -> tuple[Any, ...]:
    cursor.expect(opening)
    items: list[Any] = []
    while not cursor.at(closing):
        items.append(read(cursor))
        if not cursor.accept(","):
            break
    cursor.expect(closing)
    return tuple(items)


def _attribute(cursor: Cursor) -> syntax.AttributeDeclaration:
    name = cursor.name("an attribute's name")
    cursor.expect(":", "an attribute is written `name: type`")
    kind = cursor.name("an attribute's type").text
    default = parse_expression(cursor) if cursor.accept("=") else None
    return syntax.AttributeDeclaration(name.text, kind, default, cursor.span_from(name))


def _parameter(cursor: Cursor) -> syntax.Parameter:
    name = cursor.name("a source's name")
    kind = cursor.name("a dtype, a dtype class or a variable").text if cursor.accept(":") else None
    variadic = cursor.accept("...")
    optional = not variadic and cursor.accept("?")
    return syntax.Parameter(name.text, kind, variadic, optional, cursor.span_from(name))


def parse_properties(source: Source, body: list[Line], owner: str, known: Properties) -> dict[str, Any]:
    """The lines below an owner, each a word and what it says, under the names of their fields."""
    found: dict[str, Any] = {}
    for line, continuation in group(source, body):
        attempt(source, joined(line, continuation), lambda cursor: _property(cursor, found, owner, known))
    return found


def _property(cursor: Cursor, properties: dict[str, Any], owner: str, known: Properties) -> None:
    key = cursor.token
    if key.kind != NAME or key.text not in known:
        now = _RENAMED.get(key.text)
        hint = f"it is called `{now}`" if now in known else did_you_mean(key.text, known)
        message, span = f"{owner} has no property `{key.text}`", cursor.source.span(key)
        raise cursor.problem("unknown-clause", message, span, hint or "one of " + ", ".join(known))
    cursor.advance()
    field, read = known[key.text]
    if field in ("checks", "values"):
        properties[field] = (*properties.get(field, ()), read(cursor))
    elif field in properties:
        span = cursor.source.span(key)
        raise cursor.problem("duplicate-key", f"`{key.text}` is given twice", span)
    else:
        properties[field] = read(cursor)


def parse_names(cursor: Cursor) -> tuple[str, ...]:
    """Names separated by spaces, up to the end of the line."""
    names = [cursor.name().text]
    while not cursor.at_end():
        names.append(cursor.name().text)
    return tuple(names)


def _interval(cursor: Cursor) -> tuple[syntax.Expression, syntax.Expression]:
    lower = parse_expression(cursor)
    cursor.expect("..", "an interval is written `low .. high`")
    return lower, parse_expression(cursor)


def _check(cursor: Cursor) -> tuple[syntax.Expression, str]:
    condition = parse_expression(cursor)
    return condition, cursor.string("the message, in quotes")


def _values(cursor: Cursor) -> tuple[str, tuple[str, ...]]:
    name, *texts = parse_names(cursor)
    return name, tuple(texts)


_PROPERTIES: Properties = {
    "class": ("classes", parse_names),
    "flags": ("flags", parse_names),
    "identity": ("identity", parse_expression),
    "eval": ("evaluator", parse_expression),
    "ulp": ("ulp", parse_integer),
    "values": ("values", _values),
    "cost": ("cost", parse_integer),
    "interval": ("interval", _interval),
    "shape": ("shape", parse_expression),
    "check": ("checks", _check),
    "c": ("spelling", parse_spelling),
    "levels": ("levels", parse_names),
    "step": ("step", lambda cursor: cursor.string()),
    "doc": ("doc", lambda cursor: cursor.string()),
}
#: Properties that had other names: users' files may have them still.
_RENAMED = {"stages": "levels"}
PROPERTY_WORDS = tuple(_PROPERTIES)
