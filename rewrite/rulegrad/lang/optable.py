"""The op table: ops in a stable order, dtypes, and classes resolved to the sets they name."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rulegrad.lang.step_text import Form
from rulegrad.lang.steps import forms_of
from rulegrad.lang.syntax import (
    AttributeDeclaration,
    ClassDeclaration,
    Declaration,
    DtypeDeclaration,
    OpDeclaration,
    Parameter,
)

INFIX_OPS: dict[str, str] = {
    "+": "ADD", "-": "SUB", "*": "MUL", "/": "DIV", "//": "FLOORDIV", "%": "FLOORMOD", "**": "POW",
    "&": "AND", "|": "OR", "^": "XOR", "<<": "SHL", ">>": "SHR",
    "<": "CMPLT", "<=": "CMPLE", "==": "CMPEQ", "!=": "CMPNE",
}  # fmt: skip
SWAPPED_OPS: dict[str, str] = {">": "CMPLT", ">=": "CMPLE"}  # a > b is b < a
PREFIX_OPS: dict[str, str] = {"-": "NEG", "~": "NOT"}


@dataclass(frozen=True, slots=True)
class Op:
    """One op: its declaration, and what follows from it."""

    number: int
    declaration: OpDeclaration
    attributes: Mapping[str, AttributeDeclaration]

    @property
    def name(self) -> str:
        return self.declaration.name

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self.declaration.parameters

    @property
    def minimum(self) -> int:
        """Fewest sources."""
        return sum(not p.variadic and not p.optional for p in self.parameters)

    @property
    def maximum(self) -> int | None:
        """Most sources; None when the last is variadic."""
        return None if any(p.variadic for p in self.parameters) else len(self.parameters)

    @property
    def explicit(self) -> bool:
        """Whether the dtype is given when a node is built."""
        return self.declaration.result == "explicit"

    @property
    def commutative(self) -> bool:
        return "commutative" in self.declaration.flags

    @property
    def associative(self) -> bool:
        return "associative" in self.declaration.flags

    @property
    def idempotent(self) -> bool:
        return "idempotent" in self.declaration.flags

    @property
    def closes(self) -> bool:
        """Whether its variadic sources are loops that it closes in the others."""
        return "closes" in self.declaration.flags

    @property
    def elementwise(self) -> bool:
        return "Elementwise" in self.declaration.classes

    def takes(self, count: int) -> bool:
        """Whether the op can have this many sources."""
        return self.minimum <= count and (self.maximum is None or count <= self.maximum)

    def describe_sources(self) -> str:
        """`2 sources`, `1 to 3 sources`, `at least 1 source`."""
        low, high = self.minimum, self.maximum
        last = low if high is None else high
        noun = "source" if last == 1 else "sources"
        if high is None:
            return f"at least {low} {noun}" if low else "any number of sources"
        return f"{high} {noun}" if low == high else f"{low} to {high} {noun}"


@dataclass(frozen=True)
class OpTable:
    """All ops, dtypes and classes of a set of rule files.

    `ops` and `dtypes` are in the order of their declarations; `op_classes` and `dtype_classes` map a class
    to the names in it. Built without complaint from any declarations: unknown members are left out and a
    name declared twice is taken from its first declaration; it is the checker that reports both.
    """

    ops: dict[str, Op] = field(default_factory=dict)
    dtypes: dict[str, DtypeDeclaration] = field(default_factory=dict)
    op_classes: dict[str, frozenset[str]] = field(default_factory=dict)
    dtype_classes: dict[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def from_declarations(cls, declarations: Iterable[Declaration]) -> OpTable:
        """The table of the `dtype`, `class` and `op` declarations among these."""
        ops: dict[str, Op] = {}
        dtypes: dict[str, DtypeDeclaration] = {}
        classes: dict[str, tuple[str, ...]] = {}
        for declaration in declarations:
            if isinstance(declaration, OpDeclaration):
                attributes = {a.name: a for a in declaration.attributes}
                ops.setdefault(declaration.name, Op(len(ops), declaration, attributes))
            elif isinstance(declaration, DtypeDeclaration):
                dtypes.setdefault(declaration.name, declaration)
            elif isinstance(declaration, ClassDeclaration):
                classes.setdefault(declaration.name, declaration.members)
        stated: dict[str, set[str]] = {}
        for op in ops.values():
            for name in op.declaration.classes:
                stated.setdefault(name, set()).add(op.name)
        op_classes = {name: frozenset(members) for name, members in stated.items()}
        op_classes["Op"] = frozenset(ops)  # every op
        dtype_classes: dict[str, frozenset[str]] = {}
        for name in classes:
            members = _members(name, classes, op_classes, ops.keys() | dtypes.keys(), frozenset())
            if members and members <= ops.keys():
                op_classes[name] = members
            else:
                dtype_classes[name] = members.intersection(dtypes)
        return cls(ops, dtypes, op_classes, dtype_classes)

    @functools.cached_property
    def by_function_name(self) -> dict[str, str]:
        """`where` -> `WHERE`: ops by the lower-case names that patterns and templates may call."""
        return {name.lower(): name for name in self.ops}

    def op_called(self, name: str) -> str | None:
        """The op of a name, or of its lower-case letters (`where` is WHERE); None where there is none."""
        return name if name in self.ops else self.by_function_name.get(name)

    @functools.cached_property
    def every_dtype(self) -> frozenset[str]:
        """The names of all dtypes."""
        return frozenset(self.dtypes)

    @functools.cached_property
    def dtypes_of_constants(self) -> dict[tuple[type, Any], frozenset[str]]:
        """The dtypes that have a number, by its type and the number, as far as somebody has asked."""
        return {}

    @functools.cached_property
    def forms(self) -> dict[str, Form]:
        """How steps of schedules are written, by their first words."""
        return forms_of(self)

    def resolve_ops(self, name: str) -> frozenset[str] | None:
        """The ops that an op or an op class stands for; None when it is neither."""
        if name in self.ops:
            return frozenset((name,))
        return self.op_classes.get(name)

    def resolve_dtypes(self, name: str) -> frozenset[str] | None:
        """The dtypes that a dtype or a dtype class stands for; None when it is neither."""
        if name in self.dtypes:
            return frozenset((name,))
        return self.dtype_classes.get(name)

    def resolve_generic(self, classes: tuple[str, ...]) -> tuple[str, frozenset[str]]:
        """The set that a generic ranges over: ("op", names) or ("dtype", names); without a class, every dtype."""
        if not classes:
            return "dtype", frozenset(self.dtypes)
        if any(self.resolve_ops(name) is not None for name in classes):
            return "op", frozenset().union(*(self.resolve_ops(name) or () for name in classes))
        return "dtype", frozenset().union(*(self.resolve_dtypes(name) or () for name in classes))

    def usual(self, names: frozenset[str]) -> frozenset[str]:
        """Without complex dtypes, unless there is nothing else.

        The first pass takes complex numbers apart, so that only rules that name their dtypes can meet them.
        """
        return frozenset(n for n in names if n not in self.dtypes or self.kind(n) != "complex") or names

    def kind(self, dtype: str) -> str:
        """The kind of a dtype: float, int, …"""
        return str(self.dtypes[dtype].properties.get("kind", "int"))

    def declared_order(self, names: Iterable[str]) -> list[str]:
        """Ops or dtypes in the order of the table."""
        wanted = set(names)
        if len(wanted) < 2:
            return [name for name in wanted if name in self.ops or name in self.dtypes]
        return [name for name in (*self.ops, *self.dtypes) if name in wanted]


def _members(
    name: str,
    classes: Mapping[str, tuple[str, ...]],
    op_classes: Mapping[str, frozenset[str]],
    leaves: Iterable[str],
    above: frozenset[str],
) -> frozenset[str]:
    """The ops or dtypes of a class; a class that contains itself adds nothing."""
    found: set[str] = set()
    for member in classes[name]:
        if member in leaves:
            found.add(member)
        elif member in classes and member not in above and member != name:
            found |= _members(member, classes, op_classes, leaves, above | {name})
        else:
            found |= op_classes.get(member, frozenset())
    return frozenset(found)
