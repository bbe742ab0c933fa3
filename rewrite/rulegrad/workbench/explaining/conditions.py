"""The values of a rule's conditions on a node, with both sides of their comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rulegrad.lang import syntax
from rulegrad.workbench.explaining.failing import Reader

_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_MOST = 60  # characters of a side


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: its text in the rule file, and its value there."""

    text: str
    value: int | float

    def __str__(self) -> str:
        value = f"{self.value:,}"
        text = self.text if len(self.text) <= _MOST else f"{self.text[: _MOST - 1]}…"
        return value if self.text in (value, str(self.value)) else f"{text} = {value}"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition, or one of several that `and` joins: its text, and whether it holds.

    left, operator, right: where it compares numbers, by itself or by the body of the `def` that it calls.
    """

    text: str
    holds: bool
    left: Side | None = None
    operator: str = ""
    right: Side | None = None

    def __str__(self) -> str:
        says = f"`{self.text}` {'holds' if self.holds else 'is false'}"
        return says if self.left is None else f"{says}: {self.left} {self.operator} {self.right}"


def conditions(reader: Reader, registers: Sequence[Any]) -> tuple[Condition, ...]:
    """The rule's `if` lines in their order, as far as they were evaluated when the registers were read."""
    found: list[Condition] = []
    for clause in reader.rule.clauses:
        if clause.keyword == "if" and clause.expression is not None:
            found.extend(_of(reader, registers, clause.expression))
    return tuple(found)


def _of(reader: Reader, registers: Sequence[Any], x: syntax.Expression) -> Iterator[Condition]:
    if isinstance(x, syntax.Infix) and x.operator == "and":
        yield from _of(reader, registers, x.left)
        yield from _of(reader, registers, x.right)
        return
    holds = _value(reader, registers, x)
    if not isinstance(holds, bool):
        return
    compared = _comparison(reader, x)
    sides = [_value(reader, registers, side) for side in (compared.left, compared.right)] if compared else []
    if compared and all(_is_number(value) for value in sides):
        left, right = (Side(reader.text(side), value) for side, value in zip((compared.left, compared.right), sides))
        yield Condition(reader.text(x), holds, left, compared.operator, right)
    else:
        yield Condition(reader.text(x), holds)


def _comparison(reader: Reader, x: syntax.Expression) -> syntax.Infix | None:
    """The comparison that an expression is, or that the body of the definition is which it calls."""
    while isinstance(x, syntax.Call) and x.function in reader.definitions:
        x = reader.definitions[x.function].body
    x = x.inner if isinstance(x, syntax.Compute) else x
    return x if isinstance(x, syntax.Infix) and x.operator in _COMPARISONS else None


def _value(reader: Reader, registers: Sequence[Any], x: syntax.Expression) -> Any:
    register = reader.code.values.get(x)
    return None if register is None else registers[register]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
