"""One-token changes of expressions: each with the new expression, and with what is to be read at its place."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rulegrad.lang import syntax
from rulegrad.lang.walk import part_names
from rulegrad.workbench.mutation.vocabulary import (
    BUILTINS,
    DIRECTED,
    FIELDS,
    LEFT_OUT,
    OPERATORS,
    Vocabulary,
    numbers_beside,
)

_MOST_NAMES = 2  # other names that are tried in the place of one


@dataclass(frozen=True, slots=True)
class Change:
    """A piece of the text of a rule file, and what takes its place; empty where it is left out."""

    span: syntax.Span
    before: str
    after: str


Changed = Iterator[tuple[Change, Any]]


class Written:
    """The text of rule files, by place."""

    def __init__(self, files: Sequence[syntax.File]) -> None:
        self._lines = {file.path: file.text.split("\n") for file in files}

    def line(self, span: syntax.Span) -> str:
        """The line in which a piece begins."""
        lines = self._lines.get(span.file, [])
        return lines[span.line - 1] if 0 < span.line <= len(lines) else ""

    def text(self, span: syntax.Span) -> str:
        """A piece as it is written, on one line."""
        if span.line == span.end_line:
            return self.line(span)[span.column : span.end_column]
        lines = self._lines.get(span.file, [])[span.line - 1 : span.end_line]
        lines = [lines[0][span.column :], *lines[1:-1], lines[-1][: span.end_column]] if lines else []
        return " ".join(line.split("#")[0].strip() for line in lines)

    def word(self, after: syntax.Span, word: str) -> syntax.Span:
        """The first place of a word behind a piece."""
        lines = self._lines.get(after.file, [])
        for number in range(after.end_line, len(lines) + 1):
            start = lines[number - 1].find(word, after.end_column if number == after.end_line else 0)
            if start >= 0:
                return syntax.Span(after.file, number, start, number, start + len(word))
        return after


@dataclass(frozen=True, slots=True)
class Place:
    """Where an expression stands. attribute: whose value it is, or is compared with."""

    pattern: bool = False
    attribute: str = ""


@dataclass(frozen=True, slots=True)
class Changer:
    """Changes expressions. names: those that are bound where they stand, each with its kind."""

    words: Vocabulary
    written: Written
    names: Mapping[str, str]
    repeated: frozenset[str] = frozenset()  # names that a pattern has more than once
    failing: bool = False  # outside patterns, what is changed becomes something that cannot be computed

    def changes(self, x: syntax.Expression, place: Place = Place()) -> Changed:  # it is immutable
        """The changes of an expression and of all that is inside it."""
        for change, new in self._here(x, place):
            yield change, failing(x) if self.failing and not place.pattern else new
        for name in part_names(type(x)):
            for change, new in self._inside(getattr(x, name), self._place(x, name, place)):
                yield change, replace(x, **{name: new})

    def _inside(self, part: object, place: Place) -> Changed:
        if isinstance(part, syntax.Expression):
            yield from self.changes(part, place)
        elif isinstance(part, tuple):
            for k, item in enumerate(part):
                for change, new in self._inside(item, place):
                    yield change, (*part[:k], new, *part[k + 1 :])

    @staticmethod
    def _place(x: syntax.Expression, part: str, place: Place) -> Place:
        """The place of what is inside."""
        match x:
            case syntax.Compute():
                return Place()
            case syntax.Attribute(name=name):
                return Place(place.pattern, name or "")
            case syntax.Infix(operator="==" | "!=" | "in" | "not-in", left=syntax.Member(name=name)) if part == "right":
                return Place(place.pattern, name)
            case syntax.Infix(operator="or") | syntax.Prefix(operator="not") | syntax.SetLiteral() if place.attribute:
                return place
        return Place(place.pattern)

    # ---- what stands in one place ----

    def _here(self, x: syntax.Expression, place: Place) -> Changed:
        match x:
            case syntax.Literal():
                yield from self._literal(x, place)
            case syntax.Name():
                yield from self._pattern_name(x) if place.pattern else self._name(x)
            case syntax.Infix():
                yield from self._infix(x, place)
            case syntax.Prefix(operand=operand):
                yield self._left_out(x, operand)
            case syntax.Negation():
                yield self._of(x, "_", syntax.Name(x.span, "_"))
            case syntax.Call():
                yield from self._call(x)
            case syntax.OpCall():
                yield from self._op_call(x, place)
            case syntax.Conditional():
                condition = self.written.text(x.condition.span)
                swapped = replace(x, then=x.otherwise, otherwise=x.then)
                yield Change(x.condition.span, condition, f"not ({condition})"), swapped
            case syntax.Comprehension(condition=syntax.Expression() as condition):
                yield self._of(condition, "", replace(x, condition=None))
            case syntax.Slice():
                yield from self._slice(x)
            case syntax.Subscript(index=syntax.Literal(value=0 | -1 as value) as index):
                other = -1 - value
                yield self._of(index, str(other), replace(x, index=syntax.Literal(index.span, other)))
            case syntax.Member(name=name):
                for field in [FIELDS[name]] if name in FIELDS else self.words.columns_beside(name):
                    span = self.written.word(x.owner.span, name)
                    yield Change(span, name, field), replace(x, name=field)
            case syntax.SetLiteral(items=items) if len(items) > 1:
                for k, item in enumerate(items):
                    yield self._of(item, "", replace(x, items=(*items[:k], *items[k + 1 :])))

    def _of(self, x: syntax.Expression, after: str, new: object) -> tuple[Change, Any]:
        return Change(x.span, self.written.text(x.span), after), new

    def _left_out(self, x: syntax.Expression, inner: syntax.Expression) -> tuple[Change, Any]:
        """A part stands in the place of the whole."""
        return self._of(x, self.written.text(inner.span), inner)

    def _literal(self, x: syntax.Literal, place: Place) -> Changed:
        value = x.value
        if isinstance(value, str):
            for text in self.words.texts_beside(place.attribute, value):
                yield self._of(x, f'"{text}"', replace(x, value=text))
        elif value is not None:
            for other in numbers_beside(value):
                yield self._of(x, str(other).lower(), replace(x, value=other))

    def _name(self, x: syntax.Name) -> Changed:
        table = self.words.table
        if x.name in self.names:
            same = [name for name, kind in self.names.items() if kind == self.names[x.name] and name != x.name]
            others = same[-_MOST_NAMES:]
        elif x.name in table.ops:
            others = self.words.ops_beside(x.name)
        else:
            others = self.words.dtypes_beside(x.name) if x.name in table.dtypes else []
        for other in others:
            yield self._of(x, other, replace(x, name=other))

    def _pattern_name(self, x: syntax.Name) -> Changed:
        """A name without its dtype; `_` where it says that two parts of the pattern are the same node."""
        if x.dtype is not None:
            yield self._of(x, f"{x.name}:const" if x.is_const else x.name, replace(x, dtype=None))
        if x.name in self.repeated:
            yield self._of(x, "_", syntax.Name(x.span, "_"))

    def _infix(self, x: syntax.Infix, place: Place) -> Changed:
        if place.attribute:  # "a" or "b", in a pattern
            return
        span = self.written.word(x.left.span, x.operator.replace("-", " ") if x.operator == "not-in" else x.operator)
        if x.operator in OPERATORS:
            other = OPERATORS[x.operator]
            yield Change(span, self.written.text(span), other.replace("not-in", "not in")), replace(x, operator=other)
        if x.operator in DIRECTED and not (place.pattern and x.operator in ("<", "<=", ">", ">=")):
            left = x.span._replace(end_line=span.line, end_column=span.column)
            right = x.span._replace(line=span.end_line, column=span.end_column)
            sides = (self.written.text(piece).strip() for piece in (right, left))
            yield self._of(x, f" {x.operator} ".join(sides), replace(x, left=x.right, right=x.left))
        if x.operator in ("and", "or"):
            yield self._of(x.left, "", x.right)
            yield self._of(x.right, "", x.left)

    def _call(self, x: syntax.Call) -> Changed:
        table, name = self.words.table, x.function
        head = syntax.Span(x.span.file, x.span.line, x.span.column, x.span.line, x.span.column + len(name))
        if name in BUILTINS:
            yield Change(head, name, BUILTINS[name]), replace(x, function=BUILTINS[name])
        elif name in table.by_function_name:
            for other in self.words.ops_beside(table.by_function_name[name]):
                yield Change(head, name, other.lower()), replace(x, function=other.lower())
        elif name == "ceildiv":
            a, b = x.arguments
            text = f"{self.written.text(a.span)} // {self.written.text(b.span)}"
            yield self._of(x, text, syntax.Infix(x.span, "//", a, b))
        elif name in LEFT_OUT:
            yield self._left_out(x, x.arguments[0])
        op = table.by_function_name.get(name)
        if name not in BUILTINS and not (op is not None and table.ops[op].commutative):
            yield from self._arguments_swapped(x, x.arguments, name not in _NOT_SWAPPED)

    def _arguments_swapped(self, x: Any, arguments: Sequence[syntax.Expression], wanted: bool = True) -> Changed:
        """Neighbours among the arguments in each other's place; sequences stay."""
        for k, (a, b) in enumerate(itertools.pairwise(arguments)):
            left, right = self.written.text(a.span), self.written.text(b.span)
            stays = (syntax.Splice, syntax.Attribute)  # and those that have names
            if wanted and left != right and not isinstance(a, stays) and not isinstance(b, stays):
                span = a.span._replace(end_line=b.span.end_line, end_column=b.span.end_column)
                new = (*arguments[:k], b, a, *arguments[k + 2 :])
                yield Change(span, self.written.text(span), f"{right}, {left}"), replace(x, arguments=new)

    def _op_call(self, x: syntax.OpCall, place: Place) -> Changed:
        table = self.words.table
        if x.op in table.ops:
            head = syntax.Span(x.span.file, x.span.line, x.span.column, x.span.line, x.span.column + len(x.op))
            for other in self.words.ops_beside(x.op):
                yield Change(head, x.op, other), replace(x, op=other)
        if x.op in table.ops and not table.ops[x.op].commutative:
            yield from self._arguments_swapped(x, x.arguments)
        copies = any(a.name == ".." for a in x.attributes)
        for k, attribute in enumerate(x.attributes):
            asks = place.pattern and not isinstance(attribute.value, syntax.Name)
            if asks or (copies and attribute.name != ".."):
                others = (*x.attributes[:k], *x.attributes[k + 1 :])
                yield self._of(attribute, "", replace(x, attributes=others))

    def _slice(self, x: syntax.Slice) -> Changed:
        """Bounds one further, where they are not literals: those are changed as numbers."""
        sequence = self.written.text(x.sequence.span)
        one = syntax.Literal(x.span, 1)
        start, stop = (self.written.text(y.span) if y is not None else "" for y in (x.start, x.stop))
        if x.start is None:
            yield self._of(x, f"{sequence}[1:{stop}]", replace(x, start=one))
        elif not isinstance(x.start, syntax.Literal):
            yield self._of(x.start, f"{start} + 1", replace(x, start=syntax.Infix(x.span, "+", x.start, one)))
        if x.stop is None:
            yield self._of(x, f"{sequence}[{start}:-1]", replace(x, stop=syntax.Literal(x.span, -1)))
        elif not isinstance(x.stop, syntax.Literal):
            yield self._of(x.stop, f"{stop} - 1", replace(x, stop=syntax.Infix(x.span, "-", x.stop, one)))


def failing(x: syntax.Expression) -> syntax.Expression:
    """An expression that can never be computed, in the place of another."""
    one, zero = syntax.Literal(x.span, 1), syntax.Literal(x.span, 0)
    return syntax.Compute(x.span, syntax.Infix(x.span, "//", one, zero))


#: Built-in functions whose arguments are of different kinds, or which treat all alike.
_NOT_SWAPPED = frozenset(
    ("src", "attr", "is_op", "contains", "identity", "eval", "convert", "fits", "bitcast", "rewritten", "given", "gcd",
     "residue", "slot", "quotient_sum", "split_sum", "split_sum_below")
)  # fmt: skip
