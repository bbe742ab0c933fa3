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
