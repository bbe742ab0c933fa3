"""The tool `prove`."""

from __future__ import annotations

import json

import pytest

from rulegrad.errors import RuleError
from rulegrad.workbench.tools import prove

pytest.importorskip("z3")

WRONG = "ruleset mine:\n    wrong: x:int32 | y:int32 -> x & y\n"


def test_a_rule_by_name(capsys) -> None:
    assert prove.main(["booleans.and_true", "--all", "--jobs", "1", "--verbose"]) == 0
    printed = capsys.readouterr().out
    assert "booleans.and_true: proved" in printed
    assert printed.splitlines()[-1].split() == ["total", "1", "1"]


def test_a_wrong_rule_of_a_file_of_ones_own(tmp_path, capsys) -> None:
    path = tmp_path / "mine.rules"
    path.write_text(WRONG)
    assert prove.main([str(path), "--jobs", "1"]) == 1
    printed = capsys.readouterr().out
    assert "mine.wrong: failed: gives" in printed and "test fails OR(x:int32, y:int32)" in printed


def test_a_file_that_declares_an_op(tmp_path, capsys) -> None:
    path = tmp_path / "square.rules"
    path.write_text(
        "op SQUARE(a: T) -> T where T: Float\n    class Elementwise Unary\n    eval a * a\n"
        "ruleset mine:\n    even: SQUARE(-x) -> SQUARE(x)\n        test SQUARE(-x:float32) -> SQUARE(x)\n"
    )
    prove.main([str(path), "--json", "--jobs", "1"])
    (found,) = json.loads(capsys.readouterr().out)
    assert found["name"] == "mine.even" and found["kind"] in ("proved", "tested", "untested")


def test_an_op_without_an_evaluator(tmp_path, capsys) -> None:
    path = tmp_path / "hidden.rules"
    path.write_text(
        "op HIDDEN(a: T) -> T where T: Float\n    class Elementwise Unary\n"
        "ruleset mine:\n    lowered: HIDDEN(x:float32) -> x + 1.0\n"
    )
    assert prove.main([str(path), "--json", "--jobs", "1"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert found["kind"] == "untested"
    assert found["how"].startswith("it fired, but") and "HIDDEN: its declaration has no `eval` line" in found["how"]


def test_json(tmp_path, capsys) -> None:
    path = tmp_path / "mine.rules"
    path.write_text(WRONG)
    prove.main([str(path), "--json", "--jobs", "1"])
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["name"], found["kind"]) == ("mine.wrong", "failed")
    assert found["line"].startswith("test fails")


def test_texts_are_listed(capsys) -> None:
    assert prove.main(["c_style.load", "--jobs", "1", "--all", "--json"]) == 0
    assert [found["kind"] for found in json.loads(capsys.readouterr().out)] == ["text"]


def test_several_processes_say_the_same(capsys) -> None:
    printed = []
    for jobs in ("1", "2"):
        prove.main(
            [
                "where_simplification.same",
                "where_simplification.always",
                "algebra.zero_float",
                "--all",
                "--json",
                "--jobs",
                jobs,
            ]
        )
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(RuleError, match="`nowhere`"):
        prove.main(["nowhere"])
