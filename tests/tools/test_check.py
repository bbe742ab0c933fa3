"""`python -m rulegrad check`: our own rules are clean, a user's problems are found, and the exit status says so."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rulegrad import config, engine
from rulegrad.__main__ import main
from rulegrad.engine.sources import our_files, our_sources
from rulegrad.lang.diagnostics import Diagnostic
from rulegrad.workbench.diagnosis.afresh import in_force_too_late
from rulegrad.workbench.rule_tests import Case, RuleTests
from rulegrad.workbench.tools import check


def test_our_rules_are_clean(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[Case] = []

    def lines(files: object, tests: object, cases: list[Case]) -> list[Diagnostic]:
        run.extend(cases)
        return []

    # every line is run, and on values, by tests/rules/test_rule_tests.py: here only that they would be
    monkeypatch.setattr(check, "failing", lines)
    status = main(["check"])
    assert capsys.readouterr().out == "no problems\n"
    assert status == 0
    assert [case.location for case in run] == [case.location for case in RuleTests(engine.loaded().sources.files).cases]


def test_one_of_our_files_is_no_users() -> None:
    """Not even where it declares ops, which a user's file has in force from the start."""
    (ops,) = [path for path in our_files() if path.name == "ops.rules"]
    assert not in_force_too_late([ops])
    with config(rules=[ops]):
        texts, user = check._texts([ops])
        assert user == frozenset() and [path for path, _ in texts] == [path for path, _ in our_sources().texts]
        files, found, mine = check.checked(texts, user, [ops])
    assert files and not found and [file.path for file in mine] == ["rules/ops/ops.rules"]


def test_a_users_file_for_one_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.rules"
    path.write_text(
        "ruleset algebra:\n    back: x:int32 + y * -1 -> x - y\n        test i:int32 + j:int32 * -1 -> i - j\n"
    )
    assert main(["check", "--json", "--target", "opencl", str(path)]) == 1
    found = json.loads(capsys.readouterr().out)["diagnostics"]
    loops = [d for d in found if d["code"] == "rule-loop"]
    assert loops and all("algebra.back" in d["message"] for d in loops)


def test_test_lines_have_what_their_target_goes_on_from(
    capsys: pytest.CaptureFixture[str], written: Callable[[str], Path]
) -> None:
    path = written(
        "target wider_c:\n    use c\n    limit occupancy 7\n"
        'def of_both() = [limit("occupancy"), limit("vector_bytes")]\n'
        "function known_of(x):\n    all: known_of(_) -> {of_both()}\n        test on wider_c known_of(x:float32) -> [7, 32]\n"
    )
    assert main(["check", str(path)]) == 0, capsys.readouterr().out


def test_a_users_file_with_an_op_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.rules"
    path.write_text(
        "op SQUARE(a: T) -> T where T: Float\n    class Elementwise Unary\n    eval a * a\n"
        "ruleset algebra:\n    sign: SQUARE(-x) -> SQUARE(x)\n        test SQUARE(-x:float32) -> SQUARE(x)\n"
    )
    assert main(["check", "--json", "--target", "opencl", str(path)]) == 1
    found = json.loads(capsys.readouterr().out)["diagnostics"]
    assert [d["code"] for d in found] == ["no-lowering"] and "SQUARE on float" in found[0]["message"]


def test_an_op_that_a_users_pass_lowers_before_kernels_are_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.rules"
    path.write_text(
        "op NIBBLE(a: T) -> T where T: Signed\n    class Elementwise Unary\n    eval min(max(a, -8), 7)\n"
        "pass nibble rewrite children_first:\n    lowered: NIBBLE(x) -> max(min(x, 7), -8)\n        essential\n"
        "        test NIBBLE(x:int8) -> max(min(x, 7), -8)\ninsert nibble before tensor in schedule\n"
    )
    status = main(["check", "--target", "c", str(path)])
    assert (status, capsys.readouterr().out) == (0, "no problems\n")


def test_mistakes_are_reported_without_the_analyses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.rules"
    path.write_text("ruleset mine:\n    wrong: x + -> x\n")
    assert main(["check", str(path)]) == 1
    text = capsys.readouterr().out
    assert "mine.rules:2:16: error[expected]" in text and text.endswith("1 errors, 0 warnings\n")


def test_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--costs", "--json"]) == 0
    table = {row["rule"]: row for row in json.loads(capsys.readouterr().out)["costs"]}
    assert table["booleans.contradiction"]["ways"] == table["booleans.contradiction"]["alternatives"] == 2


@pytest.mark.parametrize("arguments", [["no-such.rules"], ["--target", "nowhere"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *arguments]) == 2
    assert "no-such.rules" in (text := capsys.readouterr().err) or "nowhere" in text


WRONG = """ruleset algebra:
    gone: ABS(x) -> x
        test ABS(x:float32) -> x
    looped: x:int16 * 2 -> x + x
        test x:int16 * 2 -> x + x
    same: x:Int + 0 -> x
        test x:int32 + 0 -> x
op SCALE[factor: float, mode: str](a: T) -> T where T: Float
    class Elementwise Unary
    eval a
op UNSPELLED(a: T) -> T where T: Float
    class Elementwise Unary
    eval a * a
pass decompose_scale rewrite children_first:
    scale: SCALE(x) -> x
        unsound "for the tests"
        test SCALE[factor=2.5, mode="x"](x:float32) -> x
insert decompose_scale before symbolic in kernel
"""


def test_problems_of_a_users_file_stand_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong rule disagrees with many of ours, which is told once, where it stands."""
    path = tmp_path / "wrong.rules"
    path.write_text(WRONG, encoding="utf-8")
    assert main(["check", "--json", str(path)]) == 1
    found = json.loads(capsys.readouterr().out)["diagnostics"]
    assert {d["file"] for d in found} == {str(path)}
    wanted = [(2, "values-differ"), (3, "failing-test"), (4, "rule-loop"), (6, "same-rule"), (11, "no-lowering")]
    assert [(d["line"], d["code"]) for d in found] == wanted


def test_misspelled_words_of_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "target.rules"
    path.write_text(
        "target opencl:\n    limit launh 100\n    flag slow_mth\n"
        "target opnecl:\n    limit occupancy 7\n"
        "ruleset algebra:\n    a: x:int32 * 7 -> x * 6 + x\n"
        '        if limit("unrol_last") > 3\n        needs flag(fussed)\n        test fails x:int32 * 8\n',
        encoding="utf-8",
    )
    assert main(["check", "--json", str(path)]) == 1
    found = [(d["line"], d["code"], d["hint"]) for d in json.loads(capsys.readouterr().out)["diagnostics"]]
    assert found[:4] == [
        (2, "unknown-flag", "did you mean `launch`?"),
        (3, "unknown-flag", "did you mean `slow_math`?"),
        (4, "unknown-target", "did you mean `opencl`?"),
        (8, "unknown-flag", "did you mean `unroll_last`?"),
    ]
    assert found[4][:2] == (9, "unknown-flag") and "`flag fussed`" in found[4][2]


def test_without_z3(tmp_path: Path) -> None:
    """Proofs need it, and are an extra: these commands do without."""
    rules = tmp_path / "mine.rules"
    rules.write_text(
        "ruleset algebra:\n    twice: x:Int + x -> x * 2\n        test x:int32 + x -> x * 2\n", encoding="utf-8"
    )
    code = (
        "import sys; sys.modules['z3'] = None; from rulegrad.__main__ import main\n"
        f"print([main([tool, {str(rules)!r}]) for tool in ('check', 'test')])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stdout == "no problems\n1 of 1 test lines of 1 rules hold\n[0, 0]\n"
    assert (ended.returncode, ended.stderr) == (0, "")
