"""Rules that were compiled before are not compiled again: the program is the same, byte for byte, unless something is different."""

from __future__ import annotations

import pytest

from rulegrad.engine import compiling
from rulegrad.engine.sources import our_sources
from rulegrad.lang.checker import check
from rulegrad.lang.compiler import compile_program, reuse
from rulegrad.lang.modules import resolved
from rulegrad.lang.parser import parse_file
from rulegrad.support.paths import data_folder

TARGETS = [None, "numpy", "c", "cuda"]


def test_programs_of_other_targets_are_the_same(compiled: list[str]) -> None:
    sources = our_sources()
    fresh = []
    for target in TARGETS:
        fresh.append(compiling.program(sources, target, False, None))
        reuse._tables.clear()
    compiled.clear()
    compiling.program(sources, None, False, None)
    first = len(compiled)
    assert [compiling.program(sources, target, False, None) for target in TARGETS] == fresh
    # only the rules that ask for something that a target has
    assert first > 1000 and len(compiled) - first < first / 2


OPS = data_folder("rules") / "ops" / "ops.rules"
LIBRARY = """
export def double(x) = x * 2
table weights(f: op, weight: int):
    ABS 3
export function twice(x) else x:
    neg: twice(-x) -> double(x)
        test twice(-x:float32) -> x * 2
"""
RULES = """
use library: double, twice
pass p rewrite walk:
    one: SQRT(x) -> double(x)
        test SQRT(x:float32) -> x * 2
    two: EXP(x) -> twice(x)
        test EXP(x:float32) -> x
    three: ABS(x) -> x + {weights[ABS].weight}
        test ABS(x:float32) -> x + 3
"""


@pytest.mark.parametrize(
    ("old", "new", "again"),
    [
        ("", "", set()),
        ("x * 2\ntable", "x * 3\ntable", {"one"}),
        ("ABS 3", "ABS 4", {"three"}),
        ("else x", "else -x", set()),
    ],
)
def test_what_names_stand_for_decides(old: str, new: str, again: set[str], compiled: list[str]) -> None:
    """The other file is read again, with a change: its own rules are new, of the first file's those that use what has changed."""
    table, rules = parse_file(OPS.read_text(encoding="utf-8"), "ops.rules"), parse_file(RULES, "a.rules")

    def program(library: str) -> bytes:
        files = resolved([table, parse_file(library, "library.rules"), rules])
        assert not [d for d in check(files) if d.is_error]
        return compile_program(files)

    program(LIBRARY)
    compiled.clear()
    found = program(LIBRARY.replace(old, new))
    assert set(compiled) - {"neg", "otherwise"} == again
    reuse._tables.clear()
    assert program(LIBRARY.replace(old, new)) == found


TABLE = """dtype bool:  kind bool, bits 8
dtype int8:  kind int,  bits 8
dtype int16: kind int,  bits 16
class Number = int8 + int16
op CONST[value: scalar]() -> explicit
op FIRST(a: T) -> T
    class Some
op SECOND[scale: int = 1](a: T, b: T) -> T
    flags commutative
op THIRD(a: T) -> T
    cost  2
"""
OF_TABLE = """
table known(f: op, weight: int):
    THIRD 1
def fourth(x) = third(x)
pass p rewrite walk:
    first: FIRST(x) -> x
    second: SECOND(FIRST(x), y) -> SECOND[scale=2](y, x)
    some[f: Some]: FIRST(f(x)) -> f(x)
    every[f: Op]: FIRST(FIRST(f(x))) -> f(x)
    anything: x -> second(x, x)
        if x.op in Some
    mask[T: Number]: FIRST(FIRST(FIRST(x:T))) -> x
    calls: FIRST(FIRST(x)) -> fourth(x)
    row: FIRST(SECOND(x, y)) -> x
        if known[THIRD].weight == 1
"""
SECOND = {"second", "row", "anything"}
EVERY = {"first", "second", "some", "every", "anything", "mask", "calls", "row"}
OTHER = "op OTHER(a: T) -> T\n"


@pytest.mark.parametrize(
    ("old", "new", "before", "after", "again"),
    [
        ("", "", "", "", set()),
        ("", "", "", OTHER, {"every"}),
        ("", "", "", f"{OTHER}    class Some\n", {"some", "every", "anything"}),
        ("", "", "", "op X(a: T) -> T\n", EVERY),  # `x` could be a call of it
        ("", "", "", "class More = FIRST\n", set()),
        ("", "", OTHER, "", EVERY),  # all ops have other numbers
        ("", "", "", "dtype int32: kind int, bits 32\n", EVERY),
        ("commutative", "closes", "", "", SECOND),
        ("scale: int = 1", "other: int = 2, scale: int = 1", "", "", SECOND),
        ("Some", "Same", "", "class Some = FIRST + THIRD\n", EVERY),
        ("cost  2", "cost  3", "", "", {"calls", "row"}),
        ("int8 + int16", "int8        ", "", "", {"mask"}),
    ],
)
def test_the_words_of_the_op_table_decide(
    old: str, new: str, before: str, after: str, again: set[str], compiled: list[str]
) -> None:
    """With another op table those rules are compiled again that asked for a word which means another thing in it."""
    rules = parse_file(OF_TABLE, "a.rules")

    def program(table: str, before: str = "", after: str = "") -> bytes:
        texts = {"before.rules": before, "table.rules": table, "after.rules": after}
        return compile_program([*(parse_file(text, path) for path, text in texts.items()), rules])

    first = program(TABLE)
    compiled.clear()
    changed = TABLE.replace(old, new)
    found = program(changed, before, after)
    assert set(compiled) == again
    assert program(TABLE) == first and set(compiled) == again
    reuse._tables.clear()
    assert program(changed, before, after) == found
