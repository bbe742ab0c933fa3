"""Templates, guards and `let` on symbols: what the compiled rule would compute, where some of it is not known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import z3

from rulegrad.lang import syntax
from rulegrad.lang.arguments import arguments_of
from rulegrad.lang.builtins import BUILTINS, RULE, TAKES_NODES
from rulegrad.lang.compiler import in_order
from rulegrad.lang.notation import op_of
from rulegrad.lang.quoted_steps import as_sequence
from rulegrad.lang.steps import Steps
from rulegrad.workbench.proof import arithmetic
from rulegrad.workbench.proof.arithmetic import truth
from rulegrad.workbench.proof.builtins import call_builtin
from rulegrad.workbench.proof.known import dtype_fact
from rulegrad.workbench.proof.operations import CHAINS, Operations
from rulegrad.workbench.proof.values import (
    DtypeName,
    Node,
    OpName,
    Record,
    UndefinedError,
    UnknownMembersError,
    UntranslatableError,
    Value,
    is_known,
)

_DEEPEST = 200
CHAIN_KINDS = {"sum": "sum", "prod": "prod", "all_of": "all"}


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
class Evaluation(Operations):
    """Evaluates the expressions of one rule instance."""

    depth: int = 0
    #: Functions that were computed without assuming anything, by the ids of arguments, which are kept.
    computed: dict[Any, tuple[Any, Value]] = field(default_factory=dict)

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
            case syntax.Record(name=name, fields=fields, values=values):
                return Record(self._items(values, names, build), (name, *fields))
            case Steps():
                return self.evaluate(as_sequence(x, self.library.table.forms), names, True)
            case syntax.Conditional():
                return self._conditional(x, names, build)
            case syntax.Subscript():
                return self._element(x, names, build)
            case syntax.Slice():
                return self._slice(x, names, build)
            case syntax.Member(owner=owner, name=name):
                return self._member(self._argument(owner, names, True, build), name)
            case syntax.Multiset(kind=kind, items=items):
                return self.chain(kind, self._items(items, names, build))
            case syntax.Fold():
                return self._fold(x, names, build)
        raise UntranslatableError(type(x).__name__.lower())

    def _fold(self, x: syntax.Fold, names: Names, build: bool) -> Value:
        op, items = self.evaluate(x.op, names, False), self.sequence(self._argument(x.sequence, names, True, build))
        if not isinstance(op, OpName) or not items:
            raise UntranslatableError("a chain of no nodes, or by an op that is not known")
        result = items[0]
        for item in items[1:]:
            result = self.build(str(op), (result, item), "", {})
        return result

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
                found.extend(self.sequence(self.evaluate(item.inner, names, build)))
            elif isinstance(item, syntax.Comprehension):
                for inner in self._loop(item, names, build):
                    if isinstance(item.body, syntax.Splice):
                        found.extend(self.sequence(self.evaluate(item.body.inner, inner, build)))
                    else:
                        found.append(self.evaluate(item.body, inner, build))
            else:
                found.append(self.evaluate(item, names, build))
        return tuple(found)

    def _loop(self, x: syntax.Comprehension, names: Names, build: bool) -> Iterator[Names]:
        for value in self.sequence(self._argument(x.iterable, names, True, False)):
            items = self.sequence(value) if len(x.variables) > 1 else (value,)
            inner = {**names, **dict(zip(x.variables, items, strict=True))}
            condition = True if x.condition is None else self.evaluate(x.condition, inner, False)
            if not isinstance(condition, bool):
                raise UnknownMembersError("a sequence whose members depend on what is not known")
            if condition:
                yield inner

    def _element(self, x: syntax.Subscript, names: Names, build: bool) -> Value:
        index = self.evaluate(x.index, names, False)
        try:
            return self._subscript(self._argument(x.sequence, names, True, build), index)
        except UnknownMembersError:
            if index != 0:
                raise
            return self._some_member(x.sequence, names)

    def _some_member(self, x: syntax.Expression, names: Names) -> Value:
        """The first of 0, 1, 2 ... for which a condition holds: any number for which it does."""
        loop = _only_loop(x)
        if loop is None or not isinstance(loop.body, syntax.Name) or (loop.body.name,) != loop.variables:
            raise UnknownMembersError("the first of a sequence whose members depend on what is not known")
        assert loop.condition is not None
        items = self.sequence(self._argument(loop.iterable, names, True, False))
        if not items or items != tuple(range(len(items))):
            raise UntranslatableError("the first of a sequence of other than numbers from 0")
        found = self.meaning.fresh_integer("first", None)
        self.require(z3.And(found.term >= 0, found.term < len(items)))
        self.require(self.evaluate(loop.condition, {**names, loop.variables[0]: found}, False))
        return found

    def _subscript(self, sequence: Value, index: Value) -> Value:
        items = self.sequence(sequence)
        if not isinstance(index, int):
            raise UntranslatableError("an element of which the place is not known")
        if not -len(items) <= index < len(items):
            raise UndefinedError
        return items[index]

    def _slice(self, x: syntax.Slice, names: Names, build: bool) -> Value:
        items = self.sequence(self._argument(x.sequence, names, True, build))
        ends = [None if end is None else self.evaluate(end, names, False) for end in (x.start, x.stop)]
        if not is_known(*ends):
            raise UntranslatableError("a part of a sequence of which the place is not known")
        return items[ends[0] : ends[1]]

    def _member(self, owner: Value, name: str) -> Value:
        if isinstance(owner, Record) and name in owner.fields:
            return owner[owner.fields.index(name)]
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

    def _logic(self, x: syntax.Infix, names: Names) -> Value:
        left = self.evaluate(x.left, names, False)
        stops = x.operator == "or"
        if isinstance(left, bool):
            return left if left is stops else self.evaluate(x.right, names, False)
        self.path.append(z3.Not(left) if stops else left)
        right = self.evaluate(x.right, names, False)
        self.path.pop()
        return (z3.Or if stops else z3.And)(left, truth(right))

    # ---- operators ----

    def _infix(self, x: syntax.Infix, names: Names, build: bool) -> Value:
        if x.operator in ("and", "or"):
            return self._logic(x, names)
        if x.operator in ("in", "not in", "not-in"):
            left, right = self.evaluate(x.left, names, False), self.evaluate(x.right, names, False)
            found = self.contains(left, right)
            if x.operator == "in":
                return found
            return not found if isinstance(found, bool) else z3.Not(found)
        left, right = self.evaluate(x.left, names, build), self.evaluate(x.right, names, build)
        return self.operator(x.operator, left, right, build)

    def _prefix(self, x: syntax.Prefix, names: Names, build: bool) -> Value:
        operand = self.evaluate(x.operand, names, build and x.operator != "not")
        if x.operator == "not":
            return not operand if isinstance(operand, bool) else z3.Not(truth(operand))
        if isinstance(operand, Node):
            return self.build("NEG" if x.operator == "-" else "NOT", (operand,), "", {})
        if x.operator == "-":
            return -operand if is_known(operand) else arithmetic.negated(operand)
        if is_known(operand):
            return not operand if isinstance(operand, bool) else ~operand
        return z3.Not(operand) if z3.is_bool(operand) else arithmetic.binary("-", -1, operand)[0]

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
        name, library = x.function, self.library
        if name in names and isinstance(names[name], OpName):
            return self.build(str(names[name]), self._items(x.arguments, names, build), "", {})
        declared = name in library.functions or name in library.definitions or name in library.externs
        known = declared or (name in BUILTINS and RULE in BUILTINS[name].scopes)
        head = op_of(library.table, x, {})
        if head is not None and (build or not known):
            return self.build(head.name, self._items(x.arguments, names, build), "", {})
        if name in library.views:
            return self._view(library.views[name], x, names, build)
        if name in library.definitions:
            return self._definition(library.definitions[name], x, names, build)
        if name in library.functions:
            arguments = [self._argument(a, names, True, False) for a in x.arguments]
            return self._function(library.functions[name], arguments)
        as_node = name in TAKES_NODES
        try:
            arguments = [self._argument(a, names, as_node, False) for a in x.arguments]
        except UnknownMembersError:
            if name not in CHAIN_KINDS:
                raise
            return self._chain_of_some(CHAIN_KINDS[name], x.arguments[0], names)
        return call_builtin(self, name, arguments, x)

    def _chain_of_some(self, kind: str, x: syntax.Expression, names: Names) -> Value:
        """A sum, product or conjunction of those members for which a condition holds."""
        loop = _only_loop(x)
        if loop is None or isinstance(loop.body, syntax.Splice):
            raise UnknownMembersError("a sequence whose members depend on what is not known")
        assert loop.condition is not None
        members: list[Value] = []
        for value in self.sequence(self._argument(loop.iterable, names, True, False)):
            values = self.sequence(value) if len(loop.variables) > 1 else (value,)
            inner = {**names, **dict(zip(loop.variables, values, strict=True))}
            condition = self.evaluate(loop.condition, inner, False)
            if condition is False:
                continue
            self.path.append(condition)
            member = self.evaluate(loop.body, inner, False)
            self.path.pop()
            members.append(member if condition is True else self.choose(condition, member, CHAINS[kind][1]))
        return self.chain(kind, members)

    def _view(self, view: syntax.View, x: syntax.Call, names: Names, build: bool) -> Value:
        """The node that a view builds: its cases mean the same, so that one without values is taken."""
        arguments = [self._argument(a, names, build, build) for a in x.arguments]
        case = next((c for c in view.cases if not c.values), None)
        if case is None:
            raise UntranslatableError(f"the view {view.name}")
        return self.evaluate(case.expression, dict(zip(view.parameters, arguments, strict=True)), build)

    def _definition(self, definition: syntax.Definition, x: syntax.Call, names: Names, build: bool) -> Value:
        inner: dict[str, Any] = {}
        for parameter, argument in zip(definition.parameters, arguments_of(definition, x), strict=True):
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
        items = self.sequence(value)
        if len(items) != len(clause.names):
            raise UndefinedError
        return {**names, **dict(zip(clause.names, items))}

    def _function(self, function: syntax.Function, arguments: Sequence[Value]) -> Value:
        """The first rule that applies; where that is not known, a choice. Nothing is computed twice."""
        key = (function.name, tuple(id(a) if isinstance(a, Node) else (type(a), a) for a in arguments))
        if key in self.computed:
            return self.computed[key][1]
        assumed = len(self.holds)
        self.depth += 1
        if self.depth > _DEEPEST:
            raise UntranslatableError("a function that does not end")
        rules = [rule for _, rule in in_order([(function.name, rule) for rule in function.rules])]
        result = self._first(function, rules, arguments)
        self.depth -= 1
        if len(self.holds) == assumed:
            self.computed[key] = (arguments, result)
        return result

    def _first(self, function: syntax.Function, rules: Sequence[syntax.Rule], arguments: Sequence[Value]) -> Value:
        # late: matching evaluates guards, and this matches rules of functions
        from rulegrad.workbench.proof.matching import match

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


def _only_loop(x: syntax.Expression) -> syntax.Comprehension | None:
    """The loop that a sequence is made by, where it has a condition."""
    loop = x.items[0] if isinstance(x, syntax.Sequence) and len(x.items) == 1 else x
    return loop if isinstance(loop, syntax.Comprehension) and loop.condition is not None else None
