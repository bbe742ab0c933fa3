"""Templates, guards, text fields, tests and the op table's expressions: names, calls and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rulegrad.errors import RuleError
from rulegrad.lang import syntax
from rulegrad.lang.arguments import arguments_of
from rulegrad.lang.builtins import BUILTINS, OP_TABLE, RENDER, RULE
from rulegrad.lang.checker.calls import (
    attribute_type,
    check_arity,
    check_literal,
    check_reference,
    check_value,
    is_reference,
    is_sequence,
    ops_of,
    require_generic,
)
from rulegrad.lang.checker.fields import check_field, fields_of, fields_of_items
from rulegrad.lang.checker.nested import check_nested_set
from rulegrad.lang.checker.scope import (
    DTYPE,
    NODE,
    OP,
    SEQUENCE,
    VALUE,
    VARIABLE,
    Binding,
    Names,
    Scope,
)
from rulegrad.lang.checker.targets import check_declared
from rulegrad.lang.checker.world import DTYPE_FIELDS, World
from rulegrad.lang.diagnostics import did_you_mean
from rulegrad.lang.optable import INFIX_OPS, SWAPPED_OPS
from rulegrad.lang.quoted_steps import StepError, as_sequence
from rulegrad.lang.steps import Steps
from rulegrad.lang.walk import parts_of

MODIFIERS = ("", "bare")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an expression stands: which built-ins it may call, whether it builds nodes, and what binds names."""

    builtins: str  # a scope of builtins.py
    builds: bool = False  # operators build nodes (templates and tests), outside `{...}`
    is_test: bool = False  # `i:range(4)` binds a variable
    has_uses: bool = False  # `uses(n)` may be called


TEMPLATE = Place(RULE, builds=True)
GUARD = Place(RULE)
TEST = Place(RULE, builds=True, is_test=True)
TEXT = Place(RENDER)
OPS = Place(OP_TABLE)


class ExpressionChecker:
    """Checks expressions in one scope."""

    def __init__(self, world: World, scope: Scope, place: Place) -> None:
        self.world = world
        self.scope = scope
        self.place = place

    def check(self, expression: syntax.Expression) -> None:
        """One expression and everything in it."""
        if isinstance(expression, syntax.Name):
            self._name(expression)
        elif isinstance(expression, syntax.OpCall):
            self._op_call(expression)
        elif isinstance(expression, syntax.Call):
            self._call(expression)
        elif isinstance(expression, syntax.Infix):
            self._infix(expression)
        elif isinstance(expression, syntax.Prefix):
            self.check(expression.operand)
            self.refuse_record(expression.operand)
        elif isinstance(expression, syntax.Compute):
            self._inside_braces(expression)
        elif isinstance(expression, syntax.Comprehension):
            self._comprehension(expression)
        elif isinstance(expression, syntax.Member):
            self._member(expression)
        elif isinstance(expression, syntax.Text):
            self._text(expression)
        elif isinstance(expression, syntax.Multiset):
            self._sources(expression.items)
        elif isinstance(expression, syntax.Fold):
            self._fold(expression)
        elif isinstance(expression, Steps):
            self._steps(expression)
        elif isinstance(expression, syntax.Capture):
            message = "`name@pattern` stands in patterns only"
            self.world.report("misplaced-expression", message, expression.span, "name it with `let`")
        else:
            for part in parts_of(expression):
                self.check(part)

    def _inside(self, scope: Scope | None = None, builds: bool | None = None) -> ExpressionChecker:
        place = self.place
        if builds is not None and builds != place.builds:
            place = Place(place.builtins, builds, place.is_test, place.has_uses)
        return ExpressionChecker(self.world, scope or self.scope, place)

    def _inside_braces(self, compute: syntax.Compute) -> None:
        self._inside(builds=False).check(compute.inner)

    # ---- names ----

    def _name(self, name: syntax.Name) -> None:
        annotated = name.dtype is not None or name.bounds is not None or name.is_const or name.one
        if annotated:
            self._annotated(name)
            return
        if self.scope.use(name.name) is not None:
            self._require_bound(name)
            return
        table = self.world.table
        if name.name in self.world.tables:
            return
        if table.resolve_ops(name.name) is None and table.resolve_dtypes(name.name) is None:
            self._unbound(name.name, name.span)

    def _require_bound(self, name: syntax.Name) -> None:
        binding = self.scope.find(name.name)
        if binding is not None and not binding.bound:
            message = f"the variable `{name.name}` is not in the pattern, so nothing gives it a value"
            self.world.report("unbound-name", message, name.span)
            binding.bound = True

    def _unbound(self, name: str, span: syntax.Span) -> None:
        if name == "_":
            message, hint = "`_` has no value: it matches and binds nothing", "give it a name"
        else:
            message, hint = f"nothing binds `{name}`", did_you_mean(name, self.scope.names())
            hint = hint or did_you_mean(name, [*self.world.table.dtypes, *self.world.table.dtype_classes])
        if self.place.is_test and not hint:
            hint = f"give it a kind where it stands first: `{name}:int32`, `{name}:range(8)`"
        self.world.report("unbound-name", message, span, hint)

    def _annotated(self, name: syntax.Name) -> None:
        if not self.place.is_test:
            message = "a kind stands in patterns and tests only"
            self.world.report("misplaced-annotation", message, name.span)
            self.scope.use(name.name)
            return
        if name.is_const or name.one:
            word = "const" if name.is_const else "one"
            message = f"a variable of a test cannot be `{word}`"
            self.world.report("misplaced-annotation", message, name.span, "write a number, or a dtype")
            return
        dtypes = frozenset(("index",))
        if name.dtype is not None:
            if name.dtype not in self.world.table.dtypes:
                what = "dtype"
                known = self.world.table.dtypes
                self.world.report_unknown("unknown-dtype", what, name.dtype, name.span, known)
            dtypes = frozenset((name.dtype,))
        self.scope.bind(Binding(name.name, VARIABLE, NODE, name.span, dtypes=dtypes))

    # ---- operators ----

    def _infix(self, infix: syntax.Infix) -> None:
        self.check(infix.left)
        self.check(infix.right)
        if isinstance(infix.left, syntax.Member) and infix.operator in ("==", "!=", "in", "not in"):
            check_value(self.world, infix.left.name, infix.right, self.world.table.ops.values())
        self._compared(infix)
        is_op = infix.operator in INFIX_OPS or infix.operator in SWAPPED_OPS
        if is_op and infix.operator not in ("==", "!="):
            self.refuse_record(infix.left)
            self.refuse_record(infix.right)
        if self.place.builds and is_op:
            self._refuse_sequences((infix.left, infix.right))

    def _compared(self, infix: syntax.Infix) -> None:
        """A record, or a row, equals no sequence."""
        for one, other in ((infix.left, infix.right), (infix.right, infix.left)):
            found = fields_of(self.world, self.scope, one)
            if infix.operator in ("==", "!=") and found is not None and isinstance(other, syntax.Sequence):
                message = f"a {'row' if found.what == 'table' else 'record'} of `{found.of}` equals no sequence"
                hint = "compare its fields: " + ", ".join(found.names)
                self.world.report("misplaced-expression", message, infix.span, hint)

    def _refuse_sequences(self, sources: Sequence[syntax.Expression], hint: str = "") -> None:
        for source in sources:
            if isinstance(source, syntax.Name):
                binding = self.scope.find(source.name)
                if binding is not None and binding.kind == SEQUENCE:
                    message = f"`{source.name}` is a sequence, but a node is wanted"
                    usual = "write `NAME...` among an op's sources, or a comprehension"
                    shown = (hint or usual).replace("NAME", source.name)
                    self.world.report("missing-splice", message, source.span, shown)

    # ---- calls ----

    def _op_call(self, call: syntax.OpCall) -> None:
        ops, _ = ops_of(self.world, self.scope, call.op, call.span)
        self._require_bound(syntax.Name(call.span, call.op))
        check_arity(self.world, ops, call.arguments, call.span, call.op)
        alone = sum(attribute.name != ".." for attribute in call.attributes) == 1
        for attribute in call.attributes:
            self._attribute(ops, attribute, alone)
        if len(ops) == 1:
            self._require_attributes(call, next(iter(ops)))
        self._sources(call.arguments, nodes="CONST" not in ops)

    def _sources(self, arguments: Sequence[syntax.Expression], nodes: bool = True) -> None:
        for argument in arguments:
            self.check(argument)
        if nodes:
            self._refuse_sequences([a for a in arguments if not is_sequence(a)])
            for argument in arguments:
                self.refuse_record(argument)

    def refuse_record(self, x: syntax.Expression) -> None:
        """A record, as far as that is known, does not stand where a node or the value of an attribute is wanted."""
        found = fields_of(self.world, self.scope, x)
        if found is not None:
            kind = f"row of `{found.of}`" if found.what == "table" else f"record `{found.of}`"
            message = f"this is a {kind}, not a node or a number"
            self.world.report(
                "misplaced-expression", message, x.span, "take one of its fields: " + ", ".join(found.names)
            )

    def _attribute(self, ops: Names, attribute: syntax.Attribute, alone: bool) -> None:
        if attribute.name == "..":
            self.check(attribute.value)
            return
        typed = attribute_type(self.world, ops, attribute, alone)
        value = attribute.value
        name, kind = typed or ("", "")
        if isinstance(value, syntax.Name) and is_reference(self.world, self.scope, value, kind):
            check_reference(self.world, self.scope, value, kind)
            self._require_bound(value)
            return
        if typed is not None:
            check_literal(self.world, name, kind, value)
        self._inside(builds=False).check(value)
        self.refuse_record(value)

    def _require_attributes(self, call: syntax.OpCall, name: str) -> None:
        """Every attribute without a default is given, or taken from another node."""
        given = {attribute.name for attribute in call.attributes}
        op = self.world.table.ops[name]
        if ".." in given or name == "CONST":
            return
        declared = list(op.attributes.values())
        if None in given and not op.explicit:
            declared = declared[1:]
        missing = [f"`{a.name}`" for a in declared if a.default is None and a.name not in given]
        if missing:
            message = f"{name} is built without its attribute {', '.join(missing)}"
            hint = "write `name=value`, or `..n` for the attributes of a node n"
            self.world.report("missing-attribute", message, call.span, hint)

    def _call(self, call: syntax.Call) -> None:
        name = call.function
        variable = self.scope.find(name)
        is_op = variable is not None and variable.kind == OP
        has_names = not is_op and name in self.world.definitions and self.place.builtins != OP_TABLE
        if not has_names and self._has_names(call):
            return
        if variable is not None and variable.kind == OP:
            variable.uses += 1
            require_generic(self.world, variable, call.span)
            self._require_bound(syntax.Name(call.span, name))
            check_arity(self.world, variable.ops or frozenset(), call.arguments, call.span, name)
            self._sources(call.arguments)
            return
        count = self._user_function(name)
        if has_names:
            self._check_arguments(call)
            return
        if count is not None:
            self._check_count(call, count, count, f"`{name}`")
        elif not self._op_by_function_name(call):
            self._builtin(call)
        arguments = call.arguments
        if name == "rewritten" and len(arguments) == 2:
            check_nested_set(self.world, arguments[1])
            arguments = arguments[:1]
        for argument in arguments:
            self.check(argument)

    def _has_names(self, call: syntax.Call) -> bool:
        """Whether an argument has a name where it cannot, which is reported."""
        named = next((a for a in call.arguments if isinstance(a, syntax.Attribute)), None)
        if named is not None:
            message = "only the arguments of a `def` or a record have names"
            self.world.report("misplaced-expression", message, named.span, "give them in their order")
        return named is not None

    def _check_arguments(self, call: syntax.Call) -> None:
        """Those of a `def` or a record."""
        definition = self.world.definitions[call.function]
        for argument in call.arguments:
            self.check(argument)
        if any(isinstance(argument, syntax.Splice) for argument in call.arguments):
            message = f"the arguments of `{call.function}` are written one by one"
            self.world.report("wrong-argument-count", message, call.span, "give it the sequence as one of them")
            return
        try:
            arguments_of(definition, call)
        except RuleError as error:
            for found in error.diagnostics:
                self.world.report(found.code, found.message, found.span, found.hint)
            return
        for argument in call.arguments:  # of a record, or it would be an error
            if isinstance(argument, syntax.Attribute) and argument.name == "..":
                self._check_copied(definition, argument)

    def _check_copied(self, record: syntax.Definition, copied: syntax.Attribute) -> None:
        """A record takes its other fields (`..r`) from one of the same kind, as far as that is known."""
        found = fields_of(self.world, self.scope, copied.value)
        if found is not None and found.names != record.parameters:
            kind = f"row of `{found.of}`" if found.what == "table" else f"`{found.of}`"
            message = f"`{record.name}` takes its fields from another `{record.name}`, not from a {kind}"
            self.world.report("unknown-field", message, copied.span)

    def _user_function(self, name: str) -> int | None:
        """The number of parameters of a function on nodes, a `def`, an extern or a view."""
        if self.place.builtins == OP_TABLE:
            return None
        world = self.world
        if name in world.dataflow:
            return world.dataflow[name]
        if name in world.functions:
            return len(world.functions[name].parameters)
        if name in world.externs:
            return len(world.externs[name].parameters)
        if name in world.views:
            return len(world.views[name].parameters)
        return None

    def _op_by_function_name(self, call: syntax.Call) -> bool:
        """Whether `where(a, b, c)` builds an op here; a built-in of the same name comes first on values."""
        name = self.world.table.by_function_name.get(call.function)
        if name is None or self.place.builtins == OP_TABLE:
            return False
        if call.function in BUILTINS and not self._prefers_op(call.function):
            return False
        check_arity(self.world, frozenset((name,)), call.arguments, call.span, name)
        self._refuse_sequences([a for a in call.arguments if not is_sequence(a)])
        return True

    def _prefers_op(self, name: str) -> bool:
        return self.place.builds or self.place.builtins not in BUILTINS[name].scopes

    def _builtin(self, call: syntax.Call) -> None:
        builtin = BUILTINS.get(call.function)
        if builtin is None:
            self._unknown_function(call)
        elif self.place.builtins not in builtin.scopes:
            where = " and ".join(_WHERE[scope] for scope in builtin.scopes)
            message = f"`{builtin.name}` can be called in {where} only"
            self.world.report("misplaced-function", message, call.span)
        elif builtin.name == "uses" and not self.place.has_uses:
            message = f"`{builtin.name}` can be called in `walk`, `collect` and `flow` passes only"
            self.world.report("misplaced-function", message, call.span)
        elif not any(is_sequence(argument) for argument in call.arguments) or builtin.maximum is not None:
            self._check_count(call, builtin.minimum, builtin.maximum, f"`{builtin.signature}`")
        if call.function == "limit" and len(call.arguments) == 1:
            name = call.arguments[0]
            if isinstance(name, syntax.Literal) and isinstance(name.value, str):
                check_declared(self.world, "limit", name.value, name.span)
            else:
                self.world.report("misplaced-expression", '`limit` takes a name in quotes: `limit("rows")`', name.span)

    def _check_count(self, call: syntax.Call, low: int, high: int | None, head: str) -> None:
        count = len(call.arguments)
        if any(isinstance(argument, syntax.Splice) for argument in call.arguments):
            return
        if count < low or (high is not None and count > high):
            wanted = f"{low}" if low == high else f"at least {low}" if high is None else f"{low} to {high}"
            noun = "argument" if (low if high is None else high) == 1 else "arguments"
            message = f"{head} takes {wanted} {noun}, not {count}"
            self.world.report("wrong-argument-count", message, call.span)

    def _unknown_function(self, call: syntax.Call) -> None:
        world = self.world
        if (call.span.file, call.function) in world.taken:
            return  # the `use` line is wrong
        known = [name for name, builtin in BUILTINS.items() if self.place.builtins in builtin.scopes]
        if self.place.builtins != OP_TABLE:
            known += [
                *world.dataflow,
                *world.table.by_function_name,
                *world.names_in(call.span.file),
            ]
        world.report_unknown("unknown-function", "function", call.function, call.span, known)

    # ---- the rest ----

    def _fold(self, fold: syntax.Fold) -> None:
        """A fold joins by an op of two sources."""
        if isinstance(fold.op, syntax.Name):
            binding = self.scope.find(fold.op.name)
            ops = self.world.table.resolve_ops(fold.op.name) if binding is None else binding.ops
            if binding is not None and binding.kind not in (OP, VALUE):
                self.world.report("unknown-op", f"`{fold.op.name}` is not an op", fold.op.span)
            sources = [fold.op] * 2
            check_arity(self.world, ops or frozenset(), sources, fold.op.span, fold.op.name)
        self.check(fold.op)
        self.check(fold.sequence)

    def _steps(self, steps: Steps) -> None:
        for step in steps.steps:
            try:
                written = as_sequence(Steps(step.span, (step,)), self.world.table.forms)
            except StepError as error:
                found = error.diagnostic
                self.world.report(found.code, found.message, found.span, found.hint)
                continue
            self._inside(builds=True).check(written)

    def _comprehension(self, comprehension: syntax.Comprehension) -> None:
        self.check(comprehension.iterable)
        scope = Scope(self.scope)
        fields = fields_of_items(self.world, self.scope, comprehension.iterable)
        for name in comprehension.variables:
            scope.bind_item(name, comprehension.span, fields, len(comprehension.variables))
        inner = self._inside(scope)
        inner.check(comprehension.body)
        if comprehension.condition is not None:
            inner._inside(builds=False).check(comprehension.condition)

    def _member(self, member: syntax.Member) -> None:
        self.check(member.owner)
        fields = fields_of(self.world, self.scope, member.owner)
        if fields is not None:
            check_field(self.world, fields, member)
            return
        if self._is_dtype(member.owner):
            if member.name not in DTYPE_FIELDS:
                message = f"a dtype has no field `{member.name}`"
                hint = did_you_mean(member.name, DTYPE_FIELDS) or "one of " + ", ".join(DTYPE_FIELDS)
                self.world.report("unknown-field", message, member.span, hint)
            return
        binding = self.scope.find(member.owner.name) if isinstance(member.owner, syntax.Name) else None
        if binding is None or binding.kind == VALUE:
            known = self.world.members
            if member.name not in known:
                what = "attribute, column of a table or field of a record called"
                self.world.report_unknown("unknown-attribute", what, member.name, member.span, known)
            return
        ops = binding.ops if binding.kind == NODE else None
        known = self.world.attribute_names
        if ops:
            known = {name for op in ops for name in self.world.table.ops[op].attributes}
        if member.name not in known | {"dtype"}:
            what = f"attribute of `{binding.name}` called"
            self.world.report_unknown("unknown-attribute", what, member.name, member.span, known)

    def _is_dtype(self, owner: syntax.Expression) -> bool:
        if isinstance(owner, syntax.Call):
            return owner.function == "dtype"
        if not isinstance(owner, syntax.Name):
            return False
        binding = self.scope.find(owner.name)
        if binding is not None:
            return binding.kind == DTYPE
        return owner.name in self.world.table.dtypes

    def _text(self, text: syntax.Text) -> None:
        fields = ExpressionChecker(self.world, self.scope, TEXT)
        for part in (*text.parts, *text.close):
            if isinstance(part, str):
                continue
            expression, modifier, separator = part
            fields.check(expression)
            if separator is None:
                fields._refuse_sequences((expression,), "write `{NAME:', '}`, with what stands between its texts")
            if modifier not in MODIFIERS:
                message = f"there is no modifier `{modifier}`"
                hint = did_you_mean(modifier, MODIFIERS) or "the only modifier is `bare`"
                self.world.report("unknown-modifier", message, expression.span, hint)


_WHERE = {
    RULE: "rules",
    OP_TABLE: "the op table",
    RENDER: "text templates",
    "needs": "`needs`",
}
