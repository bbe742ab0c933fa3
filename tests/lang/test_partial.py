"""Files that cannot be read to the end: unknown names in the rest are reported, and nothing that follows from the gap."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rulegrad.__main__ import main
from rulegrad.lang.parser import parse_file, parse_what_can_be
from rulegrad.lang.partial import unknown_names
from rulegrad.support.paths import data_folder

BROKEN = """ruleset mine:
    a: x:float33 + -> x
        test x:float33 + 0 -> x
    b: x:int32 + 0 -> SQRTT(x)
        test x:int32 + 0 -> x
    # the name that the broken line would bind is not missed
    c: x + 0 -> helper(x, y)
        let y = = 3
    d: x + 0 -> helper(x) + hlper(x)
    e: x * 1 -> other(z)
op FOO(a: T) -> T where T: Int
    eval a +
    class Elementwize
op BAR(a T) -> T where T: Int
    eval unseen
def helper(x) = x + )
def other(x) = BAR(x) + FOO(x) + unknwn(x)
"""


def test_names_in_what_can_be_read() -> None:
    table = (data_folder("rules") / "ops" / "ops.rules").read_text(encoding="utf-8")
    file, problems = parse_what_can_be(BROKEN, "broken.rules")
    assert [d.span.line for d in problems] == [2, 8, 12, 14, 16]
    found = unknown_names([parse_file(table, "ops.rules"), file], {"broken.rules": problems})
    assert [(d.span.line, d.code, d.hint) for d in found] == [
        (4, "unknown-op", "did you mean `SQRT`?"),
        (9, "unknown-function", "did you mean `helper`?"),
        (10, "unbound-name", ""),
        (13, "unknown-class", "did you mean `Elementwise`?"),
        (17, "unknown-function", ""),
    ]


UNREAD = """use schedule/costs reads, writes_of  # and others
use schedule/costs: least_of,, most_of
op MYOP(a: T -> T
    eval a
ruleset mine:
    a: myop(x:int32) + 0 -> MYOP(x)
        if len(reads(x)) > writes_of(x) + least_of(x) + most_of(x)
    b: x + 0 -> others(x) + myopp(x)
"""


def test_what_is_introduced_by_a_line_that_cannot_be_read() -> None:
    """An op is called by its name in small letters too; and names are taken from another file."""
    table = (data_folder("rules") / "ops" / "ops.rules").read_text(encoding="utf-8")
    file, problems = parse_what_can_be(UNREAD, "unread.rules")
    assert [d.span.line for d in problems] == [1, 2, 3]
    found = unknown_names([parse_file(table, "ops.rules"), file], {"unread.rules": problems})
    assert [(d.span.line, d.code, d.hint) for d in found] == [
        (8, "unknown-function", ""),
        (8, "unknown-function", "did you mean `myop`?"),
    ]


def test_check_reports_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "broken.rules"
    path.write_text("ruleset mine:\n    a: x + -> x\n    b: x:int32 + 0 -> SQRTT(x)\n")
    assert main(["check", "--json", str(path)]) == 1
    found = json.loads(capsys.readouterr().out)["diagnostics"]
    assert [(d["line"], d["code"]) for d in found] == [(2, "expected"), (3, "unknown-op")]


def test_a_file_whose_first_line_is_broken() -> None:
    file, problems = parse_what_can_be("ruleset mine\n    a: x -> y\nruleset other:\n    b: x -> z\n", "one.rules")
    assert [d.span.line for d in unknown_names([file], {"one.rules": problems})] == [4]


@pytest.mark.parametrize("tool", ["check", "test", "prove", "fmt"])
def test_a_file_that_is_not_utf8(tool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "latin.rules"
    path.write_bytes("ruleset mine:\n    # größer\n    a: x + 0 -> x\n".encode("latin-1"))
    try:
        assert main([tool, str(path)]) in (1, 2)
    except SystemExit as ended:
        assert ended.code not in (0, None)
    printed = capsys.readouterr()
    assert f"{path}:2:9: the byte 0xf6 is not UTF-8" in printed.out + printed.err


NAMED_TWICE = """ruleset mine:
    a: x:int32 + 0 -> x
        test x:int32 + 0 -> x
    a: x:int32 * 1 -> x
        test x:int32 * 1 -> x
def twice(x) = x + x
def twice(x) = x * 2
op PAIR_UP(a: T, a: T) -> T where T: Int
    eval a
def pair_up(x) = x
op COPIED(a: T) -> T where T: Int
    eval a
"""


def test_a_name_that_is_taken_is_reported_once_with_both_places(tmp_path: Path, capsys) -> None:
    path = tmp_path / "twice.rules"
    path.write_text(NAMED_TWICE)
    assert main(["check", "--json", str(path)]) == 1
    found = [d for d in json.loads(capsys.readouterr().out)["diagnostics"] if d["severity"] == "error"]
    assert [(d["line"], d["code"]) for d in found] == [
        (4, "duplicate-rule"),
        (7, "duplicate-declaration"),
        (8, "rebound-name"),
        (10, "duplicate-declaration"),
        (11, "duplicate-declaration"),
    ]
    places = [f"{path}:2:5", f"{path}:6:1", f"{path}:8:12", f"{path}:8:1", "rules/instructions/tile_copies.rules:"]
    assert all(place in d["notes"][0] for place, d in zip(places, found))
    assert {d["file"] for d in found} == {str(path)}
