"""Whether the rules are right: proved by z3, or tested on random graphs; shows a counterexample where one is not."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path

from rulegrad import engine
from rulegrad.lang import syntax
from rulegrad.support.paths import data_folder
from rulegrad.workbench.analysis.findings import Findings
from rulegrad.workbench.analysis.op_facts import check_op_facts
from rulegrad.workbench.diagnosis.afresh import again, in_force_too_late
from rulegrad.workbench.proof.ledger import Hashes, Ledger
from rulegrad.workbench.proof.programs import Entry, entries_of
from rulegrad.workbench.proof.prover import PROBLEMS, Outcome, prove
from rulegrad.workbench.proof.report import as_text
from rulegrad.workbench.rule_tests import selected


def main(arguments: Sequence[str]) -> int:
    """Proves rules and prints what came of it; exit status 1 when one is wrong, vacuous or untested."""
    options = _parser().parse_args(arguments)
    names = [name for name in options.rules if not name.endswith(".rules")]
    paths = [Path(name) for name in options.rules if name.endswith(".rules")]
    ours = {_shown(path) for path in paths if _is_ours(path)}
    theirs = [path.resolve() for path in paths if not _is_ours(path)]
    if in_force_too_late(theirs):
        return again("prove", arguments, theirs)
    with engine.load_rules(*theirs):
        engine.install_op_table()
        files = engine.loaded().sources.files
        wanted = selected(entries_of(files), names, ours | set(map(str, theirs)))
        outcomes = false_facts(files, set(map(str, theirs)))
        outcomes += run(files, wanted, Ledger.read(ledger_path()), options.all, options.jobs, options.update)
    if options.json:
        print(json.dumps([outcome.plain for outcome in outcomes], indent=2))
    else:
        print(as_text(outcomes, options.verbose))
    return 1 if any(outcome.kind in PROBLEMS for outcome in outcomes) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m rulegrad prove", description=__doc__)
    parser.add_argument(
        "rules", nargs="*", metavar="RULES", help="a rule SET.RULE, a rule set, pass or function, or a file"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of text")
    parser.add_argument("--verbose", action="store_true", help="print what is so of each rule")
    parser.add_argument("--all", action="store_true", help="prove again what has not changed since it was proved")
    parser.add_argument("--update", action="store_true", help="write the outcomes to the record of proofs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes that prove")
    return parser


def run(
    files: Sequence[syntax.File],
    wanted: Sequence[Entry],
    ledger: Ledger,
    everything: bool = False,
    jobs: int = 1,
    update: bool = False,
) -> list[Outcome]:
    """The outcomes of rules: from the record where their text has not changed, else they are proved now."""
    hashes = Hashes(files)
    texts = {entry.name: hashes.of(entry) for entry in wanted}
    found: dict[str, Outcome] = {}
    for entry in wanted:
        known = None if everything else ledger.get(entry.name, texts[entry.name])
        if known is not None:
            found[entry.name] = Outcome(entry.name, entry.location, known["kind"], known["how"])
    for outcome in prove(files, [entry for entry in wanted if entry.name not in found], jobs):
        found[outcome.name] = outcome
        if update:
            ledger.note(outcome.name, texts[outcome.name], outcome.kind, outcome.how, outcome.kind not in PROBLEMS)
    if update:
        ledger.keep({entry.name for entry in entries_of(files)})
    return [found[entry.name] for entry in wanted]


def false_facts(files: Sequence[syntax.File], paths: Collection[str]) -> list[Outcome]:
    """An outcome for each line of an op of these files that is false, for proofs would rely on it."""
    declared = [d for f in files if f.path in paths for d in f.declarations if isinstance(d, syntax.OpDeclaration)]
    if not declared:
        return []
    findings = Findings(files)
    check_op_facts(findings, files, frozenset(op.name for op in declared))
    return [
        Outcome(f"op {d.message.partition(':')[0]}", f"{d.span.file}:{d.span.line}", "failed", d.message)
        for d in findings.diagnostics
    ]


def ledger_path() -> Path | None:
    """The record of proofs of a checkout; None where the package is installed without it."""
    path = data_folder("rules").parent / "tests" / "rules" / "proofs.json"
    return path if path.parent.is_dir() else None


def _is_ours(path: Path) -> bool:
    return any(path.resolve().is_relative_to(data_folder(kind)) for kind in _FOLDERS)


def _shown(path: Path) -> str:
    """How messages call one of our files."""
    return path.resolve().relative_to(data_folder("rules").parent).as_posix()


_FOLDERS = ("rules", "backends")
