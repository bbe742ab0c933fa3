"""Completions at a position: words of the language, and names that the rule files declare."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rulegrad.lang import syntax
from rulegrad.lang.builtins import BUILTINS, NEEDS, OP_TABLE, RENDER, RULE
from rulegrad.lang.checker.world import DTYPE_FIELDS
from rulegrad.lang.modules import module_name, module_of
from rulegrad.lang.optable import OpTable
from rulegrad.lang.parser import DECLARATION_WORDS
from rulegrad.lang.parser.op_table import PROPERTY_WORDS
from rulegrad.lang.parser.rules import CLAUSE_WORDS
from rulegrad.lang.parser.targets import FLAG_WORDS, ITEM_WORDS, LIMIT_WORDS
from rulegrad.workbench.editing.lookup import head_of
from rulegrad.workbench.editing.project import Project
from rulegrad.workbench.editing.symbols import FACT, OF_FILES, STATE, Symbol, symbols

_PROPERTIES = {"op": PROPERTY_WORDS, "target": ITEM_WORDS, "limit": LIMIT_WORDS, "flag": FLAG_WORDS}
_NAMED = ("op", "class", "dtype", "table", *OF_FILES)


@dataclass(frozen=True, slots=True)
class Completion:
    """A word that may be written; `kind` is that of a symbol, or word, builtin, field, file or step."""

    word: str
    kind: str
    detail: str = ""


def completions(project: Project, name: str, text: str, line: int, column: int) -> list[Completion]:
    """Completions at a position of the file called `name` (line from 1, column from 0), each word once."""
    lines = text.split("\n")
    before = lines[line - 1][:column] if 0 < line <= len(lines) else ""
    head = lines[head_of(lines, line) - 1] if line <= len(lines) else ""
    found = {one.word: one for one in _fitting(project, name, before, head, line)}
    return list(found.values())


def _fitting(project: Project, name: str, before: str, head: str, line: int) -> Iterator[Completion]:
    own = list(symbols(project.file(name)))
    others = [symbol for file in project.files() if file.path != name for symbol in symbols(file)]
    declared = [*own, *(symbol for symbol in others if _is_seen(symbol))]
    block = head.split(" ")[0]
    if re.fullmatch(r"\w*", before):
        yield from (Completion(word, "word") for word in DECLARATION_WORDS)
        return
    if used := re.fullmatch(r"use\s+(?:([\w./]+):)?[\w\s,./]*", before):
        yield from _in_use_line(project, name, used.group(1))
        return
    sets = re.fullmatch(r"(pass\s.*:|ruleset\s.*=|\s+use\s)[\w\s+]*", before)
    if sets or (block == "pipeline" and before[:1] == " "):
        kind = "ruleset" if sets else "pass"
        yield from (_of(symbol) for symbol in declared if symbol.kind == kind)
        return
    if re.fullmatch(r"\s+test\s+on\s+\w*", before):
        yield from (_of(symbol) for symbol in declared if symbol.kind == "target")
        return
    if asked := re.search(r"""(?:\b(limit|flag)\(['"]?|^\s+(limit|flag)\s.*?)\w*$""", before):
        kind = asked.group(1) or asked.group(2)
        yield from (_of(symbol) for symbol in declared if symbol.kind == kind)
        return
    if re.search(r"[\w)\]]\.\w*$", before):
        yield from _members(project)
        return
    if re.search(r"(^\s+|;\s*|\bsteps\s*\{\s*)\w*$", before):
        table = OpTable.from_declarations([d for file in project.files() for d in file.declarations])
        yield from (Completion(word, "step", form.text) for word, form in table.forms.items())
    if re.fullmatch(r"\s+\w*", before):
        words = _PROPERTIES.get(block, CLAUSE_WORDS)
        yield from (Completion(word, "word") for word in words)
    for symbol in own:
        if symbol.whole.line <= line <= symbol.whole.end_line:
            yield from (_of(part) for part in symbol.children if part.kind in (FACT, STATE))
    yield from (_of(symbol) for symbol in declared if symbol.kind in _NAMED)
    scopes = {"op": (OP_TABLE,)}.get(block, (RULE, RENDER, NEEDS))
    for builtin in BUILTINS.values():
        if set(scopes) & set(builtin.scopes):
            yield Completion(builtin.name, "builtin", f"{builtin.signature}: {builtin.doc}")


def _members(project: Project) -> Iterator[Completion]:
    """Words that can stand behind a dot: fields of records, columns of tables, attributes of ops, facts of dtypes."""
    for declaration in (d for file in project.files() for d in file.declarations):
        if isinstance(declaration, syntax.Definition) and declaration.is_record:
            yield from (Completion(name, "field", f"record {declaration.name}") for name in declaration.parameters)
        elif isinstance(declaration, syntax.Table):
            yield from (
                Completion(name, "field", f"table {declaration.name}: {kind}") for name, kind in declaration.columns
            )
        elif isinstance(declaration, syntax.OpDeclaration):
            attributes = declaration.attributes
            yield from (Completion(one.name, "field", f"op {declaration.name}: {one.type}") for one in attributes)
    yield from (Completion(name, "field", "of a dtype") for name in DTYPE_FIELDS)


def _in_use_line(project: Project, name: str, path: str | None) -> Iterator[Completion]:
    """The modules that there are; once the line names one, what that exports."""
    for file in project.files():
        if path is None and file.exports and file.path != name:
            yield Completion(module_name(file.path), "file", file.path)
        elif path is not None and module_name(file.path) == module_of(name, path):
            yield from (_of(symbol) for symbol in symbols(file) if symbol.kind in OF_FILES and _is_seen(symbol))


def _is_seen(symbol: Symbol) -> bool:
    """Whether other files may name it."""
    return symbol.kind not in OF_FILES or symbol.name in symbol.file.exports


def _of(symbol: Symbol) -> Completion:
    return Completion(symbol.name, symbol.kind, symbol.text.partition("\n")[0])
