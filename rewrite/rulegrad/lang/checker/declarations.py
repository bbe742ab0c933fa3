"""Declarations as wholes: duplicates, unions, passes, functions, definitions, externs, pipelines."""

from __future__ import annotations

from rulegrad._core import MOST_PARAMETERS
from rulegrad.lang import syntax
from rulegrad.lang.builtins import BUILTINS
from rulegrad.lang.checker.calls import ATTRIBUTE_TYPES, attribute_type, check_literal
from rulegrad.lang.checker.dataflow import check_dataflow
from rulegrad.lang.checker.expressions import GUARD, TEMPLATE, ExpressionChecker
from rulegrad.lang.checker.fields import bind_let
from rulegrad.lang.checker.rules import Setting, check_rules, check_test
from rulegrad.lang.checker.scope import PARAMETER, VALUE, Binding, Scope
from rulegrad.lang.checker.world import World, Written, first_declared
from rulegrad.lang.diagnostics import did_you_mean
from rulegrad.lang.walk import expressions_in

EXTERN_TYPES = (*ATTRIBUTE_TYPES, "node")
_MOST_EXPANDED = 10_000  # expressions of a definition; ours have at most a few hundred
_SPACES: dict[type, str] = {
    syntax.DtypeDeclaration: "op table",
    syntax.ClassDeclaration: "op table",
    syntax.OpDeclaration: "op table",
    syntax.Function: "function",
    syntax.Definition: "function",
    syntax.Extern: "function",
    syntax.View: "function",
}


def check_duplicates(world: World) -> None:
    """Names declared twice; functions must not hide built-ins or ops."""
    seen: dict[tuple[str, str], syntax.Declaration] = {}
    for declaration in world.declarations:
        if isinstance(declaration, syntax.PipelineEdit | syntax.RulesOff):
            continue
        space = _SPACES.get(type(declaration), type(declaration).__name__)
        name = declaration.name
        first = seen.setdefault((space, name), declaration)
        if first is not declaration:
            message = f"`{name}` is declared already"
            notes = first_declared(first.span)
            hint = "put both together, or take another name"
            world.report("duplicate-declaration", message, declaration.span, hint, notes)
        elif space == "function" and name in BUILTINS:
            message = f"`{name}` is a built-in function"
            world.report("duplicate-declaration", message, declaration.span, "take another name")
        elif isinstance(declaration, syntax.OpDeclaration) and ("function", name.lower()) in seen:
            function = seen["function", name.lower()]
            message = f"`{name}` is called as `{name.lower()}(…)` too, and that is a function"
            notes = first_declared(function.span)
            world.report("duplicate-declaration", message, declaration.span, "take another name", notes)
        elif space == "function" and ("op table", op := world.table.by_function_name.get(name, "")) in seen:
            notes = first_declared(seen["op table", op].span)
            message = f"`{name}` is an op, {op}"
            world.report("duplicate-declaration", message, declaration.span, "take another name", notes)


def check_ruleset(world: World, ruleset: syntax.Ruleset) -> None:
    """Its rules; or the sets of its union, none of which may contain it."""
    kind = "render" if _gives_texts(world, ruleset.name) else "ruleset"
    check_rules(world, ruleset.rules, Setting(kind, walk=True))
    for name in ruleset.union:
        if name not in world.rulesets:
            span = world.locate(ruleset.span, name)
            world.report_unknown("unknown-ruleset", "rule set", name, span, world.rulesets)
    if _contains(world, ruleset.name, ruleset.union):
        message = f"the rule set `{ruleset.name}` contains itself"
        world.report("cyclic-union", message, ruleset.span)


def _contains(world: World, name: str, union: tuple[str, ...]) -> bool:
    waiting, seen = list(union), set[str]()
    while waiting:
        part = waiting.pop()
        if part == name:
            return True
        if part in world.rulesets and part not in seen:
            seen.add(part)
            waiting.extend(world.rulesets[part].union)
    return False


def check_pass(world: World, declaration: syntax.Pass) -> None:
    """Rule sets and functions that it uses exist; its rules and priorities are right."""
    for name in declaration.uses:
        span = world.locate(declaration.span, name)
        if declaration.kind == "reverse":
            if name not in world.functions:
                what = "function on nodes"
                world.report_unknown("unknown-function", what, name, span, world.functions)
        elif name not in world.rulesets:
            world.report_unknown("unknown-ruleset", "rule set", name, span, world.rulesets)
        elif _gives_texts(world, name) not in (None, declaration.kind == "render"):
            what = "texts, but this is not a" if declaration.kind != "render" else "no texts, but this is a"
            message = f"the rules of `{name}` give {what} render pass"
            world.report("misplaced-text", message, span)
    for op, _ in declaration.prefixes:
        if op not in world.table.ops:
            span = world.locate(declaration.span, op)
            world.report_unknown("unknown-op", "op", op, span, world.table.ops)
    for priority in declaration.priorities:
        _check_priority(world, priority)
    check_dataflow(world, declaration)
    if declaration.kind == "choose":
        _check_cost(world, declaration)
    whole = declaration.direction == "walk" or declaration.kind in ("collect", "flow")
    check_rules(world, declaration.rules, Setting(declaration.kind, walk=whole))
    world.dataflow = {}


def _check_cost(world: World, declaration: syntax.Pass) -> None:
    """The cost is a function of the node alone."""
    name = declaration.cost
    if not name:
        message = f"the pass `{declaration.name}` has no cost: which candidate is the best?"
        world.report("missing-cost", message, declaration.span, "write `cost FUNCTION`, a function on nodes")
    elif name not in world.functions:
        span = world.locate(declaration.span, name)
        world.report_unknown("unknown-function", "function on nodes", name, span, world.functions)
    elif len(world.functions[name].parameters) != 1:
        span = world.locate(declaration.span, name)
        message = f"`{name}` takes more than the node: it cannot be a cost"
        world.report("wrong-argument-count", message, span, "a cost is a function of one node")


def _gives_texts(world: World, name: str) -> bool | None:
    """Whether a rule set is for a render pass; None when it has no rules of its own."""
    rules = world.rulesets[name].rules
    return any(isinstance(rule.template, syntax.Text) for rule in rules) if rules else None


def _check_priority(world: World, priority: syntax.Priority) -> None:
    ops = world.table.resolve_ops(priority.op)
    if ops is None:
        known = [*world.table.ops, *world.table.op_classes]
        world.report_unknown("unknown-op", "op", priority.op, priority.span, known)
        return
    for attribute in priority.attributes:
        typed = attribute_type(world, ops, attribute, alone=len(priority.attributes) == 1)
        if typed is not None:
            check_literal(world, *typed, attribute.value)


def check_function(world: World, function: syntax.Function) -> None:
    """The rules of a function on nodes, and how many parameters it has."""
    if len(function.parameters) > MOST_PARAMETERS:
        message = f"`{function.name}` has {len(function.parameters)} parameters, and {MOST_PARAMETERS} are the most"
        span = world.locate(function.span, function.parameters[MOST_PARAMETERS])
        world.report("too-many-parameters", message, span, "pass several as one, a sequence: `[a, b]`")
    check_rules(world, function.rules, Setting("function", function.parameters[1:]))


def check_definition(world: World, definition: syntax.Definition) -> None:
    """Its names; it must not expand to itself."""
    scope = Scope()
    for parameter in definition.parameters:
        if scope.find(parameter) is not None:
            world.report("rebound-name", f"`{parameter}` is declared already", definition.span)
        scope.bind(Binding(parameter, PARAMETER, VALUE, definition.span))
    for clause in definition.lets:
        if clause.expression is not None:
            ExpressionChecker(world, scope, GUARD).check(clause.expression)
        bind_let(world, scope, clause)
    ExpressionChecker(world, scope, TEMPLATE).check(definition.body)
    for binding in scope.bindings.values():
        if not binding.uses:
            message = f"the {binding.source} `{binding.name}` is not used"
            world.report("unused-name", message, binding.span, "leave it out")
    cycle = _expansion_cycle(world, definition)
    if cycle:
        message = f"`{definition.name}` expands to itself: {' -> '.join(cycle)}"
        hint = "an abbreviation cannot be recursive: write a `function`"
        world.report("cyclic-definition", message, definition.span, hint)
        return
    size = _expanded_size(world, definition)
    used = (world.expanded.get(name, 0) for name in _written(world, definition).calls)
    if size > _MOST_EXPANDED >= max(used, default=0):
        message = f"`{definition.name}` expands to {size:,} expressions, and {_MOST_EXPANDED:,} are the most"
        hint = "keep what is computed twice in a `let`, or write a `function`, whose results are kept"
        world.report("large-definition", message, definition.span, hint)


def _expanded_size(world: World, start: syntax.Definition) -> int:
    """How many expressions a definition is with those that it uses written out; a cycle counts once.

    World keeps it, of each definition.
    """
    sizes, waiting = world.expanded, [start]
    while waiting:
        definition = waiting[-1]
        calls = _written(world, definition).calls
        used = [world.definitions[name] for name in calls if name in world.definitions]
        missing = [one for one in used if one.name not in sizes and one not in waiting]
        if missing:
            waiting.append(missing[0])
        else:
            waiting.pop()
            sizes[definition.name] = _written(world, definition).parts + sum(sizes.get(one.name, 0) for one in used)
    return sizes[start.name]


def _bodies(definition: syntax.Definition) -> tuple[syntax.Expression, ...]:
    return definition.body, *(c.expression for c in definition.lets if c.expression is not None)


def _written(world: World, definition: syntax.Definition) -> Written:
    """How many expressions a definition is, and what it calls; World keeps it."""
    if id(definition) not in world.written:
        parts = [part for body in _bodies(definition) for part in expressions_in(body)]
        calls = [part.function for part in parts if isinstance(part, syntax.Call)]
        world.written[id(definition)] = Written(definition, len(parts), calls)
    return world.written[id(definition)]


def _expansion_cycle(world: World, start: syntax.Definition) -> list[str]:
    """A chain of definitions that leads back to `start`."""
    waiting: list[tuple[syntax.Definition, list[str]]] = [(start, [start.name])]
    seen: set[str] = set()
    while waiting:
        definition, path = waiting.pop()
        for name in sorted(set(_written(world, definition).calls)):
            if name == start.name:
                return [*path, name]
            if name in world.definitions and name not in seen:
                seen.add(name)
                waiting.append((world.definitions[name], [*path, name]))
    return []


def check_extern(world: World, extern: syntax.Extern) -> None:
    """Known types, and at least one test."""
    for kind in (*(kind for _, kind in extern.parameters), *extern.result):
        if kind not in EXTERN_TYPES:
            hint = did_you_mean(kind, EXTERN_TYPES) or "one of " + ", ".join(EXTERN_TYPES)
            span = world.locate(extern.span, kind)
            world.report("unknown-type", f"there is no type `{kind}`", span, hint)
    if not extern.tests:
        message = f"the extern `{extern.name}` has no test"
        hint = f"add lines `test {extern.name}(...) -> ...` below"
        world.report("untested-extern", message, extern.span, hint)
    for test in extern.tests:
        check_test(world, test)


def check_pipeline(world: World, pipeline: syntax.Pipeline) -> None:
    """Its steps are passes."""
    for step in pipeline.steps:
        if step not in world.passes:
            span = world.locate(pipeline.span, step)
            world.report_unknown("unknown-pass", "pass", step, span, world.passes)
