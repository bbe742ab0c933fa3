"""The values of the symbolic evaluation of a rule.

Values that are known are Python's own: int, float, bool, str, None, tuples, `OpName` and `DtypeName`. The others are
`Exact` integers, truth values of z3, and `Node`s.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rulegrad.ir.dtype import as_dtype

Value = Any  # one of the above


class UntranslatableError(Exception):
    """This part of a rule has no meaning in logic; the rule is tested instead."""


class UnknownMembersError(UntranslatableError):
    """Which members a sequence has depends on what is not known."""


class StructuralError(UntranslatableError):
    """The rule is about more than elements, whatever the dtypes."""


class UndefinedError(Exception):
    """A computation has no value here, so the rule does not fire."""


class CasesError(Exception):
    """A proof by cases is wanted: a constant of the pattern is each of these values, or none of them."""

    def __init__(self, name: str, values: tuple[int, ...]) -> None:
        super().__init__(f"{name} is one of {len(values)} values")
        self.name = name
        self.values = values


class OpName(str):
    """An op as a value."""

    __slots__ = ()


class DtypeName(str):
    """A dtype as a value."""

    __slots__ = ()


class Record(tuple[Any, ...]):
    """A record: its values, and its name with the names of the values. Those of other names are never equal."""

    names: tuple[str, ...]

    def __new__(cls, values: Iterable[Any], names: tuple[str, ...]) -> Record:
        made = super().__new__(cls, values)
        made.names = names
        return made

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its values."""
        return self.names[1:]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.names == other.names and super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.names, super().__hash__()))


@dataclass(frozen=True, eq=False, slots=True)
class Exact:
    """An integer that is not known: a signed bit-vector wide enough for it, or an unbounded Int of z3.

    name: the constant of the pattern whose value it is, where it is just that, or that and `offset`.
    """

    term: Any
    width: int | None  # None: an Int
    name: str = ""
    excluded: tuple[int, ...] = ()  # what a proof by cases has ruled out for the constant
    offset: int = 0

    def is_one_of(self, values: tuple[int, ...]) -> bool:
        """Whether it is one of these values; if that is not ruled out, CasesError asks for a proof by cases."""
        wanted = tuple(value - self.offset for value in values)
        if set(wanted) <= set(self.excluded):
            return False
        raise CasesError(self.name, wanted)


@dataclass(eq=False, slots=True)
class Node:
    """A node of a graph: its value, and where that may be used.

    valid: False (or a condition) where it is INVALID; value: of a CONST; op, sources: where they are known.
    """

    term: Any
    dtype: str
    valid: Any = True
    value: Value = None
    op: str = ""
    sources: tuple[Node, ...] = ()
    attributes: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class Members:
    """The members of a conjunction, of which it is not known what they are: each is true where all of it is."""

    of: Node


def is_known(*values: Value) -> bool:
    """Whether all are Python's own."""
    return all(isinstance(v, int | float | str) or v is None or (isinstance(v, tuple) and is_known(*v)) for v in values)


def limits(dtype: str) -> tuple[int, int]:
    """Least and greatest value of a machine integer."""
    d = as_dtype(dtype)
    if d.kind == "uint":
        return 0, 2**d.bits - 1
    return -(2 ** (d.bits - 1)), 2 ** (d.bits - 1) - 1


def representable(value: Value, dtype: str) -> bool:
    """Whether a CONST of the dtype can have this value."""
    d = as_dtype(dtype)
    if d.kind == "bool":
        return bool(value in (0, 1))
    if d.is_float:
        return isinstance(value, int | float)
    if not isinstance(value, int | float) or value != value or value in (float("inf"), float("-inf")):
        return False
    if value != int(value):
        return False
    low, high = limits(dtype)
    return bool(low <= value <= high)
