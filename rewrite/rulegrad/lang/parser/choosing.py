"""The `cost`, `fuel` and `use` lines of a choose pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from rulegrad.lang.parser.cursor import Cursor
from rulegrad.lang.parser.names import parse_integer
from rulegrad.lang.parser.op_table import parse_union

MOST_FUEL = 1_000_000


@dataclass(slots=True)
class Choosing:
    """The lines that were read so far; each may be given once."""

    WORDS: ClassVar[tuple[str, ...]] = ("cost", "fuel", "use")
    cost: str = ""
    fuel: int = 0
    uses: tuple[str, ...] = ()
    _given: set[str] = field(default_factory=set)

    def read(self, cursor: Cursor) -> None:
        """Reads one line."""
        word = cursor.advance()
        if word.text in self._given:
            raise cursor.problem("duplicate-key", f"`{word.text}` is given twice", cursor.source.span(word))
        self._given.add(word.text)
        if word.text == "cost":
            self.cost = cursor.name("a function on nodes").text
        elif word.text == "use":
            self.uses = parse_union(cursor)
        else:
            number = cursor.token
            self.fuel = parse_integer(cursor)
            if not 1 <= self.fuel <= MOST_FUEL:
                message = f"`fuel` is a number of candidates from 1 to {MOST_FUEL:_}"
                raise cursor.problem("bad-number", message, cursor.source.span(number))
