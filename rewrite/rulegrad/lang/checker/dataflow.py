"""The facts of collect passes and the states of flow passes."""

from __future__ import annotations

from rulegrad.lang import syntax
from rulegrad.lang.builtins import BUILTINS
from rulegrad.lang.checker.expressions import GUARD, ExpressionChecker
from rulegrad.lang.checker.rules import check_dataflow_rule
from rulegrad.lang.checker.scope import Scope
from rulegrad.lang.checker.world import World, first_declared


def check_dataflow(world: World, declaration: syntax.Pass) -> None:
    """Facts, states and sends of a pass; afterwards their names can be called, until `world.dataflow` is cleared."""
    for fact in declaration.facts:
        _check_fact(world, declaration, fact)
    for state in declaration.states:
        ExpressionChecker(world, Scope(), GUARD).check(state.initial)
        if state.name in world.dataflow:
            _twice(world, state.name, state.span, [s.span for s in declaration.states if s.name == state.name])
        _check_name(world, state.name, state.span)
        world.dataflow[state.name] = 1
    for send in declaration.sends:
        _check_send(world, declaration, send)
        check_dataflow_rule(world, send.rule, "send")


def _check_fact(world: World, declaration: syntax.Pass, fact: syntax.Fact) -> None:
    """Lines of one fact have as many keys and the same merge. A fact sees those above it."""
    first = next(f for f in declaration.facts if f.name == fact.name)
    check_dataflow_rule(world, fact.rule, "fact")
    if first is fact:
        _check_name(world, fact.name, fact.span)
        world.dataflow[fact.name] = len(fact.keys)
    elif (len(first.keys), first.merge) != (len(fact.keys), fact.merge):
        message = f"the lines of the fact `{fact.name}` differ in their keys or in how they are merged"
        world.report("duplicate-declaration", message, fact.span, notes=first_declared(first.span))


def _check_name(world: World, name: str, span: syntax.Span) -> None:
    """Neither a built-in function nor an op nor a function can be called by the same name."""
    taken = (BUILTINS, world.table.by_function_name, world.functions, world.definitions, world.externs)
    if any(name in names for names in taken):
        message = f"`{name}` is a function already"
        world.report("duplicate-declaration", message, span, "take another name")


def _twice(world: World, name: str, span: syntax.Span, spans: list[syntax.Span]) -> None:
    world.report("duplicate-declaration", f"`{name}` is declared already", span, notes=first_declared(spans[0]))


def _check_send(world: World, declaration: syntax.Pass, send: syntax.Send) -> None:
    names = [state.name for state in declaration.states]
    span = send.rule.span
    if send.state and send.state not in names:
        world.report_unknown("unknown-function", "state", send.state, world.locate(span, send.state), names)
    elif not names:
        hint = "write `state NAME = INITIAL JOIN` above"
        world.report("unbound-name", "there is no state to send to", span, hint)
    elif not send.state and len(names) > 1:
        message = "the pass has several states: this `send` does not say to which"
        world.report("unbound-name", message, span, f"write `send STATE {send.rule.name}: …`")
