"""Colours of rule text, for Sphinx: a Pygments lexer made from the grammar of `editors/rulegrad.tmLanguage.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pygments.lexer import RegexLexer
from pygments.token import (
    Comment,
    Keyword,
    Name,
    Number,
    Operator,
    String,
    Text,
    _TokenType,
)

GRAMMAR = Path(__file__).parents[2] / "editors" / "rulegrad.tmLanguage.json"

# Editors' names of parts of the text, by the longest prefix that is listed, and Pygments' names.
TOKENS = {
    "comment": Comment.Single,
    "constant.character.escape": String.Escape,
    "constant.language": Keyword.Constant,
    "constant.numeric": Number,
    "entity.name.function": Name.Function,
    "entity.name.section": Name.Namespace,
    "entity.name.type": Name.Class,
    "keyword": Keyword,
    "keyword.operator": Operator,
    "keyword.operator.word": Operator.Word,
    "storage.modifier": Keyword.Pseudo,
    "storage.type": Keyword.Type,
    "string": String,
    "support.function": Name.Builtin,
    "support.type": Name.Attribute,
    "variable": Name.Variable,
}


def token(scope: str) -> _TokenType:
    parts = scope.split(".")
    for end in range(len(parts), 0, -1):
        if (found := TOKENS.get(".".join(parts[:end]))) is not None:
            return found
    return Text


def captured(captures: dict[int, _TokenType]) -> Callable[[Any, re.Match[str]], Iterator[tuple[int, _TokenType, str]]]:
    """The groups of a match with their tokens, and what stands between them as plain text."""

    def tokens(_: Any, match: re.Match[str]) -> Iterator[tuple[int, _TokenType, str]]:
        at = match.start()
        for group, kind in sorted(captures.items()):
            start, end = match.span(group)
            if start < 0:
                continue
            yield at, Text, match.string[at:start]
            yield start, kind, match.string[start:end]
            at = end
        yield at, Text, match.string[at : match.end()]

    return tokens


def rules_of(patterns: list[dict[str, Any]], repository: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The patterns of a grammar, flat, in order."""
    for pattern in patterns:
        if "include" in pattern:
            named = repository[pattern["include"].removeprefix("#")]
            yield from rules_of(
                named["patterns"] if "patterns" in named and "match" not in named else [named], repository
            )
        elif "begin" in pattern:  # a text: to its end, or that of the line
            mark = pattern["begin"]
            yield rf"{mark}(?:\\.|[^{mark}\\\n])*{mark}?", String
        elif "captures" in pattern:
            kinds = {int(group): token(of["name"]) for group, of in pattern["captures"].items()}
            yield pattern["match"], captured(kinds)
        else:
            yield pattern["match"], token(pattern.get("name", ""))


def tokens() -> dict[str, list[Any]]:
    grammar = json.loads(GRAMMAR.read_text(encoding="utf-8"))
    rules = list(rules_of(grammar["patterns"], grammar["repository"]))
    return {"root": [*rules, (r"[A-Za-z_][A-Za-z0-9_]*", Name), (r"\s+|.", Text)]}


class RulesLexer(RegexLexer):
    """The rule language."""

    name = "rulegrad rules"
    aliases = ("rules",)
    filenames = ("*.rules",)
    flags = re.MULTILINE
    tokens = tokens()


def setup(app: Any) -> dict[str, bool]:
    app.add_lexer("rules", RulesLexer)
    return {"parallel_read_safe": True}
