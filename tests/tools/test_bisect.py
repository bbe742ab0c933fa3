"""`python -m rulegrad bisect`: the wrong rule and the wrong firing are found."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rulegrad import UOp, config
from rulegrad.__main__ import main
from rulegrad.diagnosis.bisecting import NoCulpritError, Trial, find_culprit
from rulegrad.diagnosis.trials import Commands

# Wrong for 5 only: the first firings are right.
WRONG = """ruleset algebra:
    planted: x:float32 * c:const -> (x * {c + 1}) * {d}
        if c == 3 or c == 5
        let d = 1 if c == 5 else 0.75
        test x:float32 * 5 -> (x * 6) * 1
"""
SCRIPT = """
from rulegrad import Tensor
x = Tensor([1.0, 2.0], device="numpy")
print("values", (x * 3).tolist(), (x * 5 + x * 0).tolist())
"""


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.rules"
    path.write_text(WRONG, encoding="utf-8")
    return path


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


@pytest.mark.parametrize("culprit", range(7))
@pytest.mark.parametrize("firing", [1, 2, 9])
def test_the_search(culprit: int, firing: int) -> None:
    suspects = [f"set.rule{k}" for k in range(7)]

    def right(trial: Trial) -> bool:
        rule = suspects[culprit]
        if rule in trial.off:
            return True
        return trial.limit is not None and trial.limit[0] == rule and trial.limit[1] < firing

    found = find_culprit(suspects, right)
    assert found is not None and (found.rule, found.firing) == (suspects[culprit], firing)
    assert found.trials <= 2 + 3 + 8


def test_nothing_is_wrong_or_everything() -> None:
    assert find_culprit(["a.b"], lambda _: True) is None
    with pytest.raises(NoCulpritError, match="an essential rule"):
        find_culprit(["a.b"], lambda _: False)
    with pytest.raises(NoCulpritError):
        find_culprit([], lambda _: False)


def test_a_script(
    wrong: Path, script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RULEGRAD_RULES", str(wrong))
    assert main(["bisect", "--json", str(script)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["rule"] == "algebra.planted" and found["place"] == f"{wrong}:2"
    assert found["firing"] == 2 and found["pass"] == "symbolic"
    assert "CONST[value=5.0]" in found["change"] and "CONST[value=6.0]" in found["change"]


def test_a_script_that_is_right(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect", str(script)]) == 0
    assert capsys.readouterr().out == "the result is right\n"


def test_a_saved_graph(wrong: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = UOp("PARAM", (), "float32", slot=0, shape=(4,))
    file = tmp_path / "graph.txt"
    file.write_text(str(x * 3.0 + x * 5.0), encoding="utf-8")
    with config(rules=[wrong]):
        assert main(["bisect", "--graph", str(file), "--pass", "symbolic"]) == 1
        text = capsys.readouterr().out
        assert text.startswith(f"{wrong}:2: rule algebra.planted makes the result wrong, at its firing ")
        assert "in pass symbolic:\n%0 = PARAM" in text and "RULES_OFF=algebra.planted leaves it out" in text
    assert main(["bisect", "--graph", str(file), "--pass", "symbolic"]) == 0


def test_a_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The command sees what is left out in its environment."""
    code = "import os, sys; sys.exit('algebra.one' not in os.environ.get('RULES_OFF', ''))"
    monkeypatch.setattr(Commands, "suspects", lambda _: ["algebra.zero", "algebra.one"])
    assert main(["bisect", "--json", "--expect", f'"{sys.executable}" -S -c "{code}"']) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["rule"] == "algebra.one" and found["place"].startswith("rules/algebra.rules:")
    assert found["off"] == ["algebra.zero"]


def test_the_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--graph", "x"], ["--expect", "true", "x.py"]):
        with pytest.raises(SystemExit) as caught:
            main(["bisect", *arguments])
        assert caught.value.code == 2
    assert main(["bisect", str(tmp_path / "none.py")]) == 1
    assert "there is no script" in capsys.readouterr().err
