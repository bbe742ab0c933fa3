"""Everything that a set of rule files declares, by name, and the diagnostics found in it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rulegrad.lang import syntax
from rulegrad.lang.checker.scope import Fields
from rulegrad.lang.diagnostics import Diagnostic, did_you_mean, location
from rulegrad.lang.modules import own_names, plain
from rulegrad.lang.optable import OpTable
from rulegrad.lang.walk import calls_in, calls_of

_OF_TABLE = (syntax.DtypeDeclaration, syntax.ClassDeclaration, syntax.OpDeclaration)
DTYPE_FIELDS = ("bits", "mantissa", "exponent", "bias", "min", "max")
_OWNERS = (syntax.Ruleset, syntax.Pass, syntax.Function)


class Written(NamedTuple):
    """A definition, which is held: how many expressions it is, and what it calls, as often as it does."""

    definition: syntax.Definition
    parts: int
    calls: list[str]


class World:
    """The declarations of all files: the first of a name counts, later ones are reported by `declarations`."""

    def __init__(self, files: Sequence[syntax.File], sound: Sequence[syntax.File] = ()) -> None:
        self.declarations = [d for file in files for d in file.declarations]
        self.table = OpTable.from_declarations(self.declarations)
        self._sound = _sound_ids(files, sound, self.table)
        self.diagnostics: list[Diagnostic] = []
        self._names = {file.path: frozenset(map(plain, own_names(file))) for file in files}
        self.taken = {(file.path, name) for file in files for use in file.uses for name, _ in use.names}
        self._exported = frozenset(name for file in files for name in file.exports)
        self._lines = {file.path: file.text.split("\n") for file in files}
        self.rulesets: dict[str, syntax.Ruleset] = {}
        self.passes: dict[str, syntax.Pass] = {}
        self.functions: dict[str, syntax.Function] = {}
        self.definitions: dict[str, syntax.Definition] = {}
        self.externs: dict[str, syntax.Extern] = {}
        self.views: dict[str, syntax.View] = {}
        self.tables: dict[str, syntax.Table] = {}
        self.targets: dict[str, syntax.Target] = {}
        self.limits: dict[str, syntax.Limit] = {}
        self.flags: dict[str, syntax.Flag] = {}
        self.pipelines: dict[str, syntax.Pipeline] = {}
        self.expanded: dict[str, int] = {}  # expressions of a definition, with those that it uses written out
        self.written: dict[int, Written] = {}  # definitions, by identity
        self.results: dict[int, Fields | None] = {}  # of definitions, by identity, what they make is made of
        self.dataflow: dict[str, int] = {}  # facts and states of the pass that is checked: number of their keys
        for declaration in self.declarations:
            self._index(declaration)
        #: the rules of all rule sets, by their full names
        self.rules_of_sets = frozenset(f"{name}.{rule.name}" for name, s in self.rulesets.items() for rule in s.rules)
        self.attribute_names = {a for op in self.table.ops.values() for a in op.attributes}
        records = (d.parameters for d in self.definitions.values() if d.is_record)
        columns = (tuple(name for name, _ in table.columns) for table in self.tables.values())
        #: whatever can stand behind a dot: attributes, facts of dtypes, columns of tables and fields of records
        self.members = {"dtype", *self.attribute_names, *DTYPE_FIELDS, *itertools.chain(*records, *columns)}

    def _index(self, declaration: syntax.Declaration) -> None:
        if isinstance(declaration, syntax.Ruleset):
            self.rulesets.setdefault(declaration.name, declaration)
        elif isinstance(declaration, syntax.Pass):
            self.passes.setdefault(declaration.name, declaration)
        elif isinstance(declaration, syntax.Function):
            self.functions.setdefault(declaration.name, declaration)
        elif isinstance(declaration, syntax.Definition):
            self.definitions.setdefault(declaration.name, declaration)
        elif isinstance(declaration, syntax.Extern):
            self.externs.setdefault(declaration.name, declaration)
        elif isinstance(declaration, syntax.View):
            self.views.setdefault(declaration.name, declaration)
        elif isinstance(declaration, syntax.Table):
            self.tables.setdefault(declaration.name, declaration)
        elif isinstance(declaration, syntax.Target):
            self.targets.setdefault(declaration.name, declaration)
        elif isinstance(declaration, syntax.Limit):
            self.limits.setdefault(declaration.name, declaration)
        elif isinstance(declaration, syntax.Flag):
            self.flags.setdefault(declaration.name, declaration)
        elif isinstance(declaration, syntax.Pipeline):
            self.pipelines.setdefault(declaration.name, declaration)

    def is_sound(self, piece: syntax.Declaration | syntax.Rule) -> bool:
        """Whether a declaration or rule was checked before, with all that it refers to, and has not changed."""
        return id(piece) in self._sound

    def names_in(self, path: str) -> frozenset[str]:
        """The functions, definitions, views and externs that a file may call: its own, and those that others export."""
        return self._names.get(path, frozenset()) | self._exported

    def report(self, code: str, message: str, span: syntax.Span, hint: str = "", notes: tuple[str, ...] = ()) -> None:
        """Records a diagnostic with its source line."""
        lines = self._lines.get(span.file, [])
        line = lines[span.line - 1] if 0 < span.line <= len(lines) else ""
        self.diagnostics.append(Diagnostic(code, plain(message), span, plain(hint), notes, line))

    def report_unknown(self, code: str, what: str, name: str, span: syntax.Span, known: Iterable[str]) -> None:
        """Records `there is no WHAT NAME`, with the closest known name."""
        self.report(code, f"there is no {what} `{name}`", span, did_you_mean(name, known))

    def locate(self, span: syntax.Span, word: str) -> syntax.Span:
        """The first place of a word in the declaration that starts at `span`; the span itself if there is none."""
        lines = self._lines.get(span.file, [])
        for number in range(span.line - 1, len(lines)):
            text = lines[number]
            if number >= span.line and text[:1] not in ("", " ", "#"):
                break
            start = span.column if number == span.line - 1 else 0
            found = re.compile(rf"(?<![\w.]){re.escape(word)}(?!\w)").search(text.split("#")[0], start)
            if found is not None:
                return syntax.Span(span.file, number + 1, found.start(), number + 1, found.end())
        return span

    def names(self, word: str, apart: syntax.Span) -> bool:
        """Whether a line has the word, outside of comments and of its first place in the declaration at `apart`."""
        pattern = re.compile(rf"(?<![\w.]){re.escape(word)}(?!\w)")
        own = self.locate(apart, word)
        lines = ((path, number, line) for path, lines in self._lines.items() for number, line in enumerate(lines, 1))
        return any(
            word in line and (path, number) != (own.file, own.line) and pattern.search(line.split("#")[0]) is not None
            for path, number, line in lines
        )


def first_declared(span: syntax.Span) -> tuple[str, ...]:
    """The note of a duplicate."""
    return (f"first declared at {location(span)}",)


def _sound_ids(files: Sequence[syntax.File], sound: Sequence[syntax.File], table: OpTable) -> frozenset[int]:
    """The declarations and rules of `sound`, by identity, that need no second look beside the other declarations."""
    before, now = ({id(d): d for file in some for d in file.declarations} for some in (sound, files))
    entries = [d for key, d in now.items() if key not in before and isinstance(d, _OF_TABLE)]
    if any(not _is_new_op(d, before.values()) for d in entries):
        return frozenset()  # what a rule says of a dtype or of an op is checked anew
    added = frozenset(d.name for d in entries if isinstance(d, syntax.OpDeclaration))
    # `rewritten` looks into other rule sets
    is_extended = any(isinstance(d, syntax.Ruleset | syntax.Function) for key, d in before.items() if key not in now)
    # where rules of both kinds stand in one set, which it is has changed
    others = [d for key, d in now.items() if key not in before and isinstance(d, syntax.Ruleset)]
    mixed = {d.name for d in others if len({isinstance(rule.template, syntax.Text) for rule in d.rules}) > 1}
    found: list[syntax.Declaration | syntax.Rule] = []
    for file in sound:
        nests = is_extended and "rewritten" in file.text
        for d in file.declarations:
            if not (nests and any(calls_of((d,), "rewritten"))):
                found.append(d)
            for rule in d.rules if isinstance(d, _OWNERS) and d.name not in mixed else ():
                if not (nests and _nests(rule)) and _ops_of(table, rule).isdisjoint(added):
                    found.append(rule)
    return frozenset(map(id, found))


def _nests(rule: syntax.Rule) -> bool:
    """Whether a rule calls `rewritten`, by itself."""
    sides = (side for test in rule.tests for side in (test.left, test.right))
    clauses = (x for clause in rule.clauses for x in (clause.expression, clause.of))
    expressions = (rule.template, *clauses, *sides)
    return any(x is not None and "rewritten" in calls_in(x) for x in expressions)


def _ops_of(table: OpTable, rule: syntax.Rule) -> frozenset[str]:
    """The ops that the variables of a rule range over: the rule is checked for each of them."""
    ranges = (table.resolve_generic(generic.classes) for generic in rule.generics)
    return frozenset().union(*(names for kind, names in ranges if kind == "op"))


def _is_new_op(entry: syntax.Declaration, before: Iterable[syntax.Declaration]) -> bool:
    """Whether an entry of the op table is an op that nothing else is called by, neither as it is nor in calls."""
    if not isinstance(entry, syntax.OpDeclaration):
        return False
    return not {entry.name, entry.name.lower()} & {plain(d.name) for d in before if hasattr(d, "name")}
