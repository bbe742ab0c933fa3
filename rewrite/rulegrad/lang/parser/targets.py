"""`target`: what a device has, and how it spells things; `limit` and `flag`: what rules may ask it for."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from rulegrad.lang import syntax
from rulegrad.lang.diagnostics import did_you_mean
from rulegrad.lang.lexer import NAME, NUMBER, Line, Source
from rulegrad.lang.parser.blocks import attempt, group, joined, line_span, require_block
from rulegrad.lang.parser.cursor import Cursor
from rulegrad.lang.parser.names import parse_integer
from rulegrad.lang.parser.op_table import Properties, parse_names, parse_properties
from rulegrad.lang.parser.tables import parse_row

Value = TypeVar("Value", str, int)
ITEM_WORDS = ("use", "has", "dtypes", "type", "memory", "suffix", "literal", "limit", "flag", "row", "render")
#: What is around the text that rules give: how a kernel begins, its parameters, values.
TEMPLATE_WORDS = (
    *(
        "kernel",
        "kernel_of_groups",
        "param",
        "separator",
        "unused",
        "value",
        "vector",
        "prologue",
        "builtins",
        "shared",
    ),
    "tensor_map",
    "size",
    "sizes",
)

_FLAG_PROPERTIES: Properties = {"doc": ("doc", lambda cursor: cursor.string())}
_LIMIT_PROPERTIES: Properties = {
    "unit": ("unit", lambda cursor: cursor.string()),
    "tested": ("tested", parse_integer),
    **_FLAG_PROPERTIES,
}
LIMIT_WORDS, FLAG_WORDS = tuple(_LIMIT_PROPERTIES), tuple(_FLAG_PROPERTIES)


@dataclasses.dataclass(slots=True)
class _Items:
    """A target while its lines are read."""

    ops: set[str] = dataclasses.field(default_factory=set)
    dtypes: set[str] = dataclasses.field(default_factory=set)
    types: dict[str, str] = dataclasses.field(default_factory=dict)
    literals: dict[str, str] = dataclasses.field(default_factory=dict)
    templates: dict[str, str] = dataclasses.field(default_factory=dict)
    limits: dict[str, int] = dataclasses.field(default_factory=dict)
    flags: set[str] = dataclasses.field(default_factory=set)
    rows: dict[str, list[tuple[syntax.Expression, ...]]] = dataclasses.field(default_factory=dict)
    render: str = ""
    base: str = ""
    spans: dict[str, syntax.Span] = dataclasses.field(default_factory=dict)


def parse_target(source: Source, line: Line, body: list[Line]) -> syntax.Target | None:
    """`target NAME:` and its items, or `target NAME + FEATURE:` and what it adds to them."""
    name = attempt(source, line, _target_head)
    items = _Items()
    for item, continuation in group(source, body):
        attempt(source, joined(item, continuation), lambda cursor: _item(cursor, items))
    if name is None:
        return None
    require_block(source, line, body, f"the target `{name}`", "write what it has: `has ADD MUL`")
    return syntax.Target(
        name,
        line_span(source, line),
        frozenset(items.ops),
        frozenset(items.dtypes),
        items.types,
        items.literals,
        items.templates,
        items.limits,
        frozenset(items.flags),
        items.render,
        items.spans,
        {table: tuple(rows) for table, rows in items.rows.items()},
        items.base,
    )


def parse_limit(source: Source, line: Line, body: list[Line]) -> syntax.Limit | None:
    """`limit NAME: TYPE = DEFAULT` and its properties."""
    head = attempt(source, line, _limit_head)
    properties = parse_properties(source, body, "a limit", _LIMIT_PROPERTIES)
    return None if head is None else syntax.Limit(*head, line_span(source, line), **properties)


def _limit_head(cursor: Cursor) -> tuple[str, str, int]:
    cursor.expect("limit")
    name = cursor.name("the limit's name").text
    cursor.expect(":", "a limit is written `limit NAME: TYPE = DEFAULT`")
    kind = cursor.name("its type").text
    cursor.expect("=", "a limit has a default: `limit NAME: TYPE = DEFAULT`")
    return name, kind, parse_integer(cursor)


def parse_flag(source: Source, line: Line, body: list[Line]) -> syntax.Flag | None:
    """`flag NAME` and its doc."""
    name = attempt(source, line, lambda cursor: (cursor.expect("flag"), cursor.name("the flag's name").text)[1])
    properties = parse_properties(source, body, "a flag", _FLAG_PROPERTIES)
    return None if name is None else syntax.Flag(name, line_span(source, line), **properties)


def _target_head(cursor: Cursor) -> str:
    cursor.expect("target")
    names = [cursor.name("the target's name").text]
    while cursor.accept("+"):
        names.append(cursor.name("a feature's name").text)
    cursor.expect(":")
    return "+".join(names)


def _item(cursor: Cursor, items: _Items) -> None:
    """One line of a target."""
    first = cursor.name("an item such as `has`, `dtypes` or `type`")
    key = first.text
    if key in ("has", "dtypes", "flag"):
        into = {"has": items.ops, "dtypes": items.dtypes, "flag": items.flags}[key]
        _names(cursor, into, items)
    elif key == "type":
        _spellings(cursor, items.types, "", items)
    elif key in ("suffix", "memory"):
        _spellings(cursor, items.literals, f"{key} ", items)
    elif key == "literal":
        _spellings(cursor, items.literals, "", items, several=True)
    elif key == "limit":
        _limits(cursor, items)
    elif key == "row":
        table = cursor.name("the name of a table")
        items.rows.setdefault(table.text, []).append(parse_row(cursor))
        items.spans.setdefault(table.text, cursor.source.span(table))
    elif key == "use":
        base = cursor.name("a target")
        items.base = base.text
        items.spans[base.text] = cursor.source.span(base)
    elif key == "render":
        render = cursor.name("a render pass")
        items.render = render.text
        items.spans[render.text] = cursor.source.span(render)
    elif key in TEMPLATE_WORDS:
        _put(cursor, items.templates, key, cursor.string("a text in quotes"))
    else:
        words = (*ITEM_WORDS, *TEMPLATE_WORDS)
        hint = did_you_mean(key, words) or f"a line begins with one of {', '.join(words)}"
        raise cursor.problem("unknown-clause", f"`{key}` is not a line of a target", cursor.source.span(first), hint)


def _names(cursor: Cursor, into: set[str], items: _Items) -> None:
    first = cursor.position
    into.update(parse_names(cursor))
    for token in cursor.tokens[first:-1]:
        items.spans.setdefault(token.text, cursor.source.span(token))


def _spellings(cursor: Cursor, into: dict[str, str], prefix: str, items: _Items, several: bool = False) -> None:
    """`float32 "f", float16 "h"`; `several`: the words before a string make one key, as in `float64 nan "NAN"`."""
    while True:
        words = [cursor.name("what is spelled")]
        while several and cursor.token.kind == NAME:
            words.append(cursor.advance())
        for word in words:
            items.spans.setdefault(word.text, cursor.source.span(word))
        key = prefix + " ".join(word.text for word in words)
        _put(cursor, into, key, cursor.string("its spelling, in quotes"))
        if not cursor.accept(","):
            return


def _limits(cursor: Cursor, items: _Items) -> None:
    while True:
        token = cursor.name("the limit's name")
        name = token.text
        items.spans.setdefault(f"limit {name}", cursor.source.span(token))
        if cursor.token.kind != NUMBER and not cursor.at("-"):
            raise cursor.expected("the limit, a number")
        value = parse_integer(cursor)
        _put(cursor, items.limits, name, value)
        if not cursor.accept(","):
            return


def _put(cursor: Cursor, into: dict[str, Value], key: str, value: Value) -> None:
    if key in into:
        span = cursor.source.span(cursor.previous)
        raise cursor.problem("duplicate-key", f"`{key}` is given twice", span)
    into[key] = value
