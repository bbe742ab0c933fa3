"""Rules: `name[generics]: pattern -> template`, and the clauses below."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from rulegrad.lang import syntax
from rulegrad.lang.diagnostics import did_you_mean
from rulegrad.lang.lexer import NAME, NUMBER, Line, Source, Token, number_value
from rulegrad.lang.parser.blocks import attempt, block_span, group, join_head, joined
from rulegrad.lang.parser.cursor import Cursor, Problem
from rulegrad.lang.parser.expressions import parse_expression
from rulegrad.lang.parser.names import parse_integer
from rulegrad.lang.parser.texts import at_text, parse_text
from rulegrad.lang.walk import transformed

MOST_CHOICES = 1000  # that a `least` keeps


def parse_rules(source: Source, lines: list[Line]) -> tuple[syntax.Rule, ...]:
    """All rules of a block that can be read; problems go to the source's diagnostics."""
    rules = (parse_rule(source, line, deeper) for line, deeper in group(source, lines))
    return tuple(rule for rule in rules if rule is not None)


def parse_rule(source: Source, line: Line, deeper: list[Line]) -> syntax.Rule | None:
    """One rule and its clauses; None when its head cannot be read."""
    head, rest = join_head(line, deeper)
    return parse_rule_from(source, line, deeper, attempt(source, head, _head), rest)


def parse_rule_from(
    source: Source, line: Line, deeper: list[Line], rule: syntax.Rule | None, rest: list[Line]
) -> syntax.Rule | None:
    """A rule whose head was read from `line` (None: it cannot be), with the clauses on the lines in `rest`."""
    clauses: list[syntax.Clause] = []
    tests: list[syntax.RuleTest] = []
    for clause_line, continuation in group(source, rest):
        clause = attempt(source, joined(clause_line, continuation), _clause)
        if isinstance(clause, syntax.RuleTest):
            tests.append(clause)
        elif clause is not None:
            clauses.append(clause)
    if rule is None:
        return None
    return dataclasses.replace(
        rule,
        clauses=tuple(clauses),
        tests=tuple(tests),
        span=block_span(source, line, deeper),
        comment=comment_above(source, line.tokens[0].line),
    )


def comment_above(source: Source, line: int) -> str:
    """The comment lines right above a line, without their `#`."""
    lines: list[str] = []
    while line - 1 in source.comments:
        line -= 1
        lines.append(source.comments[line].lstrip("#").strip())
    return "\n".join(reversed(lines))


def _head(cursor: Cursor) -> syntax.Rule:
    name = cursor.name("a rule: `name: pattern -> template`")
    generics = parse_generics(cursor) if cursor.at("[") else ()
    hint = "a rule is written `name: pattern -> template`"
    if name.text == "use" and cursor.token.kind == NAME:
        hint = "`use` stands in a pass, as its first line, before its rules"
    cursor.expect(":", hint)
    pattern = parse_pattern(cursor)
    if not cursor.at("->"):
        raise cursor.expected("`->`", _arrow_hint(cursor))
    cursor.advance()
    template = parse_text(cursor) if at_text(cursor) else _template(cursor)
    span = cursor.span_from(name)
    return syntax.Rule(name.text, generics, pattern, template, (), (), span)


def parse_pattern(cursor: Cursor) -> syntax.Expression:
    """An expression where a pattern is wanted: there `not p` is a node that does not match p."""
    expression = parse_expression(cursor)
    if not any(token.text == "not" for token in cursor.tokens):
        return expression

    def negated(x: syntax.Expression) -> syntax.Expression:
        if isinstance(x, syntax.Prefix) and x.operator == "not":
            return syntax.Negation(x.span, x.operand)
        return x

    return transformed(expression, negated)


def _template(cursor: Cursor) -> syntax.Expression:
    """The right side of a rule. A guard behind it reads as the beginning of `a if c else b`."""
    try:
        return parse_expression(cursor)
    except Problem as problem:
        if cursor.at_end() and "`else`" in problem.diagnostic.message:
            hint = "a guard stands on a line of its own below: `if …`"
            raise Problem(dataclasses.replace(problem.diagnostic, hint=hint)) from None
        raise


def _arrow_hint(cursor: Cursor) -> str:
    tops = [token.text for token in cursor.tokens[: cursor.position]]
    if cursor.at("="):
        return "write `->`: a rule is written `name: pattern -> template`"
    if cursor.at_end() and ("==" in tops or ("<" in tops and "-" in tops)):
        return "a rule is written `name: pattern -> template`; `==` and `<` are parts of a pattern"
    if cursor.at(":"):
        return "a rule is written `name: pattern -> template`"
    if cursor.at_end():
        return "a long expression goes on inside brackets"
    return ""


def parse_generics(cursor: Cursor) -> tuple[syntax.Generic, ...]:
    """`[f: CLASS, T: {float16, bfloat16}, U]`."""
    cursor.expect("[")
    generics: list[syntax.Generic] = []
    while not cursor.at("]"):
        name = cursor.name("an op variable or a dtype variable")
        classes: list[str] = []
        if cursor.accept(":"):
            if cursor.accept("{"):
                while not cursor.at("}"):
                    classes.append(cursor.name("an op or a dtype").text)
                    if not cursor.accept(","):
                        break
                cursor.expect("}")
            else:
                classes.append(cursor.name("a class, or a set in braces").text)
        generics.append(syntax.Generic(name.text, tuple(classes), cursor.span_from(name)))
        if not cursor.accept(","):
            break
    cursor.expect("]")
    return tuple(generics)


def _clause(cursor: Cursor) -> syntax.Clause | syntax.RuleTest:
    first = cursor.token
    read = _CLAUSES.get(first.text) if first.kind == NAME else None
    if read is None:
        hint = did_you_mean(first.text, _CLAUSES) if first.kind == NAME else ""
        hint = hint or "a long expression goes on inside brackets"
        span = cursor.source.span(first)
        raise cursor.problem("unknown-clause", f"`{first.text}` starts no clause", span, hint)
    cursor.advance()
    return read(cursor, first)


def _expression_clause(cursor: Cursor, first: Token) -> syntax.Clause:
    expression = parse_expression(cursor)
    return syntax.Clause(first.text, cursor.span_from(first), expression=expression)


def parse_let(cursor: Cursor, first: Token) -> syntax.Clause:
    """The rest of `let NAME = EXPR` or `let (a, b) = EXPR`."""
    names: list[str] = []
    if cursor.accept("("):
        while not cursor.at(")"):
            names.append(cursor.name("a name to bind").text)
            if not cursor.accept(","):
                break
        cursor.expect(")")
    else:
        names.append(cursor.name("a name to bind").text)
    hint = "several names stand in parentheses: `let (a, b) = ...`" if cursor.at(",") else ""
    cursor.expect("=", hint)
    expression = parse_expression(cursor)
    return syntax.Clause("let", cursor.span_from(first), expression=expression, names=tuple(names))


def _for(cursor: Cursor, first: Token) -> syntax.Clause:
    """The rest of `for NAME in SEQUENCE`, `for a, b in zip(xs, ys)`."""
    names = [cursor.name("a name to bind").text]
    while cursor.accept(","):
        names.append(cursor.name("a name to bind").text)
    cursor.expect("in", "a choice is written `for x in xs`")
    expression = parse_expression(cursor)
    return syntax.Clause("for", cursor.span_from(first), expression=expression, names=tuple(names))


def _names_clause(cursor: Cursor, first: Token) -> syntax.Clause:
    names = [parse_dotted_name(cursor)]
    while cursor.accept(","):
        names.append(parse_dotted_name(cursor))
    return syntax.Clause(first.text, cursor.span_from(first), names=tuple(names))


def parse_dotted_name(cursor: Cursor) -> str:
    """`rule` or `ruleset.rule`."""
    name = cursor.name().text
    while cursor.accept("."):
        name += "." + cursor.name().text
    return name


def _text_clause(cursor: Cursor, first: Token) -> syntax.Clause:
    text = cursor.string("the reason, in quotes")
    return syntax.Clause(first.text, cursor.span_from(first), text=text)


def _bare_clause(cursor: Cursor, first: Token) -> syntax.Clause:
    return syntax.Clause(first.text, cursor.span_from(first))


def _ulp(cursor: Cursor, first: Token) -> syntax.Clause:
    if cursor.token.kind != NUMBER:
        raise cursor.expected("a number")
    token = cursor.advance()
    literal = syntax.Literal(cursor.span_from(token), number_value(token.text))
    of = parse_expression(cursor) if cursor.accept("of") else None
    return syntax.Clause("ulp", cursor.span_from(first), expression=literal, of=of)


def _least(cursor: Cursor, first: Token) -> syntax.Clause:
    """The rest of `least EXPR` or `least 4 of EXPR`."""
    most = None
    if cursor.token.kind == NUMBER and cursor.peek().text == "of":
        span, count = cursor.source.span(cursor.token), parse_integer(cursor)
        cursor.advance()
        if not 1 <= count <= MOST_CHOICES:
            message = f"`least` keeps 1 to {MOST_CHOICES} choices, not {count}"
            raise cursor.problem("bad-number", message, span)
        most = syntax.Literal(span, count)
    expression = parse_expression(cursor)
    return syntax.Clause("least", cursor.span_from(first), expression=expression, of=most)


def _test(cursor: Cursor, first: Token) -> syntax.RuleTest:
    target = _test_target(cursor)
    word = cursor.advance().text if cursor.at("fails", "fires") else ""
    left = parse_expression(cursor)
    right = None
    if not word:
        cursor.expect("->", "a test is written `test left -> right`, `test fails left` or `test fires left`")
        right = parse_expression(cursor)
    return syntax.RuleTest(left, right, cursor.span_from(first), word == "fires", target)


def _test_target(cursor: Cursor) -> str:
    """`on TARGET` or `on TARGET + FEATURE`, if a test line begins so."""
    if not cursor.at("on") or cursor.peek().kind != NAME:
        return ""
    cursor.advance()
    names = [cursor.name("a target").text]
    while cursor.accept("+"):
        names.append(cursor.name("a feature of the target").text)
    return "+".join(names)


_CLAUSES: dict[str, Callable[[Cursor, Token], syntax.Clause | syntax.RuleTest]] = {
    "if": _expression_clause,
    "let": parse_let,
    "for": _for,
    "least": _least,
    "needs": _expression_clause,
    "before": _names_clause,
    "after": _names_clause,
    "unsound": _text_clause,
    "assumes": _names_clause,
    "essential": _bare_clause,
    "fallback": _bare_clause,
    "test": _test,
    "ulp": _ulp,
}
CLAUSE_WORDS = tuple(_CLAUSES)


def parse_test_line(cursor: Cursor) -> syntax.RuleTest:
    """A `test` line below an extern."""
    first = cursor.keyword(("test",), "`test`")
    return _test(cursor, first)
