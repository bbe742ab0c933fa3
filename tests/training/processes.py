"""Programs that tests start, and what tests ask about processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


def start(program: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A program in a process group of its own, as a shell starts it."""
    path = folder / "program.py"
    path.write_text(program, encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-u", str(path), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RULEGRAD_DEVICE": "numpy"},
        start_new_session=True,
    )


def eventually(holds: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether something becomes true within this time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
