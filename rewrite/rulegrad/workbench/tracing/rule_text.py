"""The text of a rule, as it stands in its file."""

from __future__ import annotations

from rulegrad import engine


def rule_text(location: str) -> str:
    """The rule at `file:line`: its comment, its line and its clauses, without test lines. "" where there is none."""
    path, _, number = location.rpartition(":")
    text = next((text for name, text in engine.loaded().sources.texts if name == path), "")
    lines = text.split("\n")
    if not number.isdecimal() or not 0 < int(number) <= len(lines):
        return ""
    at = int(number) - 1
    indent = _indent(lines[at])
    first = at
    while first > 0 and _is_comment(lines[first - 1]) and _indent(lines[first - 1]) == indent:
        first -= 1
    last = at + 1
    while last < len(lines) and lines[last].strip() and _indent(lines[last]) > indent:
        last += 1
    kept = [line for line in lines[first:last] if line.split()[0] != "test"]
    return "\n".join(line[indent:].rstrip() for line in kept)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_comment(line: str) -> bool:
    """Whether a line is a comment, but no heading of a group of rules."""
    return line.lstrip().startswith("#") and not line.lstrip().startswith("# --")
