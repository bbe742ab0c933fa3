"""Heads of calls: which ops a name stands for, how many sources they take, and their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rulegrad.lang import syntax
from rulegrad.lang.checker.scope import DTYPE, GENERIC, OP, VALUE, Binding, Names, Scope
from rulegrad.lang.checker.world import World
from rulegrad.lang.diagnostics import did_you_mean
from rulegrad.lang.optable import Op
from rulegrad.lang.walk import expressions_in

ATTRIBUTE_TYPES = ("int", "float", "bool", "str", "dtype", "op", "ints", "scalar", "tuple")


def is_sequence(argument: syntax.Expression) -> bool:
    """Whether an argument stands for any number of sources."""
    return isinstance(argument, (syntax.Splice, syntax.Comprehension))


def ops_of(world: World, scope: Scope, name: str, span: syntax.Span) -> tuple[Names, Binding | None]:
    """The ops that a call's head stands for, and the op variable if it is one; reports an unknown op."""
    variable = scope.use(name)
    if variable is not None and variable.kind == OP:
        require_generic(world, variable, span)
        return variable.ops or frozenset(), variable
    if name in world.table.ops:
        return frozenset((name,)), None
    variables = [n for n in scope.names() if (b := scope.find(n)) is not None and b.kind == OP]
    world.report_unknown("unknown-op", "op", name, span, [*world.table.ops, *variables])
    return frozenset(), None


def require_generic(world: World, variable: Binding, span: syntax.Span) -> None:
    """An op that an attribute was matched with cannot be built: only an op variable can."""
    if variable.source != GENERIC:
        hint = f"declare it as an op variable: `rule[{variable.name}: CLASS]: ...`"
        world.report("unknown-op", f"`{variable.name}` is not an op variable", span, hint)


def check_arity(
    world: World,
    ops: Names,
    arguments: Sequence[syntax.Expression],
    span: syntax.Span,
    head: str,
    builds: bool = True,
) -> Names:
    """Reports ops that cannot have so many sources; gives the ops that can.

    Where nodes are built, a CONST is written with its value in the place of a source.
    """
    at_least = sum(not is_sequence(argument) for argument in arguments)
    exact = at_least == len(arguments)
    fitting = frozenset(name for name in ops if _fits(world.table.ops[name], at_least, exact, builds))
    rest = world.table.declared_order(ops - fitting)
    if not rest:
        return ops
    count = f"{at_least} {'source' if at_least == 1 else 'sources'}"
    first = world.table.ops[rest[0]]
    if len(ops) == 1:
        message = f"{first.name} takes {first.describe_sources()}, not {count}"
        world.report("wrong-arity", message, span)
    elif not fitting:
        world.report("wrong-arity", f"no op of `{head}` takes {count}", span)
    else:
        some = ", ".join(rest[:3]) + (", …" if len(rest) > 3 else "")
        message = f"`{head}` has {count} here, which {some} cannot have"
        world.report("mixed-arity", message, span, "narrow its class")
    return fitting


def _fits(op: Op, at_least: int, exact: bool, builds: bool) -> bool:
    maximum = 1 if builds and op.name == "CONST" else op.maximum
    if maximum is not None and at_least > maximum:
        return False
    return not exact or at_least >= op.minimum


def attribute_type(world: World, ops: Names, attribute: syntax.Attribute, alone: bool) -> tuple[str, str] | None:
    """The name and type of an attribute of every one of these ops; reports one that is unknown, as is its value."""
    typed = _attribute_type(world, ops, attribute, alone)
    if typed is not None:
        check_value(world, typed[0], attribute.value, [world.table.ops[name] for name in ops])
    return typed


def check_value(world: World, name: str, value: syntax.Expression, ops: Iterable[Op]) -> None:
    """Texts that are given for an attribute, or compared with it, are values that these ops say it may have."""
    having = [op for op in ops if name in op.attributes]
    allowed = {text for op in having for one, texts in op.declaration.values if one == name for text in texts}
    if not having or not all(any(one == name for one, _ in op.declaration.values) for op in having):
        return
    for part in expressions_in(value):
        if isinstance(part, syntax.Literal) and isinstance(part.value, str) and part.value not in allowed:
            hint = did_you_mean(part.value, allowed) or "one of " + ", ".join(sorted(allowed))
            message = f"the attribute `{name}` is never `{part.value}`"
            world.report("unknown-word", message, part.span, hint)


def _attribute_type(world: World, ops: Names, attribute: syntax.Attribute, alone: bool) -> tuple[str, str] | None:
    if attribute.name is None:
        return _unnamed(world, ops, attribute, alone)
    if attribute.name == "dtype":
        return "dtype", "dtype"
    known: set[str] = set()
    for name in world.table.declared_order(ops):
        op = world.table.ops[name]
        if attribute.name in op.attributes:
            return attribute.name, op.attributes[attribute.name].type
        known.update(op.attributes)
    if ops:
        head = next(iter(ops)) if len(ops) == 1 else "an op of this variable"
        what = f"attribute of {head} called"
        world.report_unknown("unknown-attribute", what, attribute.name, attribute.span, [*known, "dtype"])
    return None


def _unnamed(world: World, ops: Names, attribute: syntax.Attribute, alone: bool) -> tuple[str, str] | None:
    if not alone:
        message = "several attributes, of which one has no name"
        world.report("unnamed-attribute", message, attribute.span, "write `name=value`")
        return None
    if len(ops) != 1:
        if ops:
            message = "an attribute of an op variable needs its name"
            world.report("unnamed-attribute", message, attribute.span, "write `name=value`")
        return None
    op = world.table.ops[next(iter(ops))]
    if op.explicit:
        return "dtype", "dtype"
    if not op.attributes:
        world.report("unnamed-attribute", f"{op.name} has no attributes", attribute.span)
        return None
    first = next(iter(op.attributes.values()))
    return first.name, first.type


def is_reference(world: World, scope: Scope, value: syntax.Expression, kind: str) -> bool:
    """Whether the value of an attribute of type `op` or `dtype` is the name of one, or a variable for one."""
    if not isinstance(value, syntax.Name) or kind not in ("op", "dtype"):
        return False
    binding = scope.find(value.name)
    if binding is not None:
        return binding.kind in (OP, DTYPE)
    known = world.table.ops if kind == "op" else world.table.dtypes
    return value.name in known or value.name.isupper() or world.table.resolve_dtypes(value.name) is not None


def check_reference(world: World, scope: Scope, name: syntax.Name, kind: str) -> None:
    """The name of an op or a dtype, or a variable for one, as an attribute's value."""
    variable = scope.use(name.name)
    if variable is not None:
        expected = OP if kind == "op" else DTYPE
        if variable.kind not in (expected, VALUE):
            message = f"`{name.name}` is not {'an op' if kind == 'op' else 'a dtype'}"
            world.report("wrong-attribute-type", message, name.span)
        return
    if kind == "op" and name.name not in world.table.ops:
        world.report_unknown("unknown-op", "op", name.name, name.span, world.table.ops)
    if kind == "dtype" and name.name not in world.table.dtypes:
        report_unknown_dtype(world, scope, name.name, name.span)


def report_unknown_dtype(world: World, scope: Scope, name: str, span: syntax.Span) -> None:
    """A name that is not a dtype, class or variable: a short capital one is taken for a variable."""
    known = [*world.table.dtypes, *world.table.dtype_classes, *scope.names(), "const"]
    hint = did_you_mean(name, known)
    if not hint and len(name) <= 2 and name[0].isupper():
        hint = f"declare a dtype variable: `rule[{name}]: ...`"
    world.report("unknown-dtype", f"there is no dtype `{name}`", span, hint)


def check_literal(world: World, name: str, kind: str, value: syntax.Expression) -> None:
    """A literal as the value of an attribute of type `kind`."""
    wrong: list[syntax.Expression] = []
    if isinstance(value, syntax.Sequence):
        if kind not in ("ints", "tuple"):
            wrong = [value]
        elif kind == "ints":
            wrong = [v for v in value.items if isinstance(v, syntax.Literal) and not _fits_type("int", v.value)]
    elif isinstance(value, syntax.Literal) and not _fits_type(kind, value.value):
        wrong = [value]
    for part in wrong:
        world.report("wrong-attribute-type", f"the attribute `{name}` is of type {kind}", part.span)


def _fits_type(kind: str, literal: object) -> bool:
    is_bool = isinstance(literal, bool)
    return {
        "int": isinstance(literal, int) and not is_bool,
        "float": isinstance(literal, (int, float)) and not is_bool,
        "bool": is_bool,
        "str": isinstance(literal, str),
        "scalar": isinstance(literal, (int, float)),
    }.get(kind, False)
