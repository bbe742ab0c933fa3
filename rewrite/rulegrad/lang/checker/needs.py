"""`needs`: what the target must have, decided when rules are loaded."""

from __future__ import annotations

from rulegrad.lang import syntax
from rulegrad.lang.builtins import BUILTINS, NEEDS
from rulegrad.lang.checker.scope import DTYPE, OP, Scope
from rulegrad.lang.checker.targets import check_declared
from rulegrad.lang.checker.world import World
from rulegrad.lang.diagnostics import did_you_mean

_FUNCTIONS = [name for name, builtin in BUILTINS.items() if NEEDS in builtin.scopes]


def check_needs(world: World, scope: Scope, expression: syntax.Expression) -> None:
    """`has(OP)`, `supports(T)`, `flag(NAME)` joined by `and`, `or`, `not`."""
    if isinstance(expression, syntax.Infix) and expression.operator in ("and", "or"):
        check_needs(world, scope, expression.left)
        check_needs(world, scope, expression.right)
    elif isinstance(expression, syntax.Prefix) and expression.operator == "not":
        check_needs(world, scope, expression.operand)
    elif isinstance(expression, syntax.Call) and expression.function in _FUNCTIONS:
        _check_call(world, scope, expression)
    else:
        hint = "write `has(OP)`, `supports(T)` or `flag(NAME)`, with `and`, `or`, `not`"
        if isinstance(expression, syntax.Call):
            hint = did_you_mean(expression.function, _FUNCTIONS) or hint
        world.report("misplaced-function", "`needs` asks for facts of the target only", expression.span, hint)


def _check_call(world: World, scope: Scope, call: syntax.Call) -> None:
    if len(call.arguments) != 1:
        message = f"`{call.function}` takes 1 argument, not {len(call.arguments)}"
        world.report("wrong-argument-count", message, call.span)
        return
    name = call.arguments[0]
    if not isinstance(name, syntax.Name):
        message = f"`{call.function}` takes a name"
        world.report("misplaced-expression", message, name.span)
        return
    variable = scope.use(name.name)
    table = world.table
    if call.function == "has":
        known_op = variable.kind == OP if variable is not None else table.resolve_ops(name.name) is not None
        if not known_op:
            world.report_unknown("unknown-op", "op", name.name, name.span, table.ops)
    elif call.function == "supports":
        found = variable.kind == DTYPE if variable is not None else table.resolve_dtypes(name.name) is not None
        if not found:
            world.report_unknown("unknown-dtype", "dtype", name.name, name.span, table.dtypes)
    else:
        check_declared(world, "flag", name.name, name.span)
