"""The TextMate grammar: its expressions, every word of the parser, and the colours of some lines.

TextMate grammars are run by Oniguruma; the expressions here are kept to what it has in common with Python's `re`.
"""

from __future__ import annotations

import json
import plistlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rulegrad.lang.parser import DECLARATION_WORDS
from rulegrad.lang.parser.op_table import PROPERTY_WORDS
from rulegrad.lang.parser.passes import DIRECTIONS, PASS_KINDS
from rulegrad.lang.parser.rules import CLAUSE_WORDS
from rulegrad.lang.parser.targets import ITEM_WORDS
from rulegrad.lang.parser.texts import KINDS

EDITORS = Path(__file__).parents[2] / "editors"
GRAMMAR = json.loads((EDITORS / "rulegrad.tmLanguage.json").read_text(encoding="utf-8"))
Rule = dict[str, Any]


def rules_in(part: Any) -> Iterator[Rule]:
    """Every rule of the grammar with an expression of its own."""
    if isinstance(part, dict):
        if "match" in part or "begin" in part:
            yield part
        for value in part.values():
            yield from rules_in(value)
    elif isinstance(part, list):
        for value in part:
            yield from rules_in(value)


class Colours:
    """As much of a TextMate engine as the grammar needs: one line, from left to right, the first leftmost match."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.found: list[tuple[str, str]] = []  # text and innermost scope
        self.run(GRAMMAR["patterns"], 0, None, "")

    def run(self, patterns: list[Rule], position: int, end: re.Pattern[str] | None, name: str) -> int:
        while position < len(self.line):
            rule, match = self.first(patterns, position)
            closing = end.search(self.line, position) if end else None
            if closing and (match is None or closing.start() <= match.start()):
                return closing.end()
            if match is None or rule is None:
                return len(self.line)
            if "begin" in rule:
                inner = re.compile(rule["end"])
                start = match.start()
                position = self.run(rule["patterns"], match.end(), inner, rule.get("name", ""))
                self.found.append((self.line[start:position], rule["name"]))
                continue
            self.add(rule, match)
            position = max(match.end(), position + (match.end() == match.start()))
        return position

    def first(self, patterns: list[Rule], position: int) -> tuple[Rule | None, re.Match[str] | None]:
        best: tuple[Rule | None, re.Match[str] | None] = (None, None)
        for rule in flat(patterns):
            match = re.compile(rule.get("match") or rule["begin"]).search(self.line, position)
            if match and (best[1] is None or match.start() < best[1].start()):
                best = (rule, match)
        return best

    def add(self, rule: Rule, match: re.Match[str]) -> None:
        if "name" in rule:
            self.found.append((match.group(), rule["name"]))
        for number, capture in rule.get("captures", {}).items():
            if match.group(int(number)):
                self.found.append((match.group(int(number)), capture["name"]))


def flat(patterns: list[Rule]) -> Iterator[Rule]:
    for rule in patterns:
        if "include" in rule:
            included = GRAMMAR["repository"][rule["include"][1:]]
            yield from flat(included["patterns"] if set(included) <= {"patterns", "comment"} else [included])
        else:
            yield rule


def scope_of(line: str, text: str) -> str:
    scopes = [scope for found, scope in Colours(line).found if found == text]
    return scopes[0].removesuffix(".rulegrad") if scopes else ""


def test_every_expression_compiles() -> None:
    rules = list(rules_in(GRAMMAR))
    assert len(rules) > 25
    for rule in rules:
        for key in ("match", "begin", "end"):
            if key in rule:
                pattern = re.compile(rule[key])
                captures = rule.get("captures" if key == "match" else key + "Captures", {})
                assert all(int(number) <= pattern.groups for number in captures)


def test_every_include_and_scope_is_sound() -> None:
    text = json.dumps(GRAMMAR)
    assert set(re.findall(r'"include": "#(\w+)"', text)) <= set(GRAMMAR["repository"])
    assert all(name.endswith(".rulegrad") for name in re.findall(r'"name": "([a-z][a-z_.-]*\.[a-z.]*)"', text))
    assert plistlib.dumps(GRAMMAR)  # as the readme does for Sublime Text


@pytest.mark.parametrize("word", DECLARATION_WORDS)
def test_declarations(word: str) -> None:
    scope = scope_of(f"{word} {'pure ' * (word == 'extern')}some_name", word)
    assert scope == "keyword.declaration"


@pytest.mark.parametrize("word", CLAUSE_WORDS)
def test_clauses(word: str) -> None:
    assert scope_of(f"        {word} x", word).startswith("keyword.control")


@pytest.mark.parametrize("word", [*PROPERTY_WORDS, *ITEM_WORDS])
def test_properties(word: str) -> None:
    # a line cannot tell these from the clause of a rule and the line of a pass
    scope = "keyword.control" if word in ("ulp", "use", "cost") else "support.type.property-name"
    assert scope_of(f"    {word}  x", word) == scope


def test_passes_and_texts() -> None:
    for kind in PASS_KINDS:
        assert scope_of(f"pass p {kind}:", kind) == "storage.modifier"
    for kind, directions in DIRECTIONS.items():
        for direction in directions:
            assert scope_of(f"pass p {kind} {direction}:", direction) == "storage.modifier"
    for kind in KINDS:
        assert scope_of(f'    a: ADD(x) -> {kind} "x"', kind) == "storage.modifier.text"


@pytest.mark.parametrize(
    ("line", "text", "scope"),
    [
        ("    zero[f: {ADD, OR}]: f(x, 0) -> x  # law", "zero", "entity.name.function.rule"),
        ("    zero[f: {ADD, OR}]: f(x, 0) -> x  # law", "ADD", "support.function.op"),
        ("    zero[f: {ADD, OR}]: f(x, 0) -> x  # law", "# law", "comment.line.number-sign"),
        ("    zero[f: {ADD, OR}]: f(x, 0) -> x  # law", "->", "keyword.operator.arrow"),
        ("    a: x:T + c:const -> x", "a", "entity.name.function.rule"),
        ("    a: x:T + c:const -> x", "const", "storage.modifier"),
        ("        test x:float32 * 0x1f -> true", "float32", "storage.type"),
        ("        test x:float32 * 0x1f -> true", "0x1f", "constant.numeric"),
        ("        test x:float32 * 0x1f -> true", "true", "constant.language"),
        ("        test fails x:float32", "fails", "keyword.control.test"),
        ("        test fires x:float32", "fires", "keyword.control.test"),
        ("        test on webgpu + subgroups fires x:float32", "on", "keyword.control.test"),
        ("        test on webgpu + subgroups fires x:float32", "webgpu + subgroups", "entity.name.section"),
        ("        test on webgpu + subgroups fires x:float32", "fires", "keyword.control.test"),
        ("    a: n@f(x...) -> where(x not in y, 1, 2)", "n", "variable.parameter.capture"),
        ("    a: n@f(x...) -> where(x not in y, 1, 2)", "...", "keyword.operator.spread"),
        ("    a: n@f(x...) -> where(x not in y, 1, 2)", "where", "entity.name.function.call"),
        ("    a: n@f(x...) -> where(x not in y, 1, 2)", "not", "keyword.operator.word"),
        ("    a: sum{x, rest...} -> subst(x)", "sum", "support.function.multiset"),
        ("    a: sum{x, rest...} -> subst(x)", "subst", "keyword.other"),
        ("    a: k@SINK() -> SCHEDULED(k, steps {unroll i0})", "steps", "keyword.other"),
        ('    c: ADD(x) -> expr "f({x:bare}) {{ # no comment"', "{x:bare}", "meta.embedded"),
        ('    c: ADD(x) -> expr "f({x:bare}) {{ # no comment"', "{{", "constant.character.escape"),
        ('    c: ADD(x) -> expr "f({x:bare}) {{ # no comment"', "# no comment", ""),
        ("op ADD(a: T) -> T where T: Int", "where", "keyword.other"),
        ("class Int = Signed + index", "Signed", "entity.name.type.class"),
    ],
)  # fmt: skip
def test_colours(line: str, text: str, scope: str) -> None:
    assert scope_of(line, text) == scope


def test_the_extension_names_files_that_are_there() -> None:
    manifest = json.loads((EDITORS / "package.json").read_text(encoding="utf-8"))
    language = manifest["contributes"]["languages"][0]
    grammar = manifest["contributes"]["grammars"][0]
    assert grammar["scopeName"] == GRAMMAR["scopeName"] and grammar["language"] == language["id"]
    for path in (manifest["main"], language["configuration"], grammar["path"]):
        assert (EDITORS / path).is_file()
    configuration = json.loads((EDITORS / "language-configuration.json").read_text(encoding="utf-8"))
    increase = re.compile(configuration["indentationRules"]["increaseIndentPattern"])
    assert increase.search("ruleset r:") and increase.search("def f(x) =") and not increase.search("    a: x -> y")
