"""Patterns to bytecode: straight-line tests; choices.py has those that choose and go back."""

from __future__ import annotations

from rulegrad.lang import syntax
from rulegrad.lang.compiler.assembler import BINARY, DtypeName, OpName
from rulegrad.lang.compiler.choices import ChoiceCompiler, cost, is_anything
from rulegrad.lang.compiler.expressions import compile_expression
from rulegrad.lang.compiler.heads import Head, constant_symbol, head_of, told_by_symbol
from rulegrad.lang.compiler.scope import Binding, problem, with_names
from rulegrad.lang.names import names_bound

ANY = -1


class PatternCompiler(ChoiceCompiler):
    """Emits the tests of one alternative."""

    def arguments(self, x: syntax.Expression, head: Head) -> tuple[syntax.Expression, ...]:
        return tuple(reversed(head.arguments)) if self.swapped.get(id(x)) else head.arguments

    def match(self, x: syntax.Expression, register: int, tested: bool = False, counted: bool = False) -> None:
        """Tests that the node in a register matches.

        The dispatch has looked at its op (`tested`) and at how many sources it has (`counted`) already.
        """
        around, self.e.here = self.e.here, x
        self._match(x, register, tested, counted)
        self.e.here = around

    def _match(self, x: syntax.Expression, register: int, tested: bool, counted: bool) -> None:
        match x:
            case syntax.Name():
                self._name(x, register, tested)
            case syntax.Literal() if tested and constant_symbol(x) != "CONST":
                return
            case syntax.Literal():
                self.e.emit("CONST_IS", register, self.e.assembler.constant(x.value))
            case syntax.Compute():
                self.later(x.inner, lambda: self._computed(x, register))
            case syntax.Capture():
                self.bind(x.name, register, "node", x.span)
                self.match(x.pattern, register, tested, counted)
            case syntax.Negation():
                self.later(x.pattern, lambda: self.negation(x, register))
            case syntax.Multiset():
                self.multiset(x, register)
            case syntax.Call(function=name) if name in self.e.library.views:
                self.view(self.e.library.views[name], x, register)
            case _:
                head = head_of(self.e, x)
                if head is None:
                    raise problem("this cannot stand in a pattern", x.span)
                self._head(x, head, register, tested, counted)

    def _name(self, x: syntax.Name, register: int, tested: bool = False) -> None:
        if x.is_const and not tested:
            self.e.emit("IS_CONST", register)
        if x.dtype is not None:
            self._dtype(x.dtype, register, x.span)
        self.bind(x.name, register, "const" if x.is_const else "node", x.span)

    def _dtype(self, name: str, register: int, span: syntax.Span) -> None:
        """A dtype, a class, or a variable: bound at its first place, the same at the others."""
        table, generics = self.e.library.table, self.e.generics.dtypes
        if name not in generics:
            allowed = table.resolve_dtypes(name)
            if allowed is None:
                raise problem(f"no dtype or dtype class is called `{name}`", span)
            self.e.emit("DTYPE_IN", register, self.e.dtype_mask(allowed))
            return
        found = self.e.register(span)
        if name not in self.e.names and generics[name] != frozenset(table.dtypes):
            self.e.emit("DTYPE_IN", register, self.e.dtype_mask(generics[name]))
        self.e.emit("GET_DTYPE", found, register)
        self.bind(name, found, "value", span)

    def _computed(self, x: syntax.Compute, register: int) -> None:
        self.equal(x.inner, self.value_in(register, x.span))

    def _head(self, x: syntax.Expression, head: Head, register: int, tested: bool, counted: bool) -> None:
        e = self.e
        if not tested:
            if len(head.ops) == 1:
                e.emit("IS_OP", register, e.library.table.ops[next(iter(head.ops))].number)
            else:
                e.emit("IN_SET", register, e.assembler.op_set(head.ops))
        if head.variable is not None:
            op = e.register(head.span)
            e.emit("GET_OP", op, register)
            self.bind(head.variable, op, "value", head.span)
        for attribute in head.attributes:
            self._attribute(attribute, head, register)
        self._sources(self.arguments(x, head), register, counted)

    def _attribute(self, attribute: syntax.Attribute, head: Head, register: int) -> None:
        e = self.e
        if attribute.name == "..":
            raise problem("`..` copies attributes; it stands in templates only", attribute.span)
        if len(head.ops) != 1:
            raise problem(
                "attributes of an op variable cannot be matched", attribute.span, "use `n.attribute` in a guard"
            )
        op = e.library.table.ops[next(iter(head.ops))]
        declared = list(op.attributes)
        is_dtype = (attribute.name == "dtype" and "dtype" not in declared) or (attribute.name is None and op.explicit)
        if is_dtype:
            if isinstance(attribute.value, syntax.Name):
                self._dtype(attribute.value.name, register, attribute.span)
            else:
                found = e.register(attribute.span)
                e.emit("GET_DTYPE", found, register)
                self._attribute_value(attribute.value, found)
            return
        name = attribute.name if attribute.name is not None else declared[0] if declared else None
        if name not in declared:
            raise problem(f"{op.name} has no attribute `{name}`", attribute.span)
        found = e.register(attribute.span)
        e.emit("GET_ATTR", found, register, declared.index(name))
        self._attribute_value(attribute.value, found)

    def _attribute_value(self, x: syntax.Expression, found: int) -> None:
        e, table = self.e, self.e.library.table
        if isinstance(x, syntax.Name) and x.name not in e.names:
            if x.name == "_":
                return
            if x.name in e.generics.ops:
                allowed = e.constant(tuple(OpName(n) for n in table.declared_order(e.generics.ops[x.name])), x.span)
                inside = e.register(x.span)
                e.emit("BINARY", inside, BINARY["IN"], 0, found, allowed)
                e.emit("GUARD", inside)
                self.bind(x.name, found, "value", x.span)
            elif x.name in table.ops:
                e.emit("EQUALS", found, e.assembler.constant(OpName(x.name)))
            elif x.name in table.dtypes:
                e.emit("EQUALS", found, e.assembler.constant(DtypeName(x.name)))
            else:
                self.bind(x.name, found, "value", x.span)
        elif isinstance(x, syntax.Literal):
            e.emit("EQUALS", found, e.assembler.constant(x.value))
        elif isinstance(x, syntax.Negation):
            self._one_of(x.pattern, found, "NOT_IN")
        elif isinstance(x, syntax.Infix) and x.operator == "or":
            self._one_of(x, found, "IN")
        else:
            self.later(x, lambda: self.equal(x, found))

    def _one_of(self, x: syntax.Expression, found: int, operator: str) -> None:
        """Tests whether an attribute's value is one of `"a" or "b"`."""
        e = self.e
        values = compile_expression(e, syntax.SetLiteral(x.span, sides_of_or(x)), False)
        inside = e.register(x.span)
        e.emit("BINARY", inside, BINARY[operator], 0, found, values)
        e.emit("GUARD", inside)

    def _sources(self, arguments: tuple[syntax.Expression, ...], register: int, counted: bool) -> None:
        """Fixed sources first, so that what a sequence's pattern refers to is bound."""
        e = self.e
        splice = next((k for k, a in enumerate(arguments) if isinstance(a, syntax.Splice)), None)
        before = len(arguments) if splice is None else splice
        after = 0 if splice is None else len(arguments) - splice - 1
        if not counted:
            e.emit("SOURCES" if splice is None else "SOURCES_MIN", register, before + after)
        pending: list[tuple[syntax.Expression, int, bool]] = []
        for position, argument in enumerate(arguments):
            if position == splice or (
                isinstance(argument, syntax.Name) and argument == syntax.Name(argument.span, "_")
            ):
                continue
            source = e.register(argument.span)
            if position < before:
                e.emit("SOURCE", source, register, position)
            else:
                e.emit("SOURCE_END", source, register, len(arguments) - position)
            pending.append((argument, source, counted and position < min(before, 3)))
        for argument, source, known in sorted(pending, key=lambda p: cost(p[0])):
            self.match(argument, source, known and told_by_symbol(e, argument))
        self.bound_more()
        if splice is not None:
            inner = arguments[splice]
            assert isinstance(inner, syntax.Splice)
            if not is_anything(inner.inner):
                sequence = e.register(inner.span)
                e.emit("SOURCE_SLICE", sequence, register, before, after)
                self.sequence(inner, sequence)

    def sequence(self, x: syntax.Splice, sequence: int) -> None:
        """`xs...` or `(pattern)...`: what a sequence of nodes must be."""
        e, inner = self.e, x.inner
        if isinstance(inner, syntax.Name) and not inner.one:
            if inner.is_const or inner.dtype is not None:
                self._each(syntax.Name(inner.span, "_", inner.is_const, inner.dtype), sequence, None, x.span)
            self.bind(inner.name, sequence, "consts" if inner.is_const else "node", x.span)
            return
        lifted = [
            n
            for n in names_bound(e.library.table, inner)
            if n[0] not in e.names and n[0] not in e.generics.dtypes and n[0] not in e.generics.ops
        ]
        self._each(inner, sequence, None, x.span)
        for name, is_const, one in lifted:
            values = self._each(inner, sequence, name, x.span)
            if one:
                first = e.register(x.span)
                e.emit("SUBSCRIPT", first, values, e.constant(0, x.span))
                counter, item = e.constant(0, x.span), e.register(x.span)
                start = len(e.words)
                leave = e.emit("ITERATE", counter, item, values, 0)
                e.emit("SAME", first, item)
                e.emit("JUMP", start)
                e.patch(leave)
                values = first
            kind = "node" if one or not is_const else "consts"
            e.names = {**e.names, name: Binding(values, kind)}

    def _each(self, pattern: syntax.Expression, sequence: int, name: str | None, span: syntax.Span) -> int:
        """Matches every element; the sequence of what `name` is bound to in each, when asked for."""
        e = self.e
        if name is not None:
            e.emit("BEGIN")
        counter, item = e.constant(0, span), e.register(span)
        start = len(e.words)
        leave = e.emit("ITERATE", counter, item, sequence, 0)
        outer = with_names(e, dict(e.names))
        self.inside(self.swapped).whole(pattern, item)
        if name is not None:
            e.emit("APPEND", e.names[name].register)
        e.names = outer
        e.emit("JUMP", start)
        e.patch(leave)
        if name is None:
            return ANY
        values = e.register(span)
        e.emit("FINISH", values)
        return values


def sides_of_or(x: syntax.Expression) -> tuple[syntax.Expression, ...]:
    """The values of `a or b or c`."""
    if isinstance(x, syntax.Infix) and x.operator == "or":
        return (*sides_of_or(x.left), *sides_of_or(x.right))
    return (x,)
