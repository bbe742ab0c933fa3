"""Files that cannot be read to the end: the names in the rest of them that are known nowhere."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rulegrad.lang import syntax
from rulegrad.lang.checker import check
from rulegrad.lang.diagnostics import Diagnostic, did_you_mean
from rulegrad.lang.merging import merge
from rulegrad.lang.modules import resolved

#: Of names alone: what else is wrong may be so only because something was not read.
_OF_NAMES = frozenset(
    ("unbound-name", "unknown-attribute", "unknown-class", "unknown-dtype", "unknown-field", "unknown-flag")
    + ("unknown-function", "unknown-op", "unknown-pass", "unknown-ruleset", "unknown-table", "unknown-target")
)
_NAME = re.compile(r"[A-Za-z_]\w*")
_USE = re.compile(r"use\b")
_DECLARED = re.compile(r"^(?:export +)?[a-z]+ +(?:pure +)?([A-Za-z_]\w*)")


def unknown_names(
    files: Sequence[syntax.File],
    problems: Mapping[str, Sequence[Diagnostic]],
    user: frozenset[str] = frozenset(),
    sound: Sequence[syntax.File] = (),
) -> list[Diagnostic]:
    """The names that are not known in those files that have problems, outside of the rules and lines that have them.

    files: all, those with problems as far as they can be read. What declares a name and cannot be read is not missed.
    """
    texts = {file.path: file.text.split("\n") for file in files if file.path in problems}
    broken = {path: frozenset(n for d in problems[path] for n in _entry(lines, d)) for path, lines in texts.items()}
    read = {getattr(d, "name", "") for file in files for d in file.declarations}
    unread = {name for lines in texts.values() for line in lines for name in _introduced(line)} - read
    unread |= {name.lower() for name in unread} - read  # an op is called by its name in small letters too
    return [
        _with_hint(d, unread)
        for d in check(merge(resolved(files), user), sound=sound)
        if d.code in _OF_NAMES
        and d.span.line not in broken.get(d.span.file, {d.span.line})
        and unread.isdisjoint(re.findall(r"`([^`]+)`", d.message))
    ]


def _introduced(line: str) -> list[str]:
    """The names that a line declares, or takes from another file: as far as they are there, where it is broken."""
    if _USE.match(line):
        code = line.partition("#")[0]
        _, colon, rest = code.partition(":")
        return _NAME.findall(rest if colon else " ".join(code.split()[2:]))
    declared = _DECLARED.match(line)
    return [declared[1]] if declared is not None else []


def _with_hint(d: Diagnostic, unread: Collection[str]) -> Diagnostic:
    """The closest name may be one that cannot be read."""
    (name, *_) = re.findall(r"`([^`]+)`", d.message) or [""]
    return replace(d, hint=did_you_mean(name, unread) or d.hint)


def _entry(lines: Sequence[str], problem: Diagnostic) -> range:
    """The lines of the entry in which a problem is: a rule with its clauses, a property; a declaration, at its head."""
    at = min(problem.span.line, len(lines))
    head = at
    while head > 1 and not _starts_declaration(lines[head - 1]):
        head -= 1
    if head < at:
        inner = next((_indent(line) for line in lines[head:at] if _is_code(line)), 0)
        head = next((n for n in range(at, head, -1) if _is_code(lines[n - 1]) and _indent(lines[n - 1]) <= inner), head)
    indent = _indent(lines[head - 1])
    below = (n for n in range(head + 1, len(lines) + 1) if _is_code(lines[n - 1]) and _indent(lines[n - 1]) <= indent)
    return range(head, next(below, len(lines) + 1))


def _starts_declaration(line: str) -> bool:
    return line[:1] not in ("", " ", "\t", "#")


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
