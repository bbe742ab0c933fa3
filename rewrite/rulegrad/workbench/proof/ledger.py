"""The record of proofs: outcomes by rule, each with a hash of all text that it depends on.

A rule is proved again when its own text, that of a definition, function, table, view or class that it names, of an op
that it names or that is in a class that it names, the dtypes or the prover changes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from rulegrad.errors import RuleError
from rulegrad.ir.dtype import as_dtype
from rulegrad.lang import syntax
from rulegrad.lang.evaluated import evaluated
from rulegrad.lang.optable import INFIX_OPS, PREFIX_OPS, SWAPPED_OPS, OpTable
from rulegrad.lang.rounding import ROUNDS_EACH, steps_round
from rulegrad.workbench.proof.programs import Entry

_OPERATORS = {**SWAPPED_OPS, **INFIX_OPS}
#: Ops that tests make graphs of, whatever a rule says.
_MATERIAL = ("ADD", "BUFFER", "CONST", "EXP", "INDEX", "MAX", "MIN", "MUL", "NEG", "PARAM", "RANGE", "REDUCE", "SINK")
#: Changes when what is proved, or how much is tested, does.
VERSION = 1

_NOT_MEANING = frozenset(("span", "comment", "spelling", "doc", "levels", "interval", "ulp"))
_NOTES = frozenset(("essential", "before", "after"))  # clauses that do not change what is proved
_NAMED = (syntax.Definition, syntax.Function, syntax.Table, syntax.View, syntax.ClassDeclaration, syntax.Extern)


def canonical(item: Any, without: frozenset[str] = _NOT_MEANING) -> Any:
    """Syntax as plain data, without what does not change its meaning."""
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        names = [f.name for f in dataclasses.fields(item) if f.name not in without]
        parts = {name: canonical(getattr(item, name), without) for name in names if _says(getattr(item, name))}
        return [type(item).__name__, parts]
    if isinstance(item, tuple | list):
        return [canonical(part, without) for part in item if not _is_note(part)]
    if isinstance(item, Mapping):
        return {str(key): canonical(value, without) for key, value in sorted(item.items())}
    if isinstance(item, frozenset):
        return sorted(map(str, item))
    return repr(item)


def _says(value: Any) -> bool:
    """Whether a part of the syntax says something: what is missing need not be written."""
    return value is not None and value is not False and not (isinstance(value, str | tuple | Mapping) and not value)


def _is_note(part: Any) -> bool:
    return isinstance(part, syntax.Clause) and part.keyword in _NOTES


class _Part(NamedTuple):
    """A rule, or something that rules name: canonical, as JSON."""

    text: str
    words: frozenset[str]
    ops: frozenset[str]  # those that its words can stand for


@dataclass(slots=False)
class Hashes:
    """The hashes of the rules of some files. What many rules name is looked at once."""

    files: Sequence[syntax.File]
    _named: dict[str, _Part] = field(default_factory=dict)

    @cached_property
    def _declared(self) -> dict[str, Any]:
        return {d.name: d for f in self.files for d in f.declarations if isinstance(d, _NAMED)}

    @cached_property
    def _table(self) -> OpTable:
        return OpTable.from_declarations([d for f in self.files for d in f.declarations])

    @cached_property
    def _dtypes(self) -> str:
        names = sorted(self._table.dtypes.keys() - self._complex)
        return json.dumps(canonical([self._table.dtypes[name] for name in names]))

    @cached_property
    def _complex(self) -> frozenset[str]:
        """Complex dtypes: only rules that name them are tried with them."""
        return frozenset(name for name in self._table.dtypes if self._table.kind(name) == "complex")

    @cached_property
    def _ops(self) -> dict[str, str]:
        """Each op, with the dtypes that its variables stand for."""
        without = _NOT_MEANING | {"where"}
        return {
            name: json.dumps([canonical(self._computing(op.declaration), without), self._where(op.declaration)])
            for name, op in self._table.ops.items()
        }

    def _where(self, op: syntax.OpDeclaration) -> Any:
        bounds = {variable: self._table.resolve_dtypes(bound) or frozenset() for variable, bound in op.where.items()}
        return [[variable, sorted(names - self._complex or names)] for variable, names in bounds.items()]

    def _computing(self, op: syntax.OpDeclaration) -> syntax.OpDeclaration:
        """The op with the flags that say what it computes.

        Not which loops are open, which is for the engine; and that an `eval` line of several steps is rounded once.
        """
        dtypes = set().union(
            *(self._table.resolve_dtypes(op.where.get(p.type or "", p.type or "")) or () for p in op.parameters)
        )
        values = evaluated(op)
        once = ["rounds once"] if any(steps_round(values, as_dtype(dtype)) for dtype in dtypes) else []
        return dataclasses.replace(op, flags=(*(f for f in op.flags if f not in ("closes", ROUNDS_EACH)), *once))

    def of(self, entry: Entry) -> str:
        """The hash of a rule, and of all that it depends on."""
        rule = self._part(canonical(entry.rule, _NOT_MEANING if entry.function else _NOT_MEANING | {"tests"}))
        found: dict[str, _Part] = {}
        ops: set[str] = set(_MATERIAL)
        waiting = [rule]
        while waiting:
            part = waiting.pop()
            ops |= part.ops
            for word in part.words & self._declared.keys() - found.keys():
                found[word] = self._named_part(word)
                waiting.append(found[word])
        declared = _list(self._ops[name] for name in sorted(ops & self._ops.keys()))
        named = _list(_list((json.dumps(name), part.text)) for name, part in sorted(found.items()))
        text = _list((json.dumps(VERSION), self._dtypes, declared, rule.text, named))
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def _named_part(self, name: str) -> _Part:
        if name not in self._named:
            self._named[name] = self._part(canonical(self._declared[name], _NOT_MEANING | {"tests"}))
        return self._named[name]

    def _part(self, item: Any) -> _Part:
        words = _words(item)
        return _Part(json.dumps(item), frozenset(words), frozenset().union(*map(self._ops_of, words)))

    def _ops_of(self, word: str) -> set[str]:
        """The ops that a word or a sign in a rule can stand for."""
        table = self._table
        found = {name for name in (_OPERATORS.get(word), PREFIX_OPS.get(word)) if name}
        found |= {word, table.by_function_name.get(word, word)} & table.ops.keys()
        return found | table.op_classes.get(word, frozenset())


def _list(texts: Iterable[str]) -> str:
    """A list of JSON, of its elements' texts."""
    return f"[{', '.join(texts)}]"


def _words(item: Any) -> set[str]:
    """Every string in plain data, as a name."""
    if isinstance(item, str):
        return {item.strip("'")}
    if isinstance(item, list):
        return set().union(*map(_words, item)) if item else set()
    return set().union(*map(_words, item.values())) if item else set()


@dataclass(slots=True)
class Ledger:
    """The outcomes on file: rule to (hash, outcome as plain data)."""

    path: Path | None
    known: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path | None) -> Ledger:
        """The ledger of a file; empty where there is none. Raises RuleError for a file that is not a ledger."""
        if path is None or not path.exists():
            return cls(path)
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
            return cls(path, {str(name): dict(found) for name, found in known.items()})
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise RuleError(f"{path} is not a record of proofs ({error}); delete it, and prove with --update") from None

    def get(self, name: str, text: str) -> dict[str, Any] | None:
        """The outcome of a rule whose text has not changed since."""
        found = self.known.get(name)
        return found if found is not None and found.get("hash") == text else None

    def note(self, name: str, text: str, kind: str, how: str, is_good: bool) -> None:
        """Writes down an outcome; one that is a problem is not kept, so that the rule is proved again."""
        self.known.pop(name, None)
        if is_good:
            self.known[name] = {"hash": text, "kind": kind, "how": how}
        self.write()

    def keep(self, names: set[str]) -> None:
        """Forgets all rules but these."""
        self.known = {name: found for name, found in self.known.items() if name in names}
        self.write()

    def write(self) -> None:
        """Writes the file, a rule a line."""
        if self.path is None:
            raise RuleError("there is no checkout whose record of proofs could be updated")
        lines = [f"  {json.dumps(name)}: {json.dumps(found)}" for name, found in sorted(self.known.items())]
        self.path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
