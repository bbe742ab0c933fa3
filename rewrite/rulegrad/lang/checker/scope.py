"""Names that are bound while a rule is checked, and how often each is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rulegrad.lang.syntax import Span

CAPTURE = "capture"
GENERIC = "generic"
LET = "`let`"
CHOICE = "`for`"
PARAMETER = "parameter"
VARIABLE = "variable"  # of a comprehension or a test: never reported as unused

NODE = "node"
SEQUENCE = "sequence"
OP = "op"
DTYPE = "dtype"
VALUE = "value"

Names = frozenset[str]


class Fields(NamedTuple):
    """The names of the fields of a record, or of a table's rows."""

    what: str  # "record" or "table"
    of: str
    names: tuple[str, ...]


@dataclass(slots=True)
class Binding:
    """One bound name.

    `ops`: the ops that a node or an op variable may have; `dtypes`: the dtypes of a node or a dtype variable;
    None when nothing is known.
    """

    name: str
    source: str  # CAPTURE, GENERIC, LET, CHOICE, PARAMETER, VARIABLE
    kind: str  # NODE, SEQUENCE, OP, DTYPE, VALUE
    span: Span
    ops: Names | None = None
    dtypes: Names | None = None
    uses: int = 0
    fields: Fields | None = None  # of the record that it is
    items: Fields | None = None  # of the records that it is a sequence of
    bound: bool = True  # a generic is bound only once the pattern has it


class Scope:
    """Bound names; a comprehension opens a scope inside another."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.bindings: dict[str, Binding] = {}

    def bind(self, binding: Binding) -> Binding:
        """Adds a name to this scope."""
        self.bindings[binding.name] = binding
        return binding

    def bind_item(self, name: str, span: Span, fields: Fields | None, of: int) -> None:
        """Adds the variable of a comprehension, one `of` so many that an item of its sequence is taken apart for."""
        self.bind(Binding(name, VARIABLE, VALUE, span, fields=fields if of == 1 else None))

    def find(self, name: str) -> Binding | None:
        """The binding of a name, here or outside; it does not count as a use."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bindings:
                return scope.bindings[name]
            scope = scope.outer
        return None

    def use(self, name: str) -> Binding | None:
        """The binding of a name, with one more use."""
        binding = self.find(name)
        if binding is not None:
            binding.uses += 1
        return binding

    def names(self) -> list[str]:
        """All names in sight, for hints."""
        outer = self.outer.names() if self.outer is not None else []
        return [*self.bindings, *outer]
