"""The tool `mutate`: the mutants of a small rule file, of which it is known who survives."""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from rulegrad.__main__ import main
from rulegrad.config import config
from rulegrad.errors import RuleError
from rulegrad.workbench.mutation import running
from rulegrad.workbench.mutation.verdicts import UNREACHED
from rulegrad.workbench.tools import mutate

MINE = """limit few: positive = 3
    unit "elements"
    doc "elements that are few"
target two:
    has ADD MUL
    dtypes int32 int16
    limit few 2
def next(c) = c + 1
ruleset mine:
    tight: x:int32 * 7 -> x * 6 + x
        test x:int32 * 7 -> x * 6 + x
        test fails x:int64 * 7
    loose: x:int16 * 7 -> x * 6 + x
        test x:int16 * 7 -> x * 6 + x
    guarded: x:int32 % c:const -> x - x // c * c
        if c > 4 and c > 3
        test x:int32 % 9 -> x - x // 9 * 9
        test fails x:int64 % 9
    fired: x:int64 * c:const -> x * {c - 1} + x
        if c > 0
        test fires x:int64 * 9
        test fails x:int64 * 0
        test fails x:int32 * 9
    by_limit: x:int32 + c:const -> x + {limit("few")} + {c - limit("few")}
        if c > 100
        test on two x:int32 + 101 -> x + 2 + 99
        test fails x:int32 + 100
        test fails x:int64 + 101
    by_definition: x:int32 << c:const -> (x << 1) << {next(c) - 2}
        if next(c) == 5
        test x:int32 << 4 -> (x << 1) << 3
        test fails x:int64 << 4
function depth(n) else 0:
    negative: depth(-x) -> {depth(x) + 1}
        test depth(-x:int32) -> {1}
    never: depth(ABS(x)) -> {depth(x) + 2}
"""
#: What no line of MINE notices: by the rule, what is there and what takes its place.
SURVIVING = {
    "mine.loose": {("x:int16", "x")},
    "mine.guarded": {
        ("if c > 4 and c > 3", ""),
        ("c > 4", ""),
        (">", ">="),
        ("4", "5"),
        ("4", "3"),
        ("and", "or"),
    },
    "mine.fired": {("0", "1")},
    "mine.by_definition": {("if next(c) == 5", "")},
    "depth.never": {("ABS", "EXPM1"), ("ABS", "ROUND"), ("+", "-"), ("2", "3"), ("2", "1")},
}
#: What makes no difference on any instance: after c > 4, that c > 3 says nothing.
SAME = {"mine.guarded": {("c > 3", ""), (">", ">="), ("3", "4"), ("3", "2")}}


SMALL = """ruleset small:
    loose: x:int16 * 7 -> x * 6 + x
        test x:int16 * 7 -> x * 6 + x
"""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[str]:
    """A rule file of one's own; after the test ours alone are in force."""
    path = tmp_path / "small.rules"
    path.write_text(SMALL)
    with config():
        yield str(path)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The output of `mutate --json` for MINE."""
    path = tmp_path_factory.mktemp("rules") / "mine.rules"
    path.write_text(MINE)
    printed = io.StringIO()
    with config(), redirect_stdout(printed):
        assert main(["mutate", "--json", "--jobs", "2", str(path)]) == 1
    yield json.loads(printed.getvalue())


def tried(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The output of `mutate --json`."""
    main(["mutate", "--json", "--jobs", "1", *arguments])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def changes(found: dict[str, Any], kind: str) -> dict[str, set[tuple[str, str]]]:
    """The changes with a verdict, by rule."""
    result: dict[str, set[tuple[str, str]]] = {}
    for one in found["tried"]:
        if one["kind"] == kind:
            result.setdefault(one["rule"], set()).add((one["before"], one["after"]))
    return result


def test_exactly_these_mutants_survive(found: dict[str, Any]) -> None:
    assert changes(found, "survives") == SURVIVING
    assert changes(found, "same") == SAME
    assert found["surviving"] == sum(map(len, SURVIVING.values())) and found["same"] == 4
    assert found["noticed"] == found["mutants"] - found["surviving"] - found["same"] == found["by"]["test"]
    assert {one["by"] for one in found["tried"] if one["rule"] == "depth.never"} == {UNREACHED}


def test_what_notices_a_mutant_is_named(found: dict[str, Any]) -> None:
    by = {(one["rule"], one["before"], one["after"]): one["by"] for one in found["tried"]}
    line = {text.strip(): number for number, text in enumerate(MINE.splitlines(), 1)}
    assert by["mine.tight", "x:int32", "x"].endswith(f":{line['test fails x:int64 * 7']}")
    # a line for a target, with the limit that it says
    assert by["mine.by_limit", "c > 100", "100 > c"].endswith(f":{line['test on two x:int32 + 101 -> x + 2 + 99']}")
    # a line `test fires`: what comes out computes something else
    assert by["mine.fired", "c - 1", "1 - c"].endswith(f":{line['test fires x:int64 * 9']}")
    # a definition has no lines: a rule that uses it has
    assert by["next", "+", "-"].endswith(f":{line['test x:int32 << 4 -> (x << 1) << 3']}")


def test_text_and_exit_status(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutate", small, "--jobs", "1"]) == 1
    printed = capsys.readouterr().out
    assert "small.rules:2:12: small.loose: `x:int16` becomes `x`\n        loose: x:int16 * 7 -> x * 6 + x\n" in printed
    assert "               ^^^^^^^\n    no test line notices that it differs on MUL(" in printed
    assert "8 mutants: 7 noticed (7 by test lines), 0 the same" in printed.splitlines()[-1]
    assert "1 survive (12.5% of those that are not the same)" in printed.splitlines()[-1]


@pytest.mark.long_run
def test_a_share_may_survive_and_a_sample_is_drawn(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutate", small, "--json", "--jobs", "2", "--allowed", "0.5", "--most", "4", "--seed", "1"]) == 0
    first = json.loads(capsys.readouterr().out)
    again, other = (tried(capsys, small, "--most", "4", "--seed", seed) for seed in ("1", "2"))
    assert first["tried"] == again["tried"] != other["tried"]
    assert (first["mutants"], first["of"]) == (4, 8)


def test_our_rules(capsys: pytest.CaptureFixture[str]) -> None:
    found = tried(capsys, "where_simplification.always", "booleans.and_true")
    assert {one["rule"] for one in found["tried"]} == {"where_simplification.always", "booleans.and_true"}
    assert Counter(one["kind"] for one in found["tried"])["test"] >= 4


def test_a_whole_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rules of a pass that looks at the whole graph are tried with it."""
    path = tmp_path / "whole.rules"
    path.write_text(
        "pass bounds collect:\n    fact least(x) = n min: x + n:const\n"
        "    lowered: x:int32 + c:const -> x + {least(x) + 1}\n        if c > least(x)\n"
        "        test SINK((x:int32 + 3) * (x + 5)) -> SINK((x + 3) * (x + 4))\n"
    )
    found = tried(capsys, str(path))
    kinds = {(one["before"], one["after"]): one["kind"] for one in found["tried"]}
    assert kinds["1", "2"] == kinds["+", "-"] == kinds[">", ">="] == "test", kinds
    assert kinds["x:int32", "x"] == "survives"


def test_proofs_notice_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("z3")
    path = tmp_path / "proved.rules"
    path.write_text(
        "ruleset proved:\n    small: x:int8 * c:const -> x\n        if c == 1\n        test x:int8 * 1 -> x\n"
    )
    found = tried(capsys, str(path), "--prove")
    assert ("if c == 1", "") in changes(found, "proof")["proved.small"]


def test_a_line_that_fails_as_it_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would notice every mutant."""
    path = tmp_path / "wrong.rules"
    path.write_text(SMALL + "        test x:int16 * 8 -> x\n")
    with config():
        assert main(["mutate", str(path), "--jobs", "1"]) == 1
    said = capsys.readouterr().err
    assert "wrong.rules:4: a test line of small.loose fails before anything is changed: it does not fire" in said


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(RuleError, match="`nowhere`"):
        mutate.main(["nowhere"])


@pytest.mark.long_run
def test_a_process_that_ends(small: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A mutant that takes its process with it is noticed, and the others are tried as ever."""
    usual = running.verdicts

    def ending(bench: Any, subject: Any, mutants: Any) -> Any:
        if any(mutant.change.after == "8" for mutant in mutants):
            os._exit(3)
        return usual(bench, subject, mutants)

    monkeypatch.setattr(running, "verdicts", ending)
    found = tried(capsys, small)
    assert changes(found, "survives") == {"small.loose": {("x:int16", "x")}}
    assert [one["by"] for one in found["tried"] if one["after"] == "8"] == ["it does not end, or ends the process"]
