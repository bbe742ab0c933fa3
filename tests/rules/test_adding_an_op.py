"""The page about adding an op, walked through: each file that it writes, and everything that it promises of the op."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "add-an-op.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the page, each the blocks that are marked with its name, in their order."""
    made = tmp_path_factory.mktemp("op")
    for name, text in re.findall(
        r"<!-- file (\S+) -->\n```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    ):
        with (made / name).open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    return made


def run(folder: Path, *arguments: str) -> str:
    """The output of a program, with the page's rules in force from its start."""
    environment = {**os.environ, "RULEGRAD_RULES": str(folder / "distance.rules")}
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd=folder, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_values_gradients_and_vmap_on_the_interpreter_and_in_c(folder: Path) -> None:
    assert run(folder, "use.py") == "as promised\n"


def test_constants_are_folded_and_the_interval_is_known(folder: Path) -> None:
    program = (
        "from rulegrad import UOp, rewrite\n"
        "i, j = (UOp('RANGE', (UOp.const(n, 'index'),), id=n, kind='output') for n in (8, 4))\n"
        "for node in (UOp('DISTANCE', (UOp.const(2.5, 'float32'), UOp.const(4.0, 'float32'))),\n"
        "             UOp('CMPLT', (UOp('DISTANCE', (i, j)), UOp.const(8, 'index')))):\n"
        "    print(rewrite(node, 'symbolic').attrs['value'])\n"
    )
    assert run(folder, "-c", program) == "1.5\nTrue\n"


def test_what_the_commands_say(folder: Path) -> None:
    """All in one process, which reads and compiles the rules once."""
    program = (
        "from rulegrad.__main__ import main\n"
        "for command in ('test', 'check', 'prove'):\n"
        "    print(command, 'ends with', main([command, 'distance.rules']), flush=True)\n"
    )
    printed = run(folder, "-c", program)
    assert re.findall(r"^(\w+) ends with 0$", printed, re.MULTILINE) == ["test", "check", "prove"], printed
    assert "4 of 4 test lines of 2 rules hold" in printed and "no problems" in printed
    assert "failed" not in printed or "0 failed" in printed
