"""Profile a script: a timeline for Perfetto, and tables of kernels, lines and memory.

python -m rulegrad profile train.py --epochs 1            writes profile.json, which https://ui.perfetto.dev opens
python -m rulegrad profile -o run.json --flame run.txt train.py

What stands after SCRIPT is the script's. The exit status is 1 when the script failed; what ran before that is told.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rulegrad.errors import FileError
from rulegrad.runtime.profile import Profile
from rulegrad.workbench.explaining.script import run_script


def main(arguments: Sequence[str]) -> int:
    """Runs the script, writes the files and prints the tables; 1 when the script failed."""
    options = _options(arguments)
    with Profile(python=True) as found:
        problem = run_script(options.script, options.arguments)
    try:
        found.save(options.output)
        if options.flame is not None:
            options.flame.write_text(found.collapsed() + "\n", encoding="utf-8")
    except OSError as error:
        raise FileError(f"{error.filename} cannot be written: {error.strerror}") from None
    print("\n\n".join(_tables(found, options.output)))
    if problem:
        print(f"rulegrad profile: the script failed: {problem}", file=sys.stderr)
    return 1 if problem else 0


def _tables(found: Profile, output: Path) -> list[str]:
    if not found.kernels:
        return [f"no kernel was launched; the timeline of what the host did is {output}"]
    return [
        str(found),
        f"time in kernels by line:\n{found.flame()}",
        found.memory_table(),
        f"the timeline is {output}; https://ui.perfetto.dev opens it",
    ]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m rulegrad profile", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, default=Path("profile.json"), help="the timeline (profile.json)"
    )
    parser.add_argument(
        "--flame", metavar="FILE", type=Path, help="collapsed stacks of the user's lines, for flamegraph.pl, speedscope"
    )
    parser.add_argument("script", help="a Python program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    return parser.parse_args(arguments)
