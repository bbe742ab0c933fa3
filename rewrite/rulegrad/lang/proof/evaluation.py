"""Templates, guards and `let` on symbols: what the compiled rule would compute, where some of it is not known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import z3

from rulegrad.ir.dtype import as_dtype
from rulegrad.lang import syntax
from rulegrad.lang.builtins import BUILTINS, RULE, TAKES_NODES
from rulegrad.lang.compiler import in_order
from rulegrad.lang.compiler.scope import Library
from rulegrad.lang.optable import INFIX_OPS, SWAPPED_OPS
from rulegrad.lang.proof import arithmetic
from rulegrad.lang.proof.dtypes import op_of
from rulegrad.lang.proof.meaning import Meaning
from rulegrad.lang.proof.values import (
    DtypeName,
    Members,
    Node,
    OpName,
    UndefinedError,
    UntranslatableError,
    Value,
    is_known,
)

_CHAINS = {"sum": ("ADD", 0), "prod": ("MUL", 1), "all": ("AND", True)}
_DEEPEST = 200


@dataclass(frozen=True, slots=True)
class Constant:
    """A `const` capture (or a sequence of them): its node in a template, its value where something is computed."""

    node: Value

    def value(self) -> Value:
        if isinstance(self.node, tuple):
            return tuple(Constant(n).value() for n in self.node)
        if self.node.value is None:
            raise UntranslatableError("the value of a float that is not known")
        return self.node.value


Names = Mapping[str, Any]


@dataclass(slots=True)
class Evaluation:
    """Evaluates the expressions of one rule instance. `holds` collects what must be so for the rule to fire."""

    library: Library
    meaning: Meaning
    like: str = "index"  # the dtype of the matched node
    limits: Mapping[str, int] = field(default_factory=dict)
    holds: list[Any] = field(default_factory=list)
    path: list[Any] = field(default_factory=list)
    bounds: dict[int, tuple[Node, Value, Value]] = field(default_factory=dict)
    depth: int = 0

    # ---- what is assumed ----

    def require(self, condition: Any) -> None:
        """The rule fires only where this holds (on the path that is being evaluated)."""
        if condition is True or (z3.is_expr(condition) and z3.is_true(condition)):
            return
        if condition is False and not self.path:
            raise UndefinedError
        condition = z3.BoolVal(condition) if isinstance(condition, bool) else condition
        self.holds.append(z3.Implies(z3.And(*self.path), condition) if self.path else condition)

    # ---- expressions ----

    def evaluate(self, x: syntax.Expression, names: Names, build: bool) -> Value:
        """The value of an expression, in a template (`build`) or where something is computed."""
        match x:
            case syntax.Literal(value=value):
                return value
            case syntax.Name():
                return self._name(x, names, build)
            case syntax.Compute(inner=inner):
                return self.evaluate(inner, names, False)
            case syntax.Infix():
                return self._infix(x, names, build)
            case syntax.Prefix():
                return self._prefix(x, names, build)
            case syntax.OpCall():
                return self._op_call(x, names, build)
            case syntax.Call():
                return self._call(x, names, build)
            case syntax.Sequence(items=items) | syntax.SetLiteral(items=items):
                return self._items(items, names, build)
            case syntax.Comprehension():
                return self._items((x,), names, build)
            case syntax.Conditional():
                return self._conditional(x, names, build)
            case syntax.Subscript(sequence=sequence, index=index):
                return self._subscript(self._argument(sequence, names, True, build), self.evaluate(index, names, False))
            case syntax.Slice():
                return self._slice(x, names, build)
            case syntax.Member(owner=owner, name=name):
                return self._member(self._argument(owner, names, True, build), name)
            case syntax.Multiset(kind=kind, items=items):
                return self.chain(kind, self._items(items, names, build))
            case syntax.Must(inner=inner):
                return self.evaluate(inner, names, build)
        raise UntranslatableError(type(x).__name__.lower())

    def _name(self, x: syntax.Name, names: Names, build: bool) -> Value:
        if x.name in names:
            found = names[x.name]
            return (found.node if build else found.value()) if isinstance(found, Constant) else found
        table = self.library.table
        if x.name in table.ops:
            return OpName(x.name)
        if x.name in table.dtypes:
            return DtypeName(x.name)
        if x.name in table.op_classes:
            return tuple(OpName(n) for n in table.declared_order(table.op_classes[x.name]))
        if x.name in table.dtype_classes:
            return tuple(DtypeName(n) for n in table.declared_order(table.dtype_classes[x.name]))
        raise UntranslatableError(f"`{x.name}`, which is not bound to anything with a meaning")

    def _argument(self, x: syntax.Expression, names: Names, as_node: bool, build: bool) -> Value:
        if as_node and isinstance(x, syntax.Name) and x.name in names:
            found = names[x.name]
            return found.node if isinstance(found, Constant) else found
        return self.evaluate(x, names, build)

    def _items(self, items: Sequence[syntax.Expression], names: Names, build: bool) -> tuple[Value, ...]:
        found: list[Value] = []
        for item in items:
            if isinstance(item, syntax.Splice):
                found.extend(self._sequence(self.evaluate(item.inner, names, build)))
            elif isinstance(item, syntax.Comprehension):
                for inner in self._loop(item, names, build):
                    if isinstance(item.body, syntax.Splice):
                        found.extend(self._sequence(self.evaluate(item.body.inner, inner, build)))
                    else:
                        found.append(self.evaluate(item.body, inner, build))
            else:
                found.append(self.evaluate(item, names, build))
        return tuple(found)

    def _loop(self, x: syntax.Comprehension, names: Names, build: bool) -> Iterator[Names]:
        for value in self._sequence(self._argument(x.iterable, names, True, False)):
            items = self._sequence(value) if len(x.variables) > 1 else (value,)
            inner = {**names, **dict(zip(x.variables, items, strict=True))}
            condition = True if x.condition is None else self.evaluate(x.condition, inner, False)
            if not isinstance(condition, bool):
                raise UntranslatableError("a sequence whose members depend on what is not known")
            if condition:
                yield inner

    @staticmethod
    def _sequence(value: Value) -> tuple[Value, ...]:
        if not isinstance(value, tuple):
            raise UntranslatableError("a sequence that is not known")
        return value

    def _subscript(self, sequence: Value, index: Value) -> Value:
        items = self._sequence(sequence)
        if not isinstance(index, int):
            raise UntranslatableError("an element of which the place is not known")
        if not -len(items) <= index < len(items):
            raise UndefinedError
        return items[index]

    def _slice(self, x: syntax.Slice, names: Names, build: bool) -> Value:
        items = self._sequence(self._argument(x.sequence, names, True, build))
        ends = [None if end is None else self.evaluate(end, names, False) for end in (x.start, x.stop)]
        if not is_known(*ends):
            raise UntranslatableError("a part of a sequence of which the place is not known")
        return items[ends[0] : ends[1]]

    def _member(self, owner: Value, name: str) -> Value:
        if isinstance(owner, DtypeName):
            return dtype_fact(owner, name)
        if isinstance(owner, Node) and name in owner.attributes:
            return owner.attributes[name]
        if isinstance(owner, Node) and name == "dtype":
            return DtypeName(owner.dtype)
        raise UntranslatableError(f"`.{name}` of a node that is not known")

    # ---- conditions ----

    def _conditional(self, x: syntax.Conditional, names: Names, build: bool) -> Value:
        condition = self.evaluate(x.condition, names, False)
        if isinstance(condition, bool):
            return self.evaluate(x.then if condition else x.otherwise, names, build)
        values: list[Value] = []
        for side, expression in ((condition, x.then), (z3.Not(condition), x.otherwise)):
            self.path.append(side)
            values.append(self.evaluate(expression, names, build))
            self.path.pop()
        return self.choose(condition, values[0], values[1])

    def choose(self, condition: Any, a: Value, b: Value) -> Value:
        """a where a condition that is not known holds, else b."""
        if isinstance(a, Node) or isinstance(b, Node):
            like = a.dtype if isinstance(a, Node) else b.dtype
            p, q = self.lift(a, like), self.lift(b, like)
            c = Node(condition, "bool")
            return self.meaning.node("WHERE", (c, p, q), p.dtype)
        if is_known(a, b) and a == b:
            return a
        if all(isinstance(v, bool) or z3.is_bool(v) for v in (a, b)):
            return z3.If(condition, _truth(a), _truth(b))
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return tuple(self.choose(condition, p, q) for p, q in zip(a, b))
        if is_known(a, b):
            raise UntranslatableError("a choice between values by what is not known")
        return arithmetic.chosen(condition, a, b)

    def _logic(self, x: syntax.Infix, names: Names) -> Value:
        left = self.evaluate(x.left, names, False)
        stops = x.operator == "or"
        if isinstance(left, bool):
            return left if left is stops else self.evaluate(x.right, names, False)
        self.path.append(z3.Not(left) if stops else left)
        right = self.evaluate(x.right, names, False)
        self.path.pop()
        return (z3.Or if stops else z3.And)(left, _truth(right))

    # ---- operators ----

    def _infix(self, x: syntax.Infix, names: Names, build: bool) -> Value:
        if x.operator in ("and", "or"):
            return self._logic(x, names)
        if x.operator in ("in", "not in", "not-in"):
            left, right = self.evaluate(x.left, names, False), self.evaluate(x.right, names, False)
            found = self._contains(left, right)
            if x.operator == "in":
                return found
            return not found if isinstance(found, bool) else z3.Not(found)
        left, right = self.evaluate(x.left, names, build), self.evaluate(x.right, names, build)
        return self.operator(x.operator, left, right, build)

    def _contains(self, left: Value, right: Value) -> Any:
        if is_known(left, right):
            return left in right
        if isinstance(left, Node) and isinstance(right, Members):
            found = self.meaning.symbol("member", "bool").term
            self.meaning.facts.append(z3.Implies(z3.And(found, right.of.term), left.term))
            return found
        if isinstance(left, Node) and isinstance(right, tuple):
            if any(left is item for item in right):
                return True
            raise UntranslatableError("whether a node is among others")
        return z3.Or(*(_truth(self.operator("==", left, item, False)) for item in self._sequence(right)))

    def operator(self, operator: str, left: Value, right: Value, build: bool) -> Value:
        """An operator on nodes builds a node, on numbers computes."""
        nodes = isinstance(left, Node), isinstance(right, Node)
        if operator in ("==", "!=") and not (build and any(nodes)):
            return self._same(operator, left, right)
        if any(nodes):
            if operator in SWAPPED_OPS:
                return self.build(SWAPPED_OPS[operator], (right, left), "", {})
            return self.build(INFIX_OPS[operator], (left, right), "", {})
        if isinstance(left, tuple) and isinstance(right, tuple):
            if operator == "-":
                return tuple(item for item in left if not any(item is other or item == other for other in right))
            return left + right
        if is_known(left, right):
            return known_operator(operator, left, right)
        if z3.is_bool(left) and z3.is_bool(right) and operator in ("&", "|", "^"):
            return {"&": z3.And, "|": z3.Or, "^": z3.Xor}[operator](left, right)
        value, defined = arithmetic.binary(operator, left, right)
        self.require(defined)
        return value

    def _same(self, operator: str, left: Value, right: Value) -> Any:
        if isinstance(left, Node) and isinstance(right, Node):
            if left is right:
                return operator == "=="
            raise UntranslatableError("whether two nodes are the same")
        if is_known(left, right):
            return (left == right) is (operator == "==")
        if isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
            same = z3.And(*(_truth(self._same("==", a, b)) for a, b in zip(left, right)))
            return same if operator == "==" else z3.Not(same)
        if all(isinstance(v, bool) or z3.is_bool(v) for v in (left, right)):
            same = _truth(left) == _truth(right)
            return same if operator == "==" else z3.Not(same)
        return arithmetic.binary(operator, left, right)[0]

    def _prefix(self, x: syntax.Prefix, names: Names, build: bool) -> Value:
        operand = self.evaluate(x.operand, names, build and x.operator != "not")
        if x.operator == "not":
            return not operand if isinstance(operand, bool) else z3.Not(_truth(operand))
        if isinstance(operand, Node):
            return self.build("NEG" if x.operator == "-" else "NOT", (operand,), "", {})
        if x.operator == "-":
            return -operand if is_known(operand) else arithmetic.negated(operand)
        if is_known(operand):
            return not operand if isinstance(operand, bool) else ~operand
        return z3.Not(operand) if z3.is_bool(operand) else arithmetic.binary("-", -1, operand)[0]

    # ---- nodes ----

    def lift(self, value: Value, dtype: str) -> Node:
        """A node as it is; a number becomes a CONST of the dtype."""
        if isinstance(value, Node):
            return value
        if isinstance(value, tuple | str) or value is None:
            raise UntranslatableError("a node is needed here")
        return self.meaning.constant(value, dtype)

    def build(self, op: str, sources: Sequence[Value], dtype: str, attributes: dict[str, Value]) -> Node:
        """The node of an op; bare numbers get the dtype that their place has."""
        nodes = [s if isinstance(s, Node) else None for s in sources]
        lifted = [
            self.lift(s, self.meaning.source_dtype(op, place, nodes, self.like)) for place, s in enumerate(sources)
        ]
        result = self.meaning.result_dtype(op, lifted, dtype or self.like)
        return self.meaning.node(op, lifted, result, attributes)

    def chain(self, kind: str, items: Sequence[Value]) -> Value:
        """`sum`, `prod` or `all` of members."""
        op, empty = _CHAINS[kind]
        if not items:
            return empty
        result = items[0]
        for item in items[1:]:
            if isinstance(result, Node) or isinstance(item, Node):
                result = self.build(op, (result, item), "", {})
            else:
                result = self.operator({"sum": "+", "prod": "*", "all": "&"}[kind], result, item, False)
        return result

    def _op_call(self, x: syntax.OpCall, names: Names, build: bool) -> Value:
        op = str(names.get(x.op, x.op))
        if op not in self.library.table.ops:
            raise UntranslatableError(f"an op `{x.op}` that is not known")
        declared = self.library.table.ops[op]
        dtype, attributes = "", {}
        for attribute in x.attributes:
            if attribute.name == "..":
                like = self._argument(attribute.value, names, True, False)
                if not isinstance(like, Node):
                    raise UntranslatableError("attributes of what is not known")
                attributes = dict(like.attributes)
                dtype = like.dtype if declared.explicit else ""
                continue
            value = self.evaluate(attribute.value, names, False)
            if isinstance(value, DtypeName) and (attribute.name == "dtype" or declared.explicit):
                dtype = str(value)
            else:
                attributes[attribute.name or next(iter(declared.attributes))] = value
        sources = self._items(x.arguments, names, build if op != "CONST" else False)
        if op == "CONST":
            return self.lift(sources[0] if sources else attributes["value"], dtype or self.like)
        return self.build(op, sources, dtype, attributes)

    # ---- calls ----

    def _call(self, x: syntax.Call, names: Names, build: bool) -> Value:
        from rulegrad.lang.proof.builtins import call_builtin

        name, library = x.function, self.library
        if name in names and isinstance(names[name], OpName):
            return self.build(str(names[name]), self._items(x.arguments, names, build), "", {})
        declared = name in library.functions or name in library.definitions or name in library.externs
        known = declared or (name in BUILTINS and RULE in BUILTINS[name].scopes)
        head = op_of(library.table, x, {})
        if head is not None and (build or not known):
            return self.build(head[0], self._items(x.arguments, names, build), "", {})
        if name in library.definitions:
            return self._definition(library.definitions[name], x, names, build)
        if name in library.functions:
            arguments = [self._argument(a, names, True, False) for a in x.arguments]
            return self._function(library.functions[name], arguments)
        as_node = name in TAKES_NODES
        return call_builtin(self, name, [self._argument(a, names, as_node, False) for a in x.arguments], x)

    def _definition(self, definition: syntax.Definition, x: syntax.Call, names: Names, build: bool) -> Value:
        inner: dict[str, Any] = {}
        for parameter, argument in zip(definition.parameters, x.arguments, strict=True):
            if isinstance(argument, syntax.Name) and argument.name in names and build:
                inner[parameter] = names[argument.name]
            else:
                inner[parameter] = self._argument(argument, names, build, build)
        for clause in definition.lets:
            inner = self.bind(clause, inner, build)
        return self.evaluate(definition.body, inner, build)

    def bind(self, clause: syntax.Clause, names: Names, build: bool = False) -> dict[str, Any]:
        """The names, with those of a `let`."""
        assert clause.expression is not None
        value = self.evaluate(clause.expression, names, build)
        if len(clause.names) == 1:
            return {**names, clause.names[0]: value}
        items = self._sequence(value)
        if len(items) != len(clause.names):
            raise UndefinedError
        return {**names, **dict(zip(clause.names, items))}

    def _function(self, function: syntax.Function, arguments: Sequence[Value]) -> Value:
        """The first rule that applies; where that is not known, a choice."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise UntranslatableError("a function that does not end")
        rules = [rule for _, rule in in_order([(function.name, rule) for rule in function.rules])]
        result = self._first(function, rules, arguments)
        self.depth -= 1
        return result

    def _first(self, function: syntax.Function, rules: Sequence[syntax.Rule], arguments: Sequence[Value]) -> Value:
        from rulegrad.lang.proof.matching import match

        if not rules:
            raise UndefinedError
        rule, rest = rules[0], rules[1:]
        names: dict[str, Any] = dict(zip(function.parameters[1:], arguments[1:], strict=True))
        if not match(self, rule.pattern, arguments[0], names, rule):
            return self._first(function, rest, arguments)
        holds: Any = True
        for clause in rule.clauses:
            if clause.keyword == "let":
                names = self.bind(clause, names)
            elif clause.keyword == "if" and clause.expression is not None:
                condition = self.evaluate(clause.expression, names, False)
                if condition is False:
                    return self._first(function, rest, arguments)
                if condition is not True:
                    holds = condition if holds is True else z3.And(holds, condition)
        value = self.evaluate(rule.template, names, True)
        if holds is True:
            return value
        return self.choose(holds, value, self._first(function, rest, arguments))


def _truth(value: Value) -> Any:
    if isinstance(value, bool):
        return z3.BoolVal(value)
    if not z3.is_bool(value):
        raise UntranslatableError("a truth value is needed")
    return value


def known_operator(operator: str, a: Value, b: Value) -> Value:
    """An operator of the rule language on numbers that are known."""
    if not all(isinstance(v, int | float) for v in (a, b)):
        raise UndefinedError
    if operator in ("/", "//", "%") and b == 0:
        raise UndefinedError
    if operator in ("**", "<<", ">>") and isinstance(b, int) and isinstance(a, int) and not 0 <= b <= 127:
        raise UndefinedError
    logical = isinstance(a, bool) and isinstance(b, bool)
    table = {
        "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a and b if logical else a * b, "/": lambda: a / b,
        "//": lambda: a // b, "%": lambda: a % b, "**": lambda: a**b, "&": lambda: a & b, "|": lambda: a | b,
        "^": lambda: a ^ b, "<<": lambda: a << b, ">>": lambda: a >> b, "<": lambda: a < b, "<=": lambda: a <= b,
        ">": lambda: a > b, ">=": lambda: a >= b,
    }  # fmt: skip
    try:
        return table[operator]()
    except (TypeError, OverflowError, KeyError):
        raise UndefinedError from None


def dtype_fact(dtype: str, name: str) -> Value:
    """`T.bits`, `T.max` and the like."""
    from rulegrad.lang.proof.values import limits

    d = as_dtype(str(dtype))
    if name in ("bits", "mantissa", "exponent"):
        return getattr(d, name)
    if name == "bias":
        return 2 ** (d.exponent - 1) - 1
    if name in ("min", "max") and d.is_integer:
        return limits(str(dtype))[name == "max"]
    if name in ("min", "max") and d.is_float:
        largest = 448.0 if d == "float8_e4m3fn" else float("inf")
        return largest if name == "max" else -largest
    raise UntranslatableError(f"`.{name}` of {dtype}")
