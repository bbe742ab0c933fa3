"""The benchmark of kernels beside the machine's limits: a run on two small rows, and its parts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import schedule
from limits import Level, Limits
from rulegrad.runtime.backends import backend
from schedule_cases import Case, Work, cases
from schedule_columns import ColumnError, _prepare
from schedule_libraries import Library, Prepared, Recipes, difference

SCRIPT = Path(schedule.__file__)


@pytest.mark.long_run
def test_a_run_on_two_rows(tmp_path: Path) -> None:
    if backend("c").module.compilers.find() is None:
        pytest.skip("no C compiler was found")
    path = tmp_path / "found.json"
    pattern = "^(vector x matrix 768x768|matmul 16x128x1024)$"
    command = [
        sys.executable,
        str(SCRIPT),
        "--quick",
        "--rows",
        pattern,
        "--devices",
        "c,none:0",
        "--plan",
        "--threads",
        "1",
    ]
    done = subprocess.run([*command, "--json", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "none:0 is left out" in done.stderr
    found = json.loads(path.read_text())
    assert [row["name"] for row in found["rows"]] == ["vector x matrix 768x768", "matmul 16x128x1024"]
    for row in found["rows"]:
        cell = row["columns"]["c"]
        assert row["operations"] > 0 and row["bytes"] > 0 and row["limit"] > 0
        assert cell["turns"] >= 2 and 0 < cell["least"] <= cell["quartile"]
        assert cell["kernels"] == 1 and cell["estimate"] > 0 and cell["share"] > 0
    limits = found["limits"]
    assert limits["threads"] == 1 and limits["all"]["float32"] > 0 and limits["launch"] > 0
    assert limits["levels"][-1]["name"] == "memory" and all(level["read"] > 0 for level in limits["levels"])
    lines = done.stdout.splitlines()
    assert len([line for line in lines if line.startswith("| ") and " / " in line]) == 2


def test_a_pattern_without_rows_is_told() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--rows", "none such"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "no row's name has 'none such'\n")


def test_rows_have_names_of_their_own() -> None:
    names = [case.name for case in cases()]
    assert len(set(names)) == len(names)
    assert sum(case.quick for case in cases()) >= 5


class Constant(Library):
    """A library whose only result is known."""

    def __init__(self, value: float) -> None:
        self.value = value

    def prepare(self, case: Case, with_plan: bool) -> Prepared:
        return Prepared([np.full((2, 3), self.value, np.float32)], 0.5)


def test_results_are_compared_with_the_first(tmp_path: Path) -> None:
    case = Case("a row", lambda library: Work(lambda: None))
    request = {"results": str(tmp_path / "0.npz"), "plan": False}
    assert _prepare(Constant(2.0), case, request)["seconds"] == 0.5
    assert "error" not in _prepare(Constant(2.0001), case, request)
    assert _prepare(Constant(2.01), case, request) == {"error": "wrong: differs by 5.0e-03"}


def test_what_is_wrong_is_not_timed() -> None:
    class Wrong:
        name, is_ours = "ours", True

        def ask(self, **request: Any) -> dict[str, Any]:
            assert request["do"] == "prepare"
            raise ColumnError("wrong: differs by 5.0e-03")

    column: Any = Wrong()
    options = SimpleNamespace(plan=False, quick=True, seconds=0.1, threads=2)
    case = Case("a row", lambda library: Work(lambda: None))
    table = schedule.measured([case], [column], options)  # type: ignore[arg-type]
    cell = table["a row"]["ours"]
    assert cell.times == [] and schedule.in_cell(cell, 1.0) == "wrong"


def test_difference() -> None:
    one = np.array([1.0, -4.0])
    assert difference([one], [one]) == 0
    assert difference([one], [np.array([1.0, -2.0])]) == 1.0
    assert difference([one], [one[:1]]) == difference([one], []) == np.inf
    assert difference([np.array([1.0, np.nan])], [one]) == np.inf
    assert difference([np.zeros(2)], [np.zeros(2)]) == 0


def test_rank_correlation() -> None:
    assert schedule.rank_correlation([(1.0, 10.0), (2.0, 30.0), (9.0, 31.0)]) == pytest.approx(1)
    assert schedule.rank_correlation([(1.0, 10.0), (2.0, 3.0), (9.0, 1.0)]) == pytest.approx(-1)


def test_limits_of_a_row() -> None:
    levels = [Level("L1", 10, 1, 4, 1, 4), Level("L2", 100, 1, 2, 1, 1), Level("memory", 400, 1, 1, 1, 0.5)]
    limits = Limits(2, {"float32": 5, "int8": 20}, {"float32": 10, "int8": 40}, levels, 0.1)
    assert limits.seconds(1e9, "float32", 0, 0) == limits.seconds(4e9, "int8", 0, 0) == pytest.approx(0.1)
    assert limits.seconds(1e9, "bfloat16", 0, 0) == pytest.approx(0.1)  # as float32
    assert limits.seconds(0, "float32", 80, 10) == pytest.approx(45e-9)  # mostly read
    assert limits.seconds(0, "float32", 40, 50) == pytest.approx(90e-9)
    assert limits.seconds(0, "float32", 100, 100) == pytest.approx(400e-9)  # more than any level has
    assert limits.better(Limits(2, {"float32": 6, "int8": 2}, limits.all, levels, 0.2)).one == {
        "float32": 6,
        "int8": 20,
    }
    limits.has_amx = True
    assert limits.seconds(1e9, "int8", 0, 0) is None


RECIPES = """
import numpy as np

class Result:
    def __init__(self, array): self.array = array
    def detach(self): return self
    float = detach
    def numpy(self): return self.array

def library(source, compiler, *defines, threads):
    assert (source, compiler, defines, threads) == ("a.c", "gcc", ("-DX",), 2)
    return 3.0

def cases(families):
    for name in ("right", "wrong"):
        out = np.zeros(2)
        def make(library, out=out): return lambda: out.fill(library)
        expected = Result(np.full((1, 2), 3.0 if name == "right" else 4.0))
        yield families[0], name, 1, "GFLOP/s", "a.c", ["-DX"], make, lambda e=expected: e, [out], 1e-5
"""


def test_recipes(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(RECIPES)
    recipes = Recipes(tmp_path, "gcc", 2)

    def prepared(name: str) -> Prepared:
        return recipes.prepare(Case(name, lambda library: Work(lambda: None)), False)

    assert prepared("right").results == [] and recipes.turn() > 0
    with pytest.raises(ArithmeticError, match=r"wrong by 2\.5e-01"):
        prepared("wrong")
    with pytest.raises(LookupError):
        prepared("another")
