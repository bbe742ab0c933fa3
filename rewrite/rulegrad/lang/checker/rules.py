"""Rules: the pattern binds, the clauses add, the template uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rulegrad.errors import RuleError
from rulegrad.lang import syntax
from rulegrad.lang.checker.dtypes import describe, dtypes_of
from rulegrad.lang.checker.expressions import GUARD, TEMPLATE, TEST, ExpressionChecker, Place
from rulegrad.lang.checker.fields import fields_bound
from rulegrad.lang.checker.needs import check_needs
from rulegrad.lang.checker.patterns import PatternChecker
from rulegrad.lang.checker.scope import (
    CAPTURE,
    CHOICE,
    DTYPE,
    GENERIC,
    LET,
    OP,
    PARAMETER,
    VALUE,
    VARIABLE,
    Binding,
    Scope,
)
from rulegrad.lang.checker.world import World, first_declared
from rulegrad.lang.diagnostics import misspelled
from rulegrad.lang.targets import find
from rulegrad.lang.walk import calls_in


@dataclass(frozen=True, slots=True)
class Setting:
    """The context of a rule: `kind` is ruleset, a kind of pass, function, fact or send."""

    kind: str
    parameters: tuple[str, ...] = ()  # of a function, after the first
    walk: bool = False  # `uses` may be called

    @property
    def rewrites(self) -> bool:
        """Whether a template takes the matched node's place."""
        return self.kind not in ("render", "function", "fact", "send")


def check_rules(world: World, rules: Sequence[syntax.Rule], setting: Setting) -> None:
    """All rules of a set, a pass or a function."""
    names: dict[str, syntax.Rule] = {}
    for rule in rules:
        first = names.setdefault(rule.name, rule)
        if first is not rule:
            message = f"there are two rules `{rule.name}`"
            world.report("duplicate-rule", message, rule.name_span, "take another name", first_declared(first.span))
    for rule in rules:
        if world.is_sound(rule):
            continue
        _RuleChecker(world, setting, rule).check()
        _check_order(world, rule, names)
        if setting.rewrites and not rule.tests and not _asks_for_consumers(rule):
            message = f"the rule `{rule.name}` has no test"
            world.report("untested-rule", message, rule.name_span, "add `test left -> right`")
    if setting.kind == "function" and rules and not any(rule.tests for rule in rules):
        hint = "add `test left -> right` to one of its rules"
        world.report("untested-rule", "no rule of this function has a test", rules[0].name_span, hint)


def _asks_for_consumers(rule: syntax.Rule) -> bool:
    """Such a rule depends on the graph around the node, and a test line has none."""
    expressions = [c.expression for c in rule.clauses if c.expression is not None]
    return any("uses" in calls_in(x) for x in (*expressions, rule.template))


def check_dataflow_rule(world: World, rule: syntax.Rule, kind: str) -> None:
    """The pattern, clauses and value of a fact or a send."""
    _RuleChecker(world, Setting(kind, walk=True), rule).check()
    for test in rule.tests:
        hint = "test the rules of the pass: they are tried with the facts and states"
        world.report("unexpected-block", "facts and states of a pass have no tests of their own", test.span, hint)


def _check_order(world: World, rule: syntax.Rule, names: dict[str, syntax.Rule]) -> None:
    """`before` and `after` name rules of this set, or `set.rule`."""
    ordering = [clause for clause in rule.clauses if clause.keyword in ("before", "after")]
    if not ordering:
        return
    for clause in ordering:
        for name in clause.names:
            if name not in names and name not in world.rules_of_sets:
                span, known = world.locate(clause.span, name), {*names, *world.rules_of_sets}
                world.report_unknown("unknown-rule", "rule in this set called", name, span, known)


class _RuleChecker:
    def __init__(self, world: World, setting: Setting, rule: syntax.Rule) -> None:
        self.world = world
        self.setting = setting
        self.rule = rule
        self.scope = Scope()

    def check(self) -> None:
        rule, reported = self.rule, len(self.world.diagnostics)
        for parameter in self.setting.parameters:
            self.scope.bind(Binding(parameter, PARAMETER, VALUE, rule.span, uses=1))
        for generic in rule.generics:
            self._generic(generic)
        PatternChecker(self.world, self.scope).check_rule(rule.pattern)
        for clause in rule.clauses:
            self._clause(clause)
        self._template(rule.template)
        if self.setting.rewrites:
            self._dtypes()
        if not any(d.is_error for d in self.world.diagnostics[reported:]):
            self._unused()
        for test in rule.tests:
            check_test(self.world, test)

    def _generic(self, generic: syntax.Generic) -> None:
        table = self.world.table
        kind, members = table.resolve_generic(generic.classes)
        if generic.classes and not members:
            kind = "op" if generic.name.islower() else "dtype"
        resolve = table.resolve_ops if kind == "op" else table.resolve_dtypes
        for name in generic.classes:
            if resolve(name) is None:
                known = [*table.ops, *table.op_classes, *table.dtypes, *table.dtype_classes]
                what = f"{kind} or {kind} class" if members else "class, op or dtype"
                span = self.world.locate(generic.span, name)
                self.world.report_unknown("unknown-class", what, name, span, known)
        if self.scope.find(generic.name) is not None:
            self.world.report("rebound-name", f"`{generic.name}` is declared already", generic.span)
        is_op = kind == "op"
        self.scope.bind(
            Binding(
                generic.name,
                GENERIC,
                OP if is_op else DTYPE,
                generic.span,
                ops=members if is_op else None,
                dtypes=None if is_op or not members else members,
                bound=False,
            )
        )

    def _place(self, place: Place) -> Place:
        if not self.setting.walk:
            return place
        return Place(place.builtins, place.builds, place.is_test, has_uses=True)

    def _clause(self, clause: syntax.Clause) -> None:
        if clause.keyword == "needs" and clause.expression is not None:
            check_needs(self.world, self.scope, clause.expression)
        elif clause.keyword != "ulp" and clause.expression is not None:
            if clause.keyword == "least":
                self._has_choices(clause)
            checker = ExpressionChecker(self.world, self.scope, self._place(GUARD))
            checker.check(clause.expression)
            if clause.keyword in ("if", "least"):
                checker.refuse_record(clause.expression)
        elif clause.of is not None:
            ExpressionChecker(self.world, self.scope, self._place(TEMPLATE)).check(clause.of)
        if clause.keyword in ("let", "for"):
            self._bind(clause)

    def _has_choices(self, least: syntax.Clause) -> None:
        """A `for` stands between it and the `least` above it."""
        clauses = self.rule.clauses
        above = [c.keyword for c in clauses[: clauses.index(least)] if c.keyword in ("for", "least")]
        if above[-1:] != ["for"]:
            message = "`least` has nothing to choose from: there is no `for` above it"
            self.world.report("misplaced-clause", message, least.span, "write `for NAME in SEQUENCE` before it")

    def _bind(self, clause: syntax.Clause) -> None:
        """The names of a `let` or a `for`; records and rows of tables are known as such."""
        fields, items = fields_bound(self.world, self.scope, clause)
        for name in clause.names:
            if name == "_":
                continue
            binding = self.scope.find(name)
            if binding is not None:
                hint = "compare with `if`, or take another name"
                message = f"`{name}` is a {binding.source} already"
                self.world.report("rebound-name", message, clause.span, hint)
            else:
                source = CHOICE if clause.keyword == "for" else LET
                self.scope.bind(Binding(name, source, VALUE, clause.span, fields=fields, items=items))

    def _template(self, template: syntax.Expression) -> None:
        is_text = isinstance(template, syntax.Text)
        if is_text != (self.setting.kind == "render"):
            if is_text:
                message, hint = "a text template stands in a render pass only", ""
            else:
                message = "a rule of a render pass gives a text"
                hint = 'write `expr "..."`, `inline "..."`, `stmt "..."` or `block "..." close "..."`'
            self.world.report("misplaced-text", message, template.span, hint)
            return
        checker = ExpressionChecker(self.world, self.scope, self._place(TEMPLATE))
        checker.check(template)
        if self.setting.kind in ("ruleset", "rewrite"):
            checker.refuse_record(template)

    def _dtypes(self) -> None:
        """The template's dtype must be able to be the pattern's."""
        pattern = dtypes_of(self.world, self.scope, self.rule.pattern)
        template = dtypes_of(self.world, self.scope, self.rule.template)
        if pattern is not None and template is not None and not pattern & template:
            found, wanted = describe(self.world, template), describe(self.world, pattern)
            message = f"the template is {found}, but the pattern is {wanted}"
            self.world.report("dtype-mismatch", message, self.rule.template.span)

    def _unused(self) -> None:
        for binding in self.scope.bindings.values():
            if binding.uses or binding.source == VARIABLE:
                continue
            is_of_dtype = binding.source == CAPTURE and binding.kind == DTYPE
            if is_of_dtype and (close := misspelled(binding.name, self.world.table.dtypes, numbers=True)):
                message = f"there is no dtype `{binding.name}`, and nothing uses it as a name for any dtype"
                self.world.report("unknown-dtype", message, binding.span, close)
                continue
            hint = "write `_` in its place" if binding.source in (CAPTURE, LET, CHOICE) else "leave it out"
            message = f"the {binding.source} `{binding.name}` is not used"
            self.world.report("unused-name", message, binding.span, hint)


def check_test(world: World, test: syntax.RuleTest) -> None:
    """The two sides of a test share their variables; its target and that's features are declared."""
    if test.target:
        try:
            find(world.declarations, test.target)
        except RuleError as error:
            world.report("unknown-target", error.problem, world.locate(test.span, test.target.split("+")[0]))
    checker = ExpressionChecker(world, Scope(), TEST)
    checker.check(test.left)
    if test.right is not None:
        checker.check(test.right)
