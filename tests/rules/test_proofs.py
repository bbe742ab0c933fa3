"""Every rule is proved, tested, wrong on purpose with its reason, or assumed.

`proofs.json` has what was found when a rule was last changed (python -m rulegrad prove --update); a few of these are
proved again here. `python -m rulegrad prove` proves those that have changed since.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rulegrad import engine
from rulegrad.workbench.proof.ledger import Hashes, Ledger
from rulegrad.workbench.proof.programs import entries_of
from rulegrad.workbench.proof.prover import PROBLEMS, Outcome
from rulegrad.workbench.tools import prove

pytest.importorskip("z3")

FILES = engine.loaded().sources.files
ENTRIES = {entry.name: entry for entry in entries_of(FILES)}
RECORD = Path(__file__).with_name("proofs.json")
LEDGER = Ledger.read(RECORD)
HANDFUL = 6


def problems(outcomes: list[Outcome]) -> list[str]:
    return [f"{o.location}: {o.name}: {o.kind}: {o.how} {o.line}" for o in outcomes if o.kind in PROBLEMS]


def test_a_handful_again() -> None:
    engine.install_op_table()
    names = random.Random(len(LEDGER.known)).sample(sorted(LEDGER.known.keys() & ENTRIES.keys()), HANDFUL)
    found = prove.run(FILES, [ENTRIES[name] for name in names], LEDGER, everything=True)
    assert not problems(found)


def test_every_rule_is_on_file_as_it_is_now() -> None:
    hashes = Hashes(FILES)
    stale = [name for name, entry in ENTRIES.items() if LEDGER.get(name, hashes.of(entry)) is None]
    assert not stale, "run: python -m rulegrad prove --update"
    assert set(LEDGER.known) <= set(ENTRIES)


def test_what_is_on_file_is_no_problem() -> None:
    assert not {known["kind"] for known in LEDGER.known.values()} & PROBLEMS
