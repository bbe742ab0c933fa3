"""`ruleset`, `pass`, `function` and `pipeline`: rules, and how they are applied."""

from __future__ import annotations

import dataclasses

from rulegrad.lang import syntax
from rulegrad.lang.lexer import NAME, STRING, Line, Source, Token
from rulegrad.lang.parser.blocks import (
    attempt,
    block_span,
    group,
    joined,
    line_span,
    refuse_block,
    require_block,
)
from rulegrad.lang.parser.choosing import Choosing
from rulegrad.lang.parser.cursor import Cursor
from rulegrad.lang.parser.dataflow import dataflow_line
from rulegrad.lang.parser.expressions import parse_attributes
from rulegrad.lang.parser.forms import parse_form, rule_of_form
from rulegrad.lang.parser.names import parse_integer
from rulegrad.lang.parser.op_table import parse_names, parse_union
from rulegrad.lang.parser.rules import parse_rule, parse_rules

PASS_KINDS = ("rewrite", "collect", "flow", "choose", "order", "render")
DIRECTIONS = {
    "rewrite": ("children_first", "parents_first", "walk"),
    "flow": ("consumers_first", "sources_first"),
    "choose": ("best", "first"),
}


def parse_ruleset(source: Source, line: Line, body: list[Line]) -> syntax.Ruleset | None:
    """`ruleset NAME:` and its rules, or `ruleset NAME = a + b`."""
    head = attempt(source, line, _ruleset_head)
    if head is None:
        parse_rules(source, body)
        return None
    name, union = head
    if union:
        refuse_block(source, line, body, "a union of rule sets")
        return syntax.Ruleset(name, (), union, line_span(source, line))
    require_block(source, line, body, f"the rule set `{name}`", "write a rule: `name: pattern -> template`")
    return syntax.Ruleset(name, parse_rules(source, body), (), line_span(source, line))


def _ruleset_head(cursor: Cursor) -> tuple[str, tuple[str, ...]]:
    cursor.expect("ruleset")
    name = cursor.name("the rule set's name").text
    if cursor.accept("="):
        return name, parse_union(cursor)
    if not cursor.accept(":"):
        raise cursor.expected("`:` or `=`")
    return name, ()


def parse_pass(source: Source, line: Line, body: list[Line]) -> syntax.Pass | None:
    """A pass: its head, and the rules, priorities or names below it."""
    head = attempt(source, line, _pass_head)
    if head is None:
        return None
    if head.kind == "reverse" or head.uses:
        refuse_block(source, line, body, "a pass that names what it runs")
        return head
    if head.kind == "order":
        return _order(source, head, body)
    if head.kind == "choose":
        require_block(source, line, body, f"the pass `{head.name}`", "write `cost FUNCTION`, then rules")
    elif head.kind != "render":
        hint = "name its rule sets after `:`, or write rules below"
        require_block(source, line, body, f"the pass `{head.name}`", hint)
    return _rules_of_pass(source, head, body)


def _pass_head(cursor: Cursor) -> syntax.Pass:
    first = cursor.expect("pass")
    name = cursor.name("the pass's name").text
    if cursor.accept("="):
        cursor.keyword(("reverse",), "`reverse FUNCTION`")
        function = cursor.name("a function").text
        return syntax.Pass(name, "reverse", "", (function,), (), cursor.span_from(first))
    kind = cursor.keyword(PASS_KINDS, "the kind of pass").text
    direction = ""
    if kind in DIRECTIONS:
        *some, last = (f"`{word}`" for word in DIRECTIONS[kind])
        direction = cursor.keyword(DIRECTIONS[kind], f"{', '.join(some)} or {last}").text
    cursor.expect(":")
    uses = () if cursor.at_end() or kind == "choose" else parse_union(cursor)
    return syntax.Pass(name, kind, direction, uses, (), cursor.span_from(first))


def _order(source: Source, head: syntax.Pass, body: list[Line]) -> syntax.Pass:
    priorities: list[syntax.Priority] = []
    for line, continuation in group(source, body):
        priorities.extend(attempt(source, joined(line, continuation), _priorities) or ())
    return dataclasses.replace(head, priorities=tuple(priorities))


def _priorities(cursor: Cursor) -> list[syntax.Priority]:
    cursor.keyword(("priority",), "`priority OP NUMBER`")
    priorities: list[syntax.Priority] = []
    while True:
        op = cursor.name("an op")
        attributes = parse_attributes(cursor)
        value = parse_integer(cursor)
        priorities.append(syntax.Priority(op.text, attributes, value, cursor.span_from(op)))
        if not cursor.accept(","):
            return priorities


def _rules_of_pass(source: Source, head: syntax.Pass, body: list[Line]) -> syntax.Pass:
    uses: tuple[str, ...] = ()
    rules: list[syntax.Rule] = []
    prefixes: list[tuple[str, str]] = []
    choosing = Choosing()
    dataflow: list[syntax.Fact | syntax.State | syntax.Send | None] = []
    for number, (line, deeper) in enumerate(group(source, body)):
        texts = [token.text for token in line.tokens[:2]]
        is_rule = texts[1:] in ([":"], ["["])
        if head.kind == "choose" and not is_rule and texts[0] in choosing.WORDS:
            refuse_block(source, line, deeper, f"`{texts[0]}`")
            attempt(source, line, choosing.read)
        elif number == 0 and texts[:1] == ["use"] and not is_rule:
            uses = attempt(source, joined(line, deeper), _use) or ()
        elif head.kind == "render" and _is_prefix(line):
            prefixes.extend(attempt(source, joined(line, deeper), _prefixes) or ())
        elif not is_rule and (head.kind, texts[0]) in (("collect", "fact"), ("flow", "state"), ("flow", "send")):
            dataflow.append(dataflow_line(source, head.direction, line, deeper))
        else:
            rule = parse_rule(source, line, deeper)
            if rule is not None:
                rules.append(rule)
    return dataclasses.replace(
        head,
        uses=uses + choosing.uses,
        cost=choosing.cost,
        fuel=choosing.fuel,
        rules=tuple(rules),
        prefixes=tuple(prefixes),
        facts=tuple(entry for entry in dataflow if isinstance(entry, syntax.Fact)),
        states=tuple(entry for entry in dataflow if isinstance(entry, syntax.State)),
        sends=tuple(entry for entry in dataflow if isinstance(entry, syntax.Send)),
    )


def _use(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect("use")
    return parse_union(cursor)


def _is_prefix(line: Line) -> bool:
    """`prefix RANGE "i"`, or `names: prefix RANGE "i"`."""
    tokens = line.tokens[2:] if len(line.tokens) > 2 and line.tokens[1].text == ":" else line.tokens
    kinds = [token.kind for token in tokens[:3]]
    return kinds == [NAME, NAME, STRING] and tokens[0].text == "prefix"


def _prefixes(cursor: Cursor) -> list[tuple[str, str]]:
    if cursor.peek().text == ":":
        cursor.advance()
        cursor.advance()
    cursor.expect("prefix")
    prefixes: list[tuple[str, str]] = []
    while True:
        op = cursor.name("an op").text
        prefixes.append((op, cursor.string("the prefix of the names, in quotes")))
        if not cursor.accept(","):
            return prefixes


def parse_function(source: Source, line: Line, body: list[Line]) -> syntax.Function | None:
    """`function NAME(n, args...) FORM:` and its rules, whose patterns are calls of the function."""
    head = attempt(source, line, _function_head)
    rules = parse_rules(source, body)
    if head is None:
        return None
    name, parameters, form = head
    hint = f"write a rule: `name: {name}(PATTERN) -> value`"
    require_block(source, line, body, f"the function `{name}`", hint)
    if form and (last := rule_of_form(source, name, parameters, form)) is not None:
        rules = (*rules, last)
    inner = (_function_rule(source, rule, name, parameters) for rule in rules)
    kept = tuple(rule for rule in inner if rule is not None)
    return syntax.Function(name, parameters, kept, line_span(source, line))


def _function_head(cursor: Cursor) -> tuple[str, tuple[str, ...], tuple[Token, ...]]:
    cursor.expect("function")
    name = cursor.name("the function's name").text
    parameters = parse_parameters(cursor)
    if not parameters:
        raise cursor.expected("a parameter", "the first parameter is the node that the rules match")
    form = parse_form(cursor)
    cursor.expect(":")
    return name, parameters, form


def parse_parameters(cursor: Cursor, what: str = "a parameter") -> tuple[str, ...]:
    """`(a, b)`; a trailing comma is not an error."""
    cursor.expect("(")
    names: list[str] = []
    while not cursor.at(")"):
        names.append(cursor.name(what).text)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(names)


def parse_typed_names(cursor: Cursor, what: str) -> tuple[tuple[str, str], ...]:
    """`(name: type, ...)`, where each name is `what`; a trailing comma is not an error."""
    cursor.expect("(")
    names: list[tuple[str, str]] = []
    while not cursor.at(")"):
        name = cursor.name(what).text
        cursor.expect(":", f"{what} is written `name: type`")
        kind = cursor.name("a type").text
        if cursor.accept("["):
            kind += f"[{cursor.token.text}]"
            cursor.advance()
            cursor.expect("]", "so many of them are written `ints[2]`")
        names.append((name, kind))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(names)


def _function_rule(source: Source, rule: syntax.Rule, name: str, parameters: tuple[str, ...]) -> syntax.Rule | None:
    """The rule with the pattern of the first argument; the other arguments must be the parameters."""
    written = f"{name}({', '.join(['PATTERN', *parameters[1:]])})"
    call = rule.pattern
    if not isinstance(call, syntax.Call) or call.function != name or len(call.arguments) != len(parameters):
        source.report("expected", f"expected `{written}` on the left of `->`", call.span)
        return None
    for argument, parameter in zip(call.arguments[1:], parameters[1:], strict=True):
        if not isinstance(argument, syntax.Name) or argument.name not in (parameter, "_"):
            message = f"expected the parameter `{parameter}`"
            source.report("expected", message, argument.span, "only the first argument is a pattern")
            return None
    return dataclasses.replace(rule, pattern=call.arguments[0])


def parse_pipeline(source: Source, line: Line, body: list[Line]) -> syntax.Pipeline | None:
    """`pipeline NAME:` and the names of its passes."""
    name = attempt(source, line, _pipeline_head)
    if name is None:
        return None
    require_block(source, line, body, f"the pipeline `{name}`", "write the names of its passes, one a line")
    steps: list[str] = []
    for step, continuation in group(source, body):
        steps.extend(attempt(source, joined(step, continuation), parse_names) or ())
    return syntax.Pipeline(name, tuple(steps), block_span(source, line, body))


def _pipeline_head(cursor: Cursor) -> str:
    cursor.expect("pipeline")
    name = cursor.name("the pipeline's name").text
    cursor.expect(":")
    return name
