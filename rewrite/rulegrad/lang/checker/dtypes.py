"""Inference of the dtypes that a pattern or a template can have: a set of dtypes, or None."""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad.lang import syntax
from rulegrad.lang.checker.scope import NODE, Names, Scope
from rulegrad.lang.checker.world import World
from rulegrad.lang.notation import notation_of
from rulegrad.lang.optable import Op


def dtypes_of(world: World, scope: Scope, expression: syntax.Expression) -> Names | None:
    """The dtypes that a node written like this can have; None when anything is possible.

    Reports ops whose sources can have no dtype that the op takes.
    """
    if isinstance(expression, syntax.Name):
        return _of_name(world, scope, expression)
    if isinstance(expression, syntax.Capture):
        return dtypes_of(world, scope, expression.pattern)
    if isinstance(expression, syntax.Conditional):
        return _either(world, scope, expression)
    if isinstance(expression, syntax.Multiset):
        return _of_multiset(world, scope, expression)
    parts = op_and_sources(world, scope, expression)
    if parts is None:
        return None
    op, sources = parts
    result = _of_op(world, scope, op, sources, expression.span)
    if op.explicit and isinstance(expression, syntax.OpCall):
        return _explicit(world, scope, expression)
    return result


def op_and_sources(
    world: World, scope: Scope, expression: syntax.Expression
) -> tuple[Op, Sequence[syntax.Expression]] | None:
    """The op that an expression builds or matches, when it is a single known one, and its sources."""
    found = notation_of(expression)
    if found is None or (isinstance(expression, syntax.Call) and _is_function(world, found.name)):
        return None
    name = world.table.op_called(found.name)
    if name is None or scope.find(name) is not None:
        return None
    return world.table.ops[name], found.arguments


def _is_function(world: World, name: str) -> bool:
    return name in world.functions or name in world.definitions or name in world.externs


def _of_name(world: World, scope: Scope, name: syntax.Name) -> Names | None:
    binding = scope.find(name.name)
    if binding is not None:
        return binding.dtypes if binding.kind == NODE else None
    if name.dtype is None:
        return None
    variable = scope.find(name.dtype)
    return variable.dtypes if variable is not None else world.table.resolve_dtypes(name.dtype)


def _of_multiset(world: World, scope: Scope, multiset: syntax.Multiset) -> Names | None:
    """All members have one dtype."""
    found: Names | None = world.table.resolve_dtypes("bool") if multiset.kind == "all" else None
    for item in multiset.items:
        if not isinstance(item, (syntax.Splice, syntax.Comprehension)):
            dtypes = dtypes_of(world, scope, item)
            if dtypes is not None:
                found = dtypes if found is None else found & dtypes
    return found


def _either(world: World, scope: Scope, expression: syntax.Conditional) -> Names | None:
    then = dtypes_of(world, scope, expression.then)
    otherwise = dtypes_of(world, scope, expression.otherwise)
    return None if then is None or otherwise is None else then | otherwise


def _explicit(world: World, scope: Scope, call: syntax.OpCall) -> Names | None:
    """The dtype in brackets of CAST[T](x)."""
    for attribute in call.attributes:
        if attribute.name in (None, "dtype") and isinstance(attribute.value, syntax.Name):
            variable = scope.find(attribute.value.name)
            if variable is not None:
                return variable.dtypes
            return world.table.resolve_dtypes(attribute.value.name)
    return None


def _of_op(world: World, scope: Scope, op: Op, sources: Sequence[syntax.Expression], span: syntax.Span) -> Names | None:
    """The result's dtypes, from the declared parameter types and the sources' dtypes."""
    declaration = op.declaration
    variables: dict[str, Names | None] = {}
    for variable, name in declaration.where.items():
        variables[variable] = world.table.resolve_dtypes(name)
    for index, source in enumerate(sources):
        if isinstance(source, (syntax.Splice, syntax.Comprehension)):
            break
        parameter = op.parameters[min(index, len(op.parameters) - 1)] if op.parameters else None
        found = dtypes_of(world, scope, source)
        if parameter is None or parameter.type is None or found is None:
            continue
        is_variable = world.table.resolve_dtypes(parameter.type) is None
        allowed = variables.get(parameter.type) if is_variable else world.table.resolve_dtypes(parameter.type)
        both = found if allowed is None else found & allowed
        if not both and allowed is not None:
            _report(world, op, parameter.name, found, allowed, source.span)
            return None
        if is_variable:
            variables[parameter.type] = both
    if declaration.result in variables:
        return variables[declaration.result]
    return world.table.resolve_dtypes(declaration.result)


def _report(world: World, op: Op, parameter: str, found: Names, allowed: Names, span: syntax.Span) -> None:
    message = f"`{parameter}` of {op.name} is {describe(world, found)} here, but must be "
    world.report("dtype-mismatch", message + describe(world, allowed), span)


def describe(world: World, dtypes: Names) -> str:
    """A set of dtypes as a class's name, or as a list."""
    for name, members in world.table.dtype_classes.items():
        if members == dtypes:
            return f"`{name}`"
    return " or ".join(f"`{name}`" for name in world.table.declared_order(dtypes))
