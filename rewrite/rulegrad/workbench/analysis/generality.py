"""Whether one pattern matches everything that another does, and whether its guards are those of the other."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rulegrad.lang import syntax
from rulegrad.lang.optable import OpTable
from rulegrad.workbench.analysis.cells import UNKNOWN, Cell, Domain, Slot, same_value

_MOST_ORDERS = 64


@dataclass(slots=True)
class Binding:
    """The substitution of the general pattern's cells, domains and slots, by identity."""

    cells: dict[int, Cell] = field(default_factory=dict)
    domains: dict[int, Domain] = field(default_factory=dict)
    slots: dict[int, Slot] = field(default_factory=dict)

    def meaning(self, token: object) -> object:
        """The value of a name of the general pattern in the special one."""
        for found in (self.cells, self.domains, self.slots):
            if id(token) in found:
                return found[id(token)].root()
        return token


def covers(table: OpTable, general: Cell, special: Cell) -> Iterator[Binding]:
    """The ways in which every node of `special` is one of `general`."""
    for orders in itertools.islice(_orders(table, general), _MOST_ORDERS):
        binding = Binding()
        if _matches(general, special, orders, binding):
            yield binding


def _orders(table: OpTable, root: Cell) -> Iterator[frozenset[int]]:
    """The commutative cells whose sources are taken the other way round."""
    swappable: list[int] = []
    waiting, seen = [root.root()], set()
    while waiting:
        cell = waiting.pop()
        if id(cell) in seen:
            continue
        seen.add(id(cell))
        waiting.extend(s.root() for s in cell.sources)
        if cell.ops is None or cell.ordered or cell.rest is not None or len(cell.sources) != 2:
            continue
        if all(table.ops[op].commutative for op in cell.ops.root().names):
            swappable.append(id(cell))
    for choice in itertools.product((False, True), repeat=len(swappable)):
        yield frozenset(cell for cell, chosen in zip(swappable, choice, strict=True) if chosen)


def _matches(general: Cell, special: Cell, swapped: frozenset[int], binding: Binding) -> bool:
    a, b = general.root(), special.root()
    if id(a) in binding.cells:
        return binding.cells[id(a)].root() is b
    binding.cells[id(a)] = b
    if not _domain(a.dtype, b.dtype, binding):
        return False
    if a.constant and not b.constant:
        return False
    if a.value is not UNKNOWN and (b.value is UNKNOWN or not same_value(a.value, b.value)):
        return False
    if a.ops is None:
        return True
    if b.ops is None or not _domain(a.ops, b.ops, binding) or not _attributes(a, b, binding):
        return False
    return _sources(a, b, swapped, binding)


def _domain(a: Domain, b: Domain, binding: Binding) -> bool:
    mine, theirs = a.root(), b.root()
    if not theirs.names <= mine.names:
        return False
    earlier = binding.domains.setdefault(id(mine), theirs)
    return earlier is theirs or (len(theirs.names) == 1 and earlier.names == theirs.names)


def _attributes(a: Cell, b: Cell, binding: Binding) -> bool:
    for name, slot in a.attributes.items():
        other = b.attributes.get(name)
        mine = slot.root()
        theirs = Slot() if other is None else other.root()
        if isinstance(mine.value, Domain):
            if not isinstance(theirs.value, Domain) or not _domain(mine.value, theirs.value, binding):
                return False
        elif mine.value is not UNKNOWN:
            if theirs.value is UNKNOWN or not same_value(mine.value, theirs.value):
                return False
        elif binding.slots.setdefault(id(mine), theirs) is not theirs:
            return False
    return True


def _sources(a: Cell, b: Cell, swapped: frozenset[int], binding: Binding) -> bool:
    mine = list(reversed(a.sources)) if id(a) in swapped else a.sources
    if a.rest is None:
        if b.rest is not None or len(mine) != len(b.sources):
            return False
        return all(_matches(x, y, swapped, binding) for x, y in zip(mine, b.sources, strict=True))
    before, after = a.rest, len(mine) - a.rest - 1
    extra = len(b.sources) - (b.rest is not None)
    if extra < before + after or (b.rest is not None and not before <= b.rest <= len(b.sources) - after - 1):
        return False
    ends = [*zip(mine[:before], b.sources, strict=False)]
    ends += zip(reversed(mine[before + 1 :]), reversed(b.sources), strict=False)
    if not all(_matches(x, y, swapped, binding) for x, y in ends):
        return False
    inside = b.sources[before : len(b.sources) - after]
    member = mine[before].root()
    if member.ops is not None:
        return False
    return all(
        item.root().dtype.root().names <= member.dtype.root().names and (item.root().constant or not member.constant)
        for item in inside
    )


def conditions(rule: syntax.Rule, names: Mapping[str, object]) -> frozenset[str]:
    """The guards of a rule as texts, in which names that stand for the same read the same."""
    found: set[str] = set()
    inside = dict(names)
    for clause in rule.clauses:
        if clause.keyword in ("if", "let", "for", "least") and clause.expression is not None:
            found.add(f"{clause.keyword} {canonical(clause.expression, inside)}")
            inside.update((name, f"{name} of {len(found)}") for name in clause.names)
    return frozenset(found)


def canonical(x: object, names: Mapping[str, object]) -> str:
    """An expression as text without places, its names replaced by what they stand for."""
    match x:
        case syntax.Name() if x.name in names:
            return f"<{_token(names[x.name])}>"
        case syntax.Call() if x.function in names:
            return f"<{_token(names[x.function])}>{canonical(x.arguments, names)}"
        case syntax.OpCall() if x.op in names:
            return f"<{_token(names[x.op])}>{canonical((x.attributes, x.arguments), names)}"
        case syntax.Expression():
            parts = [canonical(getattr(x, f.name), names) for f in dataclasses.fields(x) if f.name != "span"]
            return f"{type(x).__name__}({', '.join(parts)})"
        case tuple():
            return "(" + ", ".join(canonical(item, names) for item in x) + ")"
    return repr(x)


def _token(meaning: object) -> str:
    return meaning if isinstance(meaning, str) else str(id(meaning))
