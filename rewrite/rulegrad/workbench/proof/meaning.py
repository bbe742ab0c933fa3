"""The meaning of nodes in logic: the `eval` lines of the op table, translated as they are written there."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import z3

from rulegrad.ir.dtype import as_dtype
from rulegrad.lang import syntax
from rulegrad.lang.evaluated import evaluated
from rulegrad.lang.optable import OpTable
from rulegrad.lang.rounding import steps_round
from rulegrad.lang.walk import calls_in
from rulegrad.workbench.proof.encoding import Encoding
from rulegrad.workbench.proof.exactly import exactly
from rulegrad.workbench.proof.reference import threefry
from rulegrad.workbench.proof.values import Exact, Node, StructuralError, UntranslatableError, Value, limits

_COUNTERS = ("RANGE", "SPECIAL")


@dataclass(slots=True)
class Meaning:
    """Builds nodes as terms; `facts` collects what holds for the symbols that it makes."""

    table: OpTable
    encoding: Encoding
    facts: list[Any] = field(default_factory=list)
    _made: int = 0

    # ---- leaves ----

    def symbol(self, hint: str, dtype: str) -> Node:
        """A node of which nothing is known: its value may be INVALID, but for a truth value."""
        self._made += 1
        term, facts = self.encoding.symbol(f"{hint}.{self._made}", dtype)
        self.facts.extend(facts)
        return Node(term, dtype, True if dtype == "bool" else z3.Bool(f"{hint} is valid.{self._made}"))

    def constant_symbol(self, name: str, dtype: str) -> Node:
        """A CONST whose value is not known."""
        self._made += 1
        term, facts = self.encoding.symbol(f"{name}.{self._made}", dtype)
        self.facts.extend(facts)
        value = None if as_dtype(dtype).is_float else self.encoding.exact(term, dtype, name)
        return Node(term, dtype, True, value, "CONST")

    def constant(self, value: Value, dtype: str) -> Node:
        """A CONST; integers wrap around."""
        term = self.encoding.constant(value, dtype)
        if isinstance(value, float) and not as_dtype(dtype).is_float:
            value = int(value)
        if isinstance(value, Exact) or z3.is_expr(value):
            value = self.encoding.exact(term, dtype)
        elif z3.is_int_value(term) or z3.is_bv_value(term):
            signed = as_dtype(dtype).kind != "uint"
            value = term.as_signed_long() if z3.is_bv_value(term) and signed else term.as_long()
        elif as_dtype(dtype).is_float:
            value = float(value)
        else:
            value = bool(value)
        return Node(term, dtype, True, value, "CONST")

    def fresh_integer(self, hint: str, like: Exact | None) -> Exact:
        """An integer of which nothing is known; as wide as another."""
        self._made += 1
        if like is None or like.width is None:
            return Exact(z3.Int(f"{hint}.{self._made}"), None)
        return Exact(z3.BitVec(f"{hint}.{self._made}", like.width), like.width)

    def bounded(self, low: Any, high: Any) -> Any:
        """An Int within bounds."""
        self._made += 1
        term = z3.Int(f"bounded.{self._made}")
        self.facts.extend((low <= term, term <= high))
        return term

    # ---- ops ----

    def node(self, op: str, sources: Sequence[Node], dtype: str, attributes: dict[str, Value] | None = None) -> Node:
        """The node that an op makes of its sources."""
        attributes = attributes or {}
        declaration = self.table.ops[op].declaration
        if op == "INVALID":
            self._made += 1
            return Node(z3.Const(f"invalid.{self._made}", self.encoding.sort(dtype)), dtype, False, op=op)
        if op == "CONST" and "value" not in attributes:
            return self.constant_symbol("constant", dtype)
        if op == "CONST":
            return self.constant(attributes["value"], dtype)
        if op in _COUNTERS:
            return self._counter(op, sources[0], dtype)
        if op in self.table.op_classes.get("Identity", ()):
            return Node(sources[0].term, dtype, sources[0].valid, None, op, tuple(sources))
        if op == "THREEFRY":
            return Node(self._threefry(*sources), dtype, _valid(op, sources), None, op, tuple(sources))
        if declaration.evaluator is None or any(p.variadic for p in declaration.parameters):
            raise StructuralError(f"{op} has no `eval` line")
        names = [parameter.name for parameter in declaration.parameters]
        given = dict(zip(names, sources, strict=True))
        rounds = steps_round(evaluated(declaration), as_dtype(sources[-1].dtype))
        if rounds or _has_other_numbers(declaration.evaluator, sources, dtype):
            term = self._rounded_once(op, declaration.evaluator, given, dtype)
        else:
            term = self._translate(declaration.evaluator, given, sources[-1].dtype, dtype)
        if op == "UPPER_WORD":  # the quotient is one of the source's dtype
            term = self.encoding.convert(term, sources[-1].dtype, dtype)
        return Node(term, dtype, _valid(op, sources), None, op, tuple(sources), attributes)

    def _rounded_once(self, op: str, x: syntax.Expression, given: dict[str, Node], dtype: str) -> Any:
        """The exact value of an `eval` line, wrapped around once; where that has no meaning here, nothing is known."""
        *_, last = given.values()
        if not self.encoding.opaque and as_dtype(last.dtype).kind in ("int", "uint"):
            with contextlib.suppress(UntranslatableError):
                return self.encoding.constant(exactly(self.encoding, x, given, last.dtype), dtype)
        return self.encoding.unknown(op, dtype, [source.term for source in given.values()])

    def _threefry(self, counter: Node, key: Node) -> Any:
        if not z3.is_bv(counter.term):
            raise UntranslatableError("random bits as an integer")
        return threefry(counter.term, key.term)

    def _counter(self, op: str, extent: Node, dtype: str) -> Node:
        """A loop counter, 0 <= i < extent."""
        node = self.symbol("counter", dtype)
        below = self.encoding.apply("<", dtype, (node.term, extent.term))
        least = self.encoding.apply("<=", dtype, (self.encoding.constant(0, dtype), node.term))
        self.facts.extend((below, least))
        return Node(node.term, dtype, True, None, op, (extent,))

    def _translate(self, x: syntax.Expression, given: dict[str, Node], source: str, result: str) -> Any:
        """An `eval` expression over the sources' values."""
        e = self.encoding
        match x:
            case syntax.Name(name=name):
                return given[name].term
            case syntax.Literal(value=value):
                return e.constant(value, source)
            case syntax.Conditional(condition=condition, then=then, otherwise=otherwise):
                c, a, b = (self._translate(part, given, source, result) for part in (condition, then, otherwise))
                return z3.simplify(z3.If(c, a, b)) if z3.is_true(c) or z3.is_false(c) else z3.If(c, a, b)
            case syntax.Call(function="dtype_min" | "dtype_max" as end):
                if not as_dtype(source).is_integer:
                    raise UntranslatableError("an end of a dtype that has no integers")
                return e.constant(limits(source)[end == "dtype_max"], source)
            case syntax.Call(function="convert", arguments=(syntax.Name(name=name),)):
                return e.convert(given[name].term, given[name].dtype, result)
            case syntax.Call(function="bitcast", arguments=(syntax.Name(name=name),)):
                return e.bitcast(given[name].term, given[name].dtype, result)
            case syntax.Prefix(operator=operator, operand=operand):
                function = "negate" if operator == "-" else operator
                return e.apply(function, source, (self._translate(operand, given, source, result),))
            case syntax.Infix(operator=operator, left=left, right=right):
                return self._applied(operator, (left, right), given, source, result)
            case syntax.Call(function=function, arguments=arguments):
                return self._applied(function, arguments, given, source, result)
        raise UntranslatableError("this part of an `eval` line")

    def _applied(
        self, function: str, parts: Sequence[syntax.Expression], given: dict[str, Node], source: str, result: str
    ) -> Any:
        """A function or an operator, in the result's dtype where one of its arguments is converted to that."""
        dtype = result if any(map(_converts, parts)) else source
        dtypes = [dtype if isinstance(part, syntax.Literal) else source for part in parts]
        terms = [self._translate(part, given, d, result) for part, d in zip(parts, dtypes, strict=True)]
        return self.encoding.apply(function, dtype, terms)

    # ---- dtypes ----

    def result_dtype(self, op: str, sources: Sequence[Node | None], given: str) -> str:
        """The dtype of a node, by the op table; `given` where the op's is explicit."""
        declaration = self.table.ops[op].declaration
        if declaration.result == "explicit":
            return given
        if declaration.result in self.table.dtypes:
            return declaration.result
        for parameter, source in zip(declaration.parameters, sources, strict=False):
            if parameter.type == declaration.result and source is not None:
                return source.dtype
        return given

    def source_dtype(self, op: str, place: int, sources: Sequence[Node | None], like: str) -> str:
        """The dtype that a bare number gets as a source, as the engine chooses it."""
        parameters = self.table.ops[op].declaration.parameters
        parameter = parameters[min(place, len(parameters) - 1)]
        if parameter.type in self.table.dtypes:
            return parameter.type
        if parameter.type == "Int":
            return "index"
        for other, source in enumerate(sources):
            if source is not None and parameters[min(other, len(parameters) - 1)].type == parameter.type:
                return source.dtype
        return like


def _converts(x: syntax.Expression) -> bool:
    """Whether a part of an `eval` line is computed in the dtype of the result."""
    match x:
        case syntax.Call(function="convert"):
            return True
        case syntax.Call(arguments=arguments):
            return any(map(_converts, arguments))
        case syntax.Infix(left=left, right=right):
            return _converts(left) or _converts(right)
    return False


def _valid(op: str, sources: Sequence[Node]) -> Any:
    """Where a value can be used: where those that it is made from can; a choice needs only the one that it takes."""
    if op == "WHERE":
        c, a, b = sources
        if a.valid is True and b.valid is True:
            return c.valid
        return _both(c.valid, z3.If(c.term, _expr(a.valid), _expr(b.valid)))
    result: Any = True
    for source in sources:
        result = _both(result, source.valid)
    return result


def _expr(valid: Any) -> Any:
    return z3.BoolVal(valid) if isinstance(valid, bool) else valid


def _both(a: Any, b: Any) -> Any:
    if a is True:
        return b
    if b is True:
        return a
    if a is False or b is False:
        return False
    return z3.And(a, b)


def _has_other_numbers(x: syntax.Expression, sources: Sequence[Node], result: str) -> bool:
    """Whether an `eval` line has numbers of several dtypes, or a result that has more than the sources' dtype."""
    numbers = {source.dtype for source in sources if as_dtype(source.dtype).kind not in ("bool", "void")}
    if len(numbers) != 1 or {"convert", "bitcast"}.intersection(calls_in(x)):
        return len(numbers) > 1
    (number,) = map(as_dtype, numbers)
    return number.is_integer and as_dtype(result).is_integer and as_dtype(result).bits > number.bits
