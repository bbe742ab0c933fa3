"""The meaning of a word of a rule file at its position."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rulegrad.lang.modules import module_name, used_module
from rulegrad.lang.syntax import File
from rulegrad.workbench.editing.project import Project
from rulegrad.workbench.editing.symbols import FACT, OF_FILES, RULE, STATE, Symbol, symbols

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CALLED = (*OF_FILES, "op")
_TYPES = ("op", "class", "dtype", "table")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a line: its place, what stands around it, and the declaration that it is in."""

    text: str
    line: int  # from 1
    start: int
    end: int
    before: str  # the line up to it
    after: str
    declaration: str  # the line in column 0 that it belongs to
    in_head: bool

    @property
    def first(self) -> str:
        """The word that the line, or the declaration, starts with."""
        found = _WORD.search(self.before + self.text)
        return found.group() if found else ""

    @property
    def set_before(self) -> str:
        """`SET` of `SET.word`, or ""."""
        found = re.search(r"([A-Za-z_][A-Za-z0-9_]*)\.$", self.before)
        return found.group(1) if found else ""


def word_at(text: str, line: int, column: int) -> Word | None:
    """The word at a place (line from 1, column from 0); None in a comment or between words."""
    lines = text.split("\n")
    if not 0 < line <= len(lines):
        return None
    row = lines[line - 1]
    comment = _comment_start(row)
    for found in _WORD.finditer(row):
        if found.start() <= column <= found.end() and found.start() < comment:
            head = head_of(lines, line)
            start, end = found.span()
            in_head = head == line
            return Word(found.group(), line, start, end, row[:start], row[end:], lines[head - 1], in_head)
    return None


def _comment_start(row: str) -> int:
    """Where a line's comment begins: the first `#` outside strings."""
    found = re.match(r"""(?:[^#"']|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|["'])*""", row)
    return found.end() if found else len(row)


def head_of(lines: Sequence[str], line: int) -> int:
    """The number of the line in column 0 that a line belongs to."""
    while line > 1 and (not lines[line - 1].strip() or lines[line - 1][0] in " #\t"):
        line -= 1
    return line


def meanings(project: Project, name: str, word: Word) -> list[Symbol]:
    """Candidates for a word of the file called `name`, the likeliest kind only."""
    file = project.file(name)
    own, taken = list(symbols(file)), _names_taken(file, word)
    others = [s for one in project.files() if one.path != name for s in symbols(one)]
    found = [*own, *(s for s in others if s.kind not in OF_FILES or s.name in taken.get(module_name(s.file.path), ()))]
    if re.search(r"(^\s+|[{;]\s*)$", word.before):
        begins = re.compile(rf'^\s+step\s+"{word.text}\b', re.MULTILINE)
        if steps := [s for s in found if s.kind == "op" and begins.search(s.text)]:
            return steps
    if word.set_before:
        rules = _rules_named(word.text, (s for s in found if s.name == word.set_before))
        if rules:
            return rules
    if _is_rule_name(word):
        return [r for s in own for r in s.children if r.span.line == word.line and r.name == word.text]
    owner = [s for s in own if s.whole.line <= word.line <= s.whole.end_line]
    if word.first in ("before", "after") and not word.in_head:
        return _rules_named(word.text, owner) or _rules_named(word.text, found)
    dataflow = [p for s in owner for p in s.children if p.name == word.text and p.kind in (FACT, STATE)]
    if dataflow and word.after.lstrip().startswith("("):
        return dataflow
    return _of_kinds(found, word)


def _names_taken(file: File, word: Word) -> dict[str, frozenset[str]]:
    """The names that a file takes from each module; on a `use` line those that the line takes, from its module."""
    uses = [use for use in file.uses if use.span.line <= word.line <= use.span.end_line] or file.uses
    taken: dict[str, frozenset[str]] = {}
    for use in uses:
        module = used_module(file, use)
        taken[module] = taken.get(module, frozenset()).union(name for name, _ in use.names)
    return taken


def _of_kinds(found: Sequence[Symbol], word: Word) -> list[Symbol]:
    for kinds in _kinds(word):
        names = {word.text, word.text.upper()} if kinds == _CALLED else {word.text}
        matching = [
            s for s in found if s.kind in kinds and (s.name == word.text or (s.kind == "op" and s.name in names))
        ]
        if matching:
            exact = [s for s in matching if s.name == word.text]
            return exact or matching
    return []


def _kinds(word: Word) -> Iterator[tuple[str, ...]]:
    """The kinds of declaration that may be meant, likeliest first."""
    declared = _WORD.match(word.declaration)
    block = declared.group() if declared else ""
    if word.in_head and re.fullmatch(r"(extern\s+pure|\w+)\s+", word.before):
        yield (block,)
    if block in ("use", "export") and word.in_head:
        yield _CALLED
    if block in ("insert", "remove", "off"):
        yield ("pass", "pipeline", "ruleset", "function")
    elif (block == "pipeline" and not word.in_head) or (block == "target" and word.first == "render"):
        yield ("pass",)
    elif word.first == "use" or (word.in_head and block in ("ruleset", "pass") and re.search("[:=]", word.before)):
        yield ("function",) if "reverse" in word.before else ("ruleset",)
    elif word.first == "test" and re.fullmatch(r"\s*test\s+on\s+", word.before):
        yield ("target",)
    elif asked := re.search(r"""\b(limit|flag)\(['"]?$""", word.before):
        yield (asked.group(1),)
    elif block == "target" and word.first in ("limit", "flag"):
        yield (word.first,)
    elif word.first == "cost":
        yield ("function",)
    if word.after.lstrip().startswith("("):
        yield _CALLED
    if re.search(r"rewritten\(.*,\s*$", word.before):
        yield ("ruleset",)
    yield _TYPES


def _is_rule_name(word: Word) -> bool:
    return (
        not word.in_head and not word.before.strip() and re.match(r"\s*(\[[^\]]*\]\s*)?:(\s|$)", word.after) is not None
    )


def _rules_named(name: str, owners: Iterable[Symbol]) -> list[Symbol]:
    return [rule for owner in owners for rule in owner.children if rule.name == name and rule.kind == RULE]
