"""`python -m rulegrad test`: test lines of our rules and of users' files, and `check`, which runs them too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rulegrad.__main__ import main
from rulegrad.config import config
from rulegrad.errors import RuleError
from rulegrad.tools import check, test

MINE = """extern pure greatest(a: int, b: int) -> int = "builtins.max"
    test greatest(3, 4) -> 4
    test greatest(3, 5) -> 4
ruleset algebra:
    seven: x:int32 * 7 -> x * 6 + x
        test x:int32 * 7 -> x * 6 + x
        test x:int32 * 8 -> x * 6 + x
        test fails x:int32 * 7
        test x:int32 * 7 -> x * 7
    larger: x:int16 * c:const -> x * {greatest(c, 4)}
        test x:int16 * 3 -> x * 4
    without: x:int8 * 11 -> x * 10 + x
"""
WITH_AN_OP = """op SQUARE(a: T) -> T where T: Float
    class Elementwise Unary
    eval a * a
ruleset algebra:
    sign: SQUARE(-x) -> SQUARE(x)
        test SQUARE(-x:float32) -> SQUARE(x)
        test SQUARE(-x:float32) -> x
"""


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "mine.rules"
    path.write_text(MINE, encoding="utf-8")
    with config(externs=1):
        yield path


def test_lines_of_a_users_file(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(mine)]) == 1
    text = capsys.readouterr().out
    assert f"{mine}:3:5: error[failing-test]: the test of extern.greatest fails: it gives something else" in text
    assert (
        f"{mine}:7:9: error[failing-test]: the test of algebra.seven fails: it does not fire on\n"
        "            test x:int32 * 8 -> x * 6 + x\n"
        "            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "    note: %0 = PARAM[slot=500, shape=()]:int32()\n"
        "          %1 = CONST[value=8]:int32()\n"
    ) in text
    assert f"{mine}:8:9: " in text and f"{mine}:9:9: " in text
    differs = "the test of algebra.larger fails on values: its right side gives "
    assert f"{mine}:11:9: error[failing-test]: {differs}" in text
    assert text.endswith("2 of 7 test lines of 4 rules hold; 1 rules have none\n")


def test_json(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--json", str(mine), "algebra.zero"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["rules"], found["failed"], found["without"]) == (5, 5, ["algebra.without"])
    assert [d["line"] for d in found["diagnostics"]] == [3, 7, 8, 9, 11]


def test_ours_by_name_and_by_file(capsys: pytest.CaptureFixture[str]) -> None:
    rules = Path(__file__).parents[2] / "rules" / "booleans.rules"
    for arguments in (["choices"], ["algebra.zero"], [str(rules)]):
        assert main(["test", *arguments]) == 0
        held, _, of, *_ = capsys.readouterr().out.split()
        assert held == of != "0"
    with pytest.raises(RuleError, match="`nowhere`"):
        test.main(["nowhere"])


def test_a_file_that_declares_an_op(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "square.rules"
    path.write_text(WITH_AN_OP, encoding="utf-8")
    assert main(["test", str(path)]) == 1
    text = capsys.readouterr().out
    assert f"{path}:7:9: error[failing-test]" in text and text.endswith("1 of 2 test lines of 1 rules hold\n")


def test_check_runs_them(mine: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "analyse", lambda *_: [])  # it takes long, and has its own tests
    assert check.main(["--json", str(mine)]) == 1
    found = [d for d in json.loads(capsys.readouterr().out)["diagnostics"] if d["code"] == "failing-test"]
    assert [d["line"] for d in found] == [3, 7, 8, 9, 11]
