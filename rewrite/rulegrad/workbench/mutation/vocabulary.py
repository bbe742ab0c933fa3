"""The tokens that may stand in the place of another: operators, built-in functions, ops, dtypes, texts, numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rulegrad.lang import syntax
from rulegrad.lang.optable import Op, OpTable

OPERATORS: Final[dict[str, str]] = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "+": "-", "-": "+", "*": "+", "/": "*", "//": "%", "%": "//", "**": "*",
    "&": "|", "|": "&", "^": "|", "<<": ">>", ">>": "<<",
    "and": "or", "or": "and", "in": "not-in", "not-in": "in",
}  # fmt: skip
#: Operators whose sides may not be swapped without another meaning.
DIRECTED: Final = frozenset(("-", "/", "//", "%", "**", "<<", ">>", "<", "<=", ">", ">="))
#: Built-in functions with the same kinds of arguments and of results.
BUILTINS: Final[dict[str, str]] = {
    "min": "max", "max": "min", "vmin": "vmax", "vmax": "vmin", "floor": "ceil", "ceil": "floor",
    "any": "all", "all": "any", "sum": "prod", "prod": "sum", "total": "len",
}  # fmt: skip
#: Built-in functions that may be left out: their argument has the kind of their result.
LEFT_OUT: Final = frozenset(("reversed", "sorted", "abs", "distinct", "rewritten"))
FIELDS: Final[dict[str, str]] = {"min": "max", "max": "min"}
_MOST = 2  # others of a kind that are tried in one place


@dataclass(frozen=True)
class Vocabulary:
    """The words to choose from: the op table's ops and dtypes, and the columns of tables."""

    table: OpTable
    tables: Sequence[syntax.Table] = ()

    def ops_beside(self, name: str) -> list[str]:
        """The nearest ops of a class with it that have as many sources, the same attributes and its kind of result."""
        op = self.table.ops[name]
        return _nearest(name, [other.name for other in self.table.ops.values() if _alike(op, other)])

    def dtypes_beside(self, name: str) -> list[str]:
        """The nearest dtypes of the same kind."""
        kind = self.table.kind(name)
        return _nearest(name, [other for other in self.table.dtypes if self.table.kind(other) == kind])

    @functools.cached_property
    def texts(self) -> dict[str, tuple[str, ...]]:
        """The texts that an attribute may have, where the op table declares them."""
        found: dict[str, dict[str, None]] = {}
        for op in self.table.ops.values():
            for name, values in op.declaration.values:
                found.setdefault(name, {}).update(dict.fromkeys(values))
        return {name: tuple(values) for name, values in found.items()}

    def texts_beside(self, attribute: str, text: str) -> list[str]:
        """The nearest of the texts that the attribute may have."""
        known = self.texts.get(attribute, ())
        return _nearest(text, known)

    def columns_beside(self, name: str) -> list[str]:
        """The nearest columns of a table that have the type of this one."""
        for table in self.tables:
            types = dict(table.columns)
            if name in types:
                return _nearest(name, [other for other, kind in table.columns if kind == types[name]])
        return []


def _alike(op: Op, other: Op) -> bool:
    return (
        len(op.parameters) == len(other.parameters)
        and list(op.attributes) == list(other.attributes)
        and op.declaration.result == other.declaration.result
        and bool(set(op.declaration.classes) & set(other.declaration.classes))
    )


def _nearest(one: str, known: Sequence[str]) -> list[str]:
    """The neighbours of one among those that are known, the next first; the ends are neighbours."""
    if one not in known:
        return []
    at = known.index(one)
    around = [known[(at + step) % len(known)] for step in (1, -1)]
    return [other for other in dict.fromkeys(around) if other != one][:_MOST]


def numbers_beside(value: float | bool) -> list[float | bool]:
    """Other constants: a number and its neighbours, the other truth value, a float and its negative."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1] if value == 0 else [value + 1, value - 1]
    if not math.isfinite(value):
        return [1.0]
    return [value + 1] if value == 0 else [value + 1, -value]
