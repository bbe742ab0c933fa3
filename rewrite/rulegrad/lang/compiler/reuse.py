"""Rules that this process has compiled, of which programs for other targets or with a few more rules are made.

The code of a rule depends on the op table, on the declarations that its names stand for, and on what the target says
to its `needs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from rulegrad.lang import syntax
from rulegrad.lang.compiler.assembler import Alternative, Assembler, Pooled
from rulegrad.lang.compiler.scope import Library

_MOST: Final = 4  # op tables for which rules are kept
_MOST_RULES: Final = 20_000  # of each; ours are some 3,000 for all targets, the others are of files that somebody edits
_FIELDS: Final = ("functions", "definitions", "externs", "views", "tables")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A rule, what its names stood for, and its alternatives with their code."""

    rule: syntax.Rule  # held: its identity is a part of the key
    declared: tuple[tuple[str, str, Any], ...]  # a field of the library, a name, what of its declaration is in the code
    alternatives: tuple[tuple[Alternative, list[int], list[int]], ...]  # with the places of words that may be others

    @classmethod
    def of(
        cls, rule: syntax.Rule, library: Library, assembler: Assembler, alternatives: Sequence[Alternative]
    ) -> Compiled:
        """What was compiled since `begin`."""
        names = ((field, name) for field in _FIELDS for name in getattr(library, field).asked)
        declared = tuple((field, name, _in_code(library, field, name)) for field, name in names)
        coded = ((found, assembler.codes[found.code]) for found in alternatives)
        pooled = tuple((found, code, [k for k, x in enumerate(code) if x.__class__ is Pooled]) for found, code in coded)
        return cls(rule, declared, pooled)

    def holds(self, library: Library) -> bool:
        """Whether the names stand for the same declarations in another library."""
        for field, name, found in self.declared:
            other = _in_code(library, field, name)
            if other is not found and other != found:
                return False
        return True

    def moved(self, assembler: Assembler, number: int) -> list[Alternative]:
        """The alternatives in another program, where the rule has this number."""
        moved = assembler.moved
        found = []
        for one, words, places in self.alternatives:
            words = words.copy()
            for k in places:
                words[k] = moved(words[k])
            code = assembler.code(words)
            first, second, third = map(moved, one.children)
            root = moved(one.root)
            found.append(replace(one, rule=number, code=code, root=root, children=(first, second, third)))
        return found


def _in_code(library: Library, field: str, name: str) -> Any:
    """A declaration that is written out where it is used; of what is called by number, whether there is one."""
    found = dict.get(getattr(library, field), name)
    return found if field in ("definitions", "views", "tables") else found is not None


class _OfTable(NamedTuple):
    declarations: tuple[object, ...]  # held: their identities are the key
    rules: dict[Any, Compiled]


_tables: dict[Any, _OfTable] = {}


def kept_rules(library: Library) -> dict[Any, Compiled]:
    """The rules that were compiled for this op table."""
    table = library.table
    declarations = (*(op.declaration for op in table.ops.values()), *table.dtypes.values())
    key = (*map(id, declarations), frozenset(table.op_classes.items()), frozenset(table.dtype_classes.items()))
    if key not in _tables:
        while len(_tables) >= _MOST:
            del _tables[next(iter(_tables))]
        _tables[key] = _OfTable(declarations, {})
    found = _tables[key].rules
    if len(found) > _MOST_RULES:
        found.clear()
    return found


def begin(library: Library) -> None:
    """From here on the names are remembered that are asked for."""
    for field in _FIELDS:
        getattr(library, field).asked.clear()
