"""A user's rule files: what they add, replace, switch off and insert; where they come from; where they disagree."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rulegrad import UOp, config, engine, load_rules, rewrite
from rulegrad.engine.sources import Sources
from rulegrad.errors import ConfigError, RuleError

Write = Callable[[str, str], Path]
X = UOp("PARAM", (), "float32", slot=0, shape=())
ONE_MORE = """
pass one_more rewrite walk:
    more: NEG(x:float32) -> x
        test -x:float32 -> x
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def made(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return made


def problems(*paths: Path) -> list[tuple[str, str]]:
    with pytest.raises(RuleError) as caught:
        load_rules(*paths)
    assert all(d.notes for d in caught.value.diagnostics if d.code == "conflicting-files")
    return [(d.code, d.message) for d in caught.value.diagnostics]


def test_a_rule_is_switched_off(write: Write) -> None:
    product = X * 1.0
    assert rewrite(product, "symbolic") == X
    with load_rules(write("off.rules", "off algebra.one, algebra.times_zero\n")):
        assert "algebra.one" not in engine.rules()
        assert rewrite(product, "symbolic") == product
    assert rewrite(product, "symbolic") == X


def test_steps_are_put_in_and_taken_out(write: Write) -> None:
    before = engine.pipeline("kernel")
    first = write(
        "first.rules", ONE_MORE + "insert one_more before symbolic in kernel\nremove insert_loads from kernel\n"
    )
    second = write(
        "second.rules", "insert materialize after one_more in kernel\ninsert tensor after gating in kernel\n"
    )
    with load_rules(first, second):
        steps = [step for step in before if step != "insert_loads"]
        place = steps.index("symbolic")
        wanted = [*steps[:place], "one_more", "materialize", *steps[place:]]
        wanted.insert(wanted.index("gating") + 1, "tensor")
        assert list(engine.pipeline("kernel")) == wanted
    assert engine.pipeline("kernel") == before


def test_a_file_may_put_several_passes_at_one_place(write: Write) -> None:
    text = "insert materialize before symbolic in kernel\ninsert tensor before symbolic in kernel\nremove symbolic from kernel\n"
    with load_rules(write("several.rules", text)):
        steps = engine.pipeline("kernel")
        assert steps.index("materialize") + 1 == steps.index("tensor") and "symbolic" not in steps


def test_an_inserted_pass_runs(write: Write) -> None:
    from rulegrad import Tensor

    text = ONE_MORE + "insert one_more before indexing in kernel\n"
    with load_rules(write("wrong_on_purpose.rules", text)):
        assert (-Tensor([1.0, 2.0], device="numpy")).tolist() == [1.0, 2.0]
    assert (-Tensor([1.0, 2.0], device="numpy")).tolist() == [-1.0, -2.0]


def test_a_pass_gains_what_is_said_of_it(write: Write) -> None:
    text = 'pass render_opencl render:\n    prefix LOAD "read"\npass linearize order:\n    priority LOAD -3\n'
    with load_rules(write("passes.rules", text)):
        passes = {d.name: d for d in engine.loaded().sources.declarations() if hasattr(d, "prefixes")}
        assert dict(passes["render_opencl"].prefixes)["LOAD"] == "read"
        assert {p.op: p.value for p in passes["linearize"].priorities}["LOAD"] == -3


def test_a_pass_of_another_kind_is_no_extension(write: Write) -> None:
    text = "pass symbolic rewrite walk:\n    same: x:float32 + 0 -> x\n        test x:float32 + 0 -> x\n"
    assert problems(write("kind.rules", text)) == [("duplicate-declaration", "`symbolic` is declared already")]


def test_a_fact_that_is_gathered_in_two_places(write: Write) -> None:
    text = (
        "pass counted collect:\n    fact place(n) number: n@NEG(_)\n    fact place(n) number: n@EXP(_)\n"
        "    first: n@NEG(x:float32) -> x\n        if place(n) == 0\n        test -x:float32 -> x\n"
    )
    with load_rules(write("facts.rules", text)):
        assert rewrite(UOp("EXP", (-X,)), "counted") == UOp("EXP", (X,))
        assert not engine.rules()["counted.place"].optional


# ---- files that disagree ----

ZERO = "ruleset algebra:\n    my_rule: x:float32 {} 3 -> x\n        test y:float32 {} 3 -> y\n"


def test_files_that_agree(write: Write) -> None:
    one, two = write("a.rules", ZERO.format("+", "+")), write("b.rules", "# the same\n" + ZERO.format("+", "+"))
    with load_rules(one, two):
        assert "algebra.my_rule" in engine.rules()


def test_two_definitions_of_a_rule(write: Write) -> None:
    one, two = write("a.rules", ZERO.format("+", "+")), write("b.rules", ZERO.format("-", "-"))
    with pytest.raises(RuleError) as caught:
        load_rules(one, two)
    (problem,) = caught.value.diagnostics
    assert problem.code == "conflicting-files"
    assert str(two) in str(problem) and f"{one}:2:5" in problem.notes[0]
    message = "`algebra.my_rule` is defined here and elsewhere, in different ways"
    assert problem.message == message
    assert "algebra.my_rule" not in engine.rules()


def test_off_and_defined(write: Write) -> None:
    text = "ruleset algebra:\n    one: x:float32 * 1 -> x\n        test y:float32 * 1 -> y\n"
    found = problems(write("a.rules", text), write("b.rules", "off algebra.one\n"))
    assert found == [("conflicting-files", "`algebra.one` is switched off here, but defined elsewhere")]


def test_two_insertions_at_one_place(write: Write) -> None:
    one = write("a.rules", "insert materialize before symbolic in kernel\n")
    two = write("b.rules", "insert tensor after expand_random in kernel\n")
    message = "a place of `kernel` is given to `tensor` here, but given to `materialize` elsewhere"
    assert problems(one, two) == [("conflicting-files", message)]


def test_a_step_that_one_takes_out_and_the_other_needs(write: Write) -> None:
    one = write("a.rules", "remove symbolic from kernel\n")
    two = write("b.rules", "insert tensor after symbolic in kernel\n")
    message = "the step `symbolic` of `kernel` is the place of an insertion here, but taken out elsewhere"
    assert problems(one, two) == [("conflicting-files", message)]


def test_two_texts_of_a_prefix(write: Write) -> None:
    text = 'pass render_opencl render:\n    prefix LOAD "{}"\n'
    found = problems(write("a.rules", text.format("a")), write("b.rules", text.format("b")))
    message = "`prefix LOAD` of pass `render_opencl` is defined here and elsewhere, in different ways"
    assert found == [("conflicting-files", message)]


def test_essential_rules_stay(write: Write) -> None:
    essential = next(name for name, facts in engine.rules().items() if facts.essential and facts.kind == "rule")
    found = problems(write("a.rules", f"off {essential}, gradient.add\n"))
    assert [code for code, _ in found] == ["essential-rule", "essential-rule"]


# ---- where files come from ----


def test_the_setting(write: Write, tmp_path: Path) -> None:
    path = write("mine.rules", ZERO.format("+", "+"))
    with config(rules=[path]):
        assert "algebra.my_rule" in engine.rules()
        assert rewrite(X + 3.0, "symbolic") == X
    assert rewrite(X + 3.0, "symbolic") == X + 3.0
    with pytest.raises(ConfigError, match=r"setting rules is .*missing\.rules does not exist"):
        config(rules=[tmp_path / "missing.rules"])


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program with further environment variables."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )


def test_the_environment(write: Write, tmp_path: Path) -> None:
    paths = [write("a.rules", ZERO.format("+", "+")), write("b.rules", ONE_MORE)]
    code = "from rulegrad import engine; print('algebra.my_rule' in engine.rules(), 'one_more.more' in engine.rules())"
    done = python(code, RULEGRAD_RULES=os.pathsep.join(map(str, paths)))
    assert done.stdout.split() == ["True", "True"], done.stderr
    done = python(code, RULEGRAD_RULES=str(tmp_path / "gone.rules"))
    assert "ConfigError: environment variable RULEGRAD_RULES is" in done.stderr
    assert "gone.rules does not exist, or is not a file" in done.stderr


def package(folder: Path, points: str, **files: str) -> Path:
    """A distribution with one package, as an installer leaves them in a folder of sys.path."""
    (folder / "their_package").mkdir()
    for name, text in files.items():
        (folder / "their_package" / name.replace("__", ".")).write_text(text, encoding="utf-8")
    (folder / "their_package" / "__init__.py").write_text("def found():\n    return [__path__[0] + '/b.rules']\n")
    metadata = folder / "their_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(points)
    return folder


@pytest.mark.parametrize("value", ["their_package", "their_package:a.rules", "their_package:found"])
def test_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    points = f"[rulegrad.rules]\nlaws = {value}\n"
    rules = ZERO.format("+", "+")
    monkeypatch.syspath_prepend(package(tmp_path, points, a__rules=rules, b__rules=rules.replace(" 3", " 4")))
    monkeypatch.delitem(sys.modules, "their_package", raising=False)
    if value == "their_package":  # a.rules and b.rules disagree
        with pytest.raises(RuleError, match="conflicting-files"):
            engine.forget(), engine.rules()
    else:
        engine.forget()
        assert rewrite(X + (4.0 if value.endswith("found") else 3.0), "symbolic") == X
    assert ("their_package" in sys.modules) == value.endswith("found")
    monkeypatch.undo()
    engine.forget()
    assert "algebra.my_rule" not in engine.rules()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("their_package:c.rules", r"gives .*c\.rules, which does not exist"),
        ("no_package_of_this_name", "there is no package 'no_package_of_this_name'"),
        ("their_package:missing", "AttributeError"),
    ],
)
def test_entry_points_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, message: str) -> None:
    monkeypatch.syspath_prepend(package(tmp_path, f"[rulegrad.rules]\nlaws = {value}\n"))
    monkeypatch.delitem(sys.modules, "their_package", raising=False)
    with pytest.raises(ConfigError, match=f"the entry point 'laws' of their-package .*{message}"):
        engine.forget(), engine.rules()
    monkeypatch.undo()
    engine.forget()


def test_without_entry_points_nothing_is_imported() -> None:
    done = python(
        "import sys; from rulegrad import UOp, rewrite; rewrite(UOp.const(1, 'int32') + 1, 'symbolic')\n"
        "print('importlib.metadata' in sys.modules)"
    )
    assert done.stdout.strip() == "False", done.stderr


def test_backends_by_entry_point(tmp_path: Path) -> None:
    device = "ONE_DEVICE = True\ndef discover():\n    raise NotImplementedError\n"
    folder = package(tmp_path, "[rulegrad.backends]\nb = their_package\n", device__py=device, their_package__rules="")
    code = f"""
import sys
sys.path.insert(0, {str(folder)!r})
from rulegrad.runtime.backends import all_backends
print([b.name for b in all_backends()], "their_package" in sys.modules)
"""
    done = python(code)
    assert "'numpy'" in done.stdout and done.stdout.strip().endswith("'their_package'] False"), done.stderr


OWN_OP = """
op TRIPLE(a: T) -> T where T: Int
    class     Elementwise Unary
    eval      a * 3
    interval  3 * lo(a) .. 3 * hi(a)
    doc       "three times a"
pass triples rewrite children_first:
    three: TRIPLE(x) -> x * 3
        test TRIPLE(i:int32) -> i * 3
"""


def test_a_file_with_an_op_of_its_own_has_to_be_named_before_the_program_starts(write: Write) -> None:
    path = write("triple.rules", OWN_OP)
    with pytest.raises(RuleError, match=r"triple\.rules:2: `TRIPLE` cannot be declared(.|\n)*RULEGRAD_RULES="):
        load_rules(path)
    assert str(rewrite(X + 0.0, "symbolic"))  # nothing has changed
    program = "from rulegrad import UOp, rewrite\nprint(rewrite(UOp('TRIPLE', (UOp.const(2, 'index'),)), 'triples').op)"
    environment = {**os.environ, "RULEGRAD_RULES": str(path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "MUL"), done.stderr


def test_a_file_that_is_not_utf8_says_where_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "latin.rules"
    path.write_bytes("# first\n# größer\n".encode("latin-1"))
    with pytest.raises(RuleError, match=r"latin\.rules:2:5: the byte 0xf6 is not UTF-8 .*; save the file as UTF-8"):
        load_rules(path)


def test_a_rule_that_one_file_has_twice(write: Write) -> None:
    rule = "    mine: x:int32 * {} -> x\n        test fails x:int32 * 8\n"
    twice = write("twice.rules", f"ruleset algebra:\n{rule.format(7)}ruleset algebra:\n{rule.format(9)}")
    with pytest.raises(RuleError) as caught:
        load_rules(twice)
    (found,) = caught.value.diagnostics
    assert found.message == "`algebra.mine` is defined twice in this file, in different ways"
    assert found.hint == "take another name, or delete one of them"


def test_a_target_is_extended(write: Write) -> None:
    before = engine.target_declaration("opencl")
    asks = 'function mine(n):\n    other: mine(n@_) -> {limit("mine")}\n        needs flag(mine)\n        test mine(1) -> 2\n'
    mine = write(
        "mine.rules",
        f'{asks}limit mine: positive = 1\n    unit "mines"\n    doc "mine"\nflag mine\n    doc "mine"\ntarget opencl:\n    limit launch 1, mine 2\n    flag mine\n    literal inf "MINE"\n',
    )
    with load_rules(mine):
        after = engine.target_declaration("opencl")
        assert after.limits == {**before.limits, "launch": 1, "mine": 2}
        assert after.flags == before.flags | {"mine"}
        assert after.literals == {**before.literals, "inf": "MINE"}
        assert (after.ops, after.templates, after.render) == (before.ops, before.templates, before.render)
    assert engine.target_declaration("opencl").limits == before.limits


def test_files_that_disagree_about_a_target(write: Write) -> None:
    first = write("first.rules", "target opencl:\n    limit launch 1, occupancy 2\n    render render_opencl\n")
    second = write("second.rules", "target opencl:\n    limit launch 3, occupancy 2\n")
    assert problems(first, second) == [
        ("conflicting-files", "`limit launch` of target `opencl` is defined here and elsewhere, in different ways")
    ]


# ---- files that do harm ----

EXTERN = """extern pure greatest(a: int, b: int) -> int = "builtins.max"
    test greatest(1, 2) -> 2
pass with_host rewrite walk:
    large: MAX(a:const, b:const) -> {greatest(a, b)}
        test max(CONST[int32](1), CONST[int32](2)) -> 2
"""


def test_an_extern_runs_only_where_it_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "extern.rules"
    path.write_text(EXTERN, encoding="utf-8")
    with pytest.raises(RuleError, match=r"extern\.rules: the extern `greatest` runs code .*builtins\.max") as caught:
        load_rules(path)
    assert "load_rules(..., externs=True)" in str(caught.value) and "RULEGRAD_EXTERNS=1" in str(caught.value)
    graph = UOp("MAX", (UOp.const(3, "int32"), UOp.const(5, "int32")))
    with load_rules(path, externs=True):
        assert rewrite(graph, "with_host") == UOp.const(5, "int32")
    with pytest.raises(RuleError, match="was not allowed"):  # what was allowed is no longer
        load_rules(path)
    with config(externs=1), load_rules(path):
        assert rewrite(graph, "with_host") == UOp.const(5, "int32")


def test_definitions_that_grow_without_end(tmp_path: Path) -> None:
    definitions = ["def d0(a) = a + a", *(f"def d{k}(a) = d{k - 1}(a) + d{k - 1}(a)" for k in range(1, 41))]
    path = tmp_path / "bomb.rules"
    rule = "ruleset algebra:\n    bomb: x:index * c:const -> x\n        if d40(c) == 3\n"
    path.write_text("\n".join([*definitions, rule]), encoding="utf-8")
    with pytest.raises(RuleError, match="`d11` expands to 16,379 expressions"):
        load_rules(path)


def test_a_file_that_is_not_read_is_known_by_when_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "mine.rules"
    path.write_text("off algebra.zero\n")
    sources = Sources([("mine.rules", path)], frozenset())
    key = sources.key
    path.write_text("off algebra.ones\n")  # as long
    assert Sources([("mine.rules", path)], frozenset()).key != key
    assert sources.key == key and sources.texts == [("mine.rules", "off algebra.ones\n")]
    path.unlink()
    with pytest.raises(RuleError, match=r"mine\.rules cannot be read"):
        _ = Sources([("mine.rules", path)], frozenset()).key
