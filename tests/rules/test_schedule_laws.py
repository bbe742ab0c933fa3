"""The laws of the steps of schedules hold for every extent: z3 shows them, and refutes one that does not hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulegrad import engine
from rulegrad.workbench.proof.programs import entries_of
from rulegrad.workbench.proof.prover import PROBLEMS, prove

pytest.importorskip("z3")


def test_laws_of_steps() -> None:
    with engine.load_rules(Path(__file__).with_name("schedule_laws.rules")):
        files = engine.loaded().sources.files
        entries = [
            entry for entry in entries_of(files) if entry.name.startswith(("schedule_laws.", "power_laws.", "no_law."))
        ]
        found = {outcome.name: outcome for outcome in prove(files, entries)}
    refuted = found.pop("no_law.too_few")
    assert refuted.kind in PROBLEMS
    assert found.pop("power_laws.by_parts").kind not in PROBLEMS  # compared on inputs: it is not exact
    assert {name: outcome.how for name, outcome in found.items() if outcome.kind != "proved"} == {}
    assert len(found) == 12
