"""A tool, run again in a process of its own: files that declare ops are in force before the first node is made."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rulegrad.engine.sources import declares_ops, our_files, user_files


def in_force_too_late(files: Sequence[Path]) -> bool:
    """Whether one of these files declares ops or dtypes, and is not in force from the start."""
    known = {path.resolve() for path in (*our_files(), *user_files())}
    return any(path.resolve() not in known and declares_ops(path) for path in files)


def again(tool: str, arguments: Sequence[str], files: Sequence[Path]) -> int:
    """Runs `python -m rulegrad TOOL ARGUMENTS` with these files in force from the start; its exit status."""
    known = os.environ.get("RULEGRAD_RULES", "")
    paths = [*([known] if known else []), *(str(path.resolve()) for path in files)]
    environment = {**os.environ, "RULEGRAD_RULES": os.pathsep.join(paths), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "rulegrad", tool, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr)
    return done.returncode
