"""`python -m rulegrad bisect`: the wrong rule and the wrong firing are found."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rulegrad import UOp, config
from rulegrad.__main__ import main
from rulegrad.errors import RulegradError
from rulegrad.workbench.diagnosis.bisecting import NoCulpritError, Trial, find_culprit
from rulegrad.workbench.diagnosis.blaming import read_blame
from rulegrad.workbench.diagnosis.trials import Commands

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
    assert found["rule"] == "algebra.planted" and found["location"] == f"{wrong}:2"
    assert found["firing"] == 2 and found["pass"] == "symbolic"
    assert "CONST[value=5.0]" in found["change"] and "CONST[value=6.0]" in found["change"]


@pytest.mark.parametrize(
    "program",
    [
        # a kernel with an op that the op table spells, and which is not a rule that may be left out
        "x, y = (Tensor([1.0, n], device='c') for n in (2.0, 3.0))\nprint((x * 3 + y).tolist())",
        # kernels that check indices
        pytest.param(
            "x, i = (Tensor(values, device='c') for values in ([1.0, 2.0, 5.0], [2, 1]))\n"
            "print((x[i] * 3).tolist(), x.index_add(0, i, x[:2]).tolist())",
            marks=pytest.mark.long_run,
        ),
        # the rule is not there yet when the first rules are loaded
        pytest.param(
            "print((Tensor([1.0], device='numpy') + 1).tolist())\n"
            "with load_rules(PATH):\n    print((Tensor([1.0], device='numpy') * 3 + 1).tolist())",
            marks=pytest.mark.long_run,
        ),
    ],
)
def test_a_script_with_rules_that_cannot_be_left_out(
    program: str, wrong: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong.write_text("ruleset algebra:\n    planted: x:float32 * 3 -> x * 4\n", encoding="utf-8")
    script = tmp_path / "program.py"
    script.write_text(f"from rulegrad import Tensor, load_rules\n{program.replace('PATH', repr(str(wrong)))}\n")
    if "PATH" not in program:
        monkeypatch.setenv("RULEGRAD_RULES", str(wrong))
    assert main(["bisect", "--json", str(script)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["rule"], found["location"], found["firing"]) == ("algebra.planted", f"{wrong}:2", 1)
    assert "CONST[value=4.0]" in found["change"] and "trials" in found


@pytest.mark.long_run
def test_a_script_that_fails_by_the_rule(
    wrong: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It asserts what is right: it has no other output, and ends early."""
    wrong.write_text("ruleset algebra:\n    planted: x:float32 * 3 -> x * 4\n", encoding="utf-8")
    script = tmp_path / "program.py"
    script.write_text("from rulegrad import Tensor\nassert (Tensor([1.0], device='c') * 3 + 1).tolist() == [4.0]\n")
    monkeypatch.setenv("RULEGRAD_RULES", str(wrong))
    assert main(["bisect", "--json", str(script)]) == 1
    assert json.loads(capsys.readouterr().out)["rule"] == "algebra.planted"


def test_a_trial_that_is_refused(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULES_OFF", "algebra.none_such")
    with pytest.raises(RulegradError, match="cannot be made: RULES_OFF .* names 'algebra.none_such'"):
        Commands([sys.executable, str(script)]).run(Trial())


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
    assert found["rule"] == "algebra.one" and found["location"].startswith("rules/kernel/algebra.rules:")
    assert found["off"] == ["algebra.zero"]


def test_the_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--graph", "x"], ["--expect", "true", "x.py"]):
        with pytest.raises(SystemExit) as caught:
            main(["bisect", *arguments])
        assert caught.value.code == 2
    assert main(["bisect", str(tmp_path / "none.py")]) == 1
    assert "there is no script" in capsys.readouterr().err


# A wrong essential rule, and a wrong case of a function: neither can be left out.
ESSENTIAL = """pass indexing rewrite parents_first:
    flip: INDEX(FLIP[axes=a](x), is...) -> INDEX(x, is...)
        essential
"""
CASE = """use schedule/materialized: materialized
function materialized(x):
    value: materialized(n@_) -> MATERIALIZE(n + n)
        fallback
"""


@pytest.mark.parametrize(
    ("rules", "expression", "found"),
    [
        (ESSENTIAL, "x.flip(0) + 1", {"pass": "indexing", "rule": "indexing.flip", "cases": []}),
        # the case of a function that alone is wrong is found on graphs, too, which takes less
        pytest.param(
            CASE,
            "(x.sum() * x).sum()",
            {"pass": "materialize", "cases": ["materialized.value (PATH:3)"]},
            marks=pytest.mark.long_run,
        ),
    ],
)
def test_what_cannot_be_left_out(
    rules: str,
    expression: str,
    found: dict[str, object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, script = tmp_path / "wrong.rules", tmp_path / "program.py"
    path.write_text(rules, encoding="utf-8")
    script.write_text(
        f"from rulegrad import Tensor\nx = Tensor([1.0, 2.0, 4.0, 1.0] * 1000, device='numpy')\nprint(({expression}).tolist())\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("RULEGRAD_RULES", str(path))
    assert main(["bisect", "--json", str(script)]) == 1
    told = json.loads(capsys.readouterr().out)
    told["cases"] = [case for case in told["cases"] if case.startswith("materialized.value")]
    assert {key: told[key] for key in found} == json.loads(json.dumps(found).replace("PATH", str(path)))
    assert told["right"] is False and "\n->\n%0 = " in told["change"]


def test_a_case_by_which_alone_a_firing_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, file = tmp_path / "wrong.rules", tmp_path / "graph.txt"
    path.write_text(
        "function grown(x):\n    two: grown(x + 2) -> x + 3\n    other: grown(n@_) -> n\n        fallback\n"
        "pass growing rewrite walk:\n    root: -x -> grown(x) * -1\n        essential\n",
        encoding="utf-8",
    )
    x = UOp("PARAM", (), "float32", slot=0, shape=(4,))
    file.write_text(str(-(x + 2.0) * -(x + 1.0)), encoding="utf-8")
    with config(rules=[path]):
        assert main(["bisect", "--graph", str(file), "--pass", "growing"]) == 1
    first, *change, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{path}:6: rule growing.root makes the result wrong, at firing ")
    assert first.endswith(f" of pass growing, by the case grown.two ({path}:2):")
    assert "%1 = CONST[value=2.0]:float32()" in change and "%1 = CONST[value=3.0]:float32()" in change
    assert last == "found under CHECK=2, as this cannot be left out"


def test_a_firing_that_graphs_between_do_not_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After the first firing the graph has an op that the interpreter cannot run, until the second."""
    path, file = tmp_path / "wrong.rules", tmp_path / "graph.txt"
    path.write_text(
        "pass hidden rewrite children_first:\n"
        "    hide: NEG(x:float32) -> LOAD(x)\n        essential\n"
        "    show: ABS(LOAD(x)) -> ABS(x + 1)\n        essential\n",
        encoding="utf-8",
    )
    x = UOp("PARAM", (), "float32", slot=0, shape=())
    file.write_text(str(UOp("ABS", (-x,))), encoding="utf-8")
    with config(rules=[path]):
        assert main(["bisect", "--json", "--graph", str(file), "--pass", "hidden"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["rule"] is None and told["pass"] == "hidden" and told["suspects"] == ["hidden.hide", "hidden.show"]
    assert "one of its firings 1 to 2" in told["problem"]


@pytest.mark.parametrize(
    "text",
    [
        "pass p changes what the graph computes, at its firing 3: rule a.b (x y.rules:4), by the case f.c (z:1), is wrong on\n"
        "%0 = A\nfor which it gives\n%0 = B",
        "pass p changes what the kernel computes, at one of its firings 2 to 5; between them the interpreter cannot run "
        "the graph; rules: a.b, c.d",
    ],
)
def test_what_a_run_says_is_read_back(text: str) -> None:
    found = read_blame(f"Traceback:\nrulegrad.errors.RewriteError: {text}\n")
    assert found is not None and f"pass {found.in_pass} changes what the " in text
    assert str(found) == text.split("computes, ")[1]
    assert read_blame("all is well") is None
