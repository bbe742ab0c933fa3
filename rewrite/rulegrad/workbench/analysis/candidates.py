"""Which rules of a list may cover which: by the ops and numbers of their patterns, so that few pairs are compared."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence

from rulegrad.workbench.analysis.cells import UNKNOWN, Cell, Contradiction, below

_Marks = frozenset[Hashable]


class Candidates:
    """The patterns of a list of rules (None where it is not known), filed by the rarest mark that each needs."""

    def __init__(self, patterns: Sequence[Cell | None]) -> None:
        self._offered = [frozenset[Hashable]() if cell is None else _marks(cell, needed=False) for cell in patterns]
        needed = [None if cell is None else _marks(cell, needed=True) for cell in patterns]
        counts = Counter(mark for marks in needed if marks is not None for mark in marks)
        self._filed: dict[Hashable, list[tuple[int, _Marks]]] = defaultdict(list)
        for place, marks in enumerate(needed):
            if marks is not None:
                rarest = min(marks, key=lambda mark: (counts[mark], repr(mark)), default=None)
                self._filed[rarest].append((place, marks))

    def of(self, place: int) -> list[int]:
        """The places of all patterns that may match whatever the one at a place does, in order."""
        offered = self._offered[place]
        found = (entry for mark in (None, *offered) for entry in self._filed.get(mark, ()))
        return sorted(other for other, needed in found if needed <= offered)


def _marks(cell: Cell, needed: bool) -> _Marks:
    """The single ops and the numbers below a cell; needed: those that all that it matches has too."""
    try:
        cells = list(below(cell))
    except Contradiction:
        return frozenset()
    members = {id(c.sources[c.rest].root()) for c in cells if c.rest is not None} if needed else set()
    return frozenset(mark for c in cells if id(c) not in members for mark in _marks_of(c))


def _marks_of(cell: Cell) -> Iterator[Hashable]:
    if cell.ops is not None and len(names := cell.ops.root().names) == 1:
        yield from (("op", name) for name in names)
    value = cell.value
    if value is not UNKNOWN and isinstance(value, int | float):
        yield "nan" if value != value else ("value", value)
