"""Patterns as graphs of cells: two patterns are unified by joining cells, and a graph of cells can be made a real one.

A cell stands for a node that is not known yet: the ops, dtypes, sources and attributes that it may have. What is
the same node (a name used twice) is the same cell, so that patterns which are not linear need no special care.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rulegrad.lang.optable import Op, OpTable

UNKNOWN: Any = object()  # a value that nothing is known of


class Contradiction(Exception):  # noqa: N818
    """No node can be what the cells ask for."""


class Opaque(Exception):  # noqa: N818
    """A pattern that cells cannot express."""


@dataclass(eq=False, slots=True)
class Domain:
    """The ops or dtypes, of which one is to be; joined domains are one."""

    names: frozenset[str]
    joined: Domain | None = None

    def root(self) -> Domain:
        found = self
        while found.joined is not None:
            found = found.joined
        return found

    def restrict(self, names: frozenset[str]) -> None:
        """Leaves only these."""
        found = self.root()
        found.names = found.names & names
        if not found.names:
            raise Contradiction

    def join(self, other: Domain) -> None:
        """Makes two domains one."""
        mine, theirs = self.root(), other.root()
        if mine is not theirs:
            theirs.joined = mine
            mine.restrict(theirs.names)


@dataclass(eq=False, slots=True)
class Slot:
    """An attribute's value; joined slots are one."""

    value: Any = UNKNOWN
    joined: Slot | None = None

    def root(self) -> Slot:
        found = self
        while found.joined is not None:
            found = found.joined
        return found

    def set(self, value: Any) -> None:
        found = self.root()
        if found.value is UNKNOWN:
            found.value = value
        elif isinstance(found.value, Domain) and isinstance(value, Domain):
            found.value.join(value)
        elif not same_value(found.value, value):
            raise Contradiction

    def join(self, other: Slot) -> None:
        mine, theirs = self.root(), other.root()
        if mine is not theirs:
            theirs.joined = mine
            if theirs.value is not UNKNOWN:
                mine.set(theirs.value)


@dataclass(eq=False, slots=True)
class Cell:
    """A node to be.

    ops: None where it may be any. rest: the place of a sequence among the sources. ordered: the sources are taken as
    they stand, although the op commutes.
    """

    dtype: Domain
    ops: Domain | None = None
    sources: list[Cell] = field(default_factory=list)
    rest: int | None = None
    ordered: bool = False
    attributes: dict[str, Slot] = field(default_factory=dict)
    constant: bool = False
    value: Any = UNKNOWN
    joined: Cell | None = None

    def root(self) -> Cell:
        found = self
        while found.joined is not None:
            found = found.joined
        return found


def same_value(a: Any, b: Any) -> bool:
    """Whether two values of attributes or constants are the same: numbers by value, nan as nan."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b or (a != a and b != b)
    return type(a) is type(b) and bool(a == b)


def join(a: Cell, b: Cell) -> None:
    """Makes two cells one. Raises Contradiction."""
    waiting = [(a, b)]
    while waiting:
        left, right = waiting.pop()
        mine, theirs = left.root(), right.root()
        if mine is theirs:
            continue
        mine.dtype.join(theirs.dtype)
        set_constant(mine, theirs)
        if theirs.ops is not None and mine.ops is not None:
            if mine.rest is not None or theirs.rest is not None or len(mine.sources) != len(theirs.sources):
                raise Contradiction
            mine.ops.join(theirs.ops)
            waiting.extend(zip(mine.sources, theirs.sources, strict=True))
            for name, slot in theirs.attributes.items():
                mine.attributes.setdefault(name, slot).join(slot)
        elif theirs.ops is not None:
            mine.ops, mine.sources, mine.rest = theirs.ops, theirs.sources, theirs.rest
            mine.ordered = theirs.ordered
            mine.attributes = theirs.attributes
        theirs.joined = mine
        if mine.constant and mine.ops is not None:
            mine.ops.restrict(frozenset(("CONST",)))


def set_constant(mine: Cell, theirs: Cell) -> None:
    """Facts of a constant on either side hold for both."""
    mine.constant = mine.constant or theirs.constant
    if theirs.value is UNKNOWN:
        return
    if mine.value is not UNKNOWN and not same_value(mine.value, theirs.value):
        raise Contradiction
    mine.value = theirs.value


def below(cell: Cell) -> Iterator[Cell]:
    """The cell and all cells below it, each once, the cell itself first. Raises Contradiction on a cycle."""
    done: set[int] = set()
    path: set[int] = set()
    waiting: list[tuple[Cell, bool]] = [(cell.root(), False)]
    while waiting:
        item, leaves = waiting.pop()
        if leaves:
            path.discard(id(item))
            continue
        if id(item) in path:
            raise Contradiction
        if id(item) in done:
            continue
        done.add(id(item))
        yield item
        if not item.sources:
            continue
        path.add(id(item))
        waiting.append((item, True))
        waiting.extend((source.root(), False) for source in item.sources)


def infer(table: OpTable, root: Cell) -> None:
    """Narrows dtypes by the signatures of the ops that are known. Raises Contradiction."""
    for cell in list(below(root)):
        if cell.value is not UNKNOWN:
            cell.dtype.restrict(_dtypes_with(table, cell.value))
        if cell.ops is not None and len(cell.ops.root().names) == 1:
            apply_signature(table, cell, table.ops[next(iter(cell.ops.root().names))])


def apply_signature(table: OpTable, cell: Cell, op: Op) -> None:
    """An op's constraints on the dtypes of a node and its sources. Raises Contradiction."""
    count = len(cell.sources)
    if cell.rest is None and not op.takes(count):
        raise Contradiction
    variables: dict[str, Domain] = {}

    def state(domain: Domain, kind: str | None) -> None:
        if kind is None or kind == "explicit":
            return
        stated = table.resolve_dtypes(kind)
        if stated is not None:
            domain.restrict(stated)
            return
        if kind not in variables:
            admitted = table.resolve_dtypes(op.declaration.where.get(kind, ""))
            variables[kind] = Domain(admitted if admitted is not None else table.every_dtype)
        variables[kind].join(domain)

    state(cell.dtype, op.declaration.result)
    for place, source in enumerate(cell.sources):
        if cell.rest is not None and place >= cell.rest:
            break
        parameter = op.parameters[min(place, len(op.parameters) - 1)]
        state(source.root().dtype, parameter.type)


def _dtypes_with(table: OpTable, value: Any) -> frozenset[str]:
    """The dtypes of which a CONST can have exactly this value; few values come very often."""
    key = (type(value), value)
    known = table.dtypes_of_constants
    if key not in known:
        known[key] = frozenset(dtype for dtype in table.dtypes if representable(table, value, dtype))
    return known[key]


def representable(table: OpTable, value: Any, dtype: str) -> bool:
    """Whether a CONST of that dtype can have exactly this value."""
    properties = table.dtypes[dtype].properties
    kind, bits = properties.get("kind"), properties.get("bits", 0)
    if kind == "bool":
        return value in (0, 1)
    if kind == "float":
        return isinstance(value, (int, float))
    if kind == "void" or not isinstance(value, (int, float)) or value != value or abs(value) == float("inf"):
        return False
    if kind == "index":
        return value == int(value)
    low, high = (0, 2 ** int(bits)) if kind == "uint" else (-(2 ** (int(bits) - 1)), 2 ** (int(bits) - 1))
    return value == int(value) and low <= value < high
