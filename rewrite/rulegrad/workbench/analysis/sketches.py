"""From the patterns of rules to cells: what is left open there (orders, lengths, cases) is chosen here."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from rulegrad.lang import syntax
from rulegrad.lang.compiler.scope import Generics
from rulegrad.lang.notation import CHAIN_OPS, notation_of
from rulegrad.lang.optable import OpTable
from rulegrad.workbench.analysis.cells import UNKNOWN, Cell, Contradiction, Domain, Opaque, Slot, join

Choose = Callable[[int], int]
_LONGEST = 3  # members of a sequence, one less


class Choices:
    """Random choices for one pattern, drawn many times: those that earlier times have met are known without cells."""

    def __init__(self, numbers: random.Random, counts: dict[tuple[int, ...], int]) -> None:
        self._numbers = numbers
        self._counts = counts  # of how many the next one is, after some choices: the same for all uses of a pattern
        self._place = 0
        self.taken: tuple[int, ...] = ()

    def draw(self) -> None:
        """Draws choices as far as it is known which there are."""
        self.taken = ()
        while count := self._counts.get(self.taken):
            self.taken += (self._numbers.randrange(count),)

    def again(self) -> Choose:
        """Gives those that were taken, and draws what comes after them."""
        self._place = 0
        return self._next

    def _next(self, count: int) -> int:
        if self._place == len(self.taken):
            self._counts[self.taken] = count
            self.taken += (self._numbers.randrange(count),)
        self._place += 1
        return self.taken[self._place - 1]


class Sketch:
    """The cells of one pattern.

    `choose(n)` gives a number below n. Without it sequences and orders stay as written; chains and views are Opaque.
    """

    def __init__(
        self, table: OpTable, generics: Generics, views: dict[str, syntax.View], choose: Choose | None = None
    ) -> None:
        self.table = table
        self.views = views
        self.choose = choose
        self.cells: dict[str, Cell] = {}
        self.slots: dict[str, Slot] = {}
        self.ops = {name: Domain(members) for name, members in generics.ops.items()}
        self.dtypes = {name: Domain(members) for name, members in generics.dtypes.items()}
        self.whole = True  # nothing of the pattern is left out: no computed value, no negation

    def tokens(self) -> dict[str, object]:
        """The value of each name of the pattern, so that texts with names can be compared."""
        found: dict[str, object] = {name: cell.root() for name, cell in self.cells.items()}
        found.update((name, slot.root()) for name, slot in self.slots.items())
        found.update((name, domain.root()) for name, domain in (*self.ops.items(), *self.dtypes.items()))
        return found

    def any(self) -> Cell:
        """A cell of which nothing is known."""
        return Cell(Domain(self.table.every_dtype))

    def pattern(self, x: syntax.Expression) -> Cell:
        """The cell that a pattern describes. Raises Contradiction, Opaque."""
        match x:
            case syntax.Name():
                return self._name(x)
            case syntax.Literal(value=value):
                return self._constant(value)
            case syntax.Compute():
                self.whole = False
                return self._constant(UNKNOWN)
            case syntax.Negation():
                self.whole = False
                return self.any()
            case syntax.Capture():
                return self._captured(x.name, self.pattern(x.pattern))
            case syntax.Multiset():
                return self._multiset(x)
            case syntax.Call(function=name) if name in self.views:
                return self._view(self.views[name], x.arguments)
        return self._op(x)

    def _pick(self, count: int) -> int:
        if self.choose is None:
            raise Opaque
        return self.choose(count)

    def _constant(self, value: Any) -> Cell:
        cell = self.any()
        cell.constant, cell.value = True, value
        return cell

    def _captured(self, name: str, cell: Cell) -> Cell:
        if name == "_":
            return cell
        if name in self.cells:
            join(self.cells[name], cell)
        return self.cells.setdefault(name, cell)

    def _name(self, x: syntax.Name) -> Cell:
        cell = self.any()
        if x.dtype is not None:
            self._dtype(cell, x.dtype)
        cell.constant = x.is_const
        return self._captured(x.name, cell)

    def _dtype(self, cell: Cell, name: str) -> None:
        if name in self.dtypes:
            self.dtypes[name].join(cell.root().dtype)
            return
        names = self.table.resolve_dtypes(name)
        if names is None:
            raise Opaque
        cell.root().dtype.restrict(names)

    def _multiset(self, x: syntax.Multiset) -> Cell:
        members = self._sources(x.items)[0]
        for place in range(len(members) - 1, 0, -1):
            other = self._pick(place + 1)
            members[place], members[other] = members[other], members[place]
        if not members:
            raise Contradiction
        chain = members[0]
        for member in members[1:]:
            left, chain = chain, self.any()
            chain.ops, chain.sources = Domain(frozenset((CHAIN_OPS[x.kind],))), [left, member]
        return chain

    def _view(self, view: syntax.View, arguments: tuple[syntax.Expression, ...]) -> Cell:
        case = view.cases[self._pick(len(view.cases))]
        values = dict(case.values)
        given: dict[str, Cell] = {}
        for name, argument in zip(view.parameters, arguments, strict=False):
            given[name] = self.pattern(argument)
            if name in values:
                join(given[name], self.pattern(values[name]))
        outer, self.cells = self.cells, given
        found = self.pattern(case.expression)
        self.cells = outer
        return found

    # ---- ops ----

    def _op(self, x: syntax.Expression) -> Cell:
        found = notation_of(x)
        if found is None:
            raise Opaque
        name, attributes, arguments, ordered = found
        cell = self.any()
        if name in self.ops:
            cell.ops = self.ops[name]
        else:
            op = self.table.op_called(name)
            if op is None:
                raise Opaque
            cell.ops = Domain(frozenset((op,)))
        cell.sources, cell.rest = self._sources(arguments)
        for attribute in attributes:
            self._attribute(cell, attribute)
        cell.ordered = ordered
        if self.choose is not None and not ordered and len(cell.sources) == 2:
            commutes = all(self.table.ops[op].commutative for op in cell.ops.root().names)
            if commutes and self.choose(2):
                cell.sources.reverse()
        return cell

    def _sources(self, arguments: tuple[syntax.Expression, ...]) -> tuple[list[Cell], int | None]:
        """The sources' cells; a sequence becomes some cells, or one and its place where nothing is chosen."""
        found: list[Cell] = []
        rest: int | None = None
        for argument in arguments:
            if not isinstance(argument, syntax.Splice):
                found.append(self.pattern(argument))
            elif self.choose is None:
                rest = len(found)
                found.append(self._member(argument.inner))
            else:
                found.extend(self._member(argument.inner) for _ in range(self.choose(_LONGEST)))
        return found, rest

    def _member(self, inner: syntax.Expression) -> Cell:
        """One member of a sequence: its names are its own, except those after `one`, or bound before."""
        if isinstance(inner, syntax.Name) and not inner.one:
            cell = self.any()
            cell.constant = inner.is_const
            if inner.dtype is not None:
                self._dtype(cell, inner.dtype)
            return cell
        self.whole = False
        return self.pattern(inner)

    # ---- attributes ----

    def _attribute(self, cell: Cell, attribute: syntax.Attribute) -> None:
        assert cell.ops is not None
        ops = cell.ops.root().names
        declared = list(self.table.ops[next(iter(ops))].attributes) if len(ops) == 1 else []
        explicit = len(ops) == 1 and self.table.ops[next(iter(ops))].explicit
        value = attribute.value
        if (attribute.name == "dtype" and "dtype" not in declared) or (attribute.name is None and explicit):
            if not isinstance(value, syntax.Name):
                raise Opaque
            if value.name in self.dtypes or self.table.resolve_dtypes(value.name) is not None:
                self._dtype(cell, value.name)
            elif value.name != "_":
                self.dtypes.setdefault(value.name, Domain(self.table.every_dtype)).join(cell.dtype)
            return
        name = attribute.name if attribute.name is not None else declared[0] if declared else None
        if name is None or name == "..":
            raise Opaque
        slot = cell.attributes.setdefault(name, Slot())
        if isinstance(value, syntax.Literal):
            slot.set(value.value)
        elif isinstance(value, syntax.Name) and value.name in self.ops:
            slot.set(self.ops[value.name])
        elif isinstance(value, syntax.Name) and value.name in self.table.ops:
            slot.set(Domain(frozenset((value.name,))))
        elif isinstance(value, syntax.Name) and value.name not in self.table.dtypes:
            if value.name != "_":
                slot.join(self.slots.setdefault(value.name, Slot()))
        elif isinstance(value, syntax.Sequence) and all(isinstance(i, syntax.Literal) for i in value.items):
            slot.set(tuple(i.value for i in value.items if isinstance(i, syntax.Literal)))
        else:
            self.whole = False
