"""Search schedules for the kernels of a script on this machine, and keep the fastest.

python -m rulegrad tune train.py --epochs 1              30 seconds of search, after the script has run
python -m rulegrad tune --time 5min train.py
python -m rulegrad tune --kernel reduce_512 train.py     only kernels whose names contain that

The kernels that take the most time in the script are searched first, and longest. Candidates are measured in processes
of their own; one that crashes, hangs or is wrong is not used. What is found is kept in the file that the setting
`tuned` names, as soon as it is found: an interrupt loses nothing. `python -m rulegrad tuned` shows it. The exit status
is 0, 1 when the script failed, 2 when no kernel has a choice, 130 after an interrupt.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from rulegrad.compile import forget_kernels
from rulegrad.compile.scheduling import collecting
from rulegrad.compile.tuning.entries import tuned_file
from rulegrad.compile.tuning.search import KEPT, Subject, has_choice, search
from rulegrad.compile.tuning.using import Place
from rulegrad.config import parse_seconds
from rulegrad.engine.schedules import candidates
from rulegrad.runtime.profile import profile
from rulegrad.workbench.explaining.script import run_script

_LEAST = 1.0  # seconds of a kernel, while there are some


class _Wanted(NamedTuple):
    """A kernel with a choice, and the seconds that it takes in the script."""

    subject: Subject
    place: Place
    seconds: float


def main(arguments: Sequence[str]) -> int:
    """Runs the script, searches, and prints what was found; the exit status as above."""
    options = _options(arguments)
    wanted, problem = _wanted(options.script, options.arguments, options.kernel)
    if problem:
        print(f"rulegrad tune: the script failed: {problem}", file=sys.stderr)
    if not wanted:
        print("rulegrad tune: no kernel of the script has a choice of schedules", file=sys.stderr)
        return 1 if problem else 2
    try:
        _search(wanted, options.time)
    except KeyboardInterrupt:
        print("\nrulegrad tune: interrupted", file=sys.stderr)
        return 130
    finally:
        print(f"the schedules that were found are in {tuned_file().path or 'no file: the cache cannot be used'}")
    return 1 if problem else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m rulegrad tune", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("script", metavar="SCRIPT", help="a program whose kernels are searched")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    parser.add_argument("--time", type=_time, default=30.0, metavar="TIME", help="for all kernels: 30s, 5min (30s)")
    parser.add_argument("--kernel", default="", metavar="NAME", help="only kernels whose names contain that")
    return parser.parse_args(arguments)


def _time(text: str) -> float:
    try:
        return parse_seconds(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 30s or 5min") from None


def _wanted(script: str, arguments: Sequence[str], part: str) -> tuple[list[_Wanted], str]:
    """The kernels of a script that have a choice, those that take longest first; and how the script failed."""
    forget_kernels()
    problem = ""
    with collecting() as found, profile() as seen:
        try:
            problem = run_script(script, arguments)
        except KeyboardInterrupt:
            print("rulegrad tune: the script was interrupted; the kernels up to here are searched", file=sys.stderr)
    forget_kernels()
    seconds: defaultdict[str, float] = defaultdict(float)
    for record in seen.kernels:
        seconds[record.name] += record.seconds
    wanted = [
        _Wanted(subject, Place.of(target, device), seconds[subject.name])
        for subject, target, device in found
        if part in subject.name and has_choice(candidates(subject.named, target, KEPT))
    ]
    unique = {(one.place.key(one.subject.named)): one for one in wanted}
    return sorted(unique.values(), key=lambda one: -one.seconds), problem


def _search(wanted: Sequence[_Wanted], seconds: float) -> None:
    """Each kernel has the share of the time that is left which it takes of the script's."""
    end = time.perf_counter() + seconds
    for number, one in enumerate(wanted):
        left = end - time.perf_counter()
        if left < _LEAST:
            print(f"rulegrad tune: no time for {len(wanted) - number} of {len(wanted)} kernels", file=sys.stderr)
            return
        rest = sum(other.seconds for other in wanted[number:])
        share = one.seconds / rest if rest else 1 / (len(wanted) - number)
        search([one.subject], one.place, min(left, max(_LEAST, left * share)))
