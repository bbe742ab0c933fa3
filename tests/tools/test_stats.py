"""`python -m rulegrad stats`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rulegrad.__main__ import main
from rulegrad.compile import forget_kernels

SCRIPT = """
import sys
from rulegrad import Tensor
print(sys.argv[1:], (Tensor([1.0, 2.0], device="numpy").exp().sum() * 0 + 1).tolist())
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    forget_kernels()
    path = tmp_path / "program.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def test_a_script(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", "--json", str(script), "--x", "0"]) == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert "['--x', '0'] 1.0" in shown.err
    passes = {one["name"]: one for one in found["passes"]}
    rules = {one["name"]: one for one in found["rules"]}
    assert passes["indexing"]["runs"] >= 1 and passes["indexing"]["fired"] >= 1
    rule = rules["indexing.kernel"]
    assert rule["tried"] >= rule["fired"] >= 1 and rule["location"].startswith("rules/kernel/movement.rules:")
    assert any(one["name"].startswith(("repeats.", "whole.", "nesting.")) for one in found["rules"]), (
        "cases of functions are counted too"
    )
    assert main(["stats", str(script), "--x", "3"]) == 1


def test_the_corpus_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", "--device", "numpy", "--top", "3"]) == 0
    text = capsys.readouterr().out
    assert "symbolic" in text and "rules were tried" in text and "more with --top 0" in text


def test_the_census(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", "--census", "--json", str(script), "--x", "0"]) == 0
    found = json.loads(capsys.readouterr().out)["census"]
    lines = {file["path"]: file["lines"] for file in found["files"]}
    root = Path(__file__).resolve().parents[2]
    assert lines["rules/kernel/algebra.rules"] == len(
        (root / "rules" / "kernel" / "algebra.rules").read_text().splitlines()
    )
    assert found["rules"] == sum(file["rules"] for file in found["files"]) > 300
    assert found["extern_share"] <= 0.02 and found["fired"] > 0
    assert {step["file"] for step in found["host_steps"]} >= {"realize", "kernels"}
    assert main(["stats", "--census", str(script), "--x", "0"]) == 0
    text = capsys.readouterr().out
    assert "the goal is at most 2%" in text and "firings through built-in functions for whole sums" in text


def test_rules_for_whole_sums_are_counted_apart() -> None:
    from rulegrad import UOp, rewrite
    from rulegrad.lang.builtins import BUILTINS
    from rulegrad.workbench.diagnosis.counting import STRUCTURAL, census, counted

    assert BUILTINS.keys() >= STRUCTURAL
    x, y = (UOp("PARAM", (), "int32", slot=k, shape=()) for k in range(2))
    for node, structural in ((y + x + y, True), (UOp.const(2, "int32") * 3, False)):
        with counted() as found:
            rewrite(node, "symbolic")
        taken = census(found[0])
        assert taken.fired > 0 and (taken.fired_structural > 0) == structural


def test_an_extern_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rulegrad import UOp, load_rules, rewrite
    from rulegrad.workbench.diagnosis.counting import census, counted

    rules = tmp_path / "extern.rules"
    rules.write_text(
        'extern pure greatest(a: int, b: int) -> int = "builtins.max"\n'
        "    test greatest(1, 2) -> 2\n"
        "def larger(a, b) = greatest(a, b)\n"
        "pass with_host rewrite walk:\n"
        "    large: MAX(a:const, b:const) -> {larger(a, b)}\n"
        "        test max(CONST[int32](1), CONST[int32](2)) -> 2\n",
        encoding="utf-8",
    )
    with load_rules(rules, externs=True):
        with counted() as found:
            result = rewrite(UOp("MAX", (UOp.const(3, "int32"), UOp.const(5, "int32"))), "with_host")
        assert result == UOp.const(5, "int32")
        taken = census(found[0])
        assert taken.fired_with_extern == taken.fired == 1 and taken.externs == {"greatest": "builtins.max"}


def test_a_script_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", "no_such_script.py"]) == 1
    assert "there is no script no_such_script.py" in capsys.readouterr().err
