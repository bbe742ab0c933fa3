"""`python -m rulegrad trace`: what it runs, prints and returns."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rulegrad import UOp
from rulegrad.__main__ import main
from rulegrad.workbench.tracing import FORMAT

SCRIPT = """
import sys
from rulegrad import Tensor
print("arguments", *sys.argv[1:])
total = (Tensor([1.0, 2.0], device="numpy") * 2).sum()
print("total", total.item())
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(SCRIPT)
    return str(path)


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "graph.txt"
    path.write_text(str((UOp("RANGE", (UOp.const(4, "index"),), id=0, kind="output") + 0) * 1))
    return str(path)


def test_a_script(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = list(sys.argv), list(sys.path)
    assert main(["trace", script, "--limit", "x"]) == 0  # what follows the script is the script's
    assert (sys.argv, sys.path) == before
    output = capsys.readouterr().out
    assert "arguments --limit x" in output and "total 6.0" in output
    assert "program.py:5  total = (Tensor([1.0, 2.0]" in output and "\x1b" not in output


def test_json_is_alone_on_the_output(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "--json", script]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["format"] == FORMAT and "total 6.0" in captured.err


def test_a_graph(graph: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "--graph", graph, "--pass", "symbolic"]) == 0
    assert "algebra.zero" in capsys.readouterr().out


def test_rules_and_limits(graph: str, capsys: pytest.CaptureFixture[str]) -> None:
    choice = ["trace", "--graph", graph, "--pass", "symbolic"]
    assert main([*choice, "--rule", "one"]) == 0
    output = capsys.readouterr().out
    assert "algebra.one" in output and "algebra.zero" not in output
    assert main([*choice, "--limit", "1"]) == 0
    output = capsys.readouterr().out
    assert "algebra.zero" in output and "algebra.one" not in output
    assert main([*choice, "--rule", "nobody"]) == 1
    assert "no rule that fired is called nobody" in capsys.readouterr().err


def test_a_timeline(script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "--timeline", str(tmp_path / "timeline.json"), script]) == 0
    events = json.loads((tmp_path / "timeline.json").read_text(encoding="utf-8"))["traceEvents"]
    lanes = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"passes", "numpy"} <= set(lanes.values())
    indexing = next(event for event in events if event["name"] == "indexing")
    launch = next(event for event in events if event["ph"] == "X" and lanes[event["tid"]] == "numpy")
    assert indexing["ts"] < launch["ts"] and indexing["args"]["kernel"] == launch["name"]


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("raise SystemExit(3)", 3, ""),
        ("raise SystemExit", 0, ""),
        ("raise SystemExit('stopped')", 1, "stopped"),
        ("1 / 0", 1, "ZeroDivisionError"),
    ],
)
def test_scripts_that_end_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, status: int, message: str
) -> None:
    path = tmp_path / "program.py"
    path.write_text(text)
    assert main(["trace", str(path)]) == status
    captured = capsys.readouterr()
    assert message in captured.err and "0 firings" in captured.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a script, or --graph FILE --pass PASS"),
        (["--graph", __file__], "--graph needs --pass"),
        (["--graph", __file__, "--pass", "symbolic", __file__], "give a script, or"),
        (["nowhere.py"], "there is no file nowhere.py"),
        (["--limit", "0", __file__], "--limit"),
        (["--json", "--html", "x.html", __file__], "not allowed with"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["trace", *arguments])
    assert end.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("no graph", "symbolic", "line 1: expected"),
        ("%0 = CONST[value=4]:index()", "nobody", "no pass is called nobody"),
    ],
)
def test_graphs_that_cannot_be_traced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, name: str, message: str
) -> None:
    path = tmp_path / "graph.txt"
    path.write_text(text)
    assert main(["trace", "--graph", str(path), "--pass", name]) == 1
    assert message in capsys.readouterr().err


def test_a_file_that_cannot_be_written(graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(tmp_path / "nowhere" / "timeline.json")
    assert main(["trace", "--graph", graph, "--pass", "symbolic", "--timeline", place]) == 1
    assert "the trace cannot be written" in capsys.readouterr().err
