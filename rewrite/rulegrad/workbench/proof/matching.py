"""Patterns on symbols: the instances of a rule's pattern, and the matching of a function's first argument."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rulegrad.ir.dtype import as_dtype
from rulegrad.lang import syntax
from rulegrad.lang.notation import op_of
from rulegrad.workbench.proof.dtypes import Choice, Dtypes
from rulegrad.workbench.proof.evaluation import Constant, Evaluation
from rulegrad.workbench.proof.values import (
    DtypeName,
    Exact,
    Node,
    StructuralError,
    UntranslatableError,
    Value,
    representable,
)

LENGTHS = (0, 1, 2, 3)  # of sequences


@dataclass(slots=True)
class Instances:
    """The ways in which a pattern can be made of symbols, for one choice of ops and dtypes.

    cases: what a proof by cases assumes of constants: a value, or the values that it is not.
    """

    evaluation: Evaluation
    dtypes: Dtypes
    choice: Choice
    cases: Mapping[str, int | tuple[int, ...]]
    views: Mapping[str, syntax.View] = field(default_factory=dict)
    bounded: bool = False  # whether a sequence had to be given a length

    def dtype(self, x: syntax.Expression) -> str:
        return self.choice[self.dtypes.of[id(x)].root()]

    def of(self, x: syntax.Expression, names: Mapping[str, Any]) -> Iterator[tuple[Node, dict[str, Any]]]:
        """(node, names) for each way to make the pattern; names keep what they are bound to already."""
        match x:
            case syntax.Name():
                yield self._name(x, dict(names))
                return
            case syntax.Literal(value=value):
                yield from self._literal(value, self.dtype(x), names)
                return
            case syntax.Compute(inner=inner):
                node = self.evaluation.meaning.constant_symbol("computed", self.dtype(x))
                wanted = tuple(names.get(" computed", ())) + ((node, inner),)
                yield node, {**names, " computed": wanted}
                return
            case syntax.Capture(name=name, pattern=pattern):
                for node, inner_names in self.of(pattern, names):
                    yield node, {**inner_names, name: node}
                return
            case syntax.Negation():
                yield self.evaluation.meaning.symbol("other", self.dtype(x)), dict(names)
                return
            case syntax.Multiset():
                yield from self._multiset(x, names)
                return
        head = op_of(self.evaluation.library.table, x, self.dtypes.ops)
        if head is None:
            raise UntranslatableError(f"the pattern {type(x).__name__.lower()}")
        for sources, found in self._arguments(head.arguments, names):
            self._check(head.name, sources, self.dtype(x))
            yield self.evaluation.meaning.node(head.name, sources, self.dtype(x)), found

    def _multiset(self, x: syntax.Multiset, names: Mapping[str, Any]) -> Iterator[tuple[Node, dict[str, Any]]]:
        """A chain of its members; of the others there are up to three."""
        members = [item for item in x.items if not isinstance(item, syntax.Splice)]
        rest = next((item.inner for item in x.items if isinstance(item, syntax.Splice)), None)
        self.bounded |= rest is not None
        for nodes, found in self._arguments(members, names):
            for length in LENGTHS if rest is not None else (0,):
                others = tuple(self.evaluation.meaning.symbol("other", self.dtype(x)) for _ in range(length))
                bound = {rest.name: others} if isinstance(rest, syntax.Name) else {}
                chain = self.evaluation.chain(x.kind, (*nodes, *others))
                if isinstance(chain, Node):
                    yield chain, {**found, **bound}

    def _check(self, op: str, sources: Sequence[Node], dtype: str) -> None:
        """The `check` lines of the op table. Raises NoInstanceError."""
        declaration = self.evaluation.library.table.ops[op].declaration
        if not declaration.checks or any(p.variadic for p in declaration.parameters):
            return
        names: dict[str, Any] = {p.name: s for p, s in zip(declaration.parameters, sources)}
        for condition, _ in declaration.checks:
            if self.evaluation.evaluate(condition, {**names, "T": DtypeName(dtype)}, False) is False:
                raise NoInstanceError

    def _arguments(
        self, arguments: Sequence[syntax.Expression], names: Mapping[str, Any]
    ) -> Iterator[tuple[tuple[Node, ...], dict[str, Any]]]:
        if not arguments:
            yield (), dict(names)
            return
        first, rest = arguments[0], arguments[1:]
        if isinstance(first, syntax.Splice):
            self.bounded = True
            raise StructuralError("a sequence of sources")
        for node, found in self.of(first, names):
            for nodes, all_found in self._arguments(rest, found):
                yield (node, *nodes), all_found

    def _name(self, x: syntax.Name, names: dict[str, Any]) -> tuple[Node, dict[str, Any]]:
        bound = None if x.name == "_" else names.get(x.name)
        if bound is not None:
            return (bound.node if isinstance(bound, Constant) else bound), names
        meaning, dtype = self.evaluation.meaning, self.dtype(x)
        if not x.is_const:
            node = meaning.symbol(x.name, dtype)
            if x.name != "_":
                names[x.name] = node
            return node, names
        node = self._constant(x.name, dtype)
        if x.name != "_":
            names[x.name] = Constant(node)
        return node, names

    def _constant(self, name: str, dtype: str) -> Node:
        case, meaning = self.cases.get(name), self.evaluation.meaning
        if isinstance(case, int):
            if not representable(case, dtype):
                raise NoInstanceError
            return meaning.constant(case, dtype)
        node = meaning.constant_symbol(name, dtype)
        if isinstance(case, tuple) and isinstance(node.value, Exact):
            node.value = Exact(node.value.term, node.value.width, name, case)
        return node

    def _literal(self, value: Value, dtype: str, names: Mapping[str, Any]) -> Iterator[tuple[Node, dict[str, Any]]]:
        if not representable(value, dtype):
            return
        if as_dtype(dtype).is_float and value == 0:  # 0.0 or -0.0
            yield self.evaluation.meaning.constant_symbol("zero", dtype), dict(names)
        else:
            yield self.evaluation.meaning.constant(value, dtype), dict(names)


class NoInstanceError(Exception):
    """The pattern cannot be made so: a constant is not a value of its dtype."""


def match(e: Evaluation, pattern: syntax.Expression, value: Value, names: dict[str, Any], rule: syntax.Rule) -> bool:
    """Whether a function's pattern matches a value; binds its names. Raises UntranslatableError if it is not known."""
    generics = {g.name: e.library.table.resolve_generic(g.classes)[1] for g in rule.generics}
    arguments = (
        pattern.arguments if isinstance(pattern, syntax.Call) and pattern.function in e.library.functions else ()
    )
    for parameter in arguments[1:]:
        if not isinstance(parameter, syntax.Name):
            raise UntranslatableError("a function's pattern")
    return _match(e, arguments[0] if arguments else pattern, value, names, generics)


def _match(
    e: Evaluation, x: syntax.Expression, value: Value, names: dict[str, Any], generics: Mapping[str, frozenset[str]]
) -> bool:
    match x:
        case syntax.Capture(name=name, pattern=pattern):
            names[name] = value
            return _match(e, pattern, value, names, generics)
        case syntax.Name():
            return _match_name(e, x, value, names, generics)
    raise UntranslatableError("a function that looks at what its argument is made of")


def _match_name(
    e: Evaluation, x: syntax.Name, value: Value, names: dict[str, Any], generics: Mapping[str, frozenset[str]]
) -> bool:
    if x.is_const:
        if not isinstance(value, Node) or value.op != "CONST":
            raise UntranslatableError("whether a node is a constant")
        names[x.name] = Constant(value)
        return True
    if x.dtype is not None and isinstance(value, Node):
        allowed = generics.get(x.dtype, e.library.table.resolve_dtypes(x.dtype) or frozenset())
        if value.dtype not in allowed:
            return False
        if x.dtype in generics:
            names[x.dtype] = DtypeName(value.dtype)
    if x.name != "_":
        names[x.name] = value
    return True
