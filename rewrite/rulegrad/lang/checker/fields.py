"""Records and rows of tables in expressions: what their values are called, as far as the text says which they are."""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad.lang import syntax
from rulegrad.lang.checker.scope import LET, PARAMETER, VALUE, Binding, Fields, Scope
from rulegrad.lang.checker.world import World
from rulegrad.lang.diagnostics import did_you_mean


def fields_of(world: World, scope: Scope, x: syntax.Expression) -> Fields | None:
    """Those of the record, or the row of a table, that an expression is; None where it is not one, or not known."""
    match x:
        case syntax.Compute(inner=inner):
            return fields_of(world, scope, inner)
        case syntax.Name(name=name):
            binding = scope.find(name)
            return binding.fields if binding is not None else None
        case syntax.Record(name=name, fields=fields):
            return Fields("record", name, fields)
        case syntax.Call(function=name) if name in world.definitions and scope.find(name) is None:
            return _fields_of_result(world, world.definitions[name])
        case syntax.Subscript(sequence=sequence):
            return fields_of_items(world, scope, sequence)
        case syntax.Conditional(then=then, otherwise=otherwise):
            return _common([fields_of(world, scope, part) for part in (then, otherwise)])
    return None


def _fields_of_result(world: World, definition: syntax.Definition) -> Fields | None:
    """Those of what a def makes, whatever it is given; World keeps them, and a def that expands to itself has none."""
    key = id(definition)
    if key not in world.results:
        world.results[key] = None
        scope = Scope()
        for name in definition.parameters:
            scope.bind(Binding(name, PARAMETER, VALUE, definition.span))
        for clause in definition.lets:
            bind_let(world, scope, clause)
        world.results[key] = fields_of(world, scope, definition.body)
    return world.results[key]


def fields_of_items(world: World, scope: Scope, x: syntax.Expression) -> Fields | None:
    """Those of each item of the sequence that an expression is."""
    match x:
        case syntax.Name(name=name):
            binding = scope.find(name)
            if binding is not None:
                return binding.items
            return of_table(world.tables[name]) if name in world.tables else None
        case syntax.Slice(sequence=sequence):
            return fields_of_items(world, scope, sequence)
        case syntax.Sequence(items=items):
            return _common([_fields_of_item(world, scope, item) for item in items])
        case syntax.Infix(operator="+", left=left, right=right):
            return _common([fields_of_items(world, scope, part) for part in (left, right)])
        case syntax.Conditional(then=then, otherwise=otherwise):
            return _common([fields_of_items(world, scope, part) for part in (then, otherwise)])
    return None


def fields_bound(world: World, scope: Scope, clause: syntax.Clause) -> tuple[Fields | None, Fields | None]:
    """Those of the name of a `let` or a `for`, and of its items where it is a sequence."""
    if clause.expression is None or len(clause.names) != 1:
        return None, None
    items = fields_of_items(world, scope, clause.expression)
    return (items, None) if clause.keyword == "for" else (fields_of(world, scope, clause.expression), items)


def bind_let(world: World, scope: Scope, clause: syntax.Clause) -> None:
    """Adds the names of a `let` line of a def."""
    fields, items = fields_bound(world, scope, clause)
    for name in clause.names:
        scope.bind(Binding(name, LET, VALUE, clause.span, fields=fields, items=items))


def _fields_of_item(world: World, scope: Scope, item: syntax.Expression) -> Fields | None:
    match item:
        case syntax.Splice(inner=inner):
            return fields_of_items(world, scope, inner)
        case syntax.Comprehension(body=body, variables=variables, iterable=iterable):
            inner_scope = Scope(scope)
            for name in variables:
                inner_scope.bind_item(name, item.span, fields_of_items(world, scope, iterable), len(variables))
            return _fields_of_item(world, inner_scope, body)
    return fields_of(world, scope, item)


def _common(found: Sequence[Fields | None]) -> Fields | None:
    """Those of all parts of an expression, where they are the same."""
    return found[0] if found and all(one == found[0] for one in found) else None


def of_table(table: syntax.Table) -> Fields:
    """The columns of a table."""
    return Fields("table", table.name, tuple(name for name, _ in table.columns))


def check_field(world: World, fields: Fields, member: syntax.Member) -> None:
    """A member of a record is a field of it, and one of a row a column of its table."""
    if member.name in fields.names:
        return
    hint = did_you_mean(member.name, fields.names) or "it has " + ", ".join(fields.names)
    noun = "column" if fields.what == "table" else "field"
    message = f"the {fields.what} `{fields.of}` has no {noun} `{member.name}`"
    world.report("unknown-field", message, member.span, hint)
