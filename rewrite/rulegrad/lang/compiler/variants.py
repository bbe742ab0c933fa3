"""`p or q` and `maybe`: a rule with them stands for several without."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from rulegrad.lang import syntax
from rulegrad.lang.compiler.scope import problem
from rulegrad.lang.walk import expressions_in, same_wrapper, transformed

# Which of a pattern's `maybe`s are there: equal ones are there together.
Choices = tuple[tuple[syntax.Expression, bool], ...]
_MOST_COMBINED = 1024  # before those are left out in which equal `maybe`s differ


@dataclass(frozen=True, slots=True)
class Typed(syntax.Expression):
    """A pattern whose node also has a dtype: what is left of `maybe CAST[T](pattern)` where there is no cast."""

    pattern: syntax.Expression
    dtype: str


def variants(rule: syntax.Rule) -> Iterator[syntax.Rule]:
    """The rules without `or` and `maybe` in their patterns that a rule stands for, in the order of its alternatives."""
    if not _has_choice(rule.pattern):
        yield rule
        return
    for pattern, choices in expanded(rule.pattern):
        clauses = tuple(
            dataclasses.replace(c, expression=_decided(c.expression, choices)) if c.expression is not None else c
            for c in rule.clauses
        )
        template = _decided(rule.template, choices)
        yield dataclasses.replace(rule, pattern=pattern, template=template, clauses=clauses)


def expanded(x: syntax.Expression) -> list[tuple[syntax.Expression, Choices]]:
    """The patterns that a pattern stands for. What is in a negation or an attribute is not a choice."""
    if not _has_choice(x):
        return [(x, ())]
    match x:
        case syntax.Infix(operator="or"):
            return expanded(x.left) + expanded(x.right)
        case syntax.Maybe():
            return _with_or_without(x)
        case syntax.Infix():
            return [
                (dataclasses.replace(x, left=left, right=right), choices)
                for (left, right), choices in _together((x.left, x.right))
            ]
        case syntax.OpCall() | syntax.Call():
            return [(dataclasses.replace(x, arguments=parts), choices) for parts, choices in _together(x.arguments)]
        case syntax.Multiset():
            return [(dataclasses.replace(x, items=parts), choices) for parts, choices in _together(x.items)]
        case syntax.Prefix():
            return [(dataclasses.replace(x, operand=p), choices) for (p,), choices in _together((x.operand,))]
        case syntax.Capture():
            return [(dataclasses.replace(x, pattern=p), choices) for (p,), choices in _together((x.pattern,))]
    return [(x, ())]


def _has_choice(x: syntax.Expression) -> bool:
    return any(
        isinstance(y, syntax.Maybe) or (isinstance(y, syntax.Infix) and y.operator == "or") for y in expressions_in(x)
    )


def _with_or_without(x: syntax.Maybe) -> list[tuple[syntax.Expression, Choices]]:
    wrapped = x.wrapped
    assert isinstance(wrapped, (syntax.OpCall, syntax.Call))
    found: list[tuple[syntax.Expression, Choices]] = []
    for there in (True, False):
        for parts, choices in _together(wrapped.arguments if there else wrapped.arguments[:1]):
            own = _agreed((((wrapped, there),), choices))
            if own is None:
                continue
            if there:
                found.append((dataclasses.replace(wrapped, arguments=parts), own))
            else:
                dtype = dtype_of_maybe(x)
                found.append((parts[0] if dtype is None else Typed(x.span, parts[0], dtype), own))
    return found


def dtype_of_maybe(x: syntax.Maybe) -> str | None:
    """The T of `maybe CAST[T](...)`: where the op is not there, it is the dtype of what would be its source."""
    if isinstance(x.wrapped, syntax.OpCall):
        for attribute in x.wrapped.attributes:
            if attribute.name in (None, "dtype") and isinstance(attribute.value, syntax.Name):
                return attribute.value.name
    return None


def _together(
    parts: tuple[syntax.Expression, ...],
) -> Iterator[tuple[tuple[syntax.Expression, ...], Choices]]:
    """Each combination of what several patterns stand for, in which equal `maybe`s agree."""
    options = [expanded(part) for part in parts]
    count = math.prod(map(len, options))
    if count > _MOST_COMBINED:
        hint = "split the rule, or write a view, whose cases are tried one after the other"
        raise problem(f"this pattern stands for {count:,} patterns without `or` and `maybe`", parts[0].span, hint)
    for combination in itertools.product(*options):
        choices = _agreed(tuple(c for _, c in combination))
        if choices is not None:
            yield tuple(p for p, _ in combination), choices


def _agreed(several: tuple[Choices, ...]) -> Choices | None:
    result: list[tuple[syntax.Expression, bool]] = []
    for wrapped, there in itertools.chain(*several):
        known = _choice(tuple(result), wrapped)
        if known is None:
            result.append((wrapped, there))
        elif known != there:
            return None
    return tuple(result)


def _choice(choices: Choices, wrapped: syntax.Expression) -> bool | None:
    return next((there for known, there in choices if same_wrapper(known, wrapped)), None)


def _decided(x: syntax.Expression, choices: Choices) -> syntax.Expression:
    """A template in which each `maybe` is put in or left out as it was in the pattern."""

    def decide(y: syntax.Expression) -> syntax.Expression:
        if not isinstance(y, syntax.Maybe) or not isinstance(y.wrapped, (syntax.OpCall, syntax.Call)):
            return y
        return y.wrapped if _choice(choices, y.wrapped) else y.wrapped.arguments[0]

    return transformed(x, decide)
