"""Backtracking in patterns: members of a multiset, cases of a view, negations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rulegrad.lang import syntax
from rulegrad.lang.compiler.expressions import compile_expression
from rulegrad.lang.compiler.heads import bare, members_of, symbols_of, told_by_symbol
from rulegrad.lang.compiler.orders import Swapped, orders_of
from rulegrad.lang.compiler.scope import Binding, Emitter, problem, with_names
from rulegrad.lang.names import names_in, values_of_view
from rulegrad.lang.notation import CHAIN_OPS
from rulegrad.lang.walk import expressions_in

LATEST = 10  # cost of what computes with names that other parts bind
MOST_MEMBERS = 64  # of a chain that is looked at; the machine's limit


@dataclass(frozen=True, slots=True)
class Later:
    """A test that waits until names that it asks about are bound."""

    needs: frozenset[str]
    emit: Callable[[], None]
    here: syntax.Expression | None  # what its code is for


class ChoiceCompiler:
    """The part of the pattern compiler that chooses.

    wanted: the names that the whole pattern binds; a computed value or a negation that asks about one waits for it.
    """

    def __init__(self, emitter: Emitter, swapped: dict[int, bool], wanted: frozenset[str]) -> None:
        self.e = emitter
        self.swapped = swapped
        self.wanted = wanted
        self.waiting: list[Later] = []

    def whole(self, x: syntax.Expression, register: int, tested: bool = False, counted: bool = False) -> None:
        """A pattern to its end: what waits is tested as well."""
        self.match(x, register, tested, counted)
        self.bound_more(finally_=True)

    def later(self, x: syntax.Expression, emit: Callable[[], None]) -> None:
        """Emits a test as soon as the names in x that the pattern binds are bound."""
        needs = names_in(x) & self.wanted
        if needs <= self.e.names.keys():
            emit()
        else:
            self.waiting.append(Later(needs, emit, self.e.here))

    def bound_more(self, finally_: bool = False) -> None:
        """Emits the tests that need not wait any more."""
        ready = [w for w in self.waiting if finally_ or w.needs <= self.e.names.keys()]
        self.waiting = [w for w in self.waiting if w not in ready]
        around = self.e.here
        for test in ready:
            self.e.here = test.here
            test.emit()
        self.e.here = around

    def inside(self, swapped: Swapped, wanted: frozenset[str] | None = None) -> ChoiceCompiler:
        """A compiler for a pattern that is matched for itself, in the same code."""
        return type(self)(self.e, swapped, self.wanted if wanted is None else wanted)

    def match(self, x: syntax.Expression, register: int, tested: bool = False, counted: bool = False) -> None:
        """Tests that the node in a register matches.

        The dispatch has looked at its op (`tested`) and at how many sources it has (`counted`) already.
        """
        raise NotImplementedError

    def sequence(self, x: syntax.Splice, sequence: int) -> None:
        """`xs...` or `(pattern)...`: what a sequence of nodes must be."""
        raise NotImplementedError

    def bind(self, name: str, register: int, kind: str, span: syntax.Span) -> None:
        """Binds a name, or asks for equality with what it is bound to."""
        bound = self.e.names.get(name)
        if bound is None:
            if name != "_":
                self.e.names = {**self.e.names, name: Binding(register, kind)}
            return
        first, second = bound.register, register
        if bound.kind == "const" and kind == "value":
            first = self.value_in(first, span)
        elif bound.kind == "value" and kind == "const":
            second = self.value_in(second, span)
        self.e.emit("SAME", first, second)
        if bound.kind == "node" and kind == "const":  # a constant wherever it stands, also where it was met first
            self.e.names = {**self.e.names, name: Binding(bound.register, kind)}

    def value_in(self, register: int, span: syntax.Span) -> int:
        value = self.e.register(span)
        self.e.emit("GET_VALUE", value, register)
        return value

    def equal(self, x: syntax.Expression, register: int) -> None:
        """Tests that a value is what an expression computes."""
        self.e.emit("SAME", register, compile_expression(self.e, x, False))

    def negation(self, x: syntax.Negation, register: int) -> None:
        """Fails when the pattern matches, in one of the orders of its commutative ops."""
        e = self.e
        outer, first = dict(e.names), e.next_register
        for swapped in orders_of(e, x.pattern):
            mark = e.register(x.span)
            e.emit("MARK", mark)
            leave = e.emit("TRY", 0)
            self.inside(swapped).whole(x.pattern, register)
            e.emit("CUT", mark)
            e.emit("FAIL")
            e.patch(leave)
            e.names, e.next_register = dict(outer), first

    def multiset(self, x: syntax.Multiset, register: int) -> None:
        """Members one after the other, the most particular first; then what is left."""
        e = self.e
        members, rest = members_of(x), next((i for i in x.items if isinstance(i, syntax.Splice)), None)
        if x.kind == "all":
            e.emit("DTYPE_IN", register, e.dtype_mask(frozenset(("bool",))))
        chain = e.register(x.span)
        op = e.library.table.ops[CHAIN_OPS[x.kind]].number
        e.emit("CHAIN", chain, register, op, len(members), len(members) if rest is None else MOST_MEMBERS)
        counters: list[int] = []
        for member in sorted(members, key=lambda m: (cost(m) >= LATEST, symbols_of(e, m) is None, cost(m))):
            symbols = symbols_of(e, member)
            counter, item = e.constant(0, member.span), e.register(member.span)
            wanted = -1 if symbols is None else e.assembler.op_set(symbols)
            e.emit("PICK", counter, item, chain, wanted, len(counters), *counters)
            counters.append(counter)
            self.match(member, item, told_by_symbol(e, member))
            self.bound_more()
        if rest is not None and not is_anything(rest.inner):
            left = e.register(rest.span)
            e.emit("LEFT", left, chain, len(counters), *counters)
            self.sequence(rest, left)

    def view(self, view: syntax.View, x: syntax.Call, register: int) -> None:
        """The first case whose own shape is there; then the arguments against what it gives."""
        e = self.e
        given = [e.register(x.span) for _ in view.parameters]
        first = e.next_register
        mark = e.register(x.span)
        e.emit("MARK", mark)
        ends: list[int] = []
        for number, case in enumerate(view.cases):
            last = number == len(view.cases) - 1
            leave = 0 if last else e.emit("TRY", 0)
            self._case(view, case, register, given)
            e.emit("CUT", mark)
            if not last:
                ends.append(e.emit("JUMP", 0))
                e.patch(leave)
            e.next_register = first + 1
        for end in ends:
            e.patch(end)
        e.next_register = first
        values = values_of_view(view)
        pairs = zip(view.parameters, x.arguments, given, strict=True)
        for parameter, argument, place in sorted(pairs, key=lambda p: cost(p[1])):
            if parameter in values:
                self._value_argument(argument, place)
            else:
                self.match(argument, place)

    def _case(self, view: syntax.View, case: syntax.ViewCase, register: int, given: list[int]) -> None:
        e = self.e
        outer = with_names(e, {})
        self.inside({}, frozenset(view.parameters)).whole(case.expression, register)
        values = dict(case.values)
        for parameter, place in zip(view.parameters, given, strict=True):
            if parameter in values:
                e.emit("MOVE", place, compile_expression(e, values[parameter], False))
            else:
                bound = e.names[parameter]
                e.emit("GET_VALUE" if bound.kind == "const" else "MOVE", place, bound.register)
        e.names = outer

    def _value_argument(self, x: syntax.Expression, place: int) -> None:
        match x:
            case syntax.Name():
                self.bind(x.name, place, "value", x.span)
            case syntax.Literal():
                self.e.emit("EQUALS", place, self.e.assembler.constant(x.value))
            case syntax.Compute():
                self.later(x.inner, lambda: self.equal(x.inner, place))
            case _:
                raise problem(
                    "this argument of the view is a value: no pattern can stand here", x.span,
                    "write a name, a literal or `{...}`",
                )  # fmt: skip


def is_anything(x: syntax.Expression) -> bool:
    """Whether a pattern is `_`."""
    return isinstance(x, syntax.Name) and x.name == "_" and not x.is_const and x.dtype is None


def cost(x: syntax.Expression) -> int:
    """Cheap tests first: constants, then names, then ops; computed values last, for what they refer to."""
    match bare(x):
        case syntax.Literal():
            return 0
        case syntax.Name(is_const=True):
            return 1
        case syntax.Name():
            return 2
        case syntax.Compute():
            return LATEST + 9
        case inner:
            choice = any(isinstance(y, syntax.Multiset) for y in expressions_in(inner))
            computed = any(isinstance(y, syntax.Compute) for y in expressions_in(inner))
            return 3 + 3 * choice + (LATEST if computed else 0)
