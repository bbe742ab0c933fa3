"""The formatter: one form for each rule file, which says the same.

What is kept: every token (but commas before closing brackets), every comment, and single blank lines. What is decided
here: indentation by four spaces, the spaces between tokens, where lines longer than 120 columns are broken, and the
columns of the op table and of targets.

>>> print(format_text("ruleset r:\\n  zero : x+0->x # law\\n"), end="")
ruleset r:
    zero: x + 0 -> x  # law
"""

from __future__ import annotations

from rulegrad.errors import RuleError
from rulegrad.lang.lexer import Source
from rulegrad.lang.parser import parse_file
from rulegrad.lang.walk import meaning
from rulegrad.workbench.formatter.columns import align
from rulegrad.workbench.formatter.entries import Entry, read_entries
from rulegrad.workbench.formatter.layout import INDENT, layout
from rulegrad.workbench.formatter.spacing import space

__all__ = ["format_text"]


def format_text(text: str, path: str = "") -> str:
    """The text of a rule file in the one form; formatting that again changes nothing.

    Raises RuleError, with the diagnostics, when the text cannot be parsed.
    """
    before = parse_file(text, path)
    entries = read_entries(Source(path, text))
    for entry in entries:
        if not entry.comment:
            space(entry)
    align(entries)
    formatted = _joined(entries)
    if meaning(parse_file(formatted, path).declarations) != meaning(before.declarations):
        raise RuleError(f"{path}: formatting would change what it says; the file is left as it is")
    return formatted


def _joined(entries: list[Entry]) -> str:
    lines: list[str] = []
    for entry in entries:
        if entry.blank_above and lines:
            lines.append("")
        if entry.comment:
            lines.append(" " * INDENT * entry.level + entry.comment)
        else:
            lines.extend(layout(entry))
    return "".join(line + "\n" for line in lines)
