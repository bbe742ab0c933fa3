"""Each diagnostic has a small file that it is found in, and its message beside it.

After a message has been changed on purpose, write the `.expected` files anew:

    python tests/lang/test_diagnostics.py
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rulegrad.engine import install_op_table
from rulegrad.errors import RuleError
from rulegrad.lang.checker import check
from rulegrad.lang.diagnostics import CODES, Diagnostic, did_you_mean, misspelled, report
from rulegrad.lang.parser import parse_file
from rulegrad.lang.syntax import File, Span
from rulegrad.workbench.analysis import analyse

HERE = Path(__file__).parent
RULES = HERE.parents[1] / "rules"
PASS = sorted((HERE / "pass").glob("*.rules"))
FAIL = sorted((HERE / "fail").glob("*.rules"))
NOTES = {"possible-loop", "not-joined"}
# found by the analyses of `rulegrad check`; other examples would only have them say more
ANALYSED = {
    *("dtype-changed", "shape-changed", "failing-template", "same-rule", "shadowed-rule", "rules-disagree"),
    *("never-matches", "child-rewritten", "rule-loop", "costly-pattern", "no-lowering", "uncovered-op"),
    *("values-differ", "incomplete-target", *NOTES),
}
# found by the compiler, or in several files: see their own tests
NOT_HERE = {
    "cannot-compile",
    "false-fact",
    "conflicting-files",
    "failing-test",
    "missing-use",
    "unused-use",
    "unused-export",
    "unused-function",
}


def base() -> list[File]:
    """The op table and the limits, beside which each example is checked."""
    return [
        parse_file((RULES / name).read_text(encoding="utf-8"), name) for name in ("ops/ops.rules", "ops/limits.rules")
    ]


def diagnostics_of(path: Path) -> list[Diagnostic]:
    """The problems of a file beside the op table: the parser's, else the checker's, else (of their own examples) the analyses'."""
    try:
        file = parse_file(path.read_text(encoding="utf-8"), path.name)
    except RuleError as error:
        return list(error.diagnostics)
    files = [*base(), file]
    found = check(files) or (analyse(files, notes=path.stem in NOTES) if path.stem in ANALYSED else [])
    return [d for d in found if d.span.file == path.name]


@pytest.fixture(autouse=True)
def _whole_op_table() -> None:
    """The first table that is installed stays, and tests of other files need more than the ops of the examples."""
    install_op_table()


@pytest.mark.parametrize("path", PASS, ids=lambda path: path.stem)
def test_pass(path: Path) -> None:
    assert report(diagnostics_of(path)) == ""


@pytest.mark.parametrize("path", FAIL, ids=lambda path: path.stem)
def test_fail(path: Path) -> None:
    expected = path.with_suffix(".expected").read_text(encoding="utf-8")
    assert report(diagnostics_of(path)) + "\n" == expected


@pytest.mark.parametrize("code", sorted(CODES.keys() - NOT_HERE))
def test_every_code_has_an_example(code: str) -> None:
    path = HERE / "fail" / f"{code}.rules"
    assert code in {d.code for d in diagnostics_of(path)}


def test_the_op_table_is_clean() -> None:
    assert report(check(base())) == ""


def test_several_errors_at_once() -> None:
    text = "ruleset r:\n    a: x + -> x\n    b: x -> (y\n    c: x -> y z\n"
    with pytest.raises(RuleError) as caught:
        parse_file(text, "t.rules")
    assert [d.span.line for d in caught.value.diagnostics] == [2, 3, 4]
    assert "t.rules:2:12: error[expected]" in str(caught.value)


def test_a_diagnostic_shows_its_place() -> None:
    span = Span("a.rules", 3, 4, 3, 7)
    shown = str(Diagnostic("unknown-op", "there is no op `ADX`", span, "did you mean `ADD`?", ("so",), "x + ADX"))
    assert shown.split("\n") == [
        "a.rules:3:5: error[unknown-op]: there is no op `ADX`",
        "    x + ADX",
        "        ^^^",
        "    hint: did you mean `ADD`?",
        "    note: so",
    ]


def test_a_long_line_is_cut_around_the_carets() -> None:
    line = "a" * 500 + "BAD" + "b" * 500
    shown = str(Diagnostic("expected", "m", Span("f", 1, 500, 1, 503), source_line=line)).split("\n")
    start = shown[2].index("^")
    assert shown[1][start : start + 3] == "BAD"
    assert len(shown[1]) < 200


def test_unknown_codes_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown code"):
        Diagnostic("no-such-code", "m", Span("f", 1, 0, 1, 1))


def test_did_you_mean() -> None:
    assert did_you_mean("rnage", ["range", "const"]) == "did you mean `range`?"
    assert did_you_mean("add", ["ADD", "MUL"]) == "did you mean `ADD`?"
    assert did_you_mean("zzz", ["range"]) == ""


def test_names_that_are_very_likely_misspelled() -> None:
    """Others that are as near as a hint needs may be meant: they are no error."""
    dtypes, classes = ("bool", "index", "int8", "int32", "float32"), ("Elementwise", "Binary", "Reduction", "Level1")
    for name in ("float33", "foat32", "flaot32", "floatt32", "int9", "Float32"):
        assert misspelled(name, dtypes, numbers=True)
    for name in ("inner", "index_t", "outer", "into", "tool", "mid", "to"):
        assert not misspelled(name, dtypes, numbers=True)
    for name in ("Elementwize", "elementwise", "Bnary", "Reductoin"):
        assert misspelled(name, classes)
    for name in ("Reducing", "Trinary", "Comparisons", "Level2"):
        assert not misspelled(name, classes)


LIKE_OTHERS = """ruleset mine:
    a: CAST[outer](CAST[inner](x:int32)) -> CAST[outer](x)
        test CAST[int8](CAST[int16](x:int32)) -> CAST[int8](x)
op TURN(a: T) -> T where T: Int
    class    Elementwise Reducing Trinary Comparisons
    eval     -a
"""


def test_names_of_ones_own_may_be_like_others() -> None:
    table = (RULES / "ops" / "ops.rules").read_text(encoding="utf-8")
    found = check([parse_file(table, "ops.rules"), parse_file(LIKE_OTHERS, "like.rules")])
    assert [(d.span.line, d.code, d.is_error) for d in found if d.span.file == "like.rules"] == [
        (2, "unused-name", False)
    ]


if __name__ == "__main__":
    for failing in FAIL:
        failing.with_suffix(".expected").write_text(report(diagnostics_of(failing)) + "\n", encoding="utf-8")
