"""Search: candidates that crash, hang or are wrong harm nothing; what is found is kept as text, and used for its kernel only."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor, config, engine, profile
from rulegrad.__main__ import main
from rulegrad.compile import compile_graph, forget_kernels
from rulegrad.compile.scheduling import collecting
from rulegrad.compile.tuning import search as searching
from rulegrad.compile.tuning.entries import Entry, read_entries, tuned_file
from rulegrad.compile.tuning.search import Subject, search_one
from rulegrad.compile.tuning.trials import BadKernelError, Trials
from rulegrad.compile.tuning.using import Place
from rulegrad.engine.schedules import Candidate, candidates
from rulegrad.errors import ConfigError, FileError, RewriteError
from rulegrad.ir import UOp
from rulegrad.runtime import devices
from rulegrad.runtime.backends import backend
from rulegrad.runtime.kernel import Kernel

pytestmark = pytest.mark.skipif(not backend("c").module.discover().devices, reason="there is no C compiler")

SHAPES = ((6, 20), (20, 35))
X, Y = (np.random.default_rng(k).integers(-8, 8, shape).astype(np.float32) / 8 for k, shape in enumerate(SHAPES))


@pytest.fixture(autouse=True)
def file(tmp_path: Path) -> Iterator[Path]:
    """A file of found schedules of the test's own."""
    path = tmp_path / "tuned.jsonl"
    with config(tuned=path):
        forget_kernels()
        yield path
    forget_kernels()


def product() -> str:
    """The schedule of a product's kernel; its result is checked."""
    a, b = (Tensor(array, device="c").realize() for array in (X, Y))
    with profile() as seen:
        result = (a @ b).realize()
    np.testing.assert_array_equal(result.numpy(), X @ Y)
    return seen.kernels[0].schedule


def subject() -> tuple[Subject, Place]:
    """The product's kernel, as a search gets it."""
    forget_kernels()
    with collecting() as found:
        product()
    forget_kernels()
    (one, target, device), *_ = found
    return one, Place.of(target, device)


def entry(schedule: str, **changes: Any) -> Entry:
    """An entry with this schedule for the product's kernel, on this machine."""
    one, place = subject()
    return replace(Entry(*place.key(one.named), one.name, "", schedule, 1e-6, 2e-6, 9, 9, 1.0), **changes)


def broken(kernel: Kernel, statement: str) -> Kernel:
    """The kernel with a statement before all others."""
    head, brace, body = kernel.source.partition("{\n")
    return kernel._replace(source=f"{head}{brace}{statement}\n{body}")


# ---- bad candidates ----

BAD = {
    "__builtin_trap();": "ended the process: SIG",
    "for (volatile int hangs = 1; hangs;);": "did not end in 2.0 s",
    "data0[3] = 77; return;": "elements of buffer 0 are wrong, the first at",
    "this is not C": "building it: ",
}


def with_bad(one: Subject, proposed: list[Candidate]) -> Subject:
    """The subject; the first candidates' kernels are bad, each in its way."""
    statements = dict(zip((c.text for c in proposed), BAD, strict=False))

    def kernel(scheduled: UOp) -> Kernel:
        text = next(c.text for c in proposed if c.scheduled == scheduled)
        made = one.kernel(scheduled)
        return broken(made, statements[text]) if text in statements else made

    return Subject(one.name, one.named, kernel)


def test_what_crashes_hangs_or_is_wrong_is_remembered_and_not_used(file: Path) -> None:
    one, place = subject()
    proposed = candidates(one.named, place.target, 5)
    assert len(proposed) == 6
    with Trials(place.device, 2, 2.0) as trials:
        found = search_one(with_bad(one, proposed), proposed, None, place, 60.0, trials)
    assert found is not None and len(found.bad) == 4 and found.first_seconds is None and found.measured == 2
    for candidate, (statement, problem) in zip(proposed, BAD.items(), strict=False):
        assert problem in found.bad[candidate.text], statement
    assert found.schedule in {proposed[4].text, proposed[5].text} and found.is_complete
    assert read_entries(file) == [found]
    assert product() == found.schedule


def test_bad_candidates_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    one, place = subject()
    proposed = candidates(one.named, place.target, 2)
    known = entry(
        proposed[1].text, bad={proposed[0].text: "did not end in 2.0 s"}, candidates=30, measured=1, searched=0.1
    )
    tried: list[int] = []
    monkeypatch.setattr(Trials, "prepare", lambda *_: None)
    monkeypatch.setattr(Trials, "build", lambda _, kernels, left: tried.append(len(kernels)) or [""] * len(kernels))
    plain = one.kernel(proposed[-1].scheduled)
    seconds = lambda kernel: 2e-3 if kernel == plain else 1e-3  # noqa: E731
    monkeypatch.setattr(
        Trials, "measure", lambda _, kernel, spend, left, beside: (seconds(kernel), seconds(beside or kernel))
    )
    with Trials(place.device, 1) as trials:
        found = search_one(one, proposed, known, place, 5.0, trials)
    assert tried == [2]  # of three
    assert found is not None and found.bad == known.bad and found.schedule == proposed[1].text


def test_a_kernel_whose_plain_form_fails_is_left_as_it_is(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, place = subject()
    proposed = candidates(one.named, place.target, 2)
    bad = Subject(one.name, one.named, lambda scheduled: broken(one.kernel(scheduled), "__builtin_trap();"))
    with Trials(place.device, 1, 2.0) as trials:
        assert search_one(bad, proposed, None, place, 60.0, trials) is None
    assert "not searched: the kernel without a schedule ended the process: SIG" in capsys.readouterr().err
    assert not file.exists()


def test_an_interrupt_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    measured: list[float] = []

    def measure(*_: Any) -> tuple[float, float]:
        if len(measured) == 2:
            raise KeyboardInterrupt
        measured.append(1.0 + len(measured))
        return measured[-1], 1.0

    monkeypatch.setattr(Trials, "prepare", lambda *_: None)
    monkeypatch.setattr(Trials, "build", lambda _, kernels, left: [""] * len(kernels))
    monkeypatch.setattr(Trials, "measure", measure)
    with config(search=5), pytest.raises(KeyboardInterrupt):
        product()
    (kept,) = read_entries(file)
    assert kept.measured == 2 and kept.seconds == 1.0 and not kept.is_complete


# ---- searching ----


def test_a_search_finds_a_schedule_that_is_used_later(
    monkeypatch: pytest.MonkeyPatch, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(searching, "KEPT", 2)
    with config(search="30s"):
        found = product()
    assert "rulegrad: search: reduce_6x35_20_" in capsys.readouterr().err
    (kept,) = read_entries(file)
    assert kept.schedule == found and kept.is_complete and kept.loops == "i0 6, i1 35, k0 20"
    monkeypatch.setattr(searching, "Trials", None)  # nothing is measured again
    with config(search="30s"):
        assert product() == found
    assert product() == found


def test_a_schedule_that_is_fixed_is_not_searched(file: Path, tmp_path: Path) -> None:
    rules = tmp_path / "fixed.rules"
    rules.write_text(STUBBORN.replace("split i1 by 4;", ""), encoding="utf-8")
    with engine.load_rules(rules), config(search="30s"):
        assert product() == "stubborn: split i0 by 2; unroll k0"
    assert not file.exists()


def test_without_the_setting_nothing_of_the_search_is_loaded() -> None:
    program = (
        "import sys; from rulegrad import Tensor; (Tensor([1.0] * 40, device='c') * 2).realize()\n"
        "assert not [name for name in sys.modules if name.startswith('rulegrad.compile.tuning.') and "
        "name.rpartition('.')[2] != 'entries']"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.parametrize(("value", "seconds"), [("10s", 10.0), ("2min", 120.0), ("500ms", 0.5), (3, 3.0), ("0", 0.0)])
def test_times(value: Any, seconds: float) -> None:
    with config(search=value):
        assert config.search == seconds


@pytest.mark.parametrize("value", ["10 parsecs", "s", "-1", True, None, "inf", "nan"])
def test_what_is_no_time(value: Any) -> None:
    with pytest.raises(ConfigError, match="it takes a time such as 10s"):
        config(search=value)


# ---- using what was found ----


def test_a_schedule_is_used_on_its_device_by_its_rules_only(file: Path, tmp_path: Path) -> None:
    chosen = product()
    found = entry("product: split i1 by 16 tail guard; vectorize i1.inner")
    for change in ({"device": "c: VAX"}, {"rules": "0"}, {"kernel": "0"}, {"target": "opencl"}):
        tuned_file().replace([replace(found, **change)])
        forget_kernels()
        assert product() == chosen
    tuned_file().replace([found])
    forget_kernels()
    assert product() == found.schedule
    mine = tmp_path / "mine.rules"
    mine.write_text("off choose_schedule.dot", encoding="utf-8")
    with engine.load_rules(mine):
        assert product() == chosen


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("product: split i1 by 16 tail guard; unroll i9", "the step `unroll i9` of `product: "),
        ("product: split i1 by 16 tail gaurd", "did you mean `guard`?"),
        ("dot: unroll i1", "no tactic `dot` proposes one"),
    ],
)
def test_a_schedule_that_does_not_apply_gives_way_to_the_rules(
    schedule: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = product()
    tuned_file().add([entry(schedule)])
    forget_kernels()
    assert product() == chosen
    said = capsys.readouterr().err
    assert problem in said and "the rules choose" in said and str(tuned_file().path) in said


def test_why_says_that_another_schedule_is_used(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"from rulegrad import Tensor\nx, y = (Tensor.ones(*s, device='c').contiguous().realize() for s in {SHAPES})\n"
        "(x @ y).realize()\n"
    )
    tuned_file().add([entry("product: split i1 by 16 tail guard; vectorize i1.inner")])
    assert main(["why", "--schedule", "reduce_6x35", str(script)]) == 0
    said = capsys.readouterr().out
    assert "not the first candidate, by product:\n    split i1 by 16 tail guard\n    vectorize i1.inner\n" in said
    assert "choose_schedule.product (rules/loops/tactics/" in said


# ---- the file ----

BROKEN = {
    "{": "not a line of JSON",
    "[]": "is a JSON object, not list",
    "{}": "its names are not those of a schedule that was found: bad, candidates",
}


@pytest.mark.parametrize("line", BROKEN)
def test_a_broken_file_is_an_error(line: str, file: Path) -> None:
    tuned_file().add([entry("none")])
    with file.open("a") as more:
        more.write(f"\n{line}\n")
    with pytest.raises(FileError, match=rf"tuned.jsonl:3: .*{BROKEN[line].replace('[', '.')}"):
        product()


def test_a_value_of_another_type_is_an_error(file: Path) -> None:
    values = {**json.loads(entry("none").line()), "seconds": "fast"}
    file.write_text(json.dumps(values))
    with pytest.raises(FileError, match=r"tuned.jsonl:1: `seconds` cannot be 'fast'"):
        product()


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    found = entry("none")
    with config(tuned=blocked / "tuned.jsonl"), pytest.raises(FileError, match="set RULEGRAD_TUNED to another file"):
        tuned_file().add([found])


def test_the_last_of_equal_keys_counts(file: Path) -> None:
    first, second = entry("none"), entry("product: unroll i0")
    tuned_file().add([first])
    with file.open("a") as more:  # as another process does
        more.write(second.line() + "\n")
    assert tuned_file().entries() == [second]


# ---- the tools ----


def test_list_show_export_import_forget(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = entry(
        "product: split i1 by 16 tail guard; vectorize i1.inner", bad={"dot: unroll k0": "did not end in 2.0 s"}
    )
    there = replace(here, device="c: VAX")
    tuned_file().add([here, there])
    assert main(["tuned", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and "not used" not in lines[0] and lines[1].endswith("not used: it is for another device")
    assert main(["tuned", "show", here.name]) == 0
    said = capsys.readouterr().out
    assert (
        "    split i1 by 16 tail guard\n    vectorize i1.inner\n  bad: did not end in 2.0 s\n    dot: unroll k0\n"
        in said
    )
    assert main(["tuned", "show", "no_such_kernel"]) == 2
    exported = tmp_path / "exported.jsonl"
    assert main(["tuned", "export", str(exported)]) == 0
    assert main(["tuned", "forget"]) == 0 and tuned_file().entries() == []
    capsys.readouterr()
    assert main(["tuned", "import", str(exported)]) == 0
    assert capsys.readouterr().out == "1 imported; 1 for other devices left out\n"
    assert tuned_file().entries() == [here]
    assert main(["tuned", "import", "--others", str(exported)]) == 0
    assert tuned_file().entries() == [here, there]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"device": "c: VAX"}, "its schedules are for c: VAX, and of these this machine has c: "),
        ({"device": "abacus: wood"}, "its schedules are for abacus: wood, and of these this machine has none"),
        ({"schedule": "product: split i0 by"}, "exported.jsonl:1: the schedule of reduce_6x35"),
    ],
)
def test_imports_that_fail(
    change: dict[str, str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported = tmp_path / "exported.jsonl"
    exported.write_text(replace(entry("none"), **change).line())
    assert main(["tuned", "import", str(exported)]) == 1
    assert problem in capsys.readouterr().err
    assert main(["tuned", "import", str(tmp_path / "missing")]) == 1
    assert tuned_file().entries() == []


def test_tune_searches_the_kernels_of_a_script(
    monkeypatch: pytest.MonkeyPatch, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rulegrad.workbench.tools.tune.KEPT", 2)
    monkeypatch.setattr(searching, "KEPT", 2)
    script = tmp_path / "script.py"
    script.write_text(
        "import sys; from rulegrad import Tensor\nx = Tensor.ones(6, 20, device='c').contiguous().realize()\n"
        "(x @ x.T).realize(); (x + 1).realize(); print(sys.argv[1:])\n"
    )
    assert main(["tune", "--time", "60s", "--kernel", "reduce", str(script), "--epochs", "3"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("['--epochs', '3']\n") and str(file) in said.out
    (found,) = read_entries(file)
    assert found.name.startswith("reduce_6x6_20_") and found.is_complete
    assert main(["tune", "--kernel", "no_such_kernel", str(script)]) == 2


# ---- the model's choice ----

STUBBORN = """
pass choose_schedule choose best:
    stubborn: k@SINK(END(STORE(_, REDUCE[op=ADD](_, _)), i, j)) ->
        SCHEDULED[estimate=0, tactic="stubborn"](k, steps {split i0 by 2; split i1 by 4; unroll k0})
"""


def test_the_next_candidate_is_taken_where_the_model_s_choice_does_not_apply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = product()
    rules = tmp_path / "stubborn.rules"
    rules.write_text(STUBBORN, encoding="utf-8")
    with engine.load_rules(rules):
        with pytest.raises(
            RewriteError, match="the step `split i1 by 4` does not apply to the kernel reduce_6x35"
        ) as told:
            product()
        assert "`is_multiple(src(r, 0), n)` is false" in str(told.value) and "rules/loops/forms.rules:" in str(
            told.value
        )
        monkeypatch.setattr("rulegrad.compile.scheduling.is_of_user", lambda place: False)
        with config(debug=1):
            assert product() == chosen
    assert "the step `split i1 by 4` of `stubborn: " in capsys.readouterr().err


def test_candidates_are_in_order_and_more_are_kept_when_asked() -> None:
    one, place = subject()
    few, many = (candidates(one.named, place.target, kept) for kept in (1, 20))
    assert [c.tactic for c in few] == ["product", "none"] and len(many) > 10
    assert [c.cost for c in many] == sorted(c.cost for c in many)
    assert many[0].text == few[0].text and many[-1].tactic == "none"


def test_compiling_without_a_device_is_by_the_rules_alone() -> None:
    chosen = product()
    tuned_file().add([entry("product: unroll i0")])
    a, b = (Tensor(array, device="c").realize() for array in (X, Y))
    (kernel,) = compile_graph([(a @ b).uop], devices.target_of("c"))
    assert kernel.schedule == chosen


def test_a_bad_kernel_error_says_whether_it_was_late() -> None:
    assert BadKernelError("x", True).is_late and not BadKernelError("x").is_late


Build = Callable[..., Tensor]
SAMPLED: dict[str, tuple[tuple[tuple[int, ...], ...], str, Build]] = {
    "logarithms": (((40, 33),), "float32", lambda x: x.log().sum(1)),
    "small floats": (((40, 33),), "bfloat16", lambda x: x.sum(1)),
    "integers": (((40, 33),), "int32", lambda x: x.sum(1)),
    "truth": (((40, 33),), "float32", lambda x: (x > 0).any(1)),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_results_of_all_dtypes_are_compared(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unscheduled kernel equals itself, and a kernel that does nothing does not."""
    shapes, dtype, build = SAMPLED[name]
    tensors = [Tensor(np.ones(shape, np.float32), device="c").cast(dtype).realize() for shape in shapes]
    with collecting() as found:
        build(*tensors).realize()
    one, target, device = found[-1]
    proposed = candidates(one.named, target)
    with Trials(device, 1, 5.0) as trials:
        searching.prepare(one, proposed, trials)
        plain = one.kernel(proposed[-1].scheduled)
        assert min(trials.measure(plain, 0.0, 60.0, plain)) > 0
        with pytest.raises(BadKernelError, match="are wrong"):
            trials.measure(broken(plain, "return;"), 0.0, 60.0)
