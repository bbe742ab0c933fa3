"""Steps as they are written, read by the forms of the op table: the nodes that they stand for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NoReturn

from rulegrad.errors import RuleError
from rulegrad.lang import syntax
from rulegrad.lang.diagnostics import Diagnostic, did_you_mean
from rulegrad.lang.lexer import Source, tokenize
from rulegrad.lang.parser.cursor import Cursor, Problem
from rulegrad.lang.parser.expressions import parse_steps
from rulegrad.lang.step_text import KINDS, Attribute, Form
from rulegrad.lang.steps import Step, StepGroup, Steps, StepValue, StepWord
from rulegrad.lang.walk import expressions_in


class StepError(Exception):
    """A step that no form reads; the diagnostic lacks its line."""

    def __init__(self, message: str, span: syntax.Span, hint: str = "") -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic("bad-step", message, span, hint)


def as_sequence(steps: Steps, forms: Mapping[str, Form]) -> syntax.Sequence:
    """The sequence of nodes that quoted steps are. Raises StepError."""
    return syntax.Sequence(steps.span, tuple(_included(step, node_of(step, forms)) for step in steps.steps))


def _included(step: Step, node: syntax.Expression) -> syntax.Expression:
    """The step for each item of its loop, where its condition holds."""
    if step.iterable is None and step.condition is None:
        return node
    once = syntax.Sequence(step.span, (syntax.Literal(step.span, 0),))
    return syntax.Comprehension(step.span, node, step.variables or ("_",), step.iterable or once, step.condition)


def node_of(step: Step, forms: Mapping[str, Form]) -> syntax.Expression:
    """The node of one step, or the splice of steps that are said elsewhere. Raises StepError."""
    first = step.items[0]
    inner = _computed(first)
    if isinstance(inner, syntax.Splice) and len(step.items) == 1:
        return inner
    word = _word(first)
    form = forms.get(word)
    if form is None:
        hint = did_you_mean(word, forms) if word else ""
        hint = hint or "a step begins with one of " + ", ".join(forms)
        shown = f"there is no step `{word}`" if word else "a step begins with a word, or is `{steps...}`"
        raise StepError(shown, first.span, hint)
    return _Reader(step, form).node()


def parse_schedule(text: str, forms: Mapping[str, Form]) -> list[tuple[str, dict[str, Any]]]:
    """The ops and attributes of steps that a text says. Raises RuleError, with the place in the text.

    >>> forms = {"split": Form("SPLIT", "split {loop} by {by}", (Attribute("loop", "tuple", True, None, ()),
    ...                                                          Attribute("by", "int", True, None, ())))}
    >>> parse_schedule("split i0.inner by 8", forms)
    [('SPLIT', {'loop': ('i0', 'inner'), 'by': 8})]
    """
    text = text.replace("\n", " ")
    try:
        steps = _parsed(text)
        nodes = [node_of(step, forms) for step in steps]
        for step in steps:
            _refuse_expressions(step)
    except (Problem, StepError) as error:
        found = dataclasses.replace(error.diagnostic, source_line=text)
        raise RuleError(str(found), (found,)) from None
    return [(n.op, {str(a.name): _value(a.value) for a in n.attributes}) for n in nodes if isinstance(n, syntax.OpCall)]


def _parsed(text: str) -> tuple[Step, ...]:
    """The steps of a text on one line. Raises Problem."""
    source = Source("schedule", "{" + text + "}")  # inside braces `;` is a sign
    tokens = tokenize(source)[0].tokens
    for found in source.diagnostics:
        column = found.span.column - 1
        span = found.span._replace(column=column, end_column=max(found.span.end_column - 1, column + 1))
        raise Problem(dataclasses.replace(found, span=span))
    if len(tokens) == 2:
        return ()
    cursor = Cursor(Source("schedule", text), [t._replace(column=t.column - 1) for t in tokens[1:-1]])
    steps = parse_steps(cursor)
    cursor.end()
    return steps


def _refuse_expressions(step: Step) -> None:
    """A text has no names that an expression could be of."""
    for x in expressions_in(step):
        if isinstance(x, syntax.Compute | syntax.Splice) or (x is step and (step.iterable or step.condition)):
            raise StepError("an expression stands in the steps of rule files only", x.span, "write its value")


def _value(x: syntax.Expression) -> Any:
    return tuple(map(_value, x.items)) if isinstance(x, syntax.Sequence) else getattr(x, "value", None)


def _computed(item: syntax.Expression) -> syntax.Expression | None:
    """The expression in braces that an item is, if it is one."""
    if isinstance(item, StepValue) and len(item.parts) == 1 and isinstance(item.parts[0], syntax.Compute):
        return item.parts[0].inner
    return None


def _word(item: syntax.Expression | None) -> str:
    """The single word, or the comma, that an item is; "" for any other."""
    if isinstance(item, StepValue) and len(item.parts) == 1:
        item = item.parts[0]
    return item.text if isinstance(item, StepWord) else ""


class _Reader:
    """Reads one step by its form, from left to right."""

    def __init__(self, step: Step, form: Form) -> None:
        self.step = step
        self.form = form
        self.at = 0

    def node(self) -> syntax.OpCall:
        pieces, number = self.form.pieces, 0
        attributes: list[syntax.Attribute] = []
        while number < len(pieces):
            piece = pieces[number]
            if piece.word and _word(self.item) != piece.word and self.form.may_be_left_out(number):
                number += 2
                continue
            if piece.word:
                self.expect(piece.word)
            elif (attribute := self.form.attribute(piece.field)) is not None:
                value = self.several() if piece.several else self.value(attribute)
                attributes.append(syntax.Attribute(value.span, piece.field, value))
            number += 1
        if self.item is not None:
            self.refuse("the end of the step", "`;` stands between two steps")
        return syntax.OpCall(self.step.span, self.form.op, tuple(attributes), ())

    @property
    def words(self) -> list[str]:
        """The words of the form that stand between fields."""
        return [piece.word for piece in self.form.pieces[1:] if piece.word not in ("", ",")]

    @property
    def item(self) -> syntax.Expression | None:
        return self.step.items[self.at] if self.at < len(self.step.items) else None

    def refuse(self, wanted: str, hint: str = "") -> NoReturn:
        """Raises StepError for an item that is not what is wanted, or for a missing one."""
        item = self.item
        if item is None:
            span = self.step.items[-1].span
            message = f"the step `{self.form.keyword}` ends where {wanted} is wanted"
        else:
            found = _word(item)
            span, message = item.span, f"expected {wanted}" + (f", found `{found}`" if found else "")
        if not hint and item is not None and _word(item):
            hint = did_you_mean(_word(item), self.words)
        raise StepError(message, span, hint or f"the step is written `{self.form.text}`")

    def expect(self, word: str) -> None:
        if _word(self.item) != word:
            self.refuse(f"`{word}`")
        self.at += 1

    def value(self, attribute: Attribute) -> syntax.Expression:
        """The value of one field."""
        item = self.item
        if not isinstance(item, StepValue):
            self.refuse(KINDS.get(attribute.type, "a value"))
        found = _path(item) if attribute.type == "tuple" else _plain(item, attribute)
        if found is None:
            self.refuse(KINDS.get(attribute.type, "a value"))
        if attribute.values and isinstance(found, syntax.Literal) and found.value not in attribute.values:
            hint = did_you_mean(str(found.value), attribute.values) or "one of " + ", ".join(attribute.values)
            raise StepError(f"`{attribute.name}` is never `{found.value}`", found.span, hint)
        self.at += 1
        return found

    def several(self) -> syntax.Sequence:
        """The loops of a field with commas between them, or none; `{loops...}` is several."""
        first, found = self.item, list[syntax.Expression]()
        if first is None or _word(first) in self.words:
            return syntax.Sequence(self.step.span, ())
        while True:
            item = self.item
            one = _one_of_several(item) if item is not None else None
            if one is None or item is None:
                self.refuse("a loop")
            found.append(one)
            self.at += 1
            if _word(self.item) != ",":
                return syntax.Sequence(_from(first.span, item.span), tuple(found))
            self.at += 1


def _from(first: syntax.Span, last: syntax.Span) -> syntax.Span:
    return syntax.Span(first.file, first.line, first.column, last.end_line, last.end_column)


def _one_of_several(item: syntax.Expression) -> syntax.Expression | None:
    """A path, `{paths...}`, or a group of paths and numbers."""
    inner = _computed(item)
    if isinstance(inner, syntax.Splice):
        return inner
    if not isinstance(item, StepGroup):
        return _path(item)
    parts = [_path(part) or _number(part) for part in item.items]
    return syntax.Sequence(item.span, tuple(p for p in parts if p is not None)) if None not in parts else None


def _path(item: syntax.Expression) -> syntax.Expression | None:
    """`i0.inner` as the path that it is; `{path}.inner` is the path in braces and more."""
    if not isinstance(item, StepValue):
        return None
    first, rest = item.parts[0], item.parts[1:]
    words = [part for part in item.parts if isinstance(part, StepWord)]
    if isinstance(first, StepWord):
        if len(words) < len(item.parts):
            return None
        return _names(item.span, words)
    if not isinstance(first, syntax.Compute) or isinstance(first.inner, syntax.Splice) or len(words) < len(rest):
        return None
    return syntax.Infix(item.span, "+", first, _names(item.span, words)) if rest else first


def _names(span: syntax.Span, words: list[StepWord]) -> syntax.Sequence:
    return syntax.Sequence(span, tuple(syntax.Literal(word.span, word.text) for word in words))


def _plain(item: StepValue, attribute: Attribute) -> syntax.Expression | None:
    """A number, a word, or what is computed in braces."""
    if len(item.parts) != 1:
        return None
    part = item.parts[0]
    if isinstance(part, syntax.Compute):
        return None if isinstance(part.inner, syntax.Splice) else part
    if attribute.type == "str":
        return syntax.Literal(part.span, part.text) if isinstance(part, StepWord) else None
    return _number(item)


def _number(item: syntax.Expression) -> syntax.Expression | None:
    part = item.parts[0] if isinstance(item, StepValue) and len(item.parts) == 1 else None
    is_number = isinstance(part, syntax.Literal) and isinstance(part.value, int) and not isinstance(part.value, bool)
    return part if is_number else None
