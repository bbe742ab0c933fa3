"""Whether test lines notice a change of their rule: one token at a time is changed, and the lines are run.

RULES are files, rule sets, passes, functions, definitions and rules; without any, all. Exit status 1 when a larger
share of the mutants than --allowed survives: of those, no test line notices the change, although it makes a difference.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rulegrad import engine
from rulegrad.engine.sources import shown
from rulegrad.lang import syntax
from rulegrad.workbench.diagnosis.afresh import again, in_force_too_late
from rulegrad.workbench.mutation.mutants import Mutant, Subject, subjects
from rulegrad.workbench.mutation.report import Count, Tried, as_data, as_text, texts
from rulegrad.workbench.mutation.running import tried
from rulegrad.workbench.mutation.verdicts import Bench
from rulegrad.workbench.proof.prover import require_z3
from rulegrad.workbench.rule_tests import selected


class Drawn(NamedTuple):
    """A mutant, the number of its rule, and its place among the mutants of that."""

    number: int
    place: int
    subject: Subject
    mutant: Mutant


def main(arguments: Sequence[str]) -> int:
    """Tries mutants and prints those that survive; exit status 1 when they are too many."""
    options = _parser().parse_args(arguments)
    paths = [Path(name) for name in options.rules if name.endswith(".rules")]
    if options.prove:
        require_z3()
    if in_force_too_late(paths):
        return again("mutate", arguments, paths)
    known = {path for path, _ in engine.loaded().sources.texts}
    names = [name for name in options.rules if not name.endswith(".rules")]
    with engine.load_rules(*(path for path in paths if shown(path.resolve()) not in known)):
        engine.install_op_table()
        files = engine.loaded().sources.files
        wanted = selected(subjects(files), names, {shown(path.resolve()) for path in paths})
        start = time.monotonic()
        drawn, of = draw(files, wanted, options.most, options.seed)
        found = run(files, drawn, options.jobs, options.prove)
    seconds = time.monotonic() - start
    if options.json:
        print(json.dumps(as_data(found, of, seconds), indent=2))
    else:
        print(as_text(found, of, seconds, texts(files)))
    return 1 if Count.of(found).share > options.allowed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m rulegrad mutate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rules", nargs="*", metavar="RULES", help="a file, a rule set, a definition, SET.RULE, …")
    parser.add_argument("--most", type=int, metavar="N", help="try N of the mutants, drawn at random")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the drawing (0)")
    parser.add_argument("--allowed", type=float, default=0.0, metavar="SHARE", help="that may survive, 0 to 1 (0)")
    parser.add_argument("--prove", action="store_true", help="give what no test line notices to `prove`")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes that try mutants")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    return parser


def draw(
    files: Sequence[syntax.File], wanted: Sequence[Subject], most: int | None = None, seed: int = 0
) -> tuple[list[Drawn], int]:
    """The mutants of rules, or `most` of them that a seed draws, in their order; and how many there are."""
    mutator = Bench(files).mutator
    chosen = {(subject.owner, subject.location) for subject in wanted}
    everything = [
        Drawn(number, place, subject, mutant)
        for number, subject in enumerate(subjects(files))
        if (subject.owner, subject.location) in chosen
        for place, mutant in enumerate(mutator.mutants(subject))
    ]
    if most is None or most >= len(everything):
        return everything, len(everything)
    numbers = sorted(random.Random(seed).sample(range(len(everything)), most))
    return [everything[number] for number in numbers], len(everything)


def run(files: Sequence[syntax.File], drawn: Sequence[Drawn], jobs: int = 1, proves: bool = False) -> list[Tried]:
    """The mutants with their verdicts, in their order."""
    units: dict[int, dict[int, int]] = {}
    for number, one in enumerate(drawn):
        units.setdefault(one.number, {})[number] = one.place
    found = dict(tried(files, list(units.items()), jobs, proves))
    return [Tried(one.subject.name, one.mutant.change, found[number]) for number, one in enumerate(drawn)]
