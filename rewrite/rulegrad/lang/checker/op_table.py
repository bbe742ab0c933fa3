"""The declarations of the op table: dtypes, classes and ops."""

from __future__ import annotations

import re

from rulegrad.lang import syntax
from rulegrad.lang.checker.calls import ATTRIBUTE_TYPES
from rulegrad.lang.checker.expressions import OPS, ExpressionChecker
from rulegrad.lang.checker.scope import DTYPE, NODE, PARAMETER, SEQUENCE, VALUE, Binding, Scope
from rulegrad.lang.checker.world import World, first_declared
from rulegrad.lang.diagnostics import did_you_mean, misspelled
from rulegrad.lang.optable import OpTable
from rulegrad.lang.rounding import ROUNDS_EACH

DTYPE_PROPERTIES = ("kind", "bits", "exponent", "mantissa")
DTYPE_KINDS = ("void", "bool", "int", "uint", "float", "index", "complex")
OP_FLAGS = ("commutative", "associative", "idempotent", "closes", ROUNDS_EACH)
LEVELS = ("tensor", "kernel", "program")
SHAPE_WORDS = ("scalar", "elementwise", "indices")
_VARIABLE = re.compile(r"[A-Z][0-9]?")


def check_dtype(world: World, dtype: syntax.DtypeDeclaration) -> None:
    """Known properties and kinds; `kind` and `bits` are given."""
    for name in dtype.properties:
        if name not in DTYPE_PROPERTIES:
            hint = did_you_mean(name, DTYPE_PROPERTIES) or "one of " + ", ".join(DTYPE_PROPERTIES)
            span = world.locate(dtype.span, name)
            world.report("unknown-field", f"a dtype has no property `{name}`", span, hint)
    for name in ("kind", "bits"):
        if name not in dtype.properties:
            message = f"the dtype `{dtype.name}` is declared without `{name}`"
            world.report("missing-attribute", message, dtype.span)
    _check_word(world, "kind of dtype", str(dtype.properties.get("kind", "int")), DTYPE_KINDS, dtype.span)


def _check_word(world: World, what: str, word: str, known: tuple[str, ...], span: syntax.Span) -> None:
    if word not in known:
        hint = did_you_mean(word, known) or "one of " + ", ".join(known)
        world.report("unknown-word", f"there is no {what} `{word}`", world.locate(span, word), hint)


def check_class(world: World, declaration: syntax.ClassDeclaration) -> None:
    """Members are known, and all are dtypes or all are ops."""
    table = world.table
    classes = {d.name: d for d in world.declarations if isinstance(d, syntax.ClassDeclaration)}
    for member in declaration.members:
        known = member in classes or table.resolve_dtypes(member) or table.resolve_ops(member)
        if not known:
            names = [*table.dtypes, *table.dtype_classes, *table.ops, *table.op_classes]
            what = "dtype, op or class"
            span = world.locate(declaration.span, member)
            world.report_unknown("unknown-class", what, member, span, names)
    if _reaches_itself(declaration.name, classes):
        message = f"the class `{declaration.name}` contains itself"
        world.report("cyclic-union", message, declaration.span)


def _reaches_itself(name: str, classes: dict[str, syntax.ClassDeclaration]) -> bool:
    waiting, seen = list(classes[name].members), set[str]()
    while waiting:
        member = waiting.pop()
        if member == name:
            return True
        if member in classes and member not in seen:
            seen.add(member)
            waiting.extend(classes[member].members)
    return False


def check_op(world: World, op: syntax.OpDeclaration) -> None:
    """Types, flags, IR levels, the order of sources, and the names in its expressions."""
    for attribute in op.attributes:
        if attribute.type not in ATTRIBUTE_TYPES:
            message = f"there is no attribute type `{attribute.type}`"
            hint = did_you_mean(attribute.type, ATTRIBUTE_TYPES) or "one of " + ", ".join(ATTRIBUTE_TYPES)
            world.report("unknown-type", message, attribute.span, hint)
    declared = tuple(a.name for a in op.attributes if a.type == "str")
    for name, _ in op.values:
        _check_word(world, "attribute of type str", name, declared, op.span)
    for flag in op.flags:
        _check_word(world, "flag of an op", flag, OP_FLAGS, op.span)
    _check_classes(world, op)
    for level in op.levels:
        _check_word(world, "IR level", level, LEVELS, op.span)
    _check_step(world, op)
    _check_parameters(world, op)
    _check_types(world, op)
    _check_expressions(world, op)


def _check_classes(world: World, op: syntax.OpDeclaration) -> None:
    """A class of its own is new, unless nothing names it and it is nearly another's: then it is misspelled."""
    others = {name for d in world.table.ops.values() if d.name != op.name for name in d.declaration.classes}
    for name in op.classes:
        close = misspelled(name, {*others, *world.table.op_classes} - {name, "Op"})
        if name not in others and close and not world.names(name, op.span):
            message = f"no other op is of the class `{name}`, and nothing names it"
            world.report("unknown-class", message, world.locate(op.span, name), close)


def _check_step(world: World, op: syntax.OpDeclaration) -> None:
    """Its form reads all attributes, and no other op's begins with the same word."""
    form = next(iter(OpTable.from_declarations((op,)).forms.values()), None)
    if form is None:
        return
    span = world.locate(op.span, "step")
    if problem := form.problem():
        world.report("bad-step", f"the step's form `{op.step}`: {problem}", span, "`split {loop} by {by} tail {tail}`")
    elif (other := world.table.forms[form.keyword]).op != op.name:
        message = f"steps of {other.op} begin with `{form.keyword}` too"
        world.report("bad-step", message, span, "begin with another word")


def _check_parameters(world: World, op: syntax.OpDeclaration) -> None:
    names: dict[str, syntax.Span] = {}
    declared = [(a.name, a.span) for a in op.attributes] + [(p.name, p.span) for p in op.parameters]
    for name, span in declared:
        if names.setdefault(name, span) is not span:
            world.report("rebound-name", f"`{name}` is declared already", span, notes=first_declared(names[name]))
    for position, parameter in enumerate(op.parameters):
        rest = op.parameters[position + 1 :]
        if parameter.variadic and rest:
            message = "only the last source can be variadic"
            world.report("bad-parameter", message, parameter.span)
        if parameter.optional and any(not later.optional for later in rest):
            message = "an optional source stands after all that must be given, and before no variadic one"
            world.report("bad-parameter", message, parameter.span)


def _check_types(world: World, op: syntax.OpDeclaration) -> None:
    table = world.table
    variables = set(op.where)
    for parameter in op.parameters:
        kind = parameter.type
        if kind is None or table.resolve_dtypes(kind) is not None:
            continue
        if _VARIABLE.fullmatch(kind):
            variables.add(kind)
        elif kind not in op.where:
            known = [*table.dtypes, *table.dtype_classes]
            what = "dtype, dtype class or variable"
            world.report_unknown("unknown-dtype", what, kind, parameter.span, known)
    for variable, name in op.where.items():
        if table.resolve_dtypes(name) is None:
            what = f"dtype class (of `{variable}`)"
            known = [*table.dtypes, *table.dtype_classes]
            world.report_unknown("unknown-class", what, name, world.locate(op.span, name), known)
    if op.result != "explicit" and op.result not in variables and op.result not in table.dtypes:
        message = f"the result `{op.result}` is neither a dtype nor a variable of a source"
        known = [*table.dtypes, *variables, "explicit"]
        span = world.locate(op.span, f"-> {op.result}")
        world.report("unknown-dtype", message, span, did_you_mean(op.result, known))


def _check_expressions(world: World, op: syntax.OpDeclaration) -> None:
    scope = Scope()
    for parameter in op.parameters:
        kind = SEQUENCE if parameter.variadic else NODE
        scope.bind(Binding(parameter.name, PARAMETER, kind, parameter.span))
    for attribute in op.attributes:
        scope.bind(Binding(attribute.name, PARAMETER, VALUE, attribute.span))
    variables = {*op.where, *(p.type for p in op.parameters if p.type and _VARIABLE.fullmatch(p.type))}
    for variable in (*variables, op.result if _VARIABLE.fullmatch(op.result) else "T"):
        scope.bind(Binding(variable, PARAMETER, DTYPE, op.span))
    checker = ExpressionChecker(world, scope, OPS)
    expressions = [op.identity, op.evaluator, *(op.interval or ()), *(condition for condition, _ in op.checks)]
    for attribute in op.attributes:
        expressions.append(attribute.default)
    if not (isinstance(op.shape, syntax.Name) and op.shape.name in SHAPE_WORDS):
        expressions.append(op.shape)
    for expression in expressions:
        if expression is not None:
            checker.check(expression)
    if op.spelling is not None:
        checker.check(op.spelling)
