"""`python -m rulegrad profile`: the files that it writes, what it prints, exit statuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rulegrad.workbench.tools.profile import main

SCRIPT = """
import sys
from rulegrad import Tensor

def triple(x):
    return (x * 3).tolist()

print(triple(Tensor.ones(5, device="numpy")), sys.argv[1:])
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "triple.py"
    path.write_text(SCRIPT)
    return path


def test_a_script(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--flame", "flame.txt", str(script), "--flag"]) == 0
    printed = capsys.readouterr().out
    assert "[3.0, 3.0, 3.0, 3.0, 3.0] ['--flag']" in printed
    for part in ("of limit", "triple.py:6", "time in kernels by line:", "numpy: ", "profile.json"):
        assert part in printed
    found = json.loads(Path("profile.json").read_text())["traceEvents"]
    assert {"triple", "<module>"} <= {event["name"] for event in found if event.get("cat") == "python"}
    (stack,) = Path("flame.txt").read_text().splitlines()
    assert "<module> (triple.py:8);triple (triple.py:6);" in stack and int(stack.rpartition(" ")[2]) >= 1


def test_a_script_that_fails(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.write_text(SCRIPT + "raise ValueError('enough')")
    assert main(["-o", "other.json", str(script)]) == 1
    printed = capsys.readouterr()
    assert "ValueError: enough" in printed.err and "triple.py:6" in printed.out and Path("other.json").exists()


def test_a_script_without_kernels(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.write_text("print('nothing')")
    assert main([str(script)]) == 0
    assert "no kernel was launched" in capsys.readouterr().out


def test_a_script_that_is_not_there(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rulegrad.__main__ import main as command

    assert command(["profile", "missing.py"]) == 1
    assert "missing.py cannot be read" in capsys.readouterr().err


def test_a_file_that_cannot_be_written(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rulegrad.__main__ import main as command

    assert command(["profile", "-o", "no/such/folder.json", str(script)]) == 1
    assert "folder.json cannot be written" in capsys.readouterr().err
