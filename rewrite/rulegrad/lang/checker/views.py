"""Views and tables: their declarations, and the places where they are used."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rulegrad.lang import syntax
from rulegrad.lang.checker.calls import ATTRIBUTE_TYPES, check_literal, report_unknown_dtype
from rulegrad.lang.checker.scope import Scope
from rulegrad.lang.checker.world import World
from rulegrad.lang.diagnostics import did_you_mean
from rulegrad.lang.names import names_bound

_SIZED = re.compile(r"ints\[([1-9]\d?)\]")  # a type of columns: so many numbers


def check_view_arguments(world: World, view: syntax.View, call: syntax.Call) -> None:
    """A view is used with as many arguments as it has parameters."""
    wanted, count = len(view.parameters), len(call.arguments)
    if wanted != count:
        noun = "argument" if wanted == 1 else "arguments"
        message = f"the view `{view.name}` takes {wanted} {noun}, not {count}"
        world.report("wrong-argument-count", message, call.span)


def check_view(world: World, view: syntax.View) -> None:
    """Each case has every parameter once: in its expression, or with a value."""
    for case in view.cases:
        bound = [name for name, _, _ in names_bound(world.table, case.expression)]
        given = [name for name, _ in case.values]
        for name in bound + given:
            if name not in view.parameters:
                hint = did_you_mean(name, view.parameters) or "its parameters are " + ", ".join(view.parameters)
                world.report("bad-view", f"`{name}` is not a parameter of the view", case.span, hint)
        for parameter in view.parameters:
            count = bound.count(parameter) + given.count(parameter)
            if count == 0:
                hint = f"put it into the expression, or write `with {parameter} = ...`"
                world.report("bad-view", f"this case says nothing about `{parameter}`", case.span, hint)
            elif count > 1:
                world.report("bad-view", f"this case gives `{parameter}` twice", case.span)


def check_table(world: World, table: syntax.Table) -> None:
    """Its columns have types, and each row a value of that type in each."""
    names = [name for name, _ in table.columns]
    for place, (name, kind) in enumerate(table.columns):
        if name in names[:place]:
            world.report("duplicate-key", f"there are two columns `{name}`", world.locate(table.span, name))
        if kind not in ATTRIBUTE_TYPES and not _SIZED.fullmatch(kind):
            hint = did_you_mean(kind, ATTRIBUTE_TYPES) or "one of " + ", ".join(ATTRIBUTE_TYPES)
            world.report("unknown-type", f"there is no type `{kind}`", world.locate(table.span, kind), hint)
    check_rows(world, table, table.rows)


def check_rows(world: World, table: syntax.Table, rows: Sequence[tuple[syntax.Expression, ...]]) -> None:
    """Each row, the table's own or a target's, has a value of the column's type in each column."""
    names = [name for name, _ in table.columns]
    for row in rows:
        if len(row) != len(names):
            message = f"a row of `{table.name}` has {len(names)} values, not {len(row)}"
            world.report("bad-row", message, row[0].span, "write " + " ".join(names))
            continue
        for (name, kind), value in zip(table.columns, row, strict=True):
            _check_value(world, name, kind, value)


def _check_value(world: World, name: str, kind: str, value: syntax.Expression) -> None:
    if (sized := _SIZED.fullmatch(kind)) is not None:
        if not isinstance(value, syntax.Sequence) or len(value.items) != int(sized[1]):
            message = f"`{name}` is {sized[1]} numbers in brackets"
            world.report("bad-row", message, value.span, f"write ({', '.join(['1'] * int(sized[1]))}), say")
            return
        kind = "ints"
    if isinstance(value, syntax.Name):
        if kind == "dtype" and value.name not in world.table.dtypes:
            report_unknown_dtype(world, Scope(), value.name, value.span)
        elif kind == "op" and value.name not in world.table.ops:
            world.report_unknown("unknown-op", "op", value.name, value.span, world.table.ops)
        elif kind not in ("dtype", "op"):
            world.report("bad-row", f"`{name}` is of type {kind}", value.span, "put a text in quotes")
    elif isinstance(value, (syntax.Literal, syntax.Sequence)):
        check_literal(world, name, kind, value)
    else:
        world.report("bad-row", "a row holds literals, tuples of them, and names of ops and dtypes", value.span)
