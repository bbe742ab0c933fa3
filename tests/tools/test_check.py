"""`python -m rulegrad check`: our own rules are clean, a user's problems are found, and the exit status says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rulegrad.__main__ import main


def test_our_rules_are_clean(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["check"])
    assert capsys.readouterr().out == "no problems\n"
    assert status == 0


def test_a_users_file_for_one_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.rules"
    path.write_text(
        "ruleset algebra:\n    back: x:int32 + y * -1 -> x - y\n        test i:int32 + j:int32 * -1 -> i - j\n"
    )
    assert main(["check", "--json", "--target", "opencl", str(path)]) == 1
    found = json.loads(capsys.readouterr().out)["diagnostics"]
    loops = [d for d in found if d["code"] == "rule-loop"]
    assert loops and all("algebra.back" in d["message"] for d in loops)


def test_a_users_file_with_an_op_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.rules"
    path.write_text(
        "op SQUARE(a: T) -> T where T: Float\n    class Elementwise Unary\n    eval a * a\n"
        "ruleset algebra:\n    root: SQRT(SQUARE(x)) -> ABS(x)\n        test SQRT(SQUARE(x:float32)) -> ABS(x)\n"
    )
    assert main(["check", "--json", "--target", "opencl", str(path)]) == 1
    found = json.loads(capsys.readouterr().out)["diagnostics"]
    assert [d["code"] for d in found] == ["no-lowering"] and "SQUARE on float" in found[0]["message"]


def test_mistakes_are_reported_without_the_analyses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.rules"
    path.write_text("ruleset mine:\n    wrong: x + -> x\n")
    assert main(["check", str(path)]) == 1
    text = capsys.readouterr().out
    assert "mine.rules:2:16: error[expected]" in text and text.endswith("1 errors, 0 warnings\n")


def test_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--costs", "--json"]) == 0
    table = {row["rule"]: row for row in json.loads(capsys.readouterr().out)["costs"]}
    assert table["booleans.contradiction"]["ways"] == table["booleans.contradiction"]["alternatives"] == 2


@pytest.mark.parametrize("arguments", [["no-such.rules"], ["--target", "nowhere"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *arguments]) == 2
    assert "no-such.rules" in (text := capsys.readouterr().err) or "nowhere" in text
