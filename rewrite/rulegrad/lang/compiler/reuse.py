"""Rules that this process has compiled, of which programs for other targets or with a few more rules are made.

The code of a rule depends on the words of the op table and the declarations that it asked for when it was compiled,
and on what the target says to its `needs`: where these are the same, the code is, whatever else there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple

from rulegrad.lang import syntax
from rulegrad.lang.compiler.assembler import Alternative, Assembler, Pooled
from rulegrad.lang.compiler.scope import Library
from rulegrad.lang.optable import OpTable

_MOST: Final = 4  # op tables for which rules are kept
_MOST_RULES: Final = 20_000  # of each; ours are some 3,000 for all targets, the others are of files that somebody edits
_MOST_VARIANTS: Final = 16  # of a rule; targets have rows of their own in tables
_FIELDS: Final = ("functions", "definitions", "externs", "views", "tables")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A rule, what its names stood for, and its alternatives with their code."""

    rule: syntax.Rule  # held: its identity is a part of the key
    declared: tuple[tuple[str, str, Any], ...]  # a field of the library, a name, what of its declaration is in the code
    asked: frozenset[str]  # words of the op table
    alternatives: tuple[tuple[Alternative, list[int], list[int]], ...]  # with the places of words that may be others

    @classmethod
    def of(
        cls, rule: syntax.Rule, library: Library, assembler: Assembler, alternatives: Sequence[Alternative]
    ) -> Compiled:
        """A rule that was compiled since `begin`, with the names that were asked for."""
        names = ((field, name) for field in _FIELDS for name in getattr(library, field).asked)
        declared = tuple((field, name, _in_code(library, field, name)) for field, name in names)
        coded = ((found, assembler.codes[found.code]) for found in alternatives)
        pooled = tuple((found, code, [k for k, x in enumerate(code) if x.__class__ is Pooled]) for found, code in coded)
        return cls(rule, declared, frozenset(library.table.asked), pooled)

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


class Kept:
    """Rules that were compiled with one op table, by the rule's identity and what else decides; the latest first.

    others: rules of other tables, each with the words that mean another thing in this one.
    """

    def __init__(self, table: OpTable, others: Sequence[tuple[Kept, frozenset[str]]] = ()) -> None:
        self.table = table  # held: the identities of its declarations are what this is found by
        self.rules: dict[Any, list[Compiled]] = {}
        self.others = others

    def get(self, key: Any, library: Library) -> Compiled | None:
        """The rule, as it was compiled where its names and its words of the op table stood for the same."""
        for one in self.rules.get(key, ()):
            if one.holds(library):
                return one
        for other, changed in self.others:
            for one in other.rules.get(key, ()):
                if changed.isdisjoint(one.asked) and one.holds(library):
                    self.put(key, one)
                    return one
        return None

    def put(self, key: Any, compiled: Compiled) -> None:
        """Keeps a rule that was compiled."""
        variants = self.rules.setdefault(key, [])
        variants.insert(0, compiled)
        del variants[_MOST_VARIANTS:]

    def without(self, other: Kept) -> None:
        """Lets go of another table's rules."""
        self.others = [pair for pair in self.others if pair[0] is not other]


def _identity(table: OpTable) -> tuple[Any, ...]:
    """Equal for tables of the same declarations, not for those of equal ones."""
    declarations = (*(op.declaration for op in table.ops.values()), *table.dtypes.values())
    classes = frozenset(table.op_classes.items()), frozenset(table.dtype_classes.items())
    return (*map(id, declarations), *classes)


def changed_words(before: OpTable, now: OpTable) -> frozenset[str] | None:
    """The words that mean another thing in an op table than in another; None where the dtypes are others.

    A word can be an op (with its number), an op in calls, a dtype, a class of either, the first of a step.
    """
    if list(before.dtypes) != list(now.dtypes):
        return None
    found: set[str] = set()
    for part in ("ops", "op_classes", "dtype_classes", "by_function_name", "forms"):
        old, new = (dict(getattr(table, part)) for table in (before, now))
        found.update(word for word in old.keys() | new.keys() if old.get(word) != new.get(word))
    return frozenset(found)


_tables: dict[Any, Kept] = {}


def kept_rules(library: Library) -> Kept:
    """The rules that were compiled with this op table; those of others where words mean the same."""
    return _rules_of(library.table)


def alone(library: Library) -> Kept:
    """Room for rules that other programs have no use for."""
    return Kept(library.table)


def _rules_of(table: OpTable) -> Kept:
    identity = _identity(table)
    if identity not in _tables:
        while len(_tables) >= _MOST:
            gone = _tables.pop(next(iter(_tables)))
            for kept in _tables.values():
                kept.without(gone)
        others = ((kept, changed_words(kept.table, table)) for kept in _tables.values())
        _tables[identity] = Kept(table, [(kept, changed) for kept, changed in others if changed is not None])
    found = _tables[identity]
    if len(found.rules) > _MOST_RULES:
        found.rules.clear()
    return found


#: By the identity of the declaration, which is held.
_spelling_rules: dict[int, tuple[syntax.OpDeclaration, syntax.Rule]] = {}
_MOST_SPELLINGS: Final = 1000


def spelling_rule(declaration: syntax.OpDeclaration) -> syntax.Rule:
    """The rule of each render pass that an op's `c` line stands for; of one declaration, one rule."""
    if id(declaration) not in _spelling_rules:
        if len(_spelling_rules) >= _MOST_SPELLINGS:
            _spelling_rules.clear()
        assert declaration.spelling is not None
        span, name = declaration.span, declaration.name
        arguments = tuple(syntax.Name(span, parameter.name) for parameter in declaration.parameters)
        pattern = syntax.OpCall(span, name, (), arguments)
        rule = syntax.Rule(name, (), pattern, declaration.spelling, (), (), span)
        _spelling_rules[id(declaration)] = declaration, rule
    return _spelling_rules[id(declaration)][1]


class Known(NamedTuple):
    """Rules compiled with an op table, for another process; their syntax trees come in the same file."""

    table: OpTable
    rules: list[tuple[tuple[Any, ...], list[Compiled]]]  # with what else decides
    spellings: list[tuple[syntax.OpDeclaration, syntax.Rule]]


def known(library: Library) -> Known:
    """The rules that this process has compiled for the op table of a library."""
    ops = [op.declaration for op in library.table.ops.values()]
    spellings = [_spelling_rules[id(declaration)] for declaration in ops if id(declaration) in _spelling_rules]
    kept = kept_rules(library)
    table = OpTable(*(dict(getattr(kept.table, field.name)) for field in fields(OpTable)))
    return Known(table, [(key[1:], variants) for key, variants in kept.rules.items()], spellings)


def remember(found: Known) -> None:
    """Keeps what `known` gave, as if this process had compiled it."""
    rules = {(id(variants[0].rule), *key): variants for key, variants in found.rules}
    _rules_of(found.table).rules.update(rules)
    _spelling_rules.update({id(declaration): (declaration, rule) for declaration, rule in found.spellings})


def begin(library: Library) -> None:
    """From here on the names are remembered that are asked for."""
    library.table.asked.clear()
    for field in _FIELDS:
        getattr(library, field).asked.clear()
