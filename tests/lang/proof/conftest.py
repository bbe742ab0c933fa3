"""Rules of a text, proved."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest

from rulegrad import engine
from rulegrad.lang import syntax
from rulegrad.lang.checker import check
from rulegrad.lang.diagnostics import report
from rulegrad.lang.parser import parse_file
from rulegrad.support.paths import data_folder


def _checked(text: str) -> list[syntax.File]:
    """The op table, and a rule file of this text."""
    path = data_folder("rules") / "ops" / "ops.rules"
    table = parse_file(path.read_text(encoding="utf-8"), "ops.rules")
    files = [table, parse_file(textwrap.dedent(text), "test.rules")]
    errors = [d for d in check(files) if d.is_error]
    assert not errors, report(errors)
    return files


@pytest.fixture
def checked() -> Callable:
    """The op table and a rule file, parsed and checked, of a text that may be indented."""
    return _checked


@pytest.fixture
def outcomes() -> Callable:
    """Outcomes by rule, of a text that may be indented."""
    pytest.importorskip("z3")
    from rulegrad.workbench.proof.prover import Workbench

    def prove(text: str) -> dict:
        engine.install_op_table()
        bench = Workbench(_checked(text))
        return {entry.rule.name: bench.outcome(entry) for entry in bench.rules.entries}

    return prove


@pytest.fixture
def outcomes_beside_ours(tmp_path) -> Callable:
    """Outcomes by rule, of a text that may use what our rule files define."""
    pytest.importorskip("z3")
    from rulegrad.workbench.proof.programs import entries_of
    from rulegrad.workbench.proof.prover import prove

    def found(text: str) -> dict:
        path = tmp_path / "beside.rules"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        with engine.load_rules(path):
            engine.install_op_table()
            files = engine.loaded().sources.files
            entries = [entry for entry in entries_of(files) if entry.rule.span.file == str(path)]
            return {outcome.name.partition(".")[2]: outcome for outcome in prove(files, entries)}

    return found
