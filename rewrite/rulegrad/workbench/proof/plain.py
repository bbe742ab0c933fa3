"""Rules without views: the plain rules that a rule stands for, each of which must be right.

A view's pattern takes the first case that has the node's shape; here every case is taken: more is proved than needed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from rulegrad.lang import syntax
from rulegrad.lang.walk import expressions_in, transformed

Views = Mapping[str, syntax.View]


def plain_rules(rule: syntax.Rule, views: Views) -> Iterator[syntax.Rule]:
    """The rules that a rule stands for."""
    call = next(
        (x for x in expressions_in(rule.pattern) if isinstance(x, syntax.Call) and x.function in views),
        None,
    )
    if call is None:
        yield rule
        return
    view = views[call.function]
    arguments = dict(zip(view.parameters, call.arguments, strict=True))
    for case in view.cases:
        changed = _with_values(rule, case, arguments)
        if changed is not None:
            seen = transformed(case.expression, _parameters(arguments))
            pattern = transformed(changed.pattern, lambda x: seen if x == call else x)  # noqa: B023
            yield from plain_rules(dataclasses.replace(changed, pattern=pattern), views)


def _with_values(
    rule: syntax.Rule, case: syntax.ViewCase, arguments: Mapping[str, syntax.Expression]
) -> syntax.Rule | None:
    """The rule where a case's values (`with k = 1`) are what the pattern asks for; None where they are not."""
    for parameter, value in case.values:
        argument = arguments[parameter]
        if isinstance(argument, syntax.Name):
            rule = _replaced(rule, argument.name, value)
        elif not (isinstance(argument, syntax.Literal) and argument.value == getattr(value, "value", None)):
            return None
    return rule


def _replaced(rule: syntax.Rule, name: str, value: syntax.Expression) -> syntax.Rule:
    """The rule with a value in place of a name, outside its pattern."""

    def change(x: syntax.Expression) -> syntax.Expression:
        return value if isinstance(x, syntax.Name) and x.name == name else x

    clauses = tuple(
        c if c.expression is None else dataclasses.replace(c, expression=transformed(c.expression, change))
        for c in rule.clauses
    )
    return dataclasses.replace(rule, template=transformed(rule.template, change), clauses=clauses)


def _parameters(arguments: Mapping[str, syntax.Expression]) -> Callable[[syntax.Expression], syntax.Expression]:
    def change(x: syntax.Expression) -> syntax.Expression:
        if not isinstance(x, syntax.Name) or x.name not in arguments:
            return x
        given = arguments[x.name]
        if isinstance(given, syntax.Name) and x.is_const:
            return dataclasses.replace(given, is_const=True)
        return given

    return change
