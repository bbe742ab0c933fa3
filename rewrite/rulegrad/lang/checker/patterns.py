"""Patterns: what they bind, and what can stand in one."""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad.lang import syntax
from rulegrad.lang.builtins import BUILTINS
from rulegrad.lang.checker.calls import (
    attribute_type,
    check_arity,
    check_literal,
    check_reference,
    is_reference,
    is_sequence,
    ops_of,
    report_unknown_dtype,
    require_generic,
)
from rulegrad.lang.checker.expressions import GUARD, ExpressionChecker
from rulegrad.lang.checker.scope import CAPTURE, DTYPE, NODE, OP, SEQUENCE, VALUE, Binding, Names, Scope
from rulegrad.lang.checker.views import check_view_arguments
from rulegrad.lang.checker.world import World
from rulegrad.lang.names import values_of_view
from rulegrad.lang.notation import notation_of

MOST_MEMBERS = 3  # of a multiset, besides the rest

_NOT_IN_PATTERNS = {
    syntax.Comprehension: "a comprehension",
    syntax.Subscript: "an index",
    syntax.Slice: "a slice",
    syntax.Member: "a member",
    syntax.Attribute: "an argument with a name",
    syntax.Conditional: "a condition",
    syntax.Sequence: "a sequence",
    syntax.SetLiteral: "a set",
    syntax.Text: "a text",
    syntax.Splice: "`...`",
    syntax.Substitution: "`subst`",
    syntax.Fold: "`fold`",
}


class PatternChecker:
    """Binds the names of one rule's pattern in `scope` and reports what a pattern cannot have."""

    def __init__(self, world: World, scope: Scope) -> None:
        self.world = world
        self.scope = scope
        self.computed: list[syntax.Expression] = []
        self.negations: list[tuple[syntax.Negation, str]] = []

    def check_rule(self, pattern: syntax.Expression) -> None:
        """A rule's pattern; what it computes may use every name that it binds."""
        self.check(pattern)
        for negation, kind in self.negations:
            inner = PatternChecker(self.world, Scope(self.scope))
            inner.check(negation.pattern, kind)
            self.computed.extend(inner.computed)
        for expression in self.computed:
            ExpressionChecker(self.world, self.scope, GUARD).check(expression)

    def check(self, pattern: syntax.Expression, kind: str = NODE) -> None:
        """A pattern of one node; `kind` is SEQUENCE inside `(pattern)...`, where names stand for many."""
        if isinstance(pattern, syntax.Name):
            self._name(pattern, kind)
        elif isinstance(pattern, syntax.Literal):
            if pattern.value is None or isinstance(pattern.value, str):
                self._misplaced(pattern, "this literal")
        elif isinstance(pattern, syntax.Capture):
            ops = self._ops_of_pattern(pattern.pattern)
            self._bind(pattern.name, kind, pattern.span, ops=ops)
            self.check(pattern.pattern, kind)
        elif isinstance(pattern, syntax.Infix):
            self._infix(pattern, kind)
        elif isinstance(pattern, syntax.Negation):
            self.negations.append((pattern, kind))
        elif isinstance(pattern, syntax.Multiset):
            self._multiset(pattern, kind)
        elif isinstance(pattern, syntax.Prefix):
            if notation_of(pattern) is None:
                self._misplaced(pattern, f"`{pattern.operator}`")
            self.check(pattern.operand, kind)
        elif isinstance(pattern, syntax.OpCall):
            self._op_call(pattern, kind)
        elif isinstance(pattern, syntax.Call):
            self._call(pattern, kind)
        elif isinstance(pattern, syntax.Compute):
            self.computed.append(pattern.inner)
        else:
            self._misplaced(pattern, _NOT_IN_PATTERNS.get(type(pattern), "this"))

    def _misplaced(self, pattern: syntax.Expression, what: str) -> None:
        self.world.report("misplaced-expression", f"{what} cannot stand in a pattern", pattern.span)

    def _ops_of_pattern(self, pattern: syntax.Expression) -> Names | None:
        """The ops that a node matching this can have, None when it can be any."""
        if isinstance(pattern, (syntax.OpCall, syntax.Call)):
            name = pattern.op if isinstance(pattern, syntax.OpCall) else pattern.function
            variable = self.scope.find(name)
            if variable is not None and variable.kind == OP:
                return variable.ops
            return self.world.table.resolve_ops(self.world.table.op_called(name) or name)
        return None

    def _multiset(self, pattern: syntax.Multiset, kind: str) -> None:
        members = [item for item in pattern.items if not isinstance(item, syntax.Splice)]
        rests = [item for item in pattern.items if isinstance(item, syntax.Splice)]
        if len(members) > MOST_MEMBERS:
            message = f"more than {MOST_MEMBERS} members: too many ways to choose them"
            hint = "match some of them in another rule, or in `let` and `if` lines"
            self.world.report("too-many-members", message, members[MOST_MEMBERS].span, hint)
        if len(rests) > 1:
            message = "a second sequence: it cannot be told where the first ends"
            self.world.report("two-sequences", message, rests[1].span)
        for member in members:
            self.check(member, kind)
        for rest in rests:
            self.check(rest.inner, SEQUENCE)

    def _view(self, view: syntax.View, call: syntax.Call, kind: str) -> None:
        check_view_arguments(self.world, view, call)
        values = values_of_view(view)
        for parameter, argument in zip(view.parameters, call.arguments, strict=False):
            if parameter not in values:
                self.check(argument, kind)
            elif isinstance(argument, syntax.Name):
                if argument.dtype is not None or argument.is_const:
                    message = f"`{parameter}` of `{view.name}` is a value"
                    self.world.report("misplaced-annotation", message, argument.span)
                self._bind(argument.name, SEQUENCE if kind == SEQUENCE else VALUE, argument.span)
            elif isinstance(argument, syntax.Compute):
                self.computed.append(argument.inner)
            elif not isinstance(argument, syntax.Literal):
                message = f"`{parameter}` of `{view.name}` is a value: no pattern can stand here"
                hint = "write a name, a literal or `{...}`"
                self.world.report("misplaced-expression", message, argument.span, hint)

    # ---- names ----

    def _name(self, name: syntax.Name, kind: str) -> None:
        if name.name in self.world.table.ops and not self.scope.find(name.name):
            hint = f"write `{name.name}(...)`"
            self.world.report("misplaced-expression", f"`{name.name}` is an op", name.span, hint)
            return
        if name.bounds is not None or name.shape is not None:
            self.world.report("misplaced-annotation", "bounds and shapes stand in tests only", name.span)
        if name.one and kind != SEQUENCE:
            self.world.report("misplaced-annotation", "`one` stands inside `(pattern)...` only", name.span)
        dtypes = self._dtypes(name)
        self._bind(name.name, NODE if name.one else kind, name.span, dtypes=dtypes)

    def _dtypes(self, name: syntax.Name) -> Names | None:
        """The dtypes that `x:T` allows; binds the dtype variable."""
        if name.dtype is None:
            return None
        variable = self.scope.use(name.dtype)
        if variable is not None and variable.kind == DTYPE:
            variable.bound = True
            return variable.dtypes
        dtypes = self.world.table.resolve_dtypes(name.dtype)
        if dtypes is None:
            report_unknown_dtype(self.world, self.scope, name.dtype, name.span)
        return dtypes

    def _bind(
        self, name: str, kind: str, span: syntax.Span, dtypes: Names | None = None, ops: Names | None = None
    ) -> None:
        """Binds a capture, or asks for equality with an earlier one."""
        if name == "_":
            return
        binding = self.scope.find(name)
        if binding is None:
            self.scope.bind(Binding(name, CAPTURE, kind, span, ops=ops, dtypes=dtypes))
            return
        binding.uses += 1
        if binding.kind in (OP, DTYPE) and kind != VALUE:
            self.world.report("rebound-name", f"`{name}` is a variable of the rule already", span)
        elif dtypes is not None:
            binding.dtypes = dtypes if binding.dtypes is None else binding.dtypes & dtypes

    # ---- ops ----

    def _infix(self, pattern: syntax.Infix, kind: str) -> None:
        found = notation_of(pattern)
        if found is None:
            hint = "the ops are `&` and `|`; conditions stand after `if`; two patterns are two rules"
            message = f"`{pattern.operator}` cannot stand in a pattern"
            self.world.report("misplaced-expression", message, pattern.span, hint)
        elif found.name in self.world.table.ops and not found.ordered:
            self._refuse_const_first(frozenset((found.name,)), [pattern.left, pattern.right])
        self.check(pattern.left, kind)
        self.check(pattern.right, kind)

    def _op_call(self, call: syntax.OpCall, kind: str) -> None:
        ops, variable = ops_of(self.world, self.scope, call.op, call.span)
        if variable is not None:
            variable.bound = True
        fitting = check_arity(self.world, ops, call.arguments, call.span, call.op, builds=False)
        if variable is not None and fitting:
            variable.ops = fitting
        alone = len(call.attributes) == 1
        if call.attributes and len(ops) > 1:
            message = "the attributes of an op variable cannot be matched"
            hint = "capture the node as `n@...` and use `n.attribute` after `if`"
            self.world.report("misplaced-expression", message, call.attributes[0].span, hint)
        else:
            for attribute in call.attributes:
                self._attribute(ops, attribute, alone)
        self._arguments(ops, call.arguments, kind)

    def _call(self, call: syntax.Call, kind: str) -> None:
        variable = self.scope.use(call.function)
        if variable is None and call.function in self.world.views:
            self._view(self.world.views[call.function], call, kind)
            return
        name = self.world.table.by_function_name.get(call.function, "")
        if variable is not None and variable.kind == OP:
            require_generic(self.world, variable, call.span)
            variable.bound = True
            members = variable.ops or frozenset()
            ops = check_arity(self.world, members, call.arguments, call.span, call.function, builds=False)
            if ops:
                variable.ops = ops
        elif name:
            ops = check_arity(self.world, frozenset((name,)), call.arguments, call.span, name)
        else:
            ops = frozenset()
            self._unknown_call(call)
        self._arguments(ops, call.arguments, kind)

    def _unknown_call(self, call: syntax.Call) -> None:
        name, world = call.function, self.world
        if name in world.definitions or name in world.functions or name in world.externs or name in BUILTINS:
            is_record = name in world.definitions and world.definitions[name].is_record
            message = f"`{name}` is a {'record' if is_record else 'function'}: it cannot be matched"
            hint = "make it in a `let`" if is_record else "call it after `if`, or in `{...}`"
            world.report("misplaced-expression", message, call.span, hint)
            return
        known = [*world.table.by_function_name, *world.views, *self.scope.names()]
        world.report_unknown("unknown-function", "op, op variable or view", name, call.span, known)

    def _arguments(self, ops: Names, arguments: Sequence[syntax.Expression], kind: str) -> None:
        sequences = [argument for argument in arguments if is_sequence(argument)]
        if len(sequences) > 1:
            message = "a second sequence: it cannot be told where the first ends"
            self.world.report("two-sequences", message, sequences[1].span)
        if not sequences:
            self._refuse_const_first(ops, arguments)
        for argument in arguments:
            if isinstance(argument, syntax.Splice):
                self.check(argument.inner, SEQUENCE)
            else:
                self.check(argument, kind)

    def _refuse_const_first(self, ops: Names, arguments: Sequence[syntax.Expression]) -> None:
        """A commutative node keeps its constant last, so one that stands first is matched by nothing."""
        if len(arguments) != 2 or not ops or not all(self.world.table.ops[op].commutative for op in ops):
            return
        if _is_const(arguments[0]) and not _is_const(arguments[1]):
            message = "a commutative op keeps its constant last: nothing has one first"
            self.world.report("const-first", message, arguments[0].span, "write it as the second operand")

    # ---- attributes ----

    def _attribute(self, ops: Names, attribute: syntax.Attribute, alone: bool) -> None:
        if attribute.name == "..":
            self.world.report("misplaced-expression", "`..n` stands in templates only", attribute.span)
            return
        typed = attribute_type(self.world, ops, attribute, alone)
        self._attribute_value(attribute.value, typed)

    def _attribute_value(self, value: syntax.Expression, typed: tuple[str, str] | None) -> None:
        name, kind = typed or ("", "")
        if isinstance(value, syntax.Infix) and value.operator == "or":
            for side in (value.left, value.right):
                self._attribute_side(side, typed)
        elif isinstance(value, syntax.Negation):
            self._attribute_side(value.pattern, typed)
        elif isinstance(value, syntax.Name):
            self._attribute_name(value, kind)
        elif isinstance(value, (syntax.Literal, syntax.Sequence)):
            if typed is not None:
                check_literal(self.world, name, kind, value)
            if isinstance(value, syntax.Sequence):
                self.computed.append(value)
        else:
            self.computed.append(value)

    def _attribute_side(self, value: syntax.Expression, typed: tuple[str, str] | None) -> None:
        """One of several values, or a value that it is not: no name that would be bound."""
        is_free = isinstance(value, syntax.Name) and self.scope.find(value.name) is None
        if is_free and not is_reference(self.world, self.scope, value, (typed or ("", ""))[1]):
            message = "a name matches every value: nothing can be chosen here"
            self.world.report("misplaced-expression", message, value.span)
            return
        self._attribute_value(value, typed)

    def _attribute_name(self, name: syntax.Name, kind: str) -> None:
        if name.dtype is not None or name.is_const or name.bounds is not None:
            self.world.report("misplaced-annotation", "an attribute's value has no dtype", name.span)
        if is_reference(self.world, self.scope, name, kind):
            binding = self.scope.find(name.name)
            if binding is not None:
                binding.bound = True
            if binding is not None or self.world.table.resolve_dtypes(name.name) is None or kind == "op":
                check_reference(self.world, self.scope, name, kind)
            return
        self._bind(name.name, {"op": OP, "dtype": DTYPE}.get(kind, VALUE), name.span)


def _is_const(pattern: syntax.Expression) -> bool:
    if isinstance(pattern, syntax.Capture):
        return _is_const(pattern.pattern)
    if isinstance(pattern, syntax.Name):
        return pattern.is_const
    return isinstance(pattern, (syntax.Literal, syntax.Compute))
