"""What ops declare about themselves is compared with their `eval` lines: by `check`, and by `prove` of a user's file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rulegrad import engine
from rulegrad.__main__ import main
from rulegrad.workbench.analysis import op_values
from rulegrad.workbench.analysis.findings import Findings
from rulegrad.workbench.analysis.op_facts import check_op_facts

FALSE = """class ClampedInt = int8 + uint8 + int32
op ADD_CLAMPED(a: T, b: T) -> T where T: ClampedInt
    class     Elementwise Binary Associative
    flags     commutative
    identity  1
    eval      min(max(a + b, dtype_min()), dtype_max())
    interval  max(lo(a) + lo(b), dtype_min()) .. min(hi(a) + hi(b), dtype_max()) - 1
op TAKE(a: T, b: T) -> T where T: Float
    class     Elementwise Binary
    flags     commutative idempotent
    eval      a - b
op MEAN_OF(a: T, b: T) -> T where T: Float
    class     Elementwise Binary Reduction
    flags     commutative
    identity  0
    eval      (a + b) / 2.0
op TURNED(a: T) -> T where T: Number
    class     Elementwise Identity
    eval      -a
op IS_SMALL[bound: int](a: T) -> bool where T: Int
    class     Elementwise
    eval      a < 8
    interval  hi(a) < 7 .. lo(a) < 7
op MEETS(a: T, b: T) -> T where T: Signed
    class     Elementwise Binary Associative Idempotent
    flags     commutative associative idempotent
    identity  dtype_max()
    eval      min(a, b)
    interval  min(lo(a), lo(b)) .. min(hi(a), hi(b))
op SUM_OF(a: T, b: T) -> T where T: Scalar
    class     Elementwise Binary Reduction
    flags     commutative associative
    identity  0
    eval      a + b
    interval  lo(a) + lo(b) .. hi(a) + hi(b)
"""
WANTED = [
    (3, "ADD_CLAMPED: it is not associative"),
    (5, "ADD_CLAMPED: its identity is false"),
    (7, "ADD_CLAMPED: its interval is false"),
    (10, "TAKE: it is not commutative"),
    (10, "TAKE: it is not idempotent"),
    (13, "MEAN_OF: it is not associative"),
    (15, "MEAN_OF: its identity is false"),
    (18, "TURNED: it is not its first source"),
    (23, "IS_SMALL: its interval is false"),
]


def ran(tool: str, path: Path, *options: str) -> list[dict[str, object]]:
    """What a tool says of a file, as data: in a process of its own, in which its ops are in force."""
    command = [sys.executable, "-m", "rulegrad", tool, "--json", *options, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    found = json.loads(ended.stdout)
    return found["diagnostics"] if tool == "check" else found


@pytest.fixture(scope="module")
def false_ops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ops") / "false.rules"
    path.write_text(FALSE)
    return path


def test_check_finds_each_false_line(false_ops: Path) -> None:
    found = [d for d in ran("check", false_ops, "--target", "c") if d["code"] == "false-fact"]
    assert [(d["line"], str(d["message"]).rsplit(": for ")[0].split(": a = ")[0]) for d in found] == WANTED
    text = " ".join(str(d["message"]) for d in found)
    assert "TAKE(x, y) is -1.0, TAKE(y, x) 1.0" in text and "MEAN_OF(0.0, x)" not in text
    assert "a = 7 (int8, bool) gives True; where a is in 7 .." in text and "the line gives 0 .. 0" in text


def test_prove_relies_on_no_false_line(false_ops: Path) -> None:
    """A proof by a law that does not hold is none: the exit status says so, whatever the rules are."""
    found = ran("prove", false_ops, "--jobs", "1")
    assert {d["kind"] for d in found} == {"failed"}
    assert [d["location"] for d in found] == [f"{false_ops}:{line}" for line, _ in WANTED]
    assert found[0]["name"] == "op ADD_CLAMPED"


def test_our_ops_are_as_they_say() -> None:
    """All of them: `check` without files, which tests/tools/test_check.py runs. Here some of each kind."""
    engine.install_op_table()
    files = engine.loaded().sources.files
    findings = Findings(files)
    check_op_facts(findings, files, frozenset(("ADD", "MAX", "AND", "FLOORMOD", "CMPNE", "ABS", "INSIDE")))
    assert findings.diagnostics == []


MANY_SOURCES = """op MANY_LARGEST(a: T, b: T, c: T, d: U, e: U, f: U, g: T, h: T) -> T where T: Int, U: Int
    class     Elementwise
    eval      max(a, b, c, g) + 0 * h
    interval  lo(a) .. max(hi(a), hi(b), hi(c)) - 1
op MANY_FIRST(a: T, b: T, c: T, d: T, e: T, f: T, g: T, h: T) -> T where T: Int
    class     Elementwise Identity
    eval      a
    interval  lo(a) .. hi(a)
op MANY_BOOLS({bools}) -> bool
    class     Elementwise
    eval      a and r
    interval  0 .. 0
""".replace("{bools}", ", ".join(f"{name}: bool" for name in "abcdefghijklmnopqr"))


CHECKED = """op ALONG_AXES[axes: ints](a: int32) -> int32
    class     Elementwise
    eval      a
    check     len(axes) > 0 "axes"
    interval  lo(a) .. hi(a) - 1
op IN_EIGHTS[by: int](a: int32) -> int32
    class     Elementwise
    eval      a
    check     by == 8 "by"
    interval  lo(a) .. hi(a) - 1
"""


def test_ops_whose_attributes_are_checked(tmp_path: Path) -> None:
    """Values are found for them, of which the `check` of the op approves."""
    path = tmp_path / "checked.rules"
    path.write_text(CHECKED)
    found = [d for d in ran("check", path, "--target", "c") if d["code"] == "false-fact"]
    assert [d["line"] for d in found] == [5, 10]


def test_ops_of_many_sources(tmp_path: Path) -> None:
    """Of all combinations of their values, which are too many, some are tried."""
    path = tmp_path / "many.rules"
    path.write_text(MANY_SOURCES)
    found = [d for d in ran("check", path, "--target", "c") if d["code"] == "false-fact"]
    assert [d["line"] for d in found] == [4, 12]


def test_values_that_are_tried() -> None:
    assert len(op_values.values_of("int8")) == len(op_values.values_of("uint8")) == 256
    assert op_values.values_of("bool").tolist() == [False, True]
    for dtype in ("int16", "uint64", "int64", "index"):
        values = op_values.values_of(dtype)
        assert [int(values[0]), int(values[-1])] == list(op_values.ends(dtype)) and np.all(values[1:] > values[:-1])
    assert np.isnan(op_values.values_of("float16")).any() and np.isinf(op_values.values_of("bfloat16")).any()
    assert np.isfinite(op_values.values_of("complex64")).all()


def test_equal_values() -> None:
    nan, one = np.array([np.nan, 1.0, 0.0]), np.array([np.nan, 1.25, -0.0])
    assert op_values.same(nan, one).tolist() == [True, False, True]
    assert op_values.same(nan, one, 0.5).all()


def test_a_file_without_ops_is_not_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.rules"
    path.write_text("ruleset mine:\n    twice: x:Int + x -> x * 2\n        test x:int32 + x -> x * 2\n")
    assert main(["check", "--target", "c", str(path)]) == 0, capsys.readouterr().out
