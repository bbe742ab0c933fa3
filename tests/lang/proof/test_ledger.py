"""The record of proofs: what a rule's hash depends on, and the file."""

from __future__ import annotations

import pytest

from rulegrad.errors import RuleError
from rulegrad.workbench.proof.ledger import Hashes, Ledger
from rulegrad.workbench.proof.programs import entries_of

RULES = """
def twice(x) = x + x
ruleset t:
    # a comment
    a: x:int32 * 2 -> twice(x)
        test i:int32 * 2 -> i + i
    b: x:int32 * 3 -> x + x + x
"""


def hashes(files: list) -> dict[str, str]:
    return {entry.rule.name: Hashes(files).of(entry) for entry in entries_of(files)}


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("# a comment", "# another", set()),
        ("        test i:int32 * 2 -> i + i\n", "", set()),
        ("x + x + x", "x + (x + x)", {"b"}),
        ("= x + x\n", "= x + x + 0\n", {"a"}),
        ("x:int32 * 2", "x:int16 * 2", {"a"}),
    ],
)
def test_what_a_hash_depends_on(checked, old: str, new: str, changed: set[str]) -> None:
    before, after = hashes(checked(RULES)), hashes(checked(RULES.replace(old, new)))
    assert {name for name in before if before[name] != after[name]} == changed


def test_the_file_is_read_as_it_was_written(tmp_path) -> None:
    ledger = Ledger(tmp_path / "proofs.json", {"t.a": {"hash": "12", "kind": "proved", "how": "by z3"}})
    ledger.write()
    again = Ledger.read(tmp_path / "proofs.json")
    assert again.known == ledger.known
    assert again.get("t.a", "12") and not again.get("t.a", "13") and not again.get("t.b", "12")


def test_a_file_that_is_no_record_is_an_error(tmp_path) -> None:
    path = tmp_path / "proofs.json"
    path.write_text("[1]")
    with pytest.raises(RuleError, match="is not a record of proofs"):
        Ledger.read(path)


def test_an_op_changes_the_rules_that_can_meet_it(checked) -> None:
    """One of its own changes none; one of a class changes those that name the class."""
    rules = RULES + "    c[f: Binary]: f(x, x) -> f(x, 0)\n    d: SQRT(x) -> x\n"
    op = "op {name}(a: T, b: T) -> T where T: Any\n    class {classes}\n    eval a + b\n"
    before = hashes(checked(rules))
    alone = hashes(checked(op.format(name="NEW", classes="Elementwise") + rules))
    binary = hashes(checked(op.format(name="NEW", classes="Elementwise Binary") + rules))
    assert alone == before
    assert {name for name in before if before[name] != binary[name]} == {"c"}
