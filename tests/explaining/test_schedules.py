"""`python -m rulegrad why --schedule`: the schedule of a kernel, the candidates, and what stopped other tactics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rulegrad import Tensor, config, engine, profile
from rulegrad.__main__ import main
from rulegrad.compile import forget_kernels
from rulegrad.errors import RewriteError

SCRIPT = """
from rulegrad import Tensor
x = Tensor([[float(i * j) for j in range(64)] for i in range(64)], device="c")
x.sum(1).realize()
(x + 1).realize()
"""
# Schedules for two kernels: one by its pattern, one that the tactics would not give.
MINE = """
pass choose_schedule choose best:
    sums: k@SINK(END(STORE(_, REDUCE[op=ADD](_, j)), i)) -> SCHEDULED[estimate=0, tactic="sums"](k,
            steps {split k0 by 32; unroll k0.inner; bind i0 to thread})
        if shape(i) == () and value(src(j, 0)) == 64
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return str(path)


def steps_of(text: str) -> list[str]:
    """The lines of the first kernel's steps."""
    lines = text.split("\n")[1:]
    return [line.strip() for line in lines[: lines.index("  candidates:")]]


def test_all_kernels_of_a_script(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--schedule", script]) == 0
    first, second = capsys.readouterr().out.split("\n\n")
    assert first.startswith("reduce_64_64_") and " by rows:\n" in first and "map_64x64_" in second
    assert "bind i0 to thread" in steps_of(first) and any(step.startswith("vectorize k0") for step in steps_of(first))
    assert "  choose_schedule.rows (rules/loops/tactics/rows.rules:" in first and ", taken\n" in first
    assert "choose_schedule.columns (rules/loops/tactics/rows.rules:" in first.partition("do not apply:")[2]
    assert "is false" in first and "^^^" in first


def test_one_kernel_as_json(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--schedule", "reduce_64", "--json", script]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["kernel"].startswith("reduce_64_64_") and found["schedule"].startswith("rows: ")
    taken = [one for one in found["candidates"] if one["taken"]]
    assert [one["schedule"] for one in taken] == [found["schedule"]]
    assert {"choose_schedule.columns", "choose_schedule.product"} <= {one["rule"] for one in found["refusals"]}


def test_a_name_that_no_kernel_has(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--schedule", "reduce_65", script]) == 2
    assert "no kernel reduce_65; its kernels are: reduce_64_64_" in capsys.readouterr().err


def test_a_graph_of_a_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rulegrad.workbench.explaining.schedules import ScheduleRecording

    with ScheduleRecording() as recording:
        (Tensor([[1.0, 2.0]] * 3, device="c") + 1).realize()
    ((run, _),) = recording.chosen
    path = tmp_path / "graph.txt"
    path.write_text(str(run.before), encoding="utf-8")
    assert main(["why", "--schedule", "it", "--graph", str(path), "--target", str(run.target)]) == 0
    assert capsys.readouterr().out.startswith(f"the graph for {run.target}: ")


def sums() -> str:
    """The schedule of a kernel that adds up rows, as DEBUG=2 shows it; its result is checked."""
    forget_kernels()
    with profile() as seen:
        result = Tensor([[float(j) for j in range(64)]] * 8, device="c").sum(1).tolist()
    assert result == [2016.0] * 8
    (kernel,) = [kernel for kernel in seen.kernels if kernel.name.startswith("reduce")]
    assert kernel.schedule in str(kernel)
    return kernel.schedule


def test_a_rule_of_a_user_fixes_a_schedule(tmp_path: Path) -> None:
    path = tmp_path / "mine.rules"
    path.write_text(MINE, encoding="utf-8")
    assert sums().startswith("rows: ")
    with engine.load_rules(path):
        assert sums() == "sums: split k0 by 32; unroll k0.inner; bind i0 to thread"
    assert sums().startswith("rows: ")


def test_a_step_that_does_not_apply_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.rules"
    path.write_text(MINE.replace("split k0 by 32;", "split i0 by 4; split k0 by 10;"), encoding="utf-8")
    problem = "`split k0 by 10` does not apply to the kernel reduce_8"
    with engine.load_rules(path), pytest.raises(RewriteError, match=problem):
        sums()


def test_a_tactic_is_forbidden(tmp_path: Path) -> None:
    path = tmp_path / "mine.rules"
    path.write_text("off choose_schedule.rows", encoding="utf-8")
    with engine.load_rules(path):
        assert not sums().startswith("rows: ")
    with config(rules_off=["choose_schedule.rows"]):
        assert not sums().startswith("rows: ")


def test_a_line_of_debug_2(capsys: pytest.CaptureFixture[str]) -> None:
    with config(debug=2):
        (Tensor([1.0, 2.0] * 40, device="c") * 3).realize()
        (Tensor([1.0, 2.0], device="numpy") * 3).realize()
    compiled, interpreted = [line for line in capsys.readouterr().err.splitlines() if line.startswith("***")]
    assert "  elementwise: " in compiled and ": " not in interpreted.partition("GB/s")[2].replace(".py:", "")
