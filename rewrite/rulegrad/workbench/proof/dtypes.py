"""The dtypes that parts of a pattern can have: by its annotations and the op table; every choice is proved."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rulegrad.lang import syntax
from rulegrad.lang.notation import op_of
from rulegrad.lang.optable import OpTable


@dataclass(eq=False, slots=True)
class Unknown:
    """The dtype of some parts of a pattern, which have the same."""

    allowed: frozenset[str]
    same_as: Unknown | None = None

    def root(self) -> Unknown:
        found = self
        while found.same_as is not None:
            found = found.same_as
        return found


Choice = Mapping[Unknown, str]


@dataclass(slots=True)
class Dtypes:
    """The dtypes of one pattern, its op variables being chosen. `of` has those of its parts, by identity."""

    table: OpTable
    ops: Mapping[str, str]
    generics: Mapping[str, frozenset[str]]
    of: dict[int, Unknown] = field(default_factory=dict)
    names: dict[str, Unknown] = field(default_factory=dict)
    variables: dict[str, Unknown] = field(default_factory=dict)
    possible: bool = True

    def unknown(self, allowed: frozenset[str] | None = None) -> Unknown:
        every = frozenset(self.table.dtypes)
        return Unknown(every if allowed is None else allowed & every)

    def unify(self, a: Unknown, b: Unknown) -> None:
        p, q = a.root(), b.root()
        if p is not q:
            p.allowed &= q.allowed
            q.same_as = p
            self.possible &= bool(p.allowed)

    def named(self, name: str) -> Unknown:
        """The dtype that a word stands for: a variable's, a dtype or one of a class."""
        if name in self.generics:
            if name not in self.variables:
                self.variables[name] = self.unknown(self.generics[name])
            return self.variables[name]
        return self.unknown(self.table.resolve_dtypes(name) or frozenset())

    def infer(self, x: syntax.Expression) -> Unknown:
        """The dtype of a part of the pattern; that of its own parts is noted too."""
        found = self._infer(x)
        self.of[id(x)] = found
        return found

    def _infer(self, x: syntax.Expression) -> Unknown:
        match x:
            case syntax.Name(name=name, dtype=dtype):
                found = self.unknown() if name == "_" else self.names.setdefault(name, self.unknown())
                if dtype is not None:
                    self.unify(found, self.named(dtype))
                return found
            case syntax.Literal(value=float()):
                return self.unknown(self.table.dtype_classes.get("Float"))
            case syntax.Literal() | syntax.Compute():
                return self.unknown()
            case syntax.Capture(name=name, pattern=pattern):
                found = self.names.setdefault(name, self.unknown())
                self.unify(found, self.infer(pattern))
                return found
            case syntax.Splice(inner=inner):
                return self.infer(inner)
            case syntax.Multiset(kind=kind, items=items):
                found = self.unknown(frozenset(("bool",)) if kind == "all" else self.table.resolve_dtypes("Any"))
                for item in items:
                    self.unify(found, self.infer(item))
                return found
        head = op_of(self.table, x, self.ops)
        if head is None:
            return self.unknown()
        return self._op(head.name, head.attributes, head.arguments)

    def _op(self, op: str, attributes: Sequence[syntax.Attribute], arguments: Sequence[syntax.Expression]) -> Unknown:
        declaration = self.table.ops[op].declaration
        local: dict[str, Unknown] = {}

        def stated(word: str | None) -> Unknown:
            if word is None:
                return self.unknown()
            if word in self.table.dtypes or word in self.table.dtype_classes:
                return self.unknown(self.table.resolve_dtypes(word))
            bound = declaration.where.get(word)
            return local.setdefault(word, self.unknown(self.table.resolve_dtypes(bound) if bound else None))

        count = len(declaration.parameters)
        for place, argument in enumerate(arguments):
            found = self.infer(argument)
            if count:
                self.unify(found, stated(declaration.parameters[min(place, count - 1)].type))
        result = self.unknown() if declaration.result == "explicit" else stated(declaration.result)
        for attribute in attributes:
            is_dtype = attribute.name == "dtype" or (attribute.name is None and declaration.result == "explicit")
            if is_dtype and isinstance(attribute.value, syntax.Name):
                self.unify(result, self.named(attribute.value.name))
        return result

    def choices(self, drop: frozenset[str] = frozenset(("void",))) -> Iterator[Choice]:
        """Every choice of a dtype for each of them."""
        roots = list(dict.fromkeys(u.root() for u in (*self.of.values(), *self.variables.values())))
        if not self.possible or any(not r.allowed - drop for r in roots):
            return
        pools = [self.table.declared_order(self.table.usual(r.allowed - drop)) for r in roots]
        for chosen in itertools.product(*pools):
            yield dict(zip(roots, chosen, strict=True))
