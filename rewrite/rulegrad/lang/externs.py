"""The rules that call an extern, or another function, directly or not: `stats --census` counts their firings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from rulegrad.lang import syntax
from rulegrad.lang.walk import calls_in, dataflow_rules


def with_externs(declarations: Iterable[syntax.Declaration]) -> frozenset[str]:
    """The names `SET.RULE` of the rules that call an extern, themselves or by a function or an abbreviation."""
    everything = list(declarations)
    return rules_that_call({d.name for d in everything if isinstance(d, syntax.Extern)}, everything)


def rules_that_call(names: Set[str], declarations: Iterable[syntax.Declaration]) -> frozenset[str]:
    """The names `SET.RULE` of the rules that call one of these, themselves or by a function or an abbreviation."""
    rules: dict[str, set[str]] = {}
    called: dict[str, set[str]] = {}
    for declaration in declarations:
        if isinstance(declaration, syntax.Definition):
            lets = [let.expression for let in declaration.lets]
            called[declaration.name] = _calls(declaration.body, *lets)
        elif isinstance(declaration, syntax.Ruleset | syntax.Pass | syntax.Function):
            inside = (*declaration.rules, *dataflow_rules(declaration))
            own = {f"{declaration.name}.{rule.name}": _calls_of(rule) for rule in inside}
            rules.update(own)
            if isinstance(declaration, syntax.Function):
                called[declaration.name] = set().union(*own.values())
    reaching = _reaching(names, called)
    return frozenset(name for name, calls in rules.items() if calls & reaching)


def _reaching(names: Set[str], called: Mapping[str, set[str]]) -> set[str]:
    """These, and all functions and abbreviations that lead to one."""
    found, before = set(names), -1
    while len(found) != before:
        before = len(found)
        found.update(name for name, calls in called.items() if calls & found)
    return found


def _calls_of(rule: syntax.Rule) -> set[str]:
    return _calls(rule.pattern, rule.template, *(clause.expression for clause in rule.clauses))


def _calls(*expressions: syntax.Expression | None) -> set[str]:
    return set().union(*(calls_in(e) for e in expressions if e is not None))
