"""Spellings of other languages that people write in rule files, and what is written here instead."""

from __future__ import annotations

from collections.abc import Mapping

_ANYWHERE: Mapping[str, str] = {
    "&&": "write `and`",
    "||": "write `or`",
    "===": "write `==`",
    "<>": "write `!=`",
    "=>": "write `->`",
    "→": "write `->`",
    "←": "write `->`, from the pattern to the template",
    "≠": "write `!=`",
    "≤": "write `<=`",
    "≥": "write `>=`",
    ":=": "write `=`",
    "/*": "a comment begins with `#` and ends with the line",
    "*/": "a comment begins with `#` and ends with the line",
    "!": "write `not`",
    ";": "a line ends without a sign",
    "?": "write `a if c else b`",
}
_LINE_STARTS: Mapping[str, str] = {
    "//": "a comment begins with `#`",
    "--": "a comment begins with `#`",
    ";": "a comment begins with `#`",
}
_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("when", "where", "provided", "unless"), "a guard stands on a line of its own below: `if …`"),
    "is": "write `==`",
}


def hint_for(line: str, column: int) -> str:
    """A hint for a foreign spelling at or just before a column of a line; "" where nothing is known.

    >>> hint_for("if a && b", 6), hint_for("if a and b", 5)
    ('write `and`', '')
    >>> hint_for("    // a comment", 4)
    'a comment begins with `#`'
    """
    start = line.lstrip()
    for sign, hint in _LINE_STARTS.items():
        if start.startswith(sign):
            return hint
    for length in (3, 2, 1):
        for begin in range(column - length + 1, column + 1):
            if begin >= 0 and (hint := _ANYWHERE.get(line[begin : begin + length], "")):
                return hint
    word, (_, _, behind) = line[column:].split(" ", 1)[0], line[:column].partition(" // ")
    # of a comment behind code the first word reads as an operand
    if behind.strip().isalpha() and "->" not in line[column:] and word not in ("when", "where"):
        return f"a comment begins with `#`: `# {line.partition(' // ')[2].strip()}`"
    return _WORDS.get(word, "")
