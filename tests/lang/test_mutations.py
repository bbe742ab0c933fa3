"""Whatever is written, a rule author sees diagnostics: our rules with tokens deleted, doubled, exchanged and replaced.

Each declaration of our files is changed a few times, from a seed, and goes the way of a user's file: it is parsed, checked
beside everything else, and compiled when nothing is wrong with it. Anything but a RuleError with diagnostics is a bug.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from rulegrad import engine
from rulegrad.errors import RuleError
from rulegrad.lang.checker import check
from rulegrad.lang.compiler import ProgramCompiler, compile_op_table
from rulegrad.lang.parser import parse_file
from rulegrad.lang.syntax import Declaration, File, Function, OpDeclaration, Pass, Pipeline, Ruleset, Target

CHANGES = 3  # of each declaration
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
        compiler = ProgramCompiler(files, TARGET, strict=False)
        compiler.passes = [d for d in compiler.passes if compiled_from(compiler, d, mine)]
        compiler.compile()
    return True


def compiled_from(compiler: ProgramCompiler, tried: Pass, mine: File) -> bool:
    """Whether a pass is compiled from what a file declares; the others are compiled as they always are."""
    if not all(isinstance(d, Ruleset | Pass | Function | Pipeline) for d in mine.declarations):
        return True
    used = [name for name in tried.uses if tried.kind != "reverse"]  # which uses a function
    owners = {tried.name, *used, *(owner for name in used for owner, _ in compiler.rules_of(name, tried.span))}
    return not owners.isdisjoint(d.name for d in mine.declarations if isinstance(d, Ruleset | Pass))


@pytest.mark.parametrize(("file", "declaration", "text"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_every_text_is_either_rules_or_reported(file: File, declaration: Declaration, text: str) -> None:
    for change in range(CHANGES):
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
