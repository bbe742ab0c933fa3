"""Expressions: patterns, templates, guards and the op table share one grammar, read by precedence climbing.

From loosest to tightest: `a if c else b`; `or`; `and`; `not`; comparisons and `in`; `|`; `^`; `&`; shifts;
`+ -`; `* / // %`; `-x ~x`; `**`; calls, brackets, members and `name@pattern`.
"""

from __future__ import annotations

import re

from rulegrad.lang import syntax
from rulegrad.lang.lexer import NAME, NUMBER, STRING, SYMBOL, Token, number_value
from rulegrad.lang.parser.cursor import COMPARES, Cursor
from rulegrad.lang.parser.names import parse_annotated
from rulegrad.lang.steps import Step, StepGroup, Steps, StepValue, StepWord

MAX_DEPTH = 40
MAX_OPERATORS = 250

_COMPARISON = 4
_UNARY = 11
_BINARY: dict[str, int] = {
    "or": 1, "and": 2,
    "in": _COMPARISON, "not": _COMPARISON, "==": _COMPARISON, "!=": _COMPARISON,
    "<": _COMPARISON, "<=": _COMPARISON, ">": _COMPARISON, ">=": _COMPARISON,
    "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10, "**": 12,
}  # fmt: skip
_NOT = 3
_TIGHTEST = 13  # above every infix operator: the operand of `n@`
LITERALS: dict[str, bool | float | None] = {
    "true": True,
    "false": False,
    "none": None,
    "inf": float("inf"),
    "nan": float("nan"),
}
WORDS = {"if", "else", "and", "or", "not", "in", "for"}
_MULTISETS = ("sum", "prod", "all")
_CAPITALS = re.compile(r"[A-Z][A-Z0-9_]*")


def parse_expression(cursor: Cursor, annotations: bool = True) -> syntax.Expression:
    """One expression. `annotations`: whether `x:T` may be written (not in slices and text fields)."""
    first = cursor.token
    _enter(cursor, first)
    expression = _binary(cursor, 1, annotations)
    if cursor.at("if"):
        # `if` after an expression may also be a comprehension's condition: its caller reads that one
        cursor.advance()
        condition = _binary(cursor, 1, annotations)
        cursor.expect("else", COMPARES if cursor.at("=") else "a guard stands on a line of its own below: `if …`")
        otherwise = parse_expression(cursor, annotations)
        expression = syntax.Conditional(cursor.span_from(first), condition, expression, otherwise)
    cursor.depth -= 1
    return expression


def _enter(cursor: Cursor, first: Token) -> None:
    cursor.depth += 1
    if cursor.depth > MAX_DEPTH:
        raise _too_deep(cursor, first, f"more than {MAX_DEPTH} levels of nesting")


def _count(cursor: Cursor, first: Token) -> None:
    cursor.operators += 1
    if cursor.operators > MAX_OPERATORS:
        raise _too_deep(cursor, first, f"more than {MAX_OPERATORS} operators in one line")


def _too_deep(cursor: Cursor, token: Token, message: str) -> Exception:
    return cursor.problem("too-deep", message, cursor.source.span(token), "name parts with `let` or `def`")


def _binary(cursor: Cursor, lowest: int, annotations: bool) -> syntax.Expression:
    first = cursor.token
    left = _prefix(cursor, annotations)
    while True:
        token = cursor.token
        precedence = _BINARY.get(token.text, 0) if token.kind in (SYMBOL, NAME) else 0
        if precedence < lowest or (token.text == "not" and cursor.peek().text != "in"):
            return left
        _count(cursor, token)
        operator = _operator(cursor)
        # `**` groups to the right, all others to the left
        right_lowest = _UNARY if operator == "**" else precedence + 1
        if operator in ("in", "not-in") and cursor.at("{"):
            right = _set_literal(cursor)
        else:
            right = _operand(cursor, right_lowest, annotations)
        left = syntax.Infix(cursor.span_from(first), operator, left, right)
        if precedence == _COMPARISON and _BINARY.get(cursor.token.text) == _COMPARISON:
            _refuse_chain(cursor, operator)


def _operator(cursor: Cursor) -> str:
    text = cursor.advance().text
    if text == "not":
        cursor.advance()
        return "not-in"
    return text


def _operand(cursor: Cursor, lowest: int, annotations: bool) -> syntax.Expression:
    _enter(cursor, cursor.token)
    operand = _binary(cursor, lowest, annotations)
    cursor.depth -= 1
    return operand


def _refuse_chain(cursor: Cursor, operator: str) -> None:
    if cursor.token.kind in (SYMBOL, NAME) and not (cursor.at("not") and cursor.peek().text != "in"):
        message = f"`{cursor.token.text}` after `{operator}`: comparisons do not chain"
        span = cursor.source.span(cursor.token)
        hint = "write `a < b and b < c`, or use parentheses"
        raise cursor.problem("chained-comparison", message, span, hint)


def _prefix(cursor: Cursor, annotations: bool) -> syntax.Expression:
    token = cursor.token
    if token.kind == SYMBOL and token.text in ("-", "~"):
        cursor.advance()
        operand = _operand(cursor, _UNARY, annotations)
        if token.text == "-" and isinstance(operand, syntax.Literal) and _is_number(operand.value):
            return syntax.Literal(cursor.span_from(token), -operand.value)  # type: ignore[operator]
        return syntax.Prefix(cursor.span_from(token), token.text, operand)
    if token.kind == NAME and token.text == "not":
        cursor.advance()
        return syntax.Prefix(cursor.span_from(token), "not", _operand(cursor, _NOT, annotations))
    if token.kind == NAME and token.text == "ordered" and _starts_operand(cursor.peek()):
        return _ordered(cursor, annotations)
    return _postfix(cursor, token, _primary(cursor, annotations))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _starts_operand(token: Token) -> bool:
    if token.kind == NAME:
        return token.text not in WORDS
    return token.kind == NUMBER or token.text in ("(", "-", "~")


def _ordered(cursor: Cursor, annotations: bool) -> syntax.Expression:
    first = cursor.advance()
    inner = _operand(cursor, _COMPARISON, annotations)
    if not isinstance(inner, syntax.Infix):
        message = "`ordered` stands before an infix operation"
        raise cursor.problem("expected", message, inner.span, "write `ordered a + b`")
    return syntax.Infix(cursor.span_from(first), inner.operator, inner.left, inner.right, ordered=True)


def _multiset(cursor: Cursor, kind: Token, annotations: bool) -> syntax.Expression:
    """The rest of `sum{a, b, rest...}`."""
    cursor.expect("{")
    items, _ = _items(cursor, "}", annotations, splice=True)
    cursor.expect("}")
    return syntax.Multiset(cursor.span_from(kind), kind.text, items)


def _substitution(cursor: Cursor, first: Token, annotations: bool) -> syntax.Expression:
    """The rest of `subst(e, a -> b, c -> d)`."""
    cursor.expect("(")
    inner = parse_expression(cursor, annotations)
    pairs: list[tuple[syntax.Expression, syntax.Expression]] = []
    while cursor.accept(","):
        replaced = parse_expression(cursor, annotations)
        cursor.expect("->", "a substitution is written `subst(e, a -> b)`")
        pairs.append((replaced, parse_expression(cursor, annotations)))
    if not pairs:
        raise cursor.expected("`,`", "a substitution is written `subst(e, a -> b)`")
    cursor.expect(")")
    return syntax.Substitution(cursor.span_from(first), inner, tuple(pairs))


def _fold(cursor: Cursor, first: Token, annotations: bool) -> syntax.Expression:
    """The rest of `fold[f](xs)`."""
    hint = "a chain is written `fold[f](xs)`"
    cursor.expect("[", hint)
    op = parse_expression(cursor, annotations=False)
    cursor.expect("]")
    cursor.expect("(", hint)
    items, _ = _items(cursor, ")", annotations)
    cursor.expect(")")
    if len(items) != 1 or isinstance(items[0], syntax.Splice):
        raise cursor.problem("wrong-argument-count", "`fold` takes one sequence", cursor.span_from(first), hint)
    return syntax.Fold(cursor.span_from(first), op, items[0])


def parse_primary(cursor: Cursor) -> syntax.Expression:
    """A literal, a name, a call, or something in brackets: an expression without operators."""
    return _primary(cursor, annotations=False)


def _primary(cursor: Cursor, annotations: bool) -> syntax.Expression:
    token = cursor.token
    if token.kind == NAME and token.text not in WORDS:
        return _name(cursor, annotations)
    if token.kind == NUMBER:
        cursor.advance()
        return syntax.Literal(cursor.span_from(token), number_value(token.text))
    if token.kind == STRING:
        text = cursor.string()
        return syntax.Literal(cursor.span_from(token), text)
    if cursor.at("("):
        return _parenthesised(cursor, annotations)
    if cursor.at("["):
        cursor.advance()
        items, _ = _items(cursor, "]", annotations)
        cursor.expect("]")
        return syntax.Sequence(cursor.span_from(token), items)
    if cursor.at("{"):
        cursor.advance()
        inner = parse_expression(cursor)
        cursor.expect("}")
        return syntax.Compute(cursor.span_from(token), inner)
    raise cursor.expected("an expression")


def _name(cursor: Cursor, annotations: bool) -> syntax.Expression:
    token = cursor.advance()
    if token.text in LITERALS:
        return syntax.Literal(cursor.span_from(token), LITERALS[token.text])
    opener = cursor.token.text if cursor.token.kind == SYMBOL else ""
    if opener == "@":
        cursor.advance()
        pattern = _operand(cursor, _TIGHTEST, annotations)
        return syntax.Capture(cursor.span_from(token), token.text, pattern)
    if opener == "{" and token.text in _MULTISETS:
        return _multiset(cursor, token, annotations)
    if opener in ("[", "(") and token.text == "fold":
        return _fold(cursor, token, annotations)
    if opener == "{" and token.text == "steps":
        return _steps(cursor, token)
    if opener == "(" and token.text == "subst":
        return _substitution(cursor, token, annotations)
    if opener == "(":
        return _call(cursor, token, (), annotations)
    if opener == "[" and (_CAPITALS.fullmatch(token.text) or _call_follows(cursor)):
        attributes = _attributes(cursor)
        return _call(cursor, token, attributes, annotations)
    if token.text == "one" and cursor.token.kind == NAME and cursor.token.text not in WORDS:
        name = cursor.advance()
        return parse_annotated(cursor, token, name.text, annotations, one=True)
    return parse_annotated(cursor, token, token.text, annotations)


def _call_follows(cursor: Cursor) -> bool:
    """At `[`: whether `(` stands right after its closing bracket, as in `f[..n](xs...)`."""
    depth = 0
    for index in range(cursor.position, len(cursor.tokens)):
        token = cursor.tokens[index]
        if token.kind != SYMBOL:
            continue
        if token.text in "([{":
            depth += 1
        elif token.text in ")]}":
            depth -= 1
            if depth == 0:
                following = cursor.tokens[index + 1]
                return following.text == "(" and following.kind == SYMBOL
    return False


def _call(
    cursor: Cursor, name: Token, attributes: tuple[syntax.Attribute, ...], annotations: bool
) -> syntax.Expression:
    is_op = bool(attributes) or cursor.previous.text == "]" or _CAPITALS.fullmatch(name.text) is not None
    cursor.expect("(", f"an op's sources: `{name.text}[...](...)`" if is_op else "")
    arguments, _ = _items(cursor, ")", annotations, splice=True, named=not is_op)
    cursor.expect(")")
    span = cursor.span_from(name)
    if is_op:
        arguments = tuple(syntax.Splice(a.span, a) if isinstance(a, Steps) else a for a in arguments)
        return syntax.OpCall(span, name.text, attributes, arguments)
    return syntax.Call(span, name.text, arguments)


def _attributes(cursor: Cursor) -> tuple[syntax.Attribute, ...]:
    cursor.expect("[")
    attributes: list[syntax.Attribute] = []
    while not cursor.at("]"):
        first = cursor.token
        attribute = _named(cursor, annotations=False)
        if attribute is None:
            value = parse_expression(cursor)
            attribute = syntax.Attribute(cursor.span_from(first), None, value)
        attributes.append(attribute)
        if not cursor.accept(","):
            break
    cursor.expect("]")
    return tuple(attributes)


def _named(cursor: Cursor, annotations: bool) -> syntax.Attribute | None:
    """`k=v` or `..n`, if one stands here."""
    first = cursor.token
    if cursor.accept(".."):
        copied = cursor.name("the node or the record that is copied")
        if cursor.at(".", "(", "["):
            message = f"`..{copied.text}` copies what has a name"
            raise cursor.problem("expected", message, cursor.span_from(first), "give what is copied a name by a `let`")
        value: syntax.Expression = syntax.Name(cursor.source.span(copied), copied.text)
        return syntax.Attribute(cursor.span_from(first), "..", value)
    if first.kind != NAME or cursor.peek().text != "=":
        return None
    cursor.advance()
    cursor.advance()
    value = parse_expression(cursor, annotations)
    return syntax.Attribute(cursor.span_from(first), first.text, value)


def parse_attributes(cursor: Cursor) -> tuple[syntax.Attribute, ...]:
    """`[k=v, ...]` if it is here, else nothing (priorities of an order pass)."""
    return _attributes(cursor) if cursor.at("[") else ()


def _set_literal(cursor: Cursor) -> syntax.Expression:
    first = cursor.expect("{")
    items, _ = _items(cursor, "}", annotations=False)
    cursor.expect("}")
    return syntax.SetLiteral(cursor.span_from(first), items)


def _parenthesised(cursor: Cursor, annotations: bool) -> syntax.Expression:
    first = cursor.expect("(")
    items, comma = _items(cursor, ")", annotations)
    cursor.expect(")")
    if len(items) == 1 and not comma and not isinstance(items[0], (syntax.Comprehension, syntax.Splice)):
        return items[0]
    return syntax.Sequence(cursor.span_from(first), items)


def _items(
    cursor: Cursor, closing: str, annotations: bool, splice: bool = False, named: bool = False
) -> tuple[tuple[syntax.Expression, ...], bool]:
    """The items up to a closing bracket, and whether there was a comma.

    `splice`: a comprehension in parentheses is one without, as among a call's arguments. `named`: they may have names.
    """
    items: list[syntax.Expression] = []
    comma = False
    while not cursor.at(closing):
        parenthesised = cursor.at("(")
        item = (_named(cursor, annotations) if named else None) or _item(cursor, annotations)
        if splice and parenthesised and isinstance(item, syntax.Sequence) and len(item.items) == 1:
            inner = item.items[0]
            item = inner if isinstance(inner, syntax.Comprehension) else item
        items.append(item)
        if not cursor.accept(","):
            break
        comma = True
    if not cursor.at(closing):
        raise cursor.expected(f"`,` or `{closing}`")
    return tuple(items), comma


def _item(cursor: Cursor, annotations: bool) -> syntax.Expression:
    """An expression, `xs...`, `(pattern)...`, or a comprehension over one of these."""
    first = cursor.token
    expression = parse_expression(cursor, annotations)
    if cursor.accept("..."):
        expression = syntax.Splice(cursor.span_from(first), expression)
    if not cursor.at("for"):
        return expression
    variables, iterable = _loop(cursor, annotations)
    condition = parse_expression(cursor, annotations) if cursor.accept("if") else None
    return syntax.Comprehension(cursor.span_from(first), expression, variables, iterable, condition)


def _loop(cursor: Cursor, annotations: bool) -> tuple[tuple[str, ...], syntax.Expression]:
    """`for a, b in sequence`."""
    cursor.expect("for")
    variables = [cursor.name("a variable").text]
    while cursor.accept(","):
        variables.append(cursor.name("a variable").text)
    cursor.expect("in")
    # no conditional expression here: `if` begins the comprehension's own condition
    return tuple(variables), _operand(cursor, 1, annotations)


def _steps(cursor: Cursor, first: Token) -> Steps:
    """The rest of `steps {split i0 by 8; unroll i0.inner}`."""
    cursor.expect("{")
    steps = parse_steps(cursor)
    cursor.expect("}")
    return Steps(cursor.span_from(first), steps)


def parse_steps(cursor: Cursor) -> tuple[Step, ...]:
    """Steps with `;` between them, up to a `}` or the end."""
    steps = []
    while not (cursor.at("}") or cursor.at_end()):
        steps.append(_step(cursor))
        if not cursor.accept(";"):
            break
    if not (cursor.at("}") or cursor.at_end()):
        raise cursor.expected("`;` between two steps")
    return tuple(steps)


def _step(cursor: Cursor) -> Step:
    first = cursor.token
    items: list[syntax.Expression] = []
    while not cursor.at(";", "}", "for", "if") and not cursor.at_end():
        items.append(_step_item(cursor))
    if not items:
        raise cursor.expected("a step, such as `split i0 by 8`")
    variables, iterable = _loop(cursor, False) if cursor.at("for") else ((), None)
    condition = parse_expression(cursor, annotations=False) if cursor.accept("if") else None
    return Step(cursor.span_from(first), tuple(items), variables, iterable, condition)


def _step_item(cursor: Cursor) -> syntax.Expression:
    """A comma, a group in parentheses, or parts that dots join."""
    first = cursor.token
    if cursor.accept(","):
        return StepWord(cursor.span_from(first), ",")
    if cursor.accept("("):
        items = [_step_item(cursor)]
        while cursor.accept(","):
            items.append(_step_item(cursor))
        cursor.expect(")")
        return StepGroup(cursor.span_from(first), tuple(items))
    parts = [_step_part(cursor)]
    while cursor.accept("."):
        parts.append(_step_part(cursor))
    return StepValue(cursor.span_from(first), tuple(parts))


def _step_part(cursor: Cursor) -> syntax.Expression:
    first = cursor.token
    if first.kind == NAME:
        cursor.advance()
        return StepWord(cursor.span_from(first), first.text)
    if first.kind in (NUMBER, STRING):
        return parse_primary(cursor)
    if not cursor.accept("{"):
        raise cursor.expected("a word, a loop, a number or `{expression}`")
    inner = parse_expression(cursor)
    if cursor.accept("..."):
        inner = syntax.Splice(cursor.span_from(first), inner)
    cursor.expect("}")
    return syntax.Compute(cursor.span_from(first), inner)


def _postfix(cursor: Cursor, first: Token, expression: syntax.Expression) -> syntax.Expression:
    while cursor.at("[", "."):
        _count(cursor, cursor.token)
        if cursor.accept("."):
            name = cursor.name("the name of an attribute").text
            expression = syntax.Member(cursor.span_from(first), expression, name)
        else:
            expression = _subscript(cursor, first, expression)
    return expression


def _subscript(cursor: Cursor, first: Token, sequence: syntax.Expression) -> syntax.Expression:
    cursor.expect("[")
    start = None if cursor.at(":") else parse_expression(cursor, annotations=False)
    if not cursor.accept(":"):
        cursor.expect("]")
        if start is None:
            raise cursor.expected("an index")
        return syntax.Subscript(cursor.span_from(first), sequence, start)
    stop = None if cursor.at("]") else parse_expression(cursor, annotations=False)
    cursor.expect("]")
    return syntax.Slice(cursor.span_from(first), sequence, start, stop)
