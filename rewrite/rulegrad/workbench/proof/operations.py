"""Operators and nodes on symbols: what is known is computed, the rest becomes terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import z3

from rulegrad.lang.compiler.scope import Library
from rulegrad.lang.optable import INFIX_OPS, SWAPPED_OPS
from rulegrad.workbench.proof import arithmetic
from rulegrad.workbench.proof.arithmetic import truth
from rulegrad.workbench.proof.known import known_operator
from rulegrad.workbench.proof.meaning import Meaning
from rulegrad.workbench.proof.values import Members, Node, Record, UndefinedError, UntranslatableError, Value, is_known

#: For each kind of chain its op, and what a chain without members is.
CHAINS = {"sum": ("ADD", 0), "prod": ("MUL", 1), "all": ("AND", True)}


@dataclass(slots=True)
class Operations:
    """Computes for one rule instance. `holds` collects what must be so for the rule to fire."""

    library: Library
    meaning: Meaning
    like: str = "index"  # the dtype of the matched node
    holds: list[Any] = field(default_factory=list)
    path: list[Any] = field(default_factory=list)  # the conditions under which this is evaluated
    bounds: dict[int, tuple[Node, Value, Value]] = field(default_factory=dict)

    # ---- what is assumed ----

    def require(self, condition: Any) -> None:
        """The rule fires only where this holds (on the path that is being evaluated)."""
        if condition is True or (z3.is_expr(condition) and z3.is_true(condition)):
            return
        if condition is False and not self.path:
            raise UndefinedError
        condition = z3.BoolVal(condition) if isinstance(condition, bool) else condition
        self.holds.append(z3.Implies(z3.And(*self.path), condition) if self.path else condition)

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
            return z3.If(condition, truth(a), truth(b))
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return tuple(self.choose(condition, p, q) for p, q in zip(a, b))
        if is_known(a, b):
            raise UntranslatableError("a choice between values by what is not known")
        return arithmetic.chosen(condition, a, b)

    def contains(self, left: Value, right: Value) -> Any:
        """Whether a sequence has a member."""
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
        return z3.Or(*(truth(self.operator("==", left, item, False)) for item in self.sequence(right)))

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
        if _record_names(left) != _record_names(right):
            return operator == "!="
        if isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
            same = z3.And(*(truth(self._same("==", a, b)) for a, b in zip(left, right)))
            return same if operator == "==" else z3.Not(same)
        if all(isinstance(v, bool) or z3.is_bool(v) for v in (left, right)):
            same = truth(left) == truth(right)
            return same if operator == "==" else z3.Not(same)
        return arithmetic.binary(operator, left, right)[0]

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
        op, empty = CHAINS[kind]
        if not items:
            return empty
        result = items[0]
        for item in items[1:]:
            if isinstance(result, Node) or isinstance(item, Node):
                result = self.build(op, (result, item), "", {})
            else:
                result = self.operator({"sum": "+", "prod": "*", "all": "&"}[kind], result, item, False)
        return result

    @staticmethod
    def sequence(value: Value) -> tuple[Value, ...]:
        """A sequence whose members are known."""
        if not isinstance(value, tuple):
            raise UntranslatableError("a sequence that is not known")
        return value


def _record_names(value: Value) -> tuple[str, ...] | None:
    """Of a record its names: records of other names, or a record and a sequence, are never equal."""
    return value.names if isinstance(value, Record) else None
