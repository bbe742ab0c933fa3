"""The `fact`, `state` and `send` lines of collect and flow passes."""

from __future__ import annotations

import dataclasses

from rulegrad.lang import syntax
from rulegrad.lang.lexer import NAME, Line, Source
from rulegrad.lang.parser.blocks import attempt, join_head, refuse_block
from rulegrad.lang.parser.cursor import Cursor
from rulegrad.lang.parser.expressions import parse_expression
from rulegrad.lang.parser.rules import parse_generics, parse_pattern, parse_rule, parse_rule_from

MERGES = ("first", "min", "max", "sum", "count", "all", "number")
WITHOUT_VALUE = ("count", "number")
JOINS = ("first", "min", "max", "sum", "any", "every", "union")


def dataflow_line(
    source: Source, direction: str, line: Line, deeper: list[Line]
) -> syntax.Fact | syntax.State | syntax.Send | None:
    """A `fact`, `state` or `send` line and its clauses; None when it cannot be read."""
    word = line.tokens[0].text
    if word == "fact":
        return _fact(source, line, deeper)
    if word == "send":
        return _send(source, line, deeper)
    refuse_block(source, line, deeper, "a state")
    joins = direction != "sources_first"
    return attempt(source, line, lambda cursor: _state(cursor, joins))


def _state(cursor: Cursor, joins: bool) -> syntax.State:
    first = cursor.expect("state")
    name = cursor.name("the state's name").text
    cursor.expect("=", "a state is written `state NAME = INITIAL JOIN`")
    initial = parse_expression(cursor)
    hint = "" if joins else "in a `sources_first` pass nothing is joined: a node sends its own state"
    if not joins and not cursor.at_end():
        raise cursor.expected("the end of the line", hint)
    join = cursor.keyword(JOINS, "how values that meet are joined").text if joins else ""
    return syntax.State(name, initial, join, cursor.span_from(first))


def _send(source: Source, line: Line, deeper: list[Line]) -> syntax.Send | None:
    """`send NAME: …` or `send STATE NAME: …`: what follows is a rule."""
    named = [token.kind == NAME for token in line.tokens[1:3]] == [True, True]
    skip = 2 if named else 1
    if len(line.tokens) <= skip:
        source.report("expected", "expected `send NAME: PATTERN -> VALUE`", source.span(line.tokens[0]))
        return None
    rule = parse_rule(source, dataclasses.replace(line, tokens=line.tokens[skip:]), deeper)
    return syntax.Send(line.tokens[1].text if named else "", rule) if rule is not None else None


def _fact(source: Source, line: Line, deeper: list[Line]) -> syntax.Fact | None:
    head, clauses = join_head(line, deeper)
    fact = attempt(source, head, _fact_head)
    rule = parse_rule_from(source, line, deeper, fact.rule if fact is not None else None, clauses)
    return dataclasses.replace(fact, rule=rule, span=rule.span) if fact is not None and rule is not None else None


def _fact_head(cursor: Cursor) -> syntax.Fact:
    first = cursor.expect("fact")
    name = cursor.name("the fact's name")
    generics = parse_generics(cursor) if cursor.at("[") else ()
    keys = _keys(cursor)
    value = parse_expression(cursor) if cursor.accept("=") else None
    merge = cursor.keyword(MERGES, "how values for one key are merged")
    if (value is None) != (merge.text in WITHOUT_VALUE):
        message = (
            f"`{merge.text}` merges values, but there is none" if value is None else f"`{merge.text}` has no value"
        )
        hint = f"write `fact {name.text}(…){' = VALUE' if value is None else ''} {merge.text}: PATTERN`"
        raise cursor.problem("expected", message, cursor.source.span(merge), hint)
    cursor.expect(":", "a fact is written `fact NAME(KEYS) = VALUE MERGE: PATTERN`")
    pattern = parse_pattern(cursor)
    span = cursor.span_from(first)
    items = (*keys, value if value is not None else syntax.Literal(span, None))
    template = syntax.Compute(span, syntax.Sequence(span, items))
    rule = syntax.Rule(name.text, generics, pattern, template, (), (), span)
    return syntax.Fact(name.text, keys, value, merge.text, rule, span)


def _keys(cursor: Cursor) -> tuple[syntax.Expression, ...]:
    """`(a, b)`, at most three expressions."""
    cursor.expect("(", "a fact has keys in parentheses, `()` when it has none")
    keys: list[syntax.Expression] = []
    while not cursor.at(")"):
        keys.append(parse_expression(cursor))
        if not cursor.accept(","):
            break
    if len(keys) > 3:
        raise cursor.problem("wrong-argument-count", "a fact has at most three keys", keys[3].span)
    cursor.expect(")")
    return tuple(keys)
