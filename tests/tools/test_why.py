"""`python -m rulegrad why`: where the graph comes from, what is printed, exit statuses, wrong usage."""

from __future__ import annotations

import io
import json
import textwrap
from pathlib import Path

import pytest

from rulegrad import UOp
from rulegrad.__main__ import main
from rulegrad.engine import LoadedRules

LOOP = UOp("RANGE", (UOp.const(100, "index"),), id=0, kind="output")
NESTED = ((LOOP * 1) // 3 + 1) // 4
NODE = f"%{NESTED.count_nodes() - 1}"


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "graph.txt"
    path.write_text(str(NESTED), encoding="utf-8")
    return str(path)


def test_a_graph_in_a_file(graph: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["why", "index_division.nested", "--at", NODE, "--pass", "symbolic", "--graph", graph, "--most", "1"])
    printed = capsys.readouterr()
    assert status == 1 and not printed.err
    head, _, blank, at, message, place, source, carets, *_ = printed.out.split("\n")
    assert head.startswith("index_division.nested (rules/kernel/index_arithmetic.rules:") and head.endswith(
        " does not fire there"
    )
    assert blank == ""
    assert at.startswith("at %8, by then FLOORDIV(ADD(FLOORDIV(%1, 3), 1), 4) in pass symbolic:")
    assert message == "  source 0 is ADD(FLOORDIV(%1, 3), 1), not FLOORDIV"
    assert place.startswith("    rules/kernel/index_arithmetic.rules:")
    assert source[carets.index("^") : carets.rindex("^") + 1] == "x:index // a:const"


def test_a_graph_on_the_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(str((LOOP // 3) // 4)))
    assert main(["why", "index_division.nested", "--pass", "symbolic", "--show"]) == 0
    printed = capsys.readouterr().out
    assert "it fires at step 1 and gives FLOORDIV(%1, 12)" in printed
    assert f"\ngraph 1:\n{(LOOP // 3) // 4}" in printed


def test_json(graph: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "index_division.nested", "--pass", "symbolic", "--graph", graph, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["rule"], found["status"], found["fires"]) == ("index_division.nested", "does not fire", False)
    answer = found["answers"][0]
    assert answer["names"] and answer["passes"] == ["symbolic"] and answer["part"] == "pattern"
    assert answer["spot"]["source"].strip().startswith("nested:")
    assert found["graphs"] == {"1": str(NESTED)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nested", "--graph", "GRAPH", "--at", "%99"], "no node is called %99"),
        (["nesetd", "--graph", "GRAPH"], "no rule is called `nesetd`; did you mean `nested`?"),
        (["nested", "--graph", "GRAPH", "--pass", "symbolc"], "no pass is called `symbolc`; did you mean `symbolic`?"),
        (["nested", "--graph", "GRAPH", "--target", "vulkan"], "no target is called `vulkan`"),
        (["nested", "--graph", "GRAPH.none"], "GRAPH.none cannot be read"),
        (["nested", "--graph", "WRONG"], "WRONG is not a graph: line 1: expected `%name = OP"),
        (["render_opencl.item", "--graph", "GRAPH"], "which does not rewrite"),
    ],
)
def test_wrong_usage(
    graph: str, tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("ADD 1 2", encoding="utf-8")
    names = {"GRAPH": graph, "WRONG": str(wrong)}

    def named(text: str) -> str:
        for name, path in names.items():
            text = text.replace(name, path)
        return text

    assert main(["why", *map(named, arguments)]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("rulegrad why: ") and named(message) in printed.err and not printed.out


@pytest.mark.parametrize("arguments", [[], ["nested", "--most", "x"], ["nested", "--graph", "g", "script.py"]])
def test_the_usage_is_printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["why", *arguments])
    assert end.value.code == 2
    assert (
        "usage: python -m rulegrad why [options] {RULE | --fusion NODE | --schedule KERNEL} [SCRIPT argument ...]"
        in capsys.readouterr().err
    )


# ---- scripts ----


def script(folder: Path, text: str) -> str:
    path = folder / "script.py"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return str(path)


def test_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script(
        tmp_path,
        """
        import sys
        from rulegrad import Tensor
        print("arguments", *sys.argv[1:])
        (Tensor([[1.0, 2.0]] * 3).sum(1) * 3).realize()
        """,
    )
    assert main(["why", "materialize.result", "--most", "1", path, "--at", "7"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("arguments --at 7\nmaterialize.result (rules/schedule/fusion.rules:")
    assert "fires in pass materialize" in printed and "it fires at step 1 and gives SINK(MATERIALIZE(" in printed
    assert main(["why", "materialize.result", "--json", path]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["fires"] and captured.err.startswith("arguments")


def test_a_rule_that_is_also_tried_inside_a_pass_of_another_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script(tmp_path, "from rulegrad import Tensor\n((Tensor([1, 2], device='c') + 0) * 2).realize()")
    assert main(["why", "algebra.zero", "--most", "1", path]) == 0
    assert "it fires at step 1 and gives %" in capsys.readouterr().out
    assert main(["why", "index_division.nested", path]) == 1
    assert "no node has an op that its pattern starts with, FLOORDIV" in capsys.readouterr().out


def test_checked_indices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Checked indices in a gather, which reads the last element instead, and in a scatter, which writes nothing."""
    path = script(
        tmp_path,
        """
        from rulegrad import Tensor
        x, i = (Tensor(values, device="c") for values in ([1.0, 2.0, 5.0], [2, 1]))
        x[i].realize()
        x.index_add(0, i, x[:2]).realize()
        """,
    )
    for rule, made in (("inside", "gives BITCAST(MIN(BITCAST("), ("gate", "gives CMPLE(BITCAST(")):
        assert main(["why", f"checks.{rule}", path]) == 0
        assert made in capsys.readouterr().out


def test_a_script_that_compiles_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "materialize.result", script(tmp_path, "print(1)")]) == 1
    assert "was not tried: no graph went through materialize" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "script.py:1: ZeroDivisionError: division by zero"),
        ("def f(", "script.py:1: SyntaxError: '(' was never closed"),
        ("raise SystemExit('enough')", "script.py ended with the status enough"),
    ],
)
def test_a_script_that_fails(tmp_path: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "materialize.result", script(tmp_path, text)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("rulegrad why: the script failed: ") and message in error and "Traceback" not in error


def test_a_script_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "materialize.result", "missing.py"]) == 2
    assert "missing.py cannot be read" in capsys.readouterr().err


def test_the_graph_of_a_pass_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = tmp_path / "endless.rules"
    rules.write_text(
        "ruleset endless:\n    there: SUB(x, y) -> SUB(y, x)\npass endless rewrite children_first: endless\n",
        encoding="utf-8",
    )
    path = script(
        tmp_path,
        f"""
        from rulegrad import UOp, load_rules, rewrite
        load_rules({str(rules)!r})
        a, b = (UOp("BUFFER", (), "int32", id=k, shape=()) for k in range(2))
        rewrite(a - b, "endless")
        """,
    )
    try:
        assert main(["why", "endless.there", path]) == 0
    finally:
        LoadedRules([rules]).unload()
    printed = capsys.readouterr()
    assert "RewriteError" in printed.err and "does not end" in printed.err
    assert "endless.there" in printed.out and "it fires at step 1" in printed.out
