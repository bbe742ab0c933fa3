"""`insert`, `remove` and `off`: what a user's file changes in the pipelines and rule sets of others."""

from __future__ import annotations

from rulegrad.lang import syntax
from rulegrad.lang.lexer import Line, Source
from rulegrad.lang.parser.blocks import attempt, group, joined, refuse_block
from rulegrad.lang.parser.cursor import Cursor
from rulegrad.lang.parser.rules import parse_dotted_name


def parse_insert(source: Source, line: Line, body: list[Line]) -> syntax.PipelineEdit | None:
    """`insert PASS before STEP in PIPELINE`, `insert PASS after STEP in PIPELINE`."""
    refuse_block(source, line, body, "`insert`")
    return attempt(source, line, _insert)


def _insert(cursor: Cursor) -> syntax.PipelineEdit:
    first = cursor.expect("insert")
    name = cursor.name("a pass").text
    side = cursor.keyword(("before", "after"), "`before STEP` or `after STEP`").text
    step = cursor.name("a step of the pipeline").text
    cursor.expect("in", "it is written `insert PASS before STEP in PIPELINE`")
    pipeline = cursor.name("a pipeline").text
    return syntax.PipelineEdit(side, name, step, pipeline, cursor.span_from(first))


def parse_remove(source: Source, line: Line, body: list[Line]) -> syntax.PipelineEdit | None:
    """`remove STEP from PIPELINE`."""
    refuse_block(source, line, body, "`remove`")
    return attempt(source, line, _remove)


def _remove(cursor: Cursor) -> syntax.PipelineEdit:
    first = cursor.expect("remove")
    step = cursor.name("a step of the pipeline").text
    cursor.expect("from", "it is written `remove STEP from PIPELINE`")
    pipeline = cursor.name("a pipeline").text
    return syntax.PipelineEdit("remove", step, "", pipeline, cursor.span_from(first))


def parse_off(source: Source, line: Line, body: list[Line]) -> syntax.RulesOff | None:
    """`off SET.RULE, SET.RULE`; the names may go on in indented lines."""
    whole = line
    for entry in group(source, body):
        whole = joined(whole, [joined(*entry)])
    return attempt(source, whole, _off)


def _off(cursor: Cursor) -> syntax.RulesOff:
    first = cursor.expect("off")
    names = [_qualified(cursor)]
    while cursor.accept(","):
        names.append(_qualified(cursor))
    return syntax.RulesOff(tuple(names), cursor.span_from(first))


def _qualified(cursor: Cursor) -> str:
    token = cursor.token
    name = parse_dotted_name(cursor)
    if name.count(".") != 1:
        message = f"expected `SET.RULE`, found `{name}`"
        hint = "a rule is named with its rule set, pass or function"
        raise cursor.problem("expected", message, cursor.source.span(token), hint)
    return name
