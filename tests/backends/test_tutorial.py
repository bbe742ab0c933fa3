"""The tutorial of docs/adding-an-accelerator.md: its blocks make the toy accelerator, and the ladder says what it shows.

<!-- file NAME -->                a new file, or a file's next lines
<!-- file NAME, below: LINE -->   lines of a file below (or above) that line
<!-- ladder to RUNG -->           each line of the block is part of a line that check-backend prints
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rulegrad.workbench.tools.check_backend import main

ROOT = Path(__file__).parents[2]
TOY = ROOT / "examples" / "toy_accelerator"
DOCUMENT = ROOT / "docs" / "adding-an-accelerator.md"
_STEP = re.compile(r"^<!-- (file|ladder to) (.*?) -->\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Step(NamedTuple):
    """A block with what its marker says."""

    kind: str
    what: str
    text: str


def steps() -> Iterator[Step]:
    for match in _STEP.finditer(DOCUMENT.read_text(encoding="utf-8")):
        yield Step(*match.groups())


def add(folder: Path, step: Step) -> None:
    """Puts a block into its file."""
    name, place, line = re.fullmatch(r"([\w.]+)(?:, (below|above): (.*))?", step.what).groups()
    path = folder / name
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if place is None:
        separate = "\n" if text and not step.text.startswith(" ") else ""
        path.write_text(text + separate + step.text, encoding="utf-8")
        return
    lines = text.splitlines(keepends=True)
    (at,) = (k for k, known in enumerate(lines) if known.strip() == line)
    lines.insert(at + (place == "below"), step.text)
    path.write_text("".join(lines), encoding="utf-8")


def words(text: str) -> str:
    return " ".join(text.split())


def test_every_marker_belongs_to_a_block() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert len(list(steps())) == len(re.findall("^<!-- (?!limits -->|end of limits -->)", text, re.MULTILINE)) >= 14


def test_the_blocks_make_the_example(tmp_path: Path) -> None:
    for step in steps():
        if step.kind == "file":
            add(tmp_path, step)
    for name in ("device.py", "toy_accelerator.rules"):
        assert (tmp_path / name).read_text(encoding="utf-8") == (TOY / name).read_text(encoding="utf-8")


@pytest.mark.long_run
def test_the_ladder_says_what_the_tutorial_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "toy_accelerator"
    folder.mkdir()
    shutil.copy(TOY / "machine.py", folder)
    for step in steps():
        if step.kind == "file":
            add(folder, step)
            continue
        main([str(folder), "--to", step.what, "--all"])
        printed = words(capsys.readouterr().out)
        for line in step.text.splitlines():
            assert words(line) in printed, f"`{words(line)}` is not in:\n{printed}"
