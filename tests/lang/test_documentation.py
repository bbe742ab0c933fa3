"""The rule text in the documents is right: each block is parsed, checked, and its test lines hold.

A ```rules block is a whole file over rules/ops/ops.rules (and rules/kernel/pattern_views.rules). A comment right above
it says otherwise, and
why:

    <!-- rules over all files: REASON -->   a user's file, merged with all of ours
    <!-- rules fragment: REASON -->         only parsed
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from rulegrad import engine
from rulegrad.engine.sources import Sources
from rulegrad.errors import RuleError
from rulegrad.lang import syntax
from rulegrad.lang.checker import check
from rulegrad.lang.diagnostics import report
from rulegrad.lang.parser import parse_file
from rulegrad.workbench.rule_tests import RuleTests

ROOT = Path(__file__).parents[2]
BASE = ("ops/ops.rules", "ops/limits.rules", "kernel/pattern_views.rules")
DOCUMENTS = ("language.md", "writing-rules.md")
FINE = ("untested-rule",)  # an example need not test each of its rules
_BLOCK = re.compile(r"^(?:<!-- rules (.*?) -->\n)?```rules\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One block: what its marker says, and its text, on the lines that it has in the document."""

    path: str
    marker: str
    text: str

    @property
    def place(self) -> str:
        """The document and the line where it begins."""
        return f"{self.path}:{len(self.text) - len(self.text.lstrip()) + 1}"


def blocks() -> Iterator[Block]:
    for name in DOCUMENTS:
        document = (ROOT / "docs" / name).read_text(encoding="utf-8")
        for match in _BLOCK.finditer(document):
            line = document[: match.start(2)].count("\n")
            yield Block(name, match.group(1) or "", "\n" * line + match.group(2))


BLOCKS = list(blocks())
WHOLE = [block for block in BLOCKS if not block.marker.startswith("fragment")]
block_of = pytest.mark.parametrize("block", WHOLE, ids=lambda block: block.place)


@cache
def base() -> tuple[syntax.File, ...]:
    paths = [ROOT / "rules" / name for name in BASE]
    return tuple(parse_file(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()) for path in paths)


@cache
def files_with(block: Block) -> list[syntax.File]:
    """The block's file beside those that it is over."""
    if block.marker.startswith("over all files"):
        texts = [*engine.loaded().sources.texts, (block.path, block.text)]
        return Sources(texts, frozenset((block.path,))).files
    return [*base(), parse_file(block.text, block.path)]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_parses(block: Block) -> None:
    kind, _, reason = block.marker.partition(": ")
    assert kind in ("", "fragment", "over all files"), "no such marker"
    assert not kind or reason, "a marker says why it is there"
    parse_file(block.text, block.path)


@block_of
def test_is_checked(block: Block) -> None:
    found = [d for d in check(files_with(block)) if d.span.file == block.path and d.code not in FINE]
    assert report(found) == ""


@block_of
def test_test_lines_hold(block: Block) -> None:
    engine.install_op_table()
    tests = RuleTests(files_with(block))
    own = [case for case in tests.cases if case.test.span.file == block.path]
    problems = [f"{case.location}: rule {case.name} {problem}" for case in own if (problem := tests.run(case))]
    assert not problems, "\n".join(problems)


def test_every_marker_belongs_to_a_block() -> None:
    for name in DOCUMENTS:
        document = (ROOT / "docs" / name).read_text(encoding="utf-8")
        marked = [match.group(0) for match in _BLOCK.finditer(document) if match.group(1)]
        assert document.count("<!-- rules ") == len(marked)


def test_mistakes_are_found() -> None:
    with pytest.raises(RuleError, match="here:2:12"):
        parse_file("ruleset r:\n    a: x + -> x\n", "here")
    wrong = Block("here", "", "ruleset r:\n    a: ADX(x) -> x\n        test fails i:int32 + 1\n")
    assert [d.code for d in check(files_with(wrong)) if d.is_error] == ["unknown-op"]
