"""Compiled rules that come with the package: they take the place of parsing where the rules are the same, and only there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rulegrad import UOp, _core, engine
from rulegrad.config import config
from rulegrad.engine import compiling, kept, shipped
from rulegrad.engine.sources import Sources, our_sources
from rulegrad.lang.compiler import reuse
from rulegrad.lang.parser import parse_file
from rulegrad.support.paths import data_folder

KINDS = {"op_table", "summary", "rules", "evaluated", "sound", "trees"}
KINDS |= {"program None False None", "program numpy False None"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the build writes, for one target."""
    path = tmp_path_factory.mktemp("shipped") / shipped.NAME
    shipped.write(path, ["numpy"])
    return path


@pytest.fixture
def in_force(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of that file in the place of the package's, and an empty cache."""
    path = tmp_path / shipped.NAME
    shutil.copy(written, path)
    monkeypatch.setattr(shipped, "file", lambda: path)
    with config(cache=tmp_path / "cache"):
        forget()
        yield path
    kept.cache.close()
    forget()


def forget() -> None:
    """Makes the engine read all rules again."""
    engine.forget()
    compiling.parsed_file.cache_clear()
    compiling._shipped_trees.cache_clear()


def found(sources: Sources) -> set[str]:
    return {kind for kind in KINDS if shipped.get(kind, sources) is not None}


def test_entries_take_the_place_of_compiling(in_force: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(our_sources()) == KINDS
    assert shipped.get("program numpy False None", our_sources()) == compiling.program(
        our_sources(), "numpy", False, None
    )
    for kind in ("program", "summary", "rules", "evaluated"):
        monkeypatch.setattr(compiling, kind, None)
    assert engine.rewrite(UOp.const(2, "int32") + 3, "symbolic", "numpy").attrs["value"] == 5
    assert "algebra.fold_binary" in engine.rules() and engine.evaluated()["ADD"].evaluator == ("+", "a", "b")


def test_trees_are_those_of_the_parser(in_force: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = [parse_file(text, path) for path, text in our_sources().texts]
    parsed: list[str] = []
    monkeypatch.setattr(compiling, "parse_file", lambda text, path: parsed.append(path) or parse_file(text, path))
    assert [compiling.parsed_file(file.text, file.path) for file in ours] == ours and parsed == []
    changed = ours[5].text + "# another line\n"
    assert compiling.parsed_file(changed, ours[5].path).text == changed and parsed == [ours[5].path]
    mine = tmp_path / "mine.rules"
    mine.write_text("off algebra.fold_binary\n", encoding="utf-8")
    with engine.load_rules(mine):
        assert parsed == [ours[5].path, str(mine)]
        assert "algebra.fold_binary" not in engine.rules()


@pytest.mark.parametrize(
    ("text", "again"),
    [
        pytest.param("off algebra.fold_binary\n", set(), marks=pytest.mark.long_run),
        ("ruleset algebra:\n    fold_binary: x + 0 -> x\n        test x:int32 + 0 -> x\n", {"fold_binary"}),
        pytest.param("target numpy:\n    limit untiled_penalty 3\n", set(), marks=pytest.mark.long_run),
        (
            'op NOTHING(a: T) -> T\n    class Same\n    doc "the same"\n',
            {"everything", "many_loops", "otherwise", "pointwise"},
        ),
    ],
)
def test_with_a_few_more_rules_ours_are_not_compiled_again(
    text: str, again: set[str], in_force: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs are the same, byte for byte, as from a process that knows no rule and has no file."""
    with_mine = Sources([*our_sources().texts, ("mine.rules", text)], frozenset({"mine.rules"}))
    found = [compiling.program(with_mine, target, False, None) for target in (None, "numpy")]
    assert set(compiled) == again
    monkeypatch.setattr(shipped, "file", lambda: Path("nowhere"))
    forget()
    reuse._tables.clear()
    others = Sources(with_mine.texts, with_mine.user)
    assert [compiling.program(others, target, False, None) for target in (None, "numpy")] == found
    assert len(compiled) > 1000


def test_a_file_of_ours_that_changed_is_parsed_alone(in_force: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = our_sources().texts
    number = next(k for k, (path, _) in enumerate(texts) if path.endswith("kernel/algebra.rules"))
    path, text = texts[number]
    mine = text + "\nruleset mine:\n    nothing: x - x -> 0\n        test x:int32 - x:int32 -> 0\n"
    parsed: list[str] = []
    monkeypatch.setattr(compiling, "parse_file", lambda text, path: parsed.append(path) or parse_file(text, path))
    changed = Sources([*texts[:number], (path, mine), *texts[number + 1 :]], frozenset())
    compiling.program(changed, None, False, None)
    assert parsed == [path]


def test_what_is_not_there_is_compiled(in_force: Path) -> None:
    assert shipped.get("program c False None", our_sources()) is None
    assert engine.rewrite(UOp.const(2, "int32") + 3, "symbolic", "c").attrs["value"] == 5


def test_they_are_for_texts_wherever_they_are(in_force: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    paths = [(name, folder / f"{k}.rules") for k, (name, _) in enumerate(our_sources().texts)]
    for (_, path), (_, text) in zip(paths, our_sources().texts):
        path.write_text(text, encoding="utf-8")
    assert found(Sources(paths, frozenset())) == KINDS
    paths[5][1].write_text(paths[5][1].read_text(encoding="utf-8") + "\n# another line\n", encoding="utf-8")
    assert found(Sources(paths, frozenset())) == set()


def test_they_are_for_no_other_rules(in_force: Path) -> None:
    texts = our_sources().texts
    assert found(Sources([*texts, ("mine.rules", "")], frozenset({"mine.rules"}))) == set()
    assert found(Sources([*texts, ("numbers.rules", "")], frozenset(), frozenset({"numbers.rules"}))) == set()
    assert found(Sources(texts[:-1], frozenset())) == set()
    with_mine = Sources([*texts, ("mine.rules", "off algebra.fold_binary\n")], frozenset({"mine.rules"}))
    assert found(with_mine) == set() and found(with_mine.ours_alone()) == KINDS


def test_they_are_for_one_compiler(in_force: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sources", "shipped"):
        monkeypatch.setattr(f"rulegrad.engine.{module}.compiler_key", lambda: "another")
    assert found(our_sources()) == set() and shipped.trees() is None


@pytest.mark.parametrize("damage", ["empty", "truncated", "no index", "another form", "changed", "missing"])
def test_a_damaged_file_is_as_none(damage: str, in_force: Path) -> None:
    contents = in_force.read_bytes()
    head, index, entries = contents.split(b"\n", 2)
    in_force.write_bytes(
        {
            "empty": b"",
            "truncated": b"\n".join((head, index, b"")),
            "no index": b"\n".join((head, b"{", entries)),
            "another form": b"\n".join((head + b"1", index, entries)),
            "changed": b"\n".join((head, index, bytes(byte ^ 1 for byte in entries))),
            "missing": b"",
        }[damage]
    )
    if damage == "missing":
        in_force.unlink()
    kinds = found(our_sources())
    assert kinds <= {"sound"} and not kinds & KINDS - {"sound"}
    if damage == "changed":  # without entries they are compiled, whatever the damage
        assert engine.rewrite(UOp.const(2, "int32") + 3, "symbolic").attrs["value"] == 5


def test_a_checkout_with_the_file(written: Path, tmp_path: Path) -> None:
    """As in an installation: the first operation parses no rule file, and an edited one is noticed."""
    package = tmp_path / "rewrite" / "rulegrad"
    # An installed package has the data folders inside, a checkout beside it.
    ignored = shutil.ignore_patterns("__pycache__", "_core*.so", "_core*.pyd", shipped.NAME, "rules", "backends")
    shutil.copytree(Path(engine.__file__).parents[1], package, ignore=ignored)
    for name in ("rules", "backends"):
        shutil.copytree(data_folder(name), tmp_path / name)  # type: ignore[arg-type]
    (package / Path(_core.__file__).name).symlink_to(Path(_core.__file__).resolve())
    shutil.copy(written, package)
    code = (
        "import sys\n"
        "from rulegrad import Tensor, engine\n"
        "print((Tensor([1.0, 2.0], device='numpy') + 1).tolist())\n"
        "modules = ('rulegrad.lang.parser', 'rulegrad.lang.syntax', 'rulegrad.engine.compiling', 'numpy.ma')\n"
        "print([name for name in modules if name in sys.modules], 'mine.nothing' in engine.rules())"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "rewrite"), "RULEGRAD_CACHE": str(tmp_path / "cache")}

    def run() -> list[str]:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout.splitlines()

    assert run() == run() == ["[2.0, 3.0]", "[] False"]
    with (tmp_path / "rules" / "kernel" / "algebra.rules").open("a", encoding="utf-8") as file:
        file.write("\nruleset mine:\n    nothing: x - x -> 0\n        test x:int32 - x:int32 -> 0\n")
    values, others = run()
    assert values == "[2.0, 3.0]" and "rulegrad.lang.parser" in others and others.endswith("True")
    assert run() == ["[2.0, 3.0]", "[] True"]
