"""`rewritten(e, RULESET)`: the rule set exists, and its rules do not ask for another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rulegrad.lang import syntax
from rulegrad.lang.checker.world import World
from rulegrad.lang.walk import calls_in


def check_nested_set(world: World, ruleset: syntax.Expression) -> None:
    """The second argument of `rewritten`."""
    if not isinstance(ruleset, syntax.Name) or ruleset.name not in world.rulesets:
        name = ruleset.name if isinstance(ruleset, syntax.Name) else "this"
        world.report_unknown("unknown-ruleset", "rule set", name, ruleset.span, world.rulesets)
        return
    for rule in _rules(world, ruleset.name):
        if "rewritten" in _calls(world, rule):
            message = f"the rule `{rule.name}` of `{ruleset.name}` calls `rewritten` itself: that does not nest"
            world.report("nested-rewriting", message, ruleset.span, "name a rule set without it")
            return


def _rules(world: World, name: str) -> Iterator[syntax.Rule]:
    """The rules of a set and of its union."""
    waiting, seen = [name], set[str]()
    while waiting:
        part = waiting.pop()
        if part in world.rulesets and part not in seen:
            seen.add(part)
            yield from world.rulesets[part].rules
            waiting.extend(world.rulesets[part].union)


def _calls(world: World, rule: syntax.Rule) -> set[str]:
    """Every function that a rule calls, by itself or through functions on nodes and definitions."""
    found: set[str] = set()
    waiting: list[syntax.Expression] = list(_expressions((rule,)))
    while waiting:
        for name in calls_in(waiting.pop()) - found:
            found.add(name)
            if name in world.functions:
                waiting.extend(_expressions(world.functions[name].rules))
            if name in world.definitions:
                lets = world.definitions[name].lets
                waiting.extend(c.expression for c in lets if c.expression is not None)
                waiting.append(world.definitions[name].body)
    return found


def _expressions(rules: Iterable[syntax.Rule]) -> Iterator[syntax.Expression]:
    for rule in rules:
        yield rule.template
        yield from (c.expression for c in rule.clauses if c.expression is not None)
