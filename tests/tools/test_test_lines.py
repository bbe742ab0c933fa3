"""`python -m rulegrad test`: test lines of our rules and of users' files, and `check`, which runs them too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rulegrad.__main__ import main
from rulegrad.config import config
from rulegrad.errors import RuleError
from rulegrad.workbench.tools import check, test

MINE = """extern pure greatest(a: int, b: int) -> int = "builtins.max"
    test greatest(3, 4) -> 4
    test greatest(3, 5) -> 4
ruleset algebra:
    seven: x:int32 * 7 -> x * 6 + x
        test x:int32 * 7 -> x * 6 + x
        test x:int32 * 8 -> x * 6 + x
        test fails x:int32 * 7
        test x:int32 * 7 -> x * 7
    larger: x:int16 * c:const -> x * {greatest(c, 4)}
        test x:int16 * 3 -> x * 4
    without: x:int8 * 11 -> x * 10 + x
"""
WITH_AN_OP = """op SQUARE(a: T) -> T where T: Float
    class Elementwise Unary
    eval a * a
ruleset algebra:
    sign: SQUARE(-x) -> SQUARE(x)
        test SQUARE(-x:float32) -> SQUARE(x)
        test SQUARE(-x:float32) -> x
"""


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "mine.rules"
    path.write_text(MINE, encoding="utf-8")
    with config(externs=1):
        yield path


FOR_TARGETS = """target small:
    has     ADD MUL
    dtypes  float32 int32
    limit   unroll_last 4
    row     factors 3
target small + wide:
    limit   unroll_last 8
target adder:
    has     ADD
    dtypes  float32 int32
table factors(n: int)
ruleset mine:
    lanes: x:int32 + 0 -> x * {limit("unroll_last")}
        unsound "a rule for a test"
        test on small x:int32 + 0 -> x * 4
        test on small + wide x:int32 + 0 -> x * 8
        test on adder x:int32 + 0 -> x * 4
    rows: x:int32 * c:const -> x * {f.n} * {c // f.n}
        for f in factors
        if c > 3 and c % f.n == 0
        test on small fires x:int32 * 6
        test on small fails x:int32 * 7
        test on adder fails x:int32 * 6
        test fires x:int32 * 6
    wrong: ABS(x:int32) -> x
        test on small fires ABS(x:int32)
    product: x:int32 - y -> x + y * -1
        needs has(MUL)
        test on adder fires x:int32 - y:int32
        test on adder fails x:int32 * y:int32
"""
KERNELS = """use kernel/ranges: output_loop, reduce_loop
ruleset mine:
    kernel: SINK(END(STORE(p, REDUCE[op=ADD](x, k)), i)) -> SINK(END(STORE(p, REDUCE[op=ADD](subst(x, k -> r), r)), i))
        let r = RANGE[..k, id=9](CONST[index](PLACE))
        test fires SINK(END(
            STORE(INDEX(c:float32[2], output_loop(1, 2)),
                REDUCE[op=ADD](LOAD(INDEX(a:float32[2, 3], output_loop(1, 2), reduce_loop(2, 3))), reduce_loop(2, 3))),
            output_loop(1, 2)))
"""


def test_lines_for_a_target(tmp_path: Path) -> None:
    """A line is for a target's limits, rows and features; a rule that the target lacks is not a line's subject."""
    path = tmp_path / "mine.rules"
    path.write_text(FOR_TARGETS, encoding="utf-8")
    lines = FOR_TARGETS.splitlines()
    lacks = "is about a rule that the target adder does not have: it lacks what the rule needs"
    found = {lines[d.span.line - 1].strip(): d.message for d in test.tried([], [path]).failing}
    assert {
        line: message.partition(": it ")[2] or message.partition("values: ")[2] for line, message in found.items()
    } == {
        "test on adder x:int32 + 0 -> x * 4": "gives something else",
        "test fires x:int32 * 6": "does not fire on",
        "test on small fires ABS(x:int32)": "the rule's result gives -1, not 1 for the values -1",
        "test on adder fires x:int32 - y:int32": lacks,
        "test on adder fails x:int32 * y:int32": lacks,
    }


@pytest.mark.parametrize(("extent", "holds"), [("3", True), ("2", False)])
def test_kernels_are_compared_by_the_interpreter(extent: str, holds: bool, tmp_path: Path) -> None:
    path = tmp_path / "mine.rules"
    path.write_text(KERNELS.replace("PLACE", extent), encoding="utf-8")
    messages = [d.message for d in test.tried([], [path]).failing]
    assert messages == [] if holds else "fails on values: the rule's result computes" in messages[0]


def test_lines_of_a_users_file(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(mine)]) == 1
    text = capsys.readouterr().out
    assert f"{mine}:3:5: error[failing-test]: the test of extern.greatest fails: it gives something else" in text
    assert (
        f"{mine}:7:9: error[failing-test]: the test of algebra.seven fails: it does not fire on\n"
        "            test x:int32 * 8 -> x * 6 + x\n"
        "            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "    note: %0 = PARAM[slot=500, shape=(), offset=0]:int32()\n"
        "          %1 = CONST[value=8]:int32()\n"
    ) in text
    assert f"{mine}:8:9: " in text and f"{mine}:9:9: " in text
    differs = "the test of algebra.larger fails on values: its right side gives "
    assert f"{mine}:11:9: error[failing-test]: {differs}" in text
    assert text.endswith("2 of 7 test lines of 4 rules hold; 1 rules have none\n")


def test_json(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--json", str(mine), "algebra.zero"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["rules"], found["failed"], found["without"]) == (5, 5, ["algebra.without"])
    assert [d["line"] for d in found["diagnostics"]] == [3, 7, 8, 9, 11]


def test_ours_by_name_and_by_file(capsys: pytest.CaptureFixture[str]) -> None:
    rules = Path(__file__).parents[2] / "rules" / "kernel" / "booleans.rules"
    for arguments in (["where_simplification"], ["algebra.zero"], [str(rules)]):
        assert main(["test", *arguments]) == 0
        held, _, of, *_ = capsys.readouterr().out.split()
        assert held == of != "0"
    with pytest.raises(RuleError, match="`nowhere`"):
        test.main(["nowhere"])


def test_a_file_that_declares_an_op(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "square.rules"
    path.write_text(WITH_AN_OP, encoding="utf-8")
    assert main(["test", str(path)]) == 1
    text = capsys.readouterr().out
    assert f"{path}:7:9: error[failing-test]" in text and text.endswith("1 of 2 test lines of 1 rules hold\n")


def test_check_runs_them(mine: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "analyse", lambda *_: [])  # it takes long, and has its own tests
    assert check.main(["--json", str(mine)]) == 1
    found = [d for d in json.loads(capsys.readouterr().out)["diagnostics"] if d["code"] == "failing-test"]
    assert [d["line"] for d in found] == [3, 7, 8, 9, 11]
