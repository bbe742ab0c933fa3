"""`python -m rulegrad fmt`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from rulegrad.__main__ import main

WRONG = "ruleset r:\n  a: x+0 -> x\n"
RIGHT = "ruleset r:\n    a: x + 0 -> x\n"


def test_files_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.rules").write_text(WRONG)
    (tmp_path / "b.rules").write_text(RIGHT)
    assert main(["fmt", str(tmp_path)]) == 0
    assert (tmp_path / "a.rules").read_text() == RIGHT
    out = capsys.readouterr().out
    assert f"changed {tmp_path / 'a.rules'}" in out and "1 of 2 files changed" in out


@pytest.mark.parametrize("option", ["--check", "--diff"])
def test_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    path = tmp_path / "a.rules"
    path.write_text(WRONG)
    assert main(["fmt", option, str(path)]) == 1
    assert path.read_text() == WRONG
    assert ("+    a: x + 0 -> x" in capsys.readouterr().out) == (option == "--diff")
    path.write_text(RIGHT)
    assert main(["fmt", option, str(path)]) == 0


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.rules"
    path.write_text("ruleset r:\n    a: x + -> x\n")
    assert main(["fmt", "--json", "--check", str(path)]) == 1
    (found,) = json.loads(capsys.readouterr().out)["files"]
    assert found["path"] == str(path) and not found["changed"]
    assert "expected an expression" in found["problem"]


def test_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(WRONG))
    assert main(["fmt", "-"]) == 0
    assert capsys.readouterr().out == RIGHT
    monkeypatch.setattr("sys.stdin", io.StringIO("ruleset"))
    assert main(["fmt", "-"]) == 1
    assert "standard input:1" in capsys.readouterr().err


def test_blocks_of_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.md"
    path.write_text(f"# Title\n\n```rules\n{WRONG}```\n\n```python\nx=1\n```\n")
    assert main(["fmt", str(path)]) == 0
    assert path.read_text() == f"# Title\n\n```rules\n{RIGHT}```\n\n```python\nx=1\n```\n"
    path.write_text("# Title\n\n```rules\nruleset\n```\n")
    assert main(["fmt", str(path)]) == 1
    assert f"{path}:4:8: error[expected]" in capsys.readouterr().out


def test_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["fmt", str(tmp_path / "missing.rules")])
    assert caught.value.code == 2
