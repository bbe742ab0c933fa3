"""Modules: what a rule file keeps for itself, what it exports, what it takes from others; names that two files have."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rulegrad import UOp, engine, load_rules, rewrite
from rulegrad.errors import RuleError
from rulegrad.lang.checker import check
from rulegrad.lang.diagnostics import Diagnostic, report
from rulegrad.lang.merging import merge
from rulegrad.lang.modules import module_name, own_names, plain, resolved, used_module
from rulegrad.lang.parser import parse_file
from rulegrad.lang.syntax import Pass
from rulegrad.workbench.formatter import format_text

ROOT = Path(__file__).parents[2]
OPS = ("rules/ops/ops.rules", (ROOT / "rules/ops/ops.rules").read_text(encoding="utf-8"))
LANES = """
export def halved(n) = doubled(n) // 4
def doubled(n) = n * 2
export function leaves(n):
    none:  leaves(n@_) -> {1}
        if len(srcs(n)) == 0
        test leaves(x:int32) -> {1}
    other: leaves(n@_) -> {total([leaves(s) for s in srcs(n)])}
        fallback
        test leaves(x:int32 + 1) -> {2}
"""
Write = Callable[[str, str], Path]


def problems(files: dict[str, str], user: tuple[str, ...] = ()) -> list[Diagnostic]:
    """The checker's diagnostics of files beside the op table."""
    parsed = resolved([parse_file(text, path) for path, text in [OPS, *files.items()]])
    return check(merge(parsed, frozenset(user)))


def codes(files: dict[str, str]) -> list[tuple[str, int, str]]:
    return [(d.span.file, d.span.line, d.code) for d in problems(files)]


def using(lines: str, template: str) -> str:
    return f"{lines}\nruleset r:\n    a: x:int32 + 0 -> {template}\n        test x:int32 + 0 -> {template}\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def made(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return made


# ---- private and exported ----


def test_what_is_exported_can_be_used() -> None:
    assert codes({"rules/loops/lanes.rules": LANES, "mine.rules": using("use loops/lanes: halved", "halved(x)")}) == [
        ("rules/loops/lanes.rules", 4, "unused-export")
    ]


def test_a_name_is_not_taken_without_use() -> None:
    (problem,) = (
        d for d in problems({"rules/loops/lanes.rules": LANES, "mine.rules": using("", "halved(x)")}) if d.is_error
    )
    assert (problem.code, problem.span.file) == ("missing-use", "mine.rules")
    assert problem.hint == "`halved` is exported by loops/lanes: add `use loops/lanes: halved`"
    assert report([problem]).split("\n")[1:3] == [
        "    a: x:int32 + 0 -> halved(x)",
        "                      ^^^^^^",
    ] or ("^^^^^^" in report([problem]) and "^^^^^^^" not in report([problem]))


@pytest.mark.parametrize(
    ("lines", "called", "code", "hint"),
    [
        ("", "doubled(x)", "missing-use", "`doubled` of loops/lanes is private to that file"),
        ("use loops/lanes: doubled", "doubled(x)", "private-name", "write `export` before its declaration there"),
        ("use loops/lanes: halve", "halve(x)", "private-name", "did you mean `halved`?"),
        ("use loops/lane: halved", "halved(x)", "unknown-file", "did you mean `loops/lanes`?"),
        ("", "halvd(x)", "unknown-function", "did you mean `halved`?"),
    ],
)
def test_what_cannot_be_taken(lines: str, called: str, code: str, hint: str) -> None:
    found = problems({"rules/loops/lanes.rules": LANES, "mine.rules": using(lines, called)})
    errors = [d for d in found if d.is_error]
    assert {(d.code, d.span.file) for d in errors} == {(code, "mine.rules")}
    assert errors[0].hint.startswith(hint)


def test_a_name_of_another_file() -> None:
    other = "export def doubled(n) = n * 2\n"
    files = {"rules/loops/lanes.rules": LANES, "rules/loops/other.rules": other}
    found = problems(
        {**files, "rules/loops/here.rules": using("use loops/lanes: tripled, leaves", "tripled(leaves(x))")}
    )
    assert "loops/lanes declares no `tripled`" in [d.message for d in found]
    files["rules/loops/other.rules"] = other.replace("doubled", "tripled")
    found = problems({**files, "rules/loops/here.rules": using("use loops/lanes: tripled", "tripled(x)")})
    assert ("private-name", "loops/other exports it") in [(d.code, d.hint) for d in found]


def test_a_rule_set_needs_no_use() -> None:
    sums = "ruleset sums:\n    none: x:int32 - 0 -> x\n        test x:int32 - 0 -> x\n"
    files = {"rules/kernel/sums.rules": sums, "mine.rules": using("use kernel/sums: sums", "x")}
    found = [d for d in problems(files) if d.is_error]
    assert [(d.code, d.hint) for d in found] == [("private-name", "leave it out: its name needs no `use`")]


def test_a_use_that_is_not_needed() -> None:
    text = using("use loops/lanes: halved, leaves", "halved(x)")
    found = [d for d in problems({"rules/loops/lanes.rules": LANES, "mine.rules": text}) if d.span.file == "mine.rules"]
    assert [(d.code, d.message, d.is_error) for d in found] == [("unused-use", "`leaves` is not needed here", False)]
    assert found[0].span.column == text.index("leaves")


@pytest.mark.parametrize(
    "lines",
    [
        "use loops/lanes: halved, halved",
        "use loops/lanes: halved\ndef halved(n) = n",
        "use loops/lanes: halved\npass p collect:\n    fact halved(n) count: n@NEG(_)",
    ],
)
def test_a_name_that_is_taken_is_not_declared_again(lines: str) -> None:
    found = codes({"rules/loops/lanes.rules": LANES, "mine.rules": using(lines, "halved(x)")})
    assert ("mine.rules", 1, "duplicate-declaration") in found


def test_relative_paths() -> None:
    assert module_name("rules/loops/lanes.rules") == "loops/lanes"
    file = parse_file("use ../math/power: f\nuse ./lanes: g\nuse math/power: h\n", "rules/loops/rows.rules")
    assert [used_module(file, use) for use in file.uses] == ["math/power", "loops/lanes", "math/power"]
    mine = {"folder/a.rules": "export def one(n) = n * 1\n", "folder/b.rules": using("use ./a: one", "one(x)")}
    assert codes(mine) == []


def test_files_do_not_use_each_other_in_turn() -> None:
    files = {
        "rules/a.rules": "use b: g\nexport def f(n) = g(n)\n",
        "rules/b.rules": "use c: h\nexport def g(n) = h(n)\n",
        "rules/c.rules": "use a: f\nexport def h(n) = n if n == 0 else f(n)\n",
    }
    found = [d for d in problems(files) if d.code == "cyclic-use"]
    assert [(d.span.file, d.span.line) for d in found] == [("rules/a.rules", 1)]
    assert found[0].message == "rule files use each other: a -> b -> c -> a"


# ---- names that two files have ----


def test_two_files_have_a_function_of_one_name() -> None:
    """Views, functions, definitions and facts of one file are nothing to the other."""
    text = using("def doubled(n) = n * 16\nfunction leaves(n, k):\n    any: leaves(n@_, k) -> {k}", "doubled(x)")
    assert [d for d in problems({"rules/loops/lanes.rules": LANES, "mine.rules": text}) if d.is_error] == []
    files = resolved([parse_file(LANES, "rules/loops/lanes.rules"), parse_file(text, "mine.rules")])
    assert list(own_names(files[0])) == ["halved", "doubled", "leaves"]
    assert list(own_names(files[1])) == ["doubled@2", "leaves@2"]
    assert [plain(name) for name in own_names(files[1])] == ["doubled", "leaves"]


def test_a_fact_of_one_file_is_no_function_of_the_other() -> None:
    text = """
pass counted collect:
    fact doubled(n) count: n@NEG(_)
    more: n@NEG(x) -> x
        if doubled(n) > 1
        test fails -x:float32
"""
    assert [d for d in problems({"rules/loops/lanes.rules": LANES, "mine.rules": text}) if d.is_error] == []


def test_a_users_names_are_not_ours(write: Write) -> None:
    """The file has a `padded`, a `lanes_with_rest` and a view `scaled` of its own; ours go on to mean what they mean."""
    path = write(
        "mine.rules",
        """
def padded(x, by) = x + by
function split_factor(n, most):
    any: split_factor(n@_, most) -> {most + 1}
        test split_factor(x:float32, 3) -> {4}
view scaled(t, k):
    ABS(t) with k = 5
    t with k = 1
pass own_names rewrite walk:
    padded: scaled(x, k) -> {padded(split_factor(x, k), 0)} * x
        if k == 5
        test ABS(x:float32) -> 6.0 * x
""",
    )
    x = UOp("PARAM", (), "float32", slot=0, shape=())
    before = engine.rules()
    with load_rules(path):
        assert rewrite(UOp("ABS", (x,)), "own_names") == x * 6.0
        assert set(before) <= set(engine.rules())
        # those of index arithmetic read a sum by our view
        i = UOp("PARAM", (), "index", slot=0, shape=())
        assert rewrite((i * 4) // 2, "symbolic") == i * 2
    with pytest.raises(RuleError, match="lanes_with_rest"):
        load_rules(write("wrong.rules", using("", "lanes_with_rest(8, 4)")))


def test_an_error_stands_in_the_users_file(write: Write) -> None:
    path = write("mine.rules", "function split_factor(n):\n    any: split_factor(n@_) -> {nothing(n)}\n")
    with pytest.raises(RuleError) as caught:
        load_rules(path)
    assert {d.span.file for d in caught.value.diagnostics} == {str(path)}
    assert "@" not in str(caught.value).replace("n@_", "")


# ---- extension ----


def test_a_function_of_ours_is_extended_by_use(write: Write) -> None:
    text = """
function weight_of(n):
    any: weight_of(n@_) -> {leaves(n)}
        test weight_of(x:float32 + 1) -> {2}
"""
    ours = {"rules/loops/lanes.rules": LANES}
    extension = "use loops/lanes: leaves\nfunction leaves(n):\n    no: leaves(NEG(_)) -> {0}\n        test leaves(-x:int32) -> {0}\n"
    parsed = resolved([parse_file(t, p) for p, t in [OPS, *ours.items(), ("mine.rules", extension)]])
    merged = merge(parsed, frozenset(["mine.rules"]))
    (function,) = (d for file in merged for name, d in own_names(file).items() if name == "leaves")
    assert [rule.name for rule in function.rules] == ["no", "none", "other"]  # type: ignore[union-attr]
    assert [d for d in check(merged) if d.is_error or d.code == "unused-use"] == []
    path = write(
        "mine.rules",
        "use tensor/batching: level\n"
        + extension.split("\n", 1)[1].replace("leaves", "level")
        + text.replace("leaves", "level").replace("{2}", "{0}"),
    )
    with load_rules(path):
        assert "level.no" in engine.rules() and "weight_of.any" in engine.rules()


def test_a_choose_pass_has_actions_in_several_files() -> None:
    """One of them says the cost; a head without one that continues nothing is an error."""
    cost = "function size_of(n):\n    any: size_of(n@_) -> {leaves(n)}\n        test size_of(x:int32) -> {0}\n"
    first = f"use loops/lanes: leaves\n{cost}pass smaller choose best:\n    cost size_of\n    zero: x + 0 -> x\n        test x:int32 + 0 -> x\n"
    second = "pass smaller choose best:\n    one: x * 1 -> x\n        test x:int32 * 1 -> x\n"
    ours = {"rules/loops/lanes.rules": LANES, "rules/first.rules": first, "rules/a.rules": second}
    parsed = resolved([parse_file(t, p) for p, t in [OPS, *ours.items()]])
    merged = merge(parsed, frozenset())
    (smaller,) = (d for file in merged for d in file.declarations if isinstance(d, Pass))
    assert [(rule.name, rule.span.file) for rule in smaller.rules] == [
        ("zero", "rules/first.rules"),
        ("one", "rules/a.rules"),
    ]  # type: ignore[union-attr]
    alone = [parse_file(t, p) for p, t in [OPS, ("rules/a.rules", second)]]
    assert [d.code for d in check(merge(resolved(alone), frozenset())) if d.is_error] == ["missing-cost"]


# ---- our own files ----


def test_every_export_of_ours_is_used() -> None:
    """By our rules, or by a user's file of the repository: an example, a benchmark."""
    paths = [path for folder in ("rules", "backends", "examples", "bench") for path in (ROOT / folder).rglob("*.rules")]
    files = [parse_file(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()) for path in paths]
    used = {(used_module(file, use), name) for file in files for use in file.uses for name, _ in use.names}
    for path in (ROOT / "tests").rglob("*.py"):  # rule text in tests
        for module, names in re.findall(r"\buse ([\w/]+): ([\w, ]+)", path.read_text(encoding="utf-8")):
            used |= {(module, name) for name in names.split(", ")}
    exports = {(module_name(file.path), name) for file in files for name in file.exports}
    assert exports - used == set()


# ---- form ----


def test_the_form_of_use_lines() -> None:
    text = "use  kernel / ranges :loop,  flat # for rows\nuse ../a-b/c: x\nexport  def one(n)=n*1\n"
    assert format_text(text) == (
        "use kernel/ranges: loop, flat  # for rows\nuse ../a-b/c: x\nexport def one(n) = n * 1\n"
    )
    long = "use kernel/ranges: " + ", ".join(f"a_long_name_{k}" for k in range(12)) + "\n"
    assert format_text(format_text(long)) == format_text(long) and "\n    a_long_name" in format_text(long)


def test_a_function_that_was_meant_to_extend_another() -> None:
    mine = "function leaves(n):\n    more: leaves(NEG(_)) -> {3}\n        test leaves(-x:int32) -> {3}\n"
    files = {"rules/loops/lanes.rules": LANES, "mine.rules": mine}
    (found,) = [d for d in problems(files) if d.span.file == "mine.rules"]
    assert (found.code, found.is_error, found.span.line) == ("unused-function", True, 1)
    assert found.hint == "add `use loops/lanes: leaves` to add rules to that one"
    for text in (f"use loops/lanes: leaves\n{mine}", mine + using("", "x * {leaves(x)}")):
        there = problems({**files, "mine.rules": text}, ("mine.rules",))
        assert [d for d in there if d.span.file == "mine.rules"] == []
