"""Patterns to bytecode: straight-line tests, one alternative for each order of the commutative ops in the pattern."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from rulegrad.lang import syntax
from rulegrad.lang.compiler.assembler import BINARY, DtypeName, OpName
from rulegrad.lang.compiler.expressions import compile_expression
from rulegrad.lang.compiler.scope import Binding, Emitter, problem, with_names
from rulegrad.lang.optable import INFIX_OPS, PREFIX_OPS, SWAPPED_OPS

MOST_ORDERS = 32
ANY = -1


@dataclass(frozen=True, slots=True)
class Head:
    """An op pattern, whatever its notation: possible ops, attributes, source patterns."""

    ops: frozenset[str]
    variable: str | None
    attributes: tuple[syntax.Attribute, ...]
    arguments: tuple[syntax.Expression, ...]
    commutes: bool
    span: syntax.Span


def head_of(e: Emitter, x: syntax.Expression) -> Head | None:
    """The op pattern that an expression is, or None for names and literals."""
    table = e.library.table
    match x:
        case syntax.Infix(operator=operator) if operator in INFIX_OPS or operator in SWAPPED_OPS:
            op = INFIX_OPS.get(operator) or SWAPPED_OPS[operator]
            arguments = (x.right, x.left) if operator in SWAPPED_OPS else (x.left, x.right)
            commutes = table.ops[op].commutative and not x.ordered
            return Head(frozenset((op,)), None, (), arguments, commutes, x.span)
        case syntax.Prefix(operator=operator) if operator in PREFIX_OPS:
            if isinstance(x.operand, syntax.Literal):
                return None
            return Head(frozenset((PREFIX_OPS[operator],)), None, (), (x.operand,), False, x.span)
        case syntax.OpCall() | syntax.Call():
            name = x.op if isinstance(x, syntax.OpCall) else x.function
            attributes = x.attributes if isinstance(x, syntax.OpCall) else ()
            if name in e.generics.ops:
                ops, variable = e.generics.ops[name], name
            else:
                op_name = name if name in table.ops else table.by_function_name.get(name)
                if op_name is None:
                    raise problem(f"no op is called `{name}`", x.span)
                ops, variable = frozenset((op_name,)), None
            commutes = len(x.arguments) == 2 and all(table.ops[n].commutative for n in ops)
            return Head(ops, variable, attributes, x.arguments, commutes, x.span)
    return None


def _constant(x: syntax.Expression) -> bool:
    """Whether a pattern only matches a CONST: in a commutative node that is always the last source."""
    match x:
        case syntax.Literal() | syntax.Compute():
            return True
        case syntax.Name():
            return x.is_const
        case syntax.Prefix():
            return isinstance(x.operand, syntax.Literal)
        case syntax.Capture():
            return _constant(x.pattern)
    return False


def constant_symbol(x: syntax.Expression) -> str:
    """What the dispatch calls the constants that a pattern matches: `CONST`, or `CONST 0`, `CONST 1`, `CONST -1`."""
    value = literal_value(x)
    if isinstance(value, (int, float)) and value in (0, 1, -1):
        return f"CONST {int(value)}"
    return "CONST"


def literal_value(x: syntax.Expression) -> int | float | bool | str | None:
    match x:
        case syntax.Literal(value=value):
            return value
        case syntax.Prefix(operator="-", operand=syntax.Literal(value=value)) if isinstance(value, (int, float)):
            return -value
    return None


def swappable(e: Emitter, head: Head) -> bool:
    """Whether both orders of the sources must be tried."""
    if not head.commutes or any(isinstance(a, syntax.Splice) for a in head.arguments):
        return False
    left, right = head.arguments
    if _constant(left) or _constant(right):
        return False
    return not (isinstance(left, syntax.Name) and isinstance(right, syntax.Name) and left.name == right.name)


def orders(e: Emitter, pattern: syntax.Expression) -> Iterator[dict[int, bool]]:
    """For each alternative: which of the pattern's commutative ops (by identity) have their sources swapped."""
    nodes = [id(x) for x in _walk(pattern) if (h := head_of(e, x)) is not None and swappable(e, h)]
    if 2 ** len(nodes) > MOST_ORDERS:
        raise problem(
            f"this pattern has {2 ** len(nodes)} orders of its commutative ops, more than {MOST_ORDERS}", pattern.span,
            "write `ordered` before an op whose order is known, or split the rule",
        )  # fmt: skip
    for choice in itertools.product((False, True), repeat=len(nodes)):
        yield dict(zip(nodes, choice, strict=True))


def _walk(x: syntax.Expression) -> Iterator[syntax.Expression]:
    yield x
    match x:
        case syntax.Infix():
            yield from _walk(x.left)
            yield from _walk(x.right)
        case syntax.Prefix():
            yield from _walk(x.operand)
        case syntax.OpCall() | syntax.Call():
            for argument in x.arguments:
                yield from _walk(argument)
        case syntax.Capture():
            yield from _walk(x.pattern)
        case syntax.Splice():
            yield from _walk(x.inner)


class PatternCompiler:
    """Emits the tests of one alternative."""

    def __init__(self, emitter: Emitter, swapped: dict[int, bool]) -> None:
        self.e = emitter
        self.swapped = swapped

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
            case syntax.Literal() | syntax.Prefix(operand=syntax.Literal()) if tested and constant_symbol(x) != "CONST":
                return
            case syntax.Literal():
                self.e.emit("CONST_IS", register, self.e.assembler.constant(x.value))
            case syntax.Compute():
                self._computed(x, register)
            case syntax.Capture():
                self._bind(x.name, register, "node", x.span)
                self.match(x.pattern, register, tested, counted)
            case syntax.Prefix(operand=syntax.Literal(value=value)) if isinstance(value, (int, float)):
                self.e.emit("CONST_IS", register, self.e.assembler.constant(-value))
            case _:
                head = head_of(self.e, x)
                if head is None:
                    raise problem("this cannot stand in a pattern", x.span)
                self._head(x, head, register, tested, counted)

    def _bind(self, name: str, register: int, kind: str, span: syntax.Span) -> None:
        bound = self.e.names.get(name)
        if bound is not None:
            self.e.emit("SAME", bound.register, register)
        elif name != "_":
            self.e.names = {**self.e.names, name: Binding(register, kind)}

    def _name(self, x: syntax.Name, register: int, tested: bool = False) -> None:
        if x.is_const and not tested:
            self.e.emit("IS_CONST", register)
        if x.dtype is not None:
            self._dtype(x.dtype, register, x.span)
        self._bind(x.name, register, "const" if x.is_const else "node", x.span)

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
        self._bind(name, found, "value", span)

    def _computed(self, x: syntax.Compute, register: int) -> None:
        value = self.e.register(x.span)
        self.e.emit("GET_VALUE", value, register)
        wanted = compile_expression(self.e, x.inner, False)
        self.e.emit("SAME", value, wanted)

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
            self._bind(head.variable, op, "value", head.span)
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
            if not isinstance(attribute.value, syntax.Name):
                raise problem("a dtype is expected here", attribute.span)
            self._dtype(attribute.value.name, register, attribute.span)
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
                self._bind(x.name, found, "value", x.span)
            elif x.name in table.ops:
                e.emit("EQUALS", found, e.assembler.constant(OpName(x.name)))
            elif x.name in table.dtypes:
                e.emit("EQUALS", found, e.assembler.constant(DtypeName(x.name)))
            else:
                self._bind(x.name, found, "value", x.span)
        elif isinstance(x, syntax.Literal):
            e.emit("EQUALS", found, e.assembler.constant(x.value))
        else:
            e.emit("SAME", found, compile_expression(e, x, False))

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
        for argument, source, known in sorted(pending, key=lambda p: _cost(p[0])):
            bare = _bare(argument)
            seen = head_of(e, bare) is not None or (_constant(bare) and not isinstance(bare, syntax.Compute))
            self.match(argument, source, known and seen)
        if splice is not None:
            inner = arguments[splice]
            assert isinstance(inner, syntax.Splice)
            self._splice(inner, register, before, after)

    def _splice(self, x: syntax.Splice, register: int, before: int, after: int) -> None:
        e, inner = self.e, x.inner
        if isinstance(inner, syntax.Name) and inner.name == "_" and not inner.is_const and inner.dtype is None:
            return
        sequence = e.register(x.span)
        e.emit("SOURCE_SLICE", sequence, register, before, after)
        if isinstance(inner, syntax.Name) and not inner.one:
            if inner.is_const or inner.dtype is not None:
                self._each(syntax.Name(inner.span, "_", inner.is_const, inner.dtype), sequence, None, x.span)
            self._bind(inner.name, sequence, "consts" if inner.is_const else "node", x.span)
            return
        lifted = [
            n
            for n in _bound_names(inner)
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
        PatternCompiler(e, self.swapped).match(pattern, item)
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


def _bare(x: syntax.Expression) -> syntax.Expression:
    return _bare(x.pattern) if isinstance(x, syntax.Capture) else x


def _cost(x: syntax.Expression) -> int:
    """Cheap tests first: constants, then names, then ops; computed values last, for what they refer to."""
    match _bare(x):
        case syntax.Literal() | syntax.Prefix(operand=syntax.Literal()):
            return 0
        case syntax.Name(is_const=True):
            return 1
        case syntax.Name():
            return 2
        case syntax.Compute():
            return 9
        case inner:
            return 8 if any(isinstance(y, syntax.Compute) for y in _walk(inner)) else 3


def _bound_names(x: syntax.Expression) -> list[tuple[str, bool, bool]]:
    names: list[tuple[str, bool, bool]] = []
    for y in _walk(x):
        if isinstance(y, syntax.Name) and y.name != "_":
            names.append((y.name, y.is_const, y.one))
        elif isinstance(y, syntax.Capture):
            names.append((y.name, False, False))
    return list({n[0]: n for n in names}.values())
