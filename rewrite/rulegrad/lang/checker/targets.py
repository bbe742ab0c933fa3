"""Targets, and the limits and flags that rules ask them for."""

from __future__ import annotations

from collections.abc import Callable

from rulegrad.lang import syntax
from rulegrad.lang.checker.views import check_rows
from rulegrad.lang.checker.world import World, first_declared
from rulegrad.lang.diagnostics import did_you_mean

_LITERALS = ("true", "false", "inf", "nan")  # the constants that `literal` lines spell
#: What the number of a limit may be, by its type.
LIMIT_TYPES: dict[str, Callable[[int], bool]] = {
    "natural": lambda number: number >= 0,
    "positive": lambda number: number > 0,
    "power_of_two": lambda number: number > 0 and number & (number - 1) == 0,
}


def check_limit(world: World, limit: syntax.Limit) -> None:
    """Its type is known, its numbers are of that type, and it says what it is."""
    if limit.type not in LIMIT_TYPES:
        hint = did_you_mean(limit.type, LIMIT_TYPES) or "one of " + ", ".join(LIMIT_TYPES)
        message = f"there is no type `{limit.type}` of limits"
        world.report("unknown-type", message, world.locate(limit.span, limit.type), hint)
    for number in (limit.default, limit.tested):
        if number is not None:
            _check_number(world, limit, number, limit.span)
    _check_doc(world, limit, "unit" if not limit.unit else "doc" if not limit.doc else "")


def check_flag(world: World, flag: syntax.Flag) -> None:
    """It says what it is."""
    _check_doc(world, flag, "" if flag.doc else "doc")


def check_declared(world: World, kind: str, name: str, span: syntax.Span) -> None:
    """A limit or flag of that name is declared."""
    known = world.limits if kind == "limit" else world.flags
    if name not in known:
        how = f"limit {name}: natural = 0" if kind == "limit" else f"flag {name}"
        hint = did_you_mean(name, known) or f"declare a new one: `{how}`, and its `doc` below"
        world.report("unknown-flag", f"there is no {kind} `{name}`", span, hint)


def _check_number(world: World, limit: syntax.Limit, number: int, span: syntax.Span) -> None:
    if limit.type in LIMIT_TYPES and not LIMIT_TYPES[limit.type](number):
        message = f"the limit `{limit.name}` is {number}, and its type is {limit.type}"
        world.report("bad-limit", message, span, f"it says {limit.doc}, in {limit.unit}" if limit.doc else "")


def _check_doc(world: World, declaration: syntax.Limit | syntax.Flag, missing: str) -> None:
    if missing:
        message = f"`{declaration.name}` has no `{missing}`"
        world.report("undocumented", message, declaration.span, f"add a line `{missing}` below")


def check_target(world: World, target: syntax.Target) -> None:
    """Its ops, dtypes, tables and render pass exist, and its rows have what their tables say."""
    table = world.table
    for name in sorted(target.ops):
        if table.resolve_ops(name) is None:
            known = [*table.ops, *table.op_classes]
            world.report_unknown("unknown-op", "op", name, target.spans[name], known)
    spelled = {key.split(" ")[1] for key in target.literals if key.startswith(("suffix ", "memory "))}
    for name in sorted(target.dtypes | target.types.keys() | spelled):
        if table.resolve_dtypes(name) is None:
            known = [*table.dtypes, *table.dtype_classes]
            world.report_unknown("unknown-dtype", "dtype", name, target.spans[name], known)
    for name, rows in target.rows.items():
        if name in world.tables:
            check_rows(world, world.tables[name], rows)
        else:
            world.report_unknown("unknown-table", "table", name, target.spans[name], world.tables)
    for key in target.literals:
        _check_literal(world, target, key)
    _check_asked(world, target)
    if target.features:
        _check_features(world, target)
    names = list(world.targets)
    bases = names[: names.index(target.name)]
    if target.base and target.base not in bases:
        world.report_unknown("unknown-target", "target", target.base, target.spans[target.base], bases)
    if target.render:
        renders = [name for name, declared in world.passes.items() if declared.kind == "render"]
        if target.render not in renders:
            span = target.spans[target.render]
            world.report_unknown("unknown-pass", "render pass", target.render, span, renders)


def _check_literal(world: World, target: syntax.Target, key: str) -> None:
    """`literal inf "…"`, or `literal float64 inf "…"`."""
    *dtypes, word = key.split(" ")
    if dtypes and dtypes[0] in ("suffix", "memory"):
        return
    if word not in _LITERALS:
        hint = did_you_mean(word, _LITERALS) or "one of " + ", ".join(_LITERALS)
        message = f"no constant is written `{word}`"
        world.report("unknown-word", message, target.spans.get(word, target.span), hint)
    for name in dtypes:
        if world.table.resolve_dtypes(name) is None:
            known = [*world.table.dtypes, *world.table.dtype_classes]
            world.report_unknown("unknown-dtype", "dtype", name, target.spans.get(name, target.span), known)


def _check_asked(world: World, target: syntax.Target) -> None:
    """Its limits and flags are declared, with numbers of their types; and it is not a misspelling of another target."""
    for name, number in sorted(target.limits.items()):
        span = target.spans.get(f"limit {name}", target.span)
        check_declared(world, "limit", name, span)
        if name in world.limits:
            _check_number(world, world.limits[name], number, span)
    for name in sorted(target.flags):
        check_declared(world, "flag", name, target.spans.get(name, target.span))
    if not (target.render or target.base or target.ops or target.features):
        others = [name for name, other in world.targets.items() if other is not target and other.ops]
        if close := did_you_mean(target.name, others):
            message = f"the target `{target.name}` has no ops"
            world.report("unknown-target", message, world.locate(target.span, target.name), close)


def _check_features(world: World, target: syntax.Target) -> None:
    """They are features of a target, no other declaration is of the same ones, and no whole target comes with them."""
    base, *features = target.name.split("+")
    if base not in world.targets:
        plain = [name for name, declared in world.targets.items() if not declared.features]
        world.report_unknown("unknown-target", "target", base, world.locate(target.span, base), plain)
    if len(set(features)) < len(features):
        world.report("duplicate-key", f"`{target.name}` names a feature twice", target.span)
    for name, other in world.targets.items():
        if other is target:
            break
        if name.split("+")[0] == base and set(other.features) == set(features):
            message = f"`{target.name}` is declared already, as `{name}`"
            hint = f"write `target {name.replace('+', ' + ')}`, in one place"
            world.report("duplicate-declaration", message, target.span, hint, first_declared(other.span))
            break
    if target.base:
        message = f"`use` does not stand in what features add: all of `{target.base}` would come with them"
        hint = f"leave the line out: what `{base}` has is there"
        world.report("unknown-clause", message, target.spans[target.base], hint)
