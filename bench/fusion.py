"""Fusion on the corpus: what the chosen plan costs beside others: kernels, bytes, operations, time, peak memory.

    python bench/fusion.py [--json] [--quick] [--keep FILE] [--only PARTICIPANT]... [NAME...]

NAME: graphs whose names contain one of these; all without one. `store all` and `fuse all` are rulegrad with the rule
files under bench/policies in the place of its cost model. Each graph and participant has a process of its own.

Bytes: each kernel's buffers, each once, by each library's own counters; `over bound` is their ratio to the inputs and
the outputs once. Operations: by rulegrad's counter. Estimated: by the functions of rules/schedule/costs.rules on each
kernel (bench/policies/estimate.rules). Measured: the least time in kernels of some runs; for peers, of the whole call,
kernels compiled before (tinygrad's JIT replays them). torch.compile: kernels are the calls in the code that it
generates. Peak: inputs and outputs are in it. A plan that fails or takes too long has no figures, and is listed.
Results are compared.

torch.compile takes some 15 seconds for a graph. --quick measures our policies on a dozen graphs. --keep: what FILE has
is not measured again, and what is measured is put there. tinygrad needs clang, or clang-19.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import fusion_tables
from common import arguments, find, in_child, note, report
from corpus import GRAPHS
from fusion_tables import Answers

#: participant: (module, policy, seconds that it may take)
PARTICIPANTS = {
    "rulegrad": ("fusion_rulegrad", "", 120),
    "store all": ("fusion_rulegrad", "store_everything", 120),
    "fuse all": ("fusion_rulegrad", "fuse_everything", 30),
    "tinygrad": ("fusion_tinygrad", "", 120),
    "torch.compile": ("fusion_torch", "", 300),
}
OURS = tuple(name for name, (module, _, _) in PARTICIPANTS.items() if module == "fusion_rulegrad")
#: what --quick measures, and the seconds that a participant may take for it
QUICK_TIMEOUT = 60
QUICK = (
    "two sums that share a part", "gelu chain", "diamond", "softmax of rows", "layer norm", "argmax with max",
    "costly row added to all", "sum of everything", "symmetric part", "embedding",
    "product with bias gelu and residual", "adam of one parameter",
)  # fmt: skip


def main() -> None:
    options = parsed()
    os.environ.update(DEV="CPU", CC=next(filter(shutil.which, ("clang", "clang-19")), "clang"))
    names, participants = chosen(options), present(options)
    found: dict[str, Answers] = json.loads(options.keep.read_text()) if options.keep and options.keep.exists() else {}
    for number, name in enumerate(names, 1):
        note(f"{number}/{len(names)}  {name}")
        answers = found.setdefault(name, {})
        measure(name, [one for one in participants if one not in answers], options.quick, answers)
        if options.keep:
            options.keep.write_text(json.dumps(found, indent=1))
    found = {name: found[name] for name in names}
    if options.json:
        report(fusion_tables.rows(found, participants), options)
    else:
        print(fusion_tables.text(found, participants))


def parsed() -> argparse.Namespace:
    parser = arguments(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--keep", metavar="FILE", type=Path, help="a JSON file of what was measured already")
    parser.add_argument("--only", metavar="PARTICIPANT", action="append", choices=list(PARTICIPANTS), default=[])
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of the names of graphs")
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> list[str]:
    """The names of the graphs to measure."""
    among = QUICK if options.quick and not options.names else tuple(GRAPHS)
    names = [name for name in among if not options.names or any(part in name for part in options.names)]
    if not names:
        raise SystemExit(f"no graph is called like {' or '.join(options.names)}; there are: {', '.join(GRAPHS)}")
    return names


def present(options: argparse.Namespace) -> list[str]:
    """The participants that are asked for and installed."""
    wanted = options.only or (OURS if options.quick else list(PARTICIPANTS))
    packages = {"tinygrad": "tinygrad", "torch.compile": "torch"}
    return [name for name in wanted if name not in packages or find(packages[name]) is not None]


def measure(name: str, participants: Sequence[str], quick: bool, answers: Answers) -> None:
    """Adds what each participant says of a graph; says where one fails, or gives other results."""
    for participant in participants:
        timeout = QUICK_TIMEOUT if quick else PARTICIPANTS[participant][2]
        answers[participant] = in_child(__file__, (participant, name, 0.05 if quick else 0.3), timeout)
        if "error" in answers[participant]:
            note(f"    {participant}: {answers[participant]['error']}")
    for participant in fusion_tables.with_other_results(answers):
        other, ours = answers[participant]["sums"], answers["rulegrad"]["sums"]
        note(f"    {participant} gives other results: {other}, rulegrad {ours}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        module, policy, _ = PARTICIPANTS[sys.argv[2]]
        answer = importlib.import_module(module).measure(GRAPHS[sys.argv[3]], policy, float(sys.argv[4]))
        print(json.dumps(answer))
    else:
        main()
