"""Whatever is written, a rule author sees diagnostics: our rules with tokens deleted, doubled, exchanged and replaced.

Each declaration of our files is changed, from a seed, as often as TEXT_CHANGES says (once), and goes the way of a user's file: it is parsed, checked
beside everything else, and compiled when nothing is wrong with it. Anything but a RuleError with diagnostics is a bug.
"""

from __future__ import annotations

import os
import random
import re
from dataclasses import replace
from functools import cache
from itertools import product

import pytest

from rulegrad import engine
from rulegrad.errors import RuleError
from rulegrad.lang.checker import check
from rulegrad.lang.compiler import ProgramCompiler, compile_op_table
from rulegrad.lang.modules import Own, plain, references
from rulegrad.lang.parser import parse_file
from rulegrad.lang.syntax import (
    ClassDeclaration,
    Declaration,
    Definition,
    File,
    Limit,
    OpDeclaration,
    Ruleset,
    Table,
    Target,
    View,
)

CHANGES = int(os.environ.get("TEXT_CHANGES", "1"))  # of each declaration
TOKEN = re.compile(r"#[^\n]*|\n *|[A-Za-z_]\w*|\d+(?:\.\d+)?|->|\.\.\.|//|<<|>>|[<>=!]=|\s+|.", re.DOTALL)
MUTATED = "mutated.rules"
FILES = engine.loaded().sources.files
TARGET = next(d for f in FILES for d in f.declarations if isinstance(d, Target) and d.render)


def declarations() -> list[tuple[str, File, Declaration, str]]:
    """(name, file, declaration, its lines) of everything that our files declare."""
    found = []
    for file in FILES:
        lines = file.text.split("\n")
        starts = [d.span.line - 1 for d in file.declarations]
        for place, declaration in enumerate(file.declarations):
            stop = starts[place + 1] if place + 1 < len(starts) else len(lines)
            name = f"{file.path}:{declaration.span.line}"
            found.append((name, file, declaration, "\n".join(lines[starts[place] : stop])))
    return found


CASES = declarations()


def kind(token: str) -> str:
    """Tokens of one kind can stand in each other's place, as far as the lexer goes."""
    if token.isidentifier():
        return "op" if token.isupper() else "variable" if token[0].isupper() else "name"
    return "number" if token[0].isdigit() else "bracket" if token in "()[]{}" else "operator"


VOCABULARY: dict[str, list[str]] = {}
for _file in FILES:
    for _token in dict.fromkeys(TOKEN.findall(_file.text)):
        if _token.strip() and not _token.startswith("#"):
            VOCABULARY.setdefault(kind(_token), []).append(_token)


def mutated(text: str, numbers: random.Random) -> str:
    """The text with one or two tokens changed."""
    tokens = TOKEN.findall(text)
    for _ in range(numbers.choice((1, 1, 2))):
        places = [k for k, token in enumerate(tokens) if token.strip() and not token.startswith("#")]
        place = numbers.choice(places)
        alike = [k for k in places if k != place and kind(tokens[k]) == kind(tokens[place])] or places
        match numbers.choice(("delete", "double", "exchange", "copy", "replace")):
            case "delete":
                tokens[place] = ""
            case "double":
                tokens[place] = f"{tokens[place]} {tokens[place]}"
            case "exchange":
                other = numbers.choice(alike)
                tokens[place], tokens[other] = tokens[other], tokens[place]
            case "copy":
                tokens[place] = tokens[numbers.choice(alike)]
            case _:
                tokens[place] = numbers.choice(VOCABULARY[kind(tokens[place])])
    return "".join(tokens)


def loads(file: File, declaration: Declaration, text: str) -> bool:
    """Whether the files load with this text in the place of the declaration. Raises RuleError for what the parser says."""
    mine = parse_file(text, MUTATED)
    rest = replace(file, declarations=tuple(d for d in file.declarations if d is not declaration))
    files = [*(rest if f is file else f for f in FILES), mine]
    if any(d.is_error for d in check(files, only=frozenset((MUTATED,)), sound=FILES)):
        return False
    if isinstance(declaration, OpDeclaration):
        compile_op_table(files)
    else:
        compiler, changed = ProgramCompiler(files, TARGET, strict=False), changed_with(mine)
        compiler.passes = [d for d in compiler.passes if d.name in changed]
        functions = compiler.library.functions
        for name in functions.keys() - changed:  # which have their numbers, as they always do
            functions[name] = replace(functions[name], rules=())
        compiler.compile()
    return True


#: Declarations that are compiled as parts of others.
EXPANDED = (ClassDeclaration, Definition, Limit, Ruleset, Table, View)


@cache
def holders() -> dict[str, list[Declaration]]:
    """Of each name: the declarations that call it, and, of what is not called, those whose text has its word."""
    called = {plain(d.name) for _, _, d, _ in CASES if isinstance(d, Own)}
    found: dict[str, list[Declaration]] = {}
    for _, _, declaration, text in CASES:
        for word in {name for name, _ in references(declaration)} | set(TOKEN.findall(text)) - called:
            found.setdefault(word, []).append(declaration)
    return found


def changed_with(mine: File) -> set[str]:
    """The names of what is compiled otherwise for what a file declares: it has its name, or that of what has it.

    Functions and passes are called by number: what calls one of those that call the changed one is as it was.
    """
    found, waiting = set[str](), [d.name for d in mine.declarations if hasattr(d, "name")]
    while waiting:
        name = waiting.pop()
        found.add(name)
        new = [d for d in holders().get(name, ()) if d.name not in found]
        found.update(d.name for d in new)
        waiting.extend(d.name for d in new if isinstance(d, EXPANDED))
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.path)
def test_every_text_is_either_rules_or_reported(file: File) -> None:
    mine = [(declaration, text) for _, of, declaration, text in CASES if of is file]
    for (declaration, text), change in product(mine, range(CHANGES)):
        changed = mutated(text, random.Random(f"{change} {text}"))
        try:
            loads(file, declaration, changed)
        except RuleError as error:
            assert error.diagnostics, changed
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} leaks out of\n{changed}") from error


def test_the_files_load_as_they_are() -> None:
    name, file, declaration, text = next(case for case in CASES if case[0].startswith("rules/kernel/booleans.rules"))
    assert loads(file, declaration, text), name
